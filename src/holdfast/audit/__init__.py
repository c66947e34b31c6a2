"""Label-free robustness audit of an encoder: the effect of small text changes on the vectors."""

from __future__ import annotations

from holdfast.audit.kit import AuditSettings
from holdfast.audit.run import audit
from holdfast.audit.verdicts import VERDICTS, Verdict

__all__ = ["VERDICTS", "AuditSettings", "Verdict", "audit"]
