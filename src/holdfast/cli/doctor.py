"""``holdfast doctor``."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Annotated

from holdfast.attacks.resource_names import SETS, ResourceOptions
from holdfast.cli.app import ATTACK
from holdfast.cli.console import console, print_json, table
from holdfast.cli.verbs import Call, verb
from holdfast.settings import Folder, Spelling


@dataclass(frozen=True)
class DoctorSettings(ResourceOptions):
    """Settings of the verb.

    Attributes:
        resources: paper or light; None: both.
        similarity: use, use-large, or a SentenceTransformer; @0.8 after it: threshold; None: that of --resources.
        data: Folder of labelled data sets; None: $HOLDFAST_DATA, else the hub.
    """

    resources: Annotated[str | None, Spelling(metavar="SET")] = field(default=None, kw_only=True)  # type: ignore[assignment]
    similarity: Annotated[str | None, Spelling(metavar="NAME|DIR")] = None
    data: Folder | None = None


@verb(
    DoctorSettings,
    short_help="List the word lists and models that attacks need.",
    panel=ATTACK,
    examples="""
holdfast doctor
holdfast doctor --resources light --data ~/sts-data
""",
)
def doctor(settings: DoctorSettings, call: Call) -> None:
    """Check which linguistic resources of the attacks are installed, and tell how to get the others."""
    from holdfast.attacks.resources import availability

    rows = [
        {"set": chosen, **asdict(row)}
        for chosen in (list(SETS) if settings.resources is None else [settings.resources])
        for row in availability(replace(settings, resources=chosen).resource_names, data=settings.data)
    ]
    if call.as_json:
        print_json(rows)
        return
    columns = ["set", "resource", "name", "here", "where, or how to get it"]
    cells = ([row["set"], row["resource"], row["name"], "yes" if row["here"] else "no", row["detail"]] for row in rows)
    console().print(table(columns, cells))
    print("--resources paper|light chooses a set; --synonyms, --tagger, … replace one resource of it")
