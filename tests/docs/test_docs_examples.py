"""Every block of code of every Markdown file is run, in its page's order, on small models by the names that the page
gives them. A block that is not run says why in a comment before it; its commands are parsed all the same."""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer
from docs_pages import ELSEWHERE, ROOT, Block, blocks, holdfast_words, inline_commands, pages
from docs_world import LM, RUN, SMALLER_AUDITS, provide, smaller

import holdfast.audit.poisoning_item  # noqa: F401  so that tests/conftest.py shortens it
from holdfast.cli import main
from holdfast.cli.app import app
from holdfast.cli.error_lines import one_line
from holdfast.model_lookup import BUNDLED, BUNDLED_MLM

COMMAND: Any = typer.main.get_command(app)
OUTPUT = ("", "text", "json")
"""Languages of blocks that show what comes out."""
EXPECTED = {"data check": 1}  # small data is not the published data
SLOW = ("README.md", "docs/audit.md", "docs/ci.md", "docs/harden-your-model.md", "docs/harden.md")
NEEDS = {"docs/mteb.md": "mteb"}
"""Pages with an extra that not every Python can install."""
WITH_CODE = [page for page in pages() if any(block.language not in OUTPUT for block in blocks(page))]


def _parameters(chosen: list[str]) -> list[Any]:
    return [pytest.param(page, marks=_marks(page)) for page in chosen]


def _marks(page: str) -> list[pytest.MarkDecorator]:
    marks = [pytest.mark.slow] if page in SLOW else []
    if page in NEEDS:
        marks.append(pytest.mark.skipif(find_spec(NEEDS[page]) is None, reason=f"{NEEDS[page]} is not installed"))
    return marks


# --- what is run -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", _parameters([p for p in WITH_CODE if any(b.reason is None for b in blocks(p))]))
def test_the_examples_of_a_page_run(
    page: str, docs_world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = [block for block in blocks(page) if block.reason is None]
    provide(docs_world, tmp_path, _made(run))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("HOLDFAST_CACHE", str(docs_world / "cache"))
    monkeypatch.setenv("HOLDFAST_DATA", str(docs_world / "DATA"))
    monkeypatch.setenv("MTEB_CACHE", str(tmp_path / "mteb"))
    monkeypatch.setattr("holdfast.model_lookup._pypi_model", lambda _: docs_world / RUN)
    monkeypatch.setitem(BUNDLED, BUNDLED_MLM, docs_world / LM)
    for default, size in SMALLER_AUDITS.items():
        monkeypatch.setattr(default, size)
    names: dict[str, Any] = {"__name__": "example"}
    for block in run:
        where = f"{page}:{block.line}"
        if block.file is not None:
            (tmp_path / block.file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / block.file).write_text(block.code, encoding="utf-8")
        if block.language == "python":
            # The lines of the page, so that a traceback names them.
            code = compile("\n" * block.line + block.code, str(ROOT / page), "exec", dont_inherit=True)
            exec(code, names)
        elif block.language == "bash":
            for command in block.commands():
                words = holdfast_words(command)
                assert words is not None, f"{where}: {command[0]} cannot be run here: mark the block as not run"
                capsys.readouterr()
                done = main(smaller(words))
                expected = EXPECTED.get(" ".join(words[:2]), 0)
                assert done == expected, f"{where}: {' '.join(command)}\n{capsys.readouterr().err}"


def _made(run: list[Block]) -> set[str]:
    """What the examples of a page make themselves: the values of --output, and of Path(...) in Python."""
    made: set[str] = set()
    for block in run:
        if block.language == "bash":
            commands = block.commands()
            made |= {c[c.index("--output") + 1] for c in commands if "--output" in c}
        elif block.language == "python":
            made |= set(re.findall(r'Path\("([\w./-]+)"\)', block.code))
    return made - {"DATA"}


# --- what is said of the others ----------------------------------------------------------------------------------


@pytest.mark.parametrize("page", WITH_CODE)
def test_every_block_is_of_a_known_kind(page: str) -> None:
    for block in blocks(page):
        where = f"{page}:{block.line}"
        assert block.language in (*OUTPUT, "bash", "python", "yaml"), where
        if block.mark:
            assert block.reason, (
                f"{where}: the comment before a block is '<!-- not run: REASON -->', not {block.mark!r}"
            )
        if block.language == "python":
            ast.parse(block.code)
        if block.language == "yaml":
            assert block.file is not None, f"{where}: the first line names the file: '# FILE.yaml'"
            if block.file.startswith(".github/"):  # test_docs_workflow.py runs it
                continue
            used = [c for other in blocks(page) for c in other.commands() if other.language == "bash"]
            assert any(block.file in command for command in used), f"{where}: no command takes {block.file}"


def test_what_is_run_elsewhere_is() -> None:
    for mark, runner in ELSEWHERE.items():
        assert (ROOT / runner).exists()
        assert any(block.mark == mark for block in blocks("README.md"))
    assert "readme_block tests" in (ROOT / ".ci/run").read_text()


def test_the_readme_has_two_commands_to_set_up() -> None:
    marked = {block.mark: block.code.strip() for block in blocks("README.md") if block.mark in ELSEWHERE}
    assert set(marked) == {"demo", "tests"}
    assert all(len(code.splitlines()) == 1 for code in marked.values())
    assert marked["demo"].endswith(" && holdfast demo")
    # .ci/run tries the part before pytest twice, and checks the code before the part after it.
    assert marked["tests"].count(" && pytest ") == 1
    assert [b.line for b in blocks("docs/README.md") if "pip install" in b.code] == [], "one first page"


def _command(words: list[str]) -> tuple[Any, list[str]]:
    """The command that words name, and the words after its name."""
    command, rest = COMMAND, list(words)
    while hasattr(command, "commands"):
        assert rest, f"{words} names no command"
        assert rest[0] in command.commands, f"there is no command {rest[0]!r}"
        command, rest = command.commands[rest[0]], rest[1:]
    return command, rest


@pytest.mark.parametrize("page", WITH_CODE)
def test_every_command_is_one_that_the_command_line_takes(page: str) -> None:
    for block in blocks(page):
        for command in block.commands() if block.language == "bash" else []:
            where, words = f"{page}:{block.line}: {' '.join(command)}", holdfast_words(command)
            if words is not None:
                _check_words(words, where)
            elif command[:2] == ["pip", "install"]:
                extras = set(re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), flags=re.MULTILINE))
                asked = {e for word in command for found in re.findall(r"\[([\w,]+)\]", word) for e in found.split(",")}
                assert asked <= extras, where
            elif command[0] == "python" and command[1].endswith(".py"):
                source = (ROOT / command[1]).read_text()
                assert [w for w in command if w.startswith("--") and f'"{w}"' not in source] == [], where
            else:
                assert block.reason, where


def _check_words(words: list[str], where: str) -> None:
    """Parse a command, and check what the names in it name."""
    from holdfast.evaluation.evaluation_run import task_names
    from holdfast.experiments.definition import known_tables, tables_named
    from holdfast.option_parsing import split_settings
    from holdfast.training.method_options import method_options

    command, rest = _command(words)
    try:
        with command.make_context("holdfast", list(rest)) as context:
            given = context.params
        if words[0] == "train" and ":" not in given["method"]:
            method_options(given["method"], given["preset"], split_settings(given["options"] or []))
        if words[0] == "evaluate" and given.get("tasks"):
            task_names(given["tasks"], mteb=True)
    except Exception as error:
        pytest.fail(f"{where}: {one_line(error) or repr(error)}")
    if words[0] == "reproduce":
        for name in tables_named(given["table"]):
            assert name in (*known_tables(), "list") or name.endswith(".yaml"), where
        assert given["scale"] in ("smoke", "small", "paper"), where


@pytest.mark.parametrize("page", pages())
def test_commands_in_running_text_have_the_options_that_are_named(page: str) -> None:
    for text in inline_commands(page):
        words = text.split()[1:]
        if not words or not re.fullmatch(r"[a-z]+", words[0]):
            continue  # `holdfast --version`, `holdfast[attacks]`
        command, rest = _command([words[0], *(word.partition("|")[0] for word in words[1:])])
        known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        unknown = [w for w in rest if re.fullmatch(r"--[\w-]+", w) and w not in (*known, "--help")]
        assert unknown == [], f"{page}: `{text}`"


def test_a_table_of_ones_own_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.experiments.definition import read_definition

    (own,) = (block for block in blocks("docs/reproduce.md") if block.language == "yaml")
    monkeypatch.chdir(tmp_path)
    assert own.file is not None
    Path(own.file).write_text(own.code)
    assert read_definition(own.file, "small").columns
