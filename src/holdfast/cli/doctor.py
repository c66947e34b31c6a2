"""``holdfast doctor``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from holdfast.cli.app import ATTACK, AsJson, DataFolder, app
from holdfast.cli.console import console, print_json, table

SynonymsOption = Annotated[
    str | None,
    typer.Option("--synonyms", metavar="NAME|FILE", help="counterfitted, neighbours, or a file of vectors or lists."),
]
WordNetOption = Annotated[
    str | None, typer.Option("--wordnet", metavar="NAME|DIR", help="wordnet (wherever it is), or its folder.")
]
TaggerOption = Annotated[str | None, typer.Option("--tagger", metavar="NAME", help="nltk, textblob or spacy:MODEL.")]
MaskedLMOption = Annotated[str | None, typer.Option("--masked-lm", metavar="NAME|DIR", help="A masked language model.")]
SimilarityOption = Annotated[
    str | None,
    typer.Option(
        "--similarity", metavar="NAME|DIR", help="use, use-large, or a SentenceTransformer; @0.8 after it: threshold."
    ),
]


@app.command(
    short_help="List the word lists and models that attacks need.",
    rich_help_panel=ATTACK,
    epilog="\b\nExample:\n  holdfast doctor\n  holdfast doctor --resources light --data ~/sts-data",
)
def doctor(
    resources: Annotated[
        str | None, typer.Option(metavar="SET", help="paper or light. [default: both]", show_default=False)
    ] = None,
    synonyms: SynonymsOption = None,
    wordnet: WordNetOption = None,
    tagger: TaggerOption = None,
    masked_lm: MaskedLMOption = None,
    similarity: SimilarityOption = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Check which linguistic resources of the attacks are installed, and tell how to get the others."""
    from holdfast.attacks.resource_names import SETS, choose
    from holdfast.attacks.resources import availability

    named = {
        "synonyms": synonyms,
        "wordnet": wordnet,
        "tagger": tagger,
        "masked_lm": masked_lm,
        "similarity": similarity,
    }
    rows = [
        {"set": chosen, **asdict(row)}
        for chosen in (list(SETS) if resources is None else [resources])
        for row in availability(choose(chosen, **named), data=data)
    ]
    if as_json:
        print_json(rows)
        return
    columns = ["set", "resource", "name", "here", "where, or how to get it"]
    cells = ([row["set"], row["resource"], row["name"], "yes" if row["here"] else "no", row["detail"]] for row in rows)
    console().print(table(columns, cells))
    print("--resources paper|light chooses a set; an option of the resource's name exchanges one of it")
