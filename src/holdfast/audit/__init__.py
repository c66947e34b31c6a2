"""Label-free robustness audit of an encoder: the effect of small text changes on the vectors."""

from __future__ import annotations

from holdfast.audit.audit_context import AuditSettings
from holdfast.audit.audit_run import audit
from holdfast.audit.verdicts import VERDICTS, Verdict

__all__ = ["VERDICTS", "AuditSettings", "Verdict", "audit"]
