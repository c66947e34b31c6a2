"""What makes the site of the Markdown files: links, equations, docstrings. `.ci/run` builds the site itself."""

from __future__ import annotations

import html
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from docs_pages import ROOT, module_at, pages, text


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    pytest.importorskip("mkdocs", reason="the site's generator is not here: pip install 'holdfast[docs]'")
    return module_at("docs/site/hooks.py")


def _page(name: str) -> Any:
    return SimpleNamespace(file=SimpleNamespace(src_uri=name))


@pytest.mark.parametrize(
    ("page", "link", "made"),
    [
        ("methods/adcl.md", "../attack.md#the-result", "../attack.md#the-result"),
        ("space.md", "../benchmarks/RESULTS.md", "benchmarks/RESULTS.md"),
        ("benchmarks/RESULTS.md", "../docs/data.md", "../data.md"),
        ("SECURITY.md", "docs/reliability.md#damage-on-disk", "reliability.md#damage-on-disk"),
        ("train.md", "https://arxiv.org/abs/2103.15316", "https://arxiv.org/abs/2103.15316"),
        ("train.md", "#precision", "#precision"),
        ("train.md", "../nowhere.md", "../nowhere.md"),  # which MkDocs then complains of
    ],
)
def test_links_of_the_repository_become_links_of_the_site(hooks: ModuleType, page: str, link: str, made: str) -> None:
    assert hooks.on_page_markdown(f"[x]({link})", _page(page)) == f"[x]({made})"


def test_the_pages_of_a_folder_are_in_the_navigation(hooks: ModuleType) -> None:
    config = SimpleNamespace(nav=[{"Home": "README.md"}, {"Attacks": "attacks/*.md"}])
    nav = hooks.on_config(config).nav
    assert nav[0] == {"Home": "README.md"}
    assert {"BAE": "attacks/bae.md"} in nav[1]["Attacks"]
    assert [next(iter(page)) for page in nav[1]["Attacks"][:2]] == ["Adaptive typos", "BAE"]
    assert len(nav[1]["Attacks"]) == len(list((ROOT / "docs" / "attacks").glob("*.md")))


def test_what_is_not_on_the_site_is_linked_in_the_source(hooks: ModuleType) -> None:
    made = hooks.on_page_markdown("[x](../src/holdfast/results.py)", _page("train.md"))
    assert re.fullmatch(r"\[x\]\(https://github\.com/.*/src/holdfast/results\.py\)", made)


def test_equations_become_mathml(hooks: ModuleType) -> None:
    made = hooks.on_page_content(r'<p><span class="arithmatex">\(x &lt; \tau\)</span></p>')
    assert "<math" in made
    assert "<mo><</mo><mi>τ</mi>" in html.unescape(made)
    assert "arithmatex" not in made
    assert 'display="block"' in hooks.on_page_content('<div class="arithmatex">\\[\nx\n\\]</div>')
    with pytest.raises(Exception, match="cannot be read"):
        hooks.on_page_content(r'<div class="arithmatex">\[\nosuchcommand{x}\]</div>')


@pytest.mark.parametrize("page", [page for page in pages() if "$$" in text(page)])
def test_every_equation_can_be_read(hooks: ModuleType, page: str) -> None:
    code = re.compile(r"```.*?```|`[^`\n]*`", flags=re.DOTALL)
    equations = re.findall(r"\$\$(.+?)\$\$|\$([^$\n]+?)\$", code.sub("", text(page)), flags=re.DOTALL)
    assert equations
    for block, inline in equations:
        made = hooks.on_page_content(f'<div class="arithmatex">\\[{block or inline}\\]</div>')
        assert made.startswith("<math")


def test_docstrings_become_markdown() -> None:
    griffe = pytest.importorskip("griffe", reason="the site's generator is not here: pip install 'holdfast[docs]'")
    docstrings = module_at("docs/site/docstrings.py")
    source = '''
class A:
    r"""With :math:`\\tau` and :class:`~holdfast.encoder.Encoder`, :meth:`forward` of :class:`B`.

    .. math::
        x = 1
          + 2

    Args:
        a: of :func:`make`.
    """
    def forward(self): ...
'''
    with griffe.temporary_visited_module(source, module_name="m") as module:
        docstrings.rewrite(module)
        made = module["A"].docstring.value
    assert r"With $\tau$ and" in made
    assert '<autoref identifier="holdfast.encoder.Encoder" optional><code>Encoder</code></autoref>' in made
    assert 'identifier="m.A.forward"' in made
    assert 'identifier="m.B"' in made
    assert "$$\nx = 1\n+ 2\n$$\n\nArgs:\n    a: of <autoref" in made


def test_nothing_is_loaded_from_elsewhere() -> None:
    config = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in config
    assert not re.search(r"https?://", config)
    assert "http" not in Path(ROOT / "docs/site/site.css").read_text()
