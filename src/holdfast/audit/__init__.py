"""The label-free report card of an encoder: what small changes of a text do to its vector."""

from __future__ import annotations

from holdfast.audit.kit import AuditSettings
from holdfast.audit.run import audit
from holdfast.audit.verdicts import VERDICTS, Verdict

__all__ = ["VERDICTS", "AuditSettings", "Verdict", "audit"]
