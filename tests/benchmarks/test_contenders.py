"""What is measured: a target that names nobody would never be missed."""

from __future__ import annotations

import pytest
from benchmarks.calling import CLIENT
from benchmarks.contenders import HERE, LONG_HEAD, MONGODB, POSTGRESQL, REST, SQLITE, Contest
from benchmarks.realtime import REALTIME
from benchmarks.servers.messages import MESSAGES, MOST, Message, store

LOADED_BY_WRK = (REST, MONGODB, POSTGRESQL, SQLITE)
every_contest = pytest.mark.parametrize(
    "contest", [*LOADED_BY_WRK, CLIENT, REALTIME], ids=lambda contest: contest.name
)


@every_contest
def test_all_names_differ(contest: Contest):
    names = [contender.name for contender in contest.contenders]
    assert len(set(names)) == len(names)
    assert contest.bounds <= set(names)


@every_contest
def test_what_targets_compare_is_measured(contest: Contest):
    measured = {(each.name, row) for each in contest.contenders for row in each.rows}
    for target in contest.targets:
        assert (target.alula, target.row) in measured
        if target.other is not None:
            assert (target.other, target.other_row or target.row) in measured


def test_every_script_is_there():
    rows = [row for contest in LOADED_BY_WRK for each in contest.contenders for row in each.rows]
    scripts = {row.script for row in rows if row.script}
    assert {name for name in scripts if not (HERE / "load" / name).is_file()} == set()


def test_rows_of_a_contest_differ_by_name():
    rows = {row for contender in REST.contenders for row in contender.rows}
    assert len({row.name for row in rows}) == len(rows)


def test_the_long_head_has_ten_kilobytes_in_ten_headers():
    lengths = [len(header) + len("\r\n") for header in LONG_HEAD.headers]
    assert len(lengths) == 10
    assert all(995 <= length <= 1_005 for length in lengths)


def test_created_messages_do_not_pile_up(monkeypatch):
    message = Message(text="new", room="room 5")
    first = store(message)
    ids = [store(message)["id"] for _ in range(3 * MOST)]
    assert len(MESSAGES) <= MOST
    assert first == {"text": "new", "room": "room 5", "read": False, "id": ids[0] - 1}
    assert len(set(ids)) == len(ids)
