"""Every example of a docstring runs: lines after ``>>>`` with their output, and fenced blocks."""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.source_code import parse

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
OUTSIDE = re.compile(r"^(?:Example:$|>>> )", re.MULTILINE)  # the reference shows these as prose
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Checker(doctest.OutputChecker):
    """Compares what an example shows, and ignores results that it does not show, such as `self`."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return not want or super().check_output(want, got, optionflags)


def docstrings() -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each docstring that has an example."""
    for path in sorted(SRC.rglob("*.py")):
        if "templates" in path.parts:
            continue
        source = path.read_text(encoding="utf-8")
        if ">>> " not in source and "```python" not in source:
            continue
        for node in ast.walk(parse(source)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                if ">>> " in text or "```python" in text:
                    name = getattr(node, "name", "__init__")
                    yield f"{path.relative_to(SRC).with_suffix('')}::{name}", text


EXAMPLES = [pytest.param(place, text, id=place) for place, text in docstrings()]


def names_of_module(place: str) -> dict[str, object]:
    """Return the names that the module of a docstring has, so that it need not import itself."""
    module = place.partition("::")[0].replace(os.sep, ".").removesuffix(".__init__")
    return dict(vars(importlib.import_module(module)))


@pytest.mark.parametrize(("place", "text"), EXAMPLES)
def test_an_example_runs(place, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = names_of_module(place)
    if ">>> " in text:
        test = doctest.DocTestParser().get_doctest(text, names, place, None, 0)
        report: list[str] = []
        runner = doctest.DocTestRunner(Checker(), optionflags=OPTIONS)
        assert runner.run(test, out=report.append).failed == 0, "".join(report)
    for _, code in BLOCK.findall(text):
        exec(compile(textwrap.dedent(code), place, "exec"), {"__name__": "example"})


def test_examples_stand_in_the_section_that_the_reference_shows():
    wrong = [place for place, text in docstrings() if OUTSIDE.search(text)]
    assert wrong == []  # the section is called Examples


def test_a_wrong_example_is_noticed():
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    assert (
        doctest.DocTestRunner(Checker(), verbose=False).run(test, out=lambda text: None).failed == 1
    )
