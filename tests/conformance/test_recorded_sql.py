"""Every recorded exchange on SQL, over real HTTP, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path

import pytest
from tests.conformance.replay import load, perform, play, send, substitute, values_of
from tests.conformance.serving import served

# The other tests of SQL try the versions of packages.
pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent / "vectors-sql"
CASES = list(load([FOLDER]))
AREAS = 10
RECORDED = 290
WITHOUT_QUIRK = 116
WITHOUT_A_TABLE = "/missing"
NOT_ALIKE = {
    "own id, then one without": "SQLite counts on from the largest id, PostgreSQL in a sequence",
    "uuid key missing": "each id is another one",
    "check violated": "only PostgreSQL says which columns a constraint is about",
    "enum value that is none": "as above",
}


def name(case):
    return f"{case.area}/{case.name}"


@pytest.fixture(scope="module")
def servers(postgresql_url, tmp_path_factory):
    """The addresses of the running application, by database."""
    sqlite = f"sqlite:///{tmp_path_factory.mktemp('recorded') / 'app.sqlite'}"
    with (
        served("reference_sql", "--url", sqlite) as on_sqlite,
        served("reference_sql", "--url", postgresql_url) as on_postgresql,
    ):
        yield {"sqlite": on_sqlite, "postgresql": on_postgresql}


@pytest.fixture(params=["sqlite", "postgresql"])
def reference(request, servers):
    return servers[request.param]


@pytest.mark.parametrize("case", [case for case in CASES if case.quirk is None], ids=name)
def test_answers_as_recorded(case, reference):
    found = play(case, reference)
    assert not found, "\n    ".join(found)


@pytest.mark.parametrize("case", [case for case in CASES if case.quirk], ids=name)
def test_answers_a_quirk_alike_and_never_by_a_failure(case, servers):
    """What was recorded there is an accident; a better answer is one, but never a 5xx."""
    answers = {database: answers_of(case, bases) for database, bases in servers.items()}
    for path, reply in itertools.chain(*answers.values()):
        assert reply.status < 500 or path.startswith(WITHOUT_A_TABLE), reply
        for word in ("select ", "insert ", "update ", "sqlite", "asyncpg", "Traceback"):
            assert reply.status < 400 or word not in reply.text, reply.text
    if case.name in NOT_ALIKE:
        return
    for (_, on_sqlite), (_, on_postgresql) in zip(*answers.values(), strict=True):
        assert on_sqlite.status == on_postgresql.status
        assert json_of(on_sqlite) == json_of(on_postgresql)


def answers_of(case, bases):
    """Return the path and the answer of each step."""
    assert send(bases.main, "POST", "/__reset").status == 204
    saved, answers = {}, []
    for step in case.steps:
        request = substitute(step["request"], saved)
        reply = perform(request, bases)
        saved |= values_of(step.get("save", {}), reply)
        answers.append((request["path"], reply))
    return answers


def json_of(reply):
    return json.loads(reply.text) if reply.text else None


def test_all_recorded_cases_are_here():
    assert len({case.area for case in CASES}) == AREAS
    assert len(CASES) == RECORDED
    assert sum(case.quirk is None for case in CASES) == WITHOUT_QUIRK
    assert [each for each, count in Counter(map(name, CASES)).items() if count > 1] == []
