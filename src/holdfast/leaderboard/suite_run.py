"""`holdfast leaderboard run`: measure an encoder on the parts of the suite, one result file each."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.audit.audit_run import audit
from holdfast.audit.audit_settings import AuditSettings
from holdfast.baselines.lexical_search import BM25_RECORD
from holdfast.baselines.retrieval_baselines import retrieval_systems
from holdfast.endpoint import refuse_model_options
from holdfast.errors import UserError, one_of
from holdfast.evaluation.evaluation_result import evaluation, evaluation_options
from holdfast.evaluation.evaluation_run import evaluate_tasks, task_names
from holdfast.evaluation.retrieval import RetrievalOptions, is_retrieval
from holdfast.files import write_text
from holdfast.forms import parse_forms
from holdfast.leaderboard.cost import cost_row
from holdfast.leaderboard.entry_encoders import named_encoder
from holdfast.leaderboard.leaderboard_settings import BM25, LeaderboardRunSettings
from holdfast.leaderboard.suite import Suite, own_texts, the_suite
from holdfast.model_lookup import is_function, model_identity, resolve_model
from holdfast.models import backend_in, load_sentence_transformer, read_as
from holdfast.progress import stage
from holdfast.results import new_result, read_with_state, write_result
from holdfast.settings import options_of, refuse_given
from holdfast.text_prompts import RolePromptOptions, prompt_protocol
from holdfast.user_functions import VectorFunction

if TYPE_CHECKING:
    from rich.console import Console

    from holdfast.user_functions import SentenceEncoder

MARK = "leaderboard"
"""The key of a result with the suite's version and hash, and the part."""
_HASHING = "call:holdfast.leaderboard.hashing_encoder:embed"
"""The encoder beside which BM25 is measured; its own rows are not kept."""


def run_suite(
    settings: LeaderboardRunSettings,
    *,
    console: Console | None = None,
    command: Sequence[str] | None = None,
    suite: Suite | None = None,
) -> dict[str, Path]:
    """Measure an encoder on the parts of the suite that are not in the output yet; return the result file of each part.

    Raises:
        UserError: there is no such part or model, data is missing, or the output has results of another model or suite.
    """
    suite = suite or the_suite()
    settings = _named(settings)
    names = parts_of(settings, suite)
    run = _Run(settings, suite, command)
    files = {name: settings.output / f"{name}.json" for name in names}
    missing = [name for name in names if not run.has(files[name], name)]
    for name in missing:
        _announce(console, f"part {name}: {names.index(name) + 1} of {len(names)}")
        began, cpu = time.monotonic(), time.process_time()
        result = run.measure(name, files[name], console)
        result["timing"] |= {"seconds": time.monotonic() - began, "cpu_seconds": time.process_time() - cpu}
        write_result(files[name], {**result, MARK: suite.protocol(name)})
    return files


def parts_of(settings: LeaderboardRunSettings, suite: Suite) -> list[str]:
    """Return the names of the parts to measure, in the suite's order.

    Raises:
        UserError: there is no such part, or the search by words is to be measured on vectors.
    """
    possible = parts_of_search(suite) if settings.model == BM25 else list(suite.parts)
    if settings.parts is None:
        return possible
    chosen = {one_of("--parts", name.strip(), possible) for name in settings.parts.split(",") if name.strip()}
    if not chosen:
        raise UserError(f"--parts names no part: {', '.join(possible)}")
    return [name for name in possible if name in chosen]


def parts_of_search(suite: Suite) -> list[str]:
    """Return the names of the parts that a search by words takes part in; an encoder has all."""
    return [name for name, part in suite.parts.items() if is_retrieval(part.get("tasks", ""))]


def _named(settings: LeaderboardRunSettings) -> LeaderboardRunSettings:
    """Return the settings with the model of the entry that ``model`` names, if it names one, read as it was measured.

    Options that the user gives win.
    """
    if (found := named_encoder(settings.model)) is None:
        return settings
    if settings.backend != "torch":
        del found["backend"]
    if settings.pooling is not None:
        del found["pooling"]
    if settings.prompt_settings:
        found = {name: value for name, value in found.items() if name in ("model", "pooling", "backend")}
    return replace(settings, **found)


def _announce(console: Console | None, line: str) -> None:
    if console is not None:
        console.print(line, markup=False, highlight=False)


class _Run:
    """One run of the suite: the encoder is loaded once, when the first part needs it.

    Args:
        settings: the settings, with the name by which the model is loaded.
        suite: the suite.
        command: the words of the command line.
    """

    def __init__(self, settings: LeaderboardRunSettings, suite: Suite, command: Sequence[str] | None) -> None:
        self._settings, self._suite, self._command = settings, suite, command
        self._spec = _HASHING if settings.model == BM25 else settings.model
        self._encoder: SentenceEncoder | None = None
        if settings.model == BM25:
            names = [option.name for option in options_of(RolePromptOptions)]
            refuse_given(settings, ("pooling", "backend", *names), f"is for an encoder, and {BM25} is none")
        elif is_function(self._spec):
            refuse_model_options(settings)
        if is_function(self._spec):
            function, self._identity = VectorFunction.named(self._spec)
            self._folder, self._encoder = None, function
        else:
            self._folder = resolve_model(self._spec)
            self._identity = model_identity(self._folder)
        if settings.model == BM25:
            self._identity = {"model_sha256": hashlib.sha256(BM25_RECORD.encode()).hexdigest(), "model_files": {}}

    @property
    def _read_as(self) -> dict[str, Any]:
        """Return the pooling and the prompts, as every part's protocol and an audit record them."""
        given = self._settings.prompt_settings
        return {"pooling": self._settings.pooling, **({"prompt_options": given} if given else {})}

    def has(self, file: Path, part: str) -> bool:
        """Return True if the file has the part's result for this model and suite.

        Raises:
            UserError: it has another one.
        """
        if not file.exists():
            return False
        result, state = read_with_state(file)
        own, protocol = self._settings, result["protocol"]
        wanted = [self._suite.protocol(part), self._identity["model_sha256"], str(own.chosen_backend)]
        wanted += [own.pooling, own.prompt_settings, self._identity["model_files"]]
        found = [result.get(MARK), result["model_sha256"], backend_in(protocol)]
        found += [protocol.get("pooling"), protocol.get("prompt_options", {}), result.get("model_files")]
        if state != "as written" or found != wanted:
            raise UserError(
                f"{file} is of another model, backend or suite, or was changed: name another --output (pooling and "
                "prompts count, too)"
            )
        return True

    def measure(self, name: str, file: Path, console: Console | None) -> dict[str, Any]:
        """Measure a part; return its result."""
        part = self._suite.parts[name]
        if part["kind"] == "audit":
            return self._audit(part, file, console)
        with stage(console, f"loading {self._settings.model}", announce=False):
            encoder = self._loaded()
        if part["kind"] == "cost":
            return self._cost(encoder, part)
        return self._evaluate(encoder, part, console)

    def _loaded(self) -> SentenceEncoder:
        if self._encoder is None:
            settings = self._settings
            self._encoder = load_sentence_transformer(
                self._spec, pooling=settings.pooling, prompts=settings, backend=settings.chosen_backend
            )
        return self._encoder

    def _audit(self, part: Mapping[str, Any], file: Path, console: Console | None) -> dict[str, Any]:
        own = {**RolePromptOptions.as_options(self._settings), "backend": self._settings.backend}
        ships = part.get("texts") == "own"
        # Named, since an audit otherwise takes the masked LM of the encoder's own folder where it has one.
        resources: dict[str, Any] = {} if ships else dict(self._suite.resources)
        settings = AuditSettings(
            model=self._spec,
            texts=self._own_texts(file) if ships else None,
            items=part["items"],
            examples=part.get("examples"),
            texts_per_item=part["texts_per_item"],
            max_seconds=0.0,
            language="en",
            precision="fp32",
            seed=self._suite.seed,
            pooling=self._settings.pooling,
            data=self._settings.data,
            output=file.with_name(f"{file.stem}.unmarked.json"),
            **own,
            **resources,
        )
        # `resume`: of a stopped run, if there is one.
        result = audit(settings, resume=True, console=console, command=self._command)
        assert settings.output is not None
        settings.output.unlink()
        return result

    def _own_texts(self, file: Path) -> str:
        place = file.with_name("texts.txt")
        write_text(place, "".join(f"{text}\n" for text in own_texts()))
        return str(place)

    def _evaluate(self, encoder: SentenceEncoder, part: Mapping[str, Any], console: Console | None) -> dict[str, Any]:
        names, limit, forms = task_names(part["tasks"]), part.get("limit"), parse_forms(part.get("forms"))
        alone = self._settings.model == BM25
        options = RetrievalOptions(systems=retrieval_systems(BM25)[1:] if alone else retrieval_systems(""))
        began = time.monotonic()
        with stage(console, "encoding", unit="sentences") as encoding:
            rows = evaluate_tasks(
                encoder,
                names,
                data=self._settings.data,
                limit=limit,
                forms=forms,
                retrieval=options,
                progress=encoding.update,
            )
        return evaluation(
            self._settings.model,
            encoder,
            rows,
            options={**evaluation_options(names, limit=limit, forms=forms), **self._read_as},
            identity=self._identity,
            command=self._command,
            seconds=time.monotonic() - began,
            retrieval=options if any(map(is_retrieval, names)) else None,
        )

    def _cost(self, encoder: SentenceEncoder, part: Mapping[str, Any]) -> dict[str, Any]:
        return new_result(
            "evaluate",
            command=self._command,
            model=self._settings.model,
            identity=self._identity,
            protocol={"tasks": ["cost"], **part, **self._read_as, **read_as(encoder), **prompt_protocol(encoder)},
            seed=None,
            results=[cost_row(encoder, self._folder, part)],
            device=str(encoder.device),
        )
