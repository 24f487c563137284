"""The editor or the start tells 65 of 72 mistakes of beginners, and 68 with typed handles."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
from collections import Counter

import pytest
from tests.beginner_mistakes import MISTAKES, START, Mistake

MISTAKES_IN_ALL = 72
TOLD_BEFORE_THE_FIRST_CALL = 65
TOLD_WITH_TYPED_HANDLES = 68


def of(told):
    return [pytest.param(each, id=each.name) for each in MISTAKES if each.told == told]


def outcome_of(mistake, caplog):
    """Return what the start says about a mistake, and what the first call says."""
    names = {"__name__": "beginner"}
    exec(compile(START, "start", "exec", dont_inherit=True), names)

    async def call():
        async with await names["app"].listen(0):
            logged = any(record.levelno > logging.INFO for record in caplog.records)
            at_start = caplog.text if logged else ""
            if "use" not in names:
                return at_start, ""
            try:
                await names["use"]()
            except Exception as error:
                return at_start, str(error)
        return at_start, ""

    try:
        exec(compile(mistake.code, mistake.name, "exec", dont_inherit=True), names)
        return asyncio.run(call())
    except Exception as error:
        return str(error), ""


@pytest.mark.parametrize("mistake", of("start"))
def test_the_start_tells(mistake, caplog):
    at_start, _ = outcome_of(mistake, caplog)
    assert re.search(mistake.message, at_start), at_start


@pytest.mark.parametrize("mistake", of("call"))
def test_the_first_call_tells(mistake, caplog):
    at_start, in_call = outcome_of(mistake, caplog)
    assert at_start == ""
    assert re.search(mistake.message, in_call), in_call


def test_without_a_mistake_nothing_is_told(caplog):
    code = "async def use():\n    await todos.create({'text': 'Hello'})"
    assert outcome_of(Mistake("none", "call", "", code), caplog) == ("", "")
    assert outcome_of(Mistake("none", "call", "", ""), caplog) == ("", "")


def told_by_mypy(folder, mistakes, start):
    """Return what mypy says about each mistake; about ``start`` alone it says nothing."""
    for at, mistake in enumerate(mistakes):
        (folder / f"mistake{at}.py").write_text(f"{start}\n\n{mistake.code}\n")
    (folder / "mistakeless.py").write_text(start)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary"]
    # Beginners write no annotations in their own functions.
    command += ["--allow-untyped-defs", "--check-untyped-defs", "--hide-error-context"]
    done = subprocess.run(
        [*command, f"--cache-dir={folder.parent / 'mypy'}", "."],  # of all tests of this process
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
    )
    said = dict.fromkeys(range(len(mistakes)), "")
    for line in done.stdout.splitlines():
        found = re.match(r"mistake(\d+)\.py:", line)
        assert found, f"an error without a mistake: {line}"
        said[int(found[1])] += line
    return [*said.values()]


@pytest.mark.slow
def test_the_editor_tells(tmp_path):
    """A type checker, which finds nothing in the code that the snippets continue."""
    mistakes = [mistake for mistake in MISTAKES if mistake.told == "editor"]
    for mistake, said in zip(mistakes, told_by_mypy(tmp_path, mistakes, START), strict=True):
        assert re.search(mistake.message, said), f"{mistake.name}: {said}"


@pytest.mark.slow
def test_the_editor_tells_more_of_a_typed_handle(tmp_path):
    """Of the mistakes that otherwise the first call tells."""
    untyped, typed = 'todos = app.service("todos")\n', 'todos = app.service("todos", Record)\n'
    assert untyped in START
    record = "class Record(TypedDict):\n    id: int\n    text: str\n    done: bool\n\n\n"
    start = START.replace(untyped, record + typed).replace("import Any", "import Any, TypedDict")
    mistakes = [mistake for mistake in MISTAKES if mistake.told == "call"]
    told = [
        mistake.name
        for mistake, said in zip(mistakes, told_by_mypy(tmp_path, mistakes, start), strict=True)
        if said
    ]
    assert told == ["a misspelt method", "a record in place of an id", "a record that is a model"]
    before = Counter(mistake.told for mistake in MISTAKES)
    assert before["editor"] + before["start"] + len(told) == TOLD_WITH_TYPED_HANDLES


def test_most_mistakes_are_told_before_the_first_call():
    counts = Counter(mistake.told for mistake in MISTAKES)
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) == MISTAKES_IN_ALL
    assert counts["editor"] + counts["start"] >= TOLD_BEFORE_THE_FIRST_CALL, counts
