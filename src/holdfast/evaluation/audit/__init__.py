"""The label-free report card of an encoder: what small changes of a text do to its vector."""

from __future__ import annotations

from holdfast.evaluation.audit.kit import AuditSettings
from holdfast.evaluation.audit.run import audit
from holdfast.evaluation.audit.verdicts import VERDICTS, Verdict

__all__ = ["VERDICTS", "AuditSettings", "Verdict", "audit"]
