"""The rows of a live list, by the messages of a server."""

from __future__ import annotations

import pytest

from alula.client import LiveChange
from alula.client import _live_list as module
from alula.client._event_parser import EventParser, StreamedEvent
from alula.client._live_list import ListSink, ListState
from alula.errors import BadGateway, Forbidden


def row(id, **more):
    return {"id": id, **more}


def opened(*rows, id_name=None):
    state = ListState(id_name)
    assert state.take("snapshot", {"rows": rows, "have": "L.1"}) is None
    return state


def test_messages_become_rows_and_changes():
    state = opened(row(1), row(2))
    first = state.rows
    assert first == [row(1), row(2)]
    batch = state.take("entered", {"at": 1, "data": row(3), "have": "L.2"})
    assert batch.changes == [LiveChange("entered", 3, 1, row(3))]
    assert batch.rows is state.rows == [row(1), row(3), row(2)]
    assert first == [row(1), row(2)]  # never changed in place
    (changed,) = state.take("changed", {"at": 2, "data": row(1, n=1)}).changes
    assert changed == LiveChange("changed", 1, 2, row(1, n=1))
    assert state.rows == [row(3), row(2), row(1, n=1)]
    assert state.take("left", {"id": 3}).changes == [LiveChange("left", 3, None, None)]
    assert state.take("reset", {"rows": [row(9)], "why": "slow"}).changes[0].kind == "reset"
    assert (state.rows, state.have) == ([row(9)], "L.2")
    assert state.take("unchanged", {"have": "L.3"}) is None
    assert state.have == "L.3"


def test_rows_are_those_of_whole_batches():
    state = opened(row(1), row(2))
    assert state.take("left", {"id": 1, "more": True}) is None
    assert state.rows == [row(1), row(2)]
    state.begin()  # a break: the rest of the batch never comes
    assert state.take("unchanged", {}) is None
    assert state.rows == [row(1), row(2)]
    state.take("left", {"id": 1, "more": True})
    batch = state.take("entered", {"at": 1, "data": row(3)})
    assert [change.kind for change in batch.changes] == ["left", "entered"]
    state.take("left", {"id": 2, "more": True})
    (reset,) = state.take("reset", {"rows": []}).changes  # half a batch is in the page
    assert reset.kind == "reset"


def test_the_id_has_any_name():
    state = opened({"_id": "a"}, {"_id": "b"})
    assert state.take("changed", {"at": 0, "data": {"_id": "b"}}).rows == [
        {"_id": "b"},
        {"_id": "a"},
    ]
    state = opened({"key": "a"}, {"key": "b"}, id_name="key")
    assert state.take("left", {"id": "a"}).rows == [{"key": "b"}]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("snapshot", {}),
        ("left", {}),
        ("entered", {"at": 5, "data": row(7)}),
        ("entered", {"at": 0, "data": {}}),
        ("changed", {"at": 0, "data": None}),
        ("moved", {"at": 0, "data": row(7)}),
    ],
)
def test_what_is_no_message_of_a_list_is_an_error(kind, body):
    with pytest.raises(BadGateway, match="is not a live list"):
        opened(row(1)).take(kind, body)


def sink_of(*rows):
    woken = []
    sink = ListSink(None, lambda: woken.append(1))
    sink.take("snapshot", {"rows": rows})
    return sink, woken


def test_rows_are_those_behind_the_last_change_that_was_read():
    sink, woken = sink_of()
    sink.take("entered", {"at": 0, "data": row(1)})
    assert (len(sink.rows), len(woken)) == (1, 1)  # nobody reads the changes
    sink.take("entered", {"at": 1, "data": row(2)})
    assert sink.next().changes[0].id == 1
    assert sink.rows == [row(1)]
    sink.show_all()
    assert sink.rows == [row(1), row(2)]
    assert sink.next().changes[0].id == 2
    assert sink.rows == [row(1), row(2)]
    sink.show_all()
    assert not sink.is_ready()


def test_a_slow_reader_gets_one_reset(monkeypatch):
    monkeypatch.setattr(module, "MAX_WAITING_CHANGES", 3)
    sink, _ = sink_of()
    for number in range(5):
        sink.take("entered", {"at": number, "data": row(number)})
    batches = [sink.next() for _ in range(2)]
    assert [change.kind for batch in batches for change in batch.changes] == ["reset", "entered"]
    assert len(batches[0].rows) == 4
    assert not sink.is_ready()


def test_a_list_ends_behind_the_changes_that_wait():
    sink, woken = sink_of(row(1))
    sink.take("left", {"id": 1})
    sink.fail(Forbidden("not any more"))
    sink.fail(BadGateway("once is enough"))
    assert (sink.rows, len(woken)) == ([], 2)
    assert sink.next().changes[0].kind == "left"
    with pytest.raises(Forbidden):
        sink.next()
    sink.take("entered", {"at": 0, "data": row(1)})
    assert sink.is_ready()


def test_a_list_that_is_closed_has_no_more_changes():
    sink, _ = sink_of(row(1))
    sink.take("left", {"id": 1})
    sink.end()
    assert sink.next() is None
    sink.fail(Forbidden("too late"))
    assert sink.error is None


class TestTheParser:
    def parse(self, *parts, limit=100):
        parser = EventParser(limit)
        return [event for part in parts for event in parser.feed(part)]

    def test_reads_events_however_they_are_cut(self):
        text = b"retry: 3000\n\n:\n\nevent: left\r\ndata: {\ndata:}\nid: L.1\n\ndata: 2\n\nx: y\n\n"
        expected = [StreamedEvent("left", "{\n}", "L.1"), StreamedEvent("message", "2", "L.1")]
        assert self.parse(text) == expected
        assert self.parse(*(bytes([byte]) for byte in text)) == expected

    def test_an_event_has_a_limit(self):
        with pytest.raises(BadGateway, match="too large"):
            self.parse(b"data: " + b"x" * 200)
        with pytest.raises(BadGateway, match="too large"):
            self.parse(*[b"data: xxxxxxxxxxxxxxxx\n"] * 6)
        assert len(self.parse(*[b"data: xxxxxxxxxxxxxxxx\n\n"] * 6)) == 6
