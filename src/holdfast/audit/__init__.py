"""Label-free robustness audit of an encoder: the effect of small text changes on the vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from holdfast.audit.audit_run import audit
    from holdfast.audit.audit_settings import AuditSettings
    from holdfast.audit.verdicts import VERDICTS, Verdict

__all__ = ["VERDICTS", "AuditSettings", "Verdict", "audit"]

__getattr__ = lazy_exports(
    __name__,
    {
        "AuditSettings": "audit_settings",
        "audit": "audit_run",
        **dict.fromkeys(("VERDICTS", "Verdict"), "verdicts"),
    },
)
