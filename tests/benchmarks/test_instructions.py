"""The gate that counts instructions: what makes it fail, and what it says then."""

from __future__ import annotations

import subprocess
import sys

import pytest
from benchmarks.instructions import __main__ as gate
from benchmarks.instructions.callgrind import CountingError, Counts, count
from tests.requirements import require_valgrind

BEFORE = {"get": Counts(10_000, {"a:read": 2, "a:write": 1, "b:gone": 1})}
# The second application has one hook more.
SLOWED = """
import asyncio, json
from benchmarks.instructions.program import bare_application, measure, requests

async def pass_on(context, next):
    await next()

async def main():
    as_before, slowed = await bare_application(), await bare_application()
    slowed.service("memory").hooks(around=[pass_on])
    get = requests()["get"]
    apps = {"as before": as_before, "again": as_before, "slowed": slowed}
    print(json.dumps(await measure({name: get.to(app) for name, app in apps.items()})))

asyncio.run(main())
"""


def verdict(now: dict[str, Counts]) -> tuple[str, bool]:
    lines = list(gate.judge(BEFORE, now))
    return "\n".join(line for line, _ in lines), any(failed for _, failed in lines)


@pytest.fixture
def baseline(tmp_path, monkeypatch):
    """Write a baseline."""
    path = tmp_path / "baseline.json"
    gate.write_baseline(path, BEFORE)
    monkeypatch.setattr(gate, "BASELINE", path)
    return path


@pytest.fixture
def counted(monkeypatch):
    """Count nothing: return the sources that were asked for."""
    sources = []

    def count_source(source=None):
        sources.append(source)
        return {"get": Counts(10_000 if source is None else 9_000, {})}

    monkeypatch.setattr(gate, "count_requests", count_source)
    return sources


@pytest.fixture
def accepted(monkeypatch):
    """Find an accepted source, which takes 9,000 instructions."""
    monkeypatch.setattr(gate, "accepted_source", lambda folder: folder / "src")


# -- the verdict ---------------------------------------------------------------------------------


def test_up_to_three_percent_more_pass():
    assert verdict({"get": Counts(10_300, {})}) == ("get                10,300   +3.0%", False)


def test_more_than_three_percent_fail_and_name_the_calls_that_changed():
    text, failed = verdict({"get": Counts(10_301, {"a:read": 5, "a:write": 1, "c:new": 1})})
    assert failed
    assert "get                10,301   +3.0%" in text
    assert text.endswith("    +3 a:read\n    -1 b:gone\n    +1 c:new")


def test_says_that_no_call_was_added():
    text, failed = verdict({"get": Counts(20_000, BEFORE["get"].calls)})
    assert failed
    assert text.endswith("none: the functions themselves take more")


def test_lists_a_limited_number_of_calls():
    calls = {f"a:new{number}": 1 for number in range(100)}
    assert verdict({"get": Counts(20_000, calls)})[0].count("\n") == 1 + gate.MOST_CALLS


def test_asks_to_keep_a_gain():
    text, failed = verdict({"get": Counts(9_000, {})})
    assert not failed
    assert "to keep this gain, run `make instructions-accept`" in text


def test_a_request_that_is_not_in_the_baseline_fails():
    assert verdict({"new": Counts(1, {})}) == (
        "new: not counted before",
        True,
    )


def test_the_committed_baseline_has_the_requests_of_the_gate():
    names = [name for each in gate.REQUESTS.values() for name in each]
    assert list(gate.read_baseline(gate.BASELINE)) == names


# -- what is compared ----------------------------------------------------------------------------


def test_the_accepted_source_is_counted_beside_the_present_one(counted, accepted):
    assert next(gate.compare()) == ("get                10,000  +11.1%", True)
    assert {source and source.name for source in counted} == {None, "src"}


CALLS = {"alula.a:one": 90, "alula.a:two": 10, "json:dumps": 1}


@pytest.mark.parametrize(
    ("calls", "fails"),
    [
        (CALLS, False),
        ({**CALLS, "json:dumps": 100}, False),  # another library's own
        ({**CALLS, "alula.a:one": 93}, False),
        ({**CALLS, "alula.a:new": 4}, True),
    ],
)
def test_without_the_history_calls_of_alula_count(baseline, calls, fails, monkeypatch):
    def missing(folder):
        raise CountingError("this clone is shallow")

    gate.write_baseline(baseline, {"get": Counts(1, CALLS)})
    monkeypatch.setattr(gate, "accepted_source", missing)
    monkeypatch.setattr(gate, "count_requests", lambda: {"get": Counts(9_999, calls)})
    lines = list(gate.compare())
    assert lines[0] == ("this clone is shallow; counting calls alone", False)
    assert any(failed for _, failed in lines) is fails
    assert (("    +4 alula.a:new", True) in lines) is fails


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Make a repository whose source has changed since its baseline."""
    root = tmp_path / "repository"
    (root / "src").mkdir(parents=True)
    monkeypatch.setattr(gate, "ROOT", root)
    monkeypatch.setattr(gate, "BASELINE", root / "baseline.json")
    git(root, "init")
    for name, text in {"src/code.py": "old", "baseline.json": "{}", "src/more.py": "new"}.items():
        (root / name).write_text(text)
        (root / "src" / "code.py").write_text("new" if name == "src/more.py" else "old")
        git(root, "add", ".")
        git(root, "commit", "-m", name)
    return root


def test_the_accepted_source_is_that_of_the_last_baseline(repository, tmp_path):
    source = gate.accepted_source(tmp_path, repository)
    assert [path.name for path in source.iterdir()] == ["code.py"]
    assert (source / "code.py").read_text() == "old"


def test_a_shallow_clone_cannot_tell(repository, tmp_path):
    git(tmp_path, "clone", "--depth", "1", repository.as_uri(), "shallow")
    with pytest.raises(CountingError, match="git fetch --unshallow"):
        gate.accepted_source(tmp_path, tmp_path / "shallow")


def test_a_baseline_that_was_never_committed_cannot_tell(repository, tmp_path, monkeypatch):
    monkeypatch.setattr(gate, "BASELINE", repository / "other.json")
    with pytest.raises(CountingError, match=r"other\.json is in no commit"):
        gate.accepted_source(tmp_path, repository)


def test_a_folder_without_history_cannot_tell(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "copy").mkdir()
    with pytest.raises(CountingError, match="git rev-parse failed"):
        gate.accepted_source(tmp_path, tmp_path / "copy")


# -- the command ---------------------------------------------------------------------------------


def test_prints_each_line_and_passes(counted, accepted, monkeypatch, capsys):
    monkeypatch.setattr(gate, "LIMIT", 0.2)
    assert gate.main([]) == 0
    assert capsys.readouterr().out == "instructions: get                10,000  +11.1%\n"


def test_fails_if_a_line_does(counted, accepted):
    assert gate.main([]) == 1


def test_accepts(baseline, counted):
    baseline.unlink()
    assert gate.main(["--accept"]) == 0
    assert gate.read_baseline(baseline) == {"get": {}}


def test_fails_without_valgrind(accepted, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    assert gate.main([]) == 1
    message = "instructions: valgrind is not installed (Debian: apt-get install valgrind)\n"
    assert capsys.readouterr().err == message


def test_prints_tables(monkeypatch, capsys):
    figures = {
        **{name: 800 for each in gate.REQUESTS.values() for name in each},
        "get": 400,
        "get: service call": 100,
        "bare": 50,
        "get: with server": 1000,
        "bare: with server": 600,
    }
    counts = {name: Counts(figure, {}) for name, figure in figures.items()}
    monkeypatch.setattr(gate, "count", lambda program: counts)
    assert gate.main(["--table"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert "| get | 400 | 8.0 |" in rows
    assert "| generated patch | 800 | 16.0 |" in rows
    assert "| server | 600 | 60% |" in rows
    assert "| application | 300 | 30% |" in rows
    assert "| service call | 100 | 10% |" in rows


# -- Callgrind -----------------------------------------------------------------------------------


def marked(tmp_path, source: str) -> list[str]:
    require_valgrind()
    path = tmp_path / "program.py"
    path.write_text(source)
    return [sys.executable, "-S", str(path)]


@pytest.mark.slow
@pytest.mark.untraced
def test_marks_that_do_not_fit_fail(tmp_path):
    source = 'import os; os.sched_yield(); print(\'{"blocks": ["a"], "turns": 1}\')'
    with pytest.raises(CountingError, match="1 blocks have 1 marks"):
        count(marked(tmp_path, source))


@pytest.mark.slow
@pytest.mark.untraced
def test_a_program_that_fails_is_shown(tmp_path):
    with pytest.raises(CountingError, match="ValueError: wrong"):
        count(marked(tmp_path, "raise ValueError('wrong')"))


@pytest.mark.slow
@pytest.mark.untraced
def test_another_source_comes_first(tmp_path):
    (tmp_path / "alula.py").write_text("raise ValueError('another source')")
    with pytest.raises(CountingError, match="another source"):
        count(marked(tmp_path, "import alula"), tmp_path)


@pytest.mark.slow
@pytest.mark.untraced
@pytest.mark.release
def test_one_hook_more_makes_the_gate_fail(tmp_path):
    require_valgrind()
    counts = count([sys.executable, "-c", SLOWED])
    before = {"get": counts["as before"]}
    again = gate.judge(before, {"get": counts["again"]})
    # It may tell of a gain: now and then a block holds work that is not the request's.
    assert not any(failed for _, failed in again)
    lines = list(gate.judge(before, {"get": counts["slowed"]}))
    assert all(failed for _, failed in lines)
    assert any(line.strip() == "+1 __main__:pass_on" for line, _ in lines)
