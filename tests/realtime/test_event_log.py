"""What a client that comes back has missed, over one process and several."""

import pytest

from alula._channels import Delivery, EventMessage
from alula.realtime._event_log import EventLog, Position, read_position


class Clock:
    time = 1_000.0

    def __call__(self):
        return self.time


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def log(clock):
    return EventLog(5, 60, clock)


def happen(log, origin, *sequences):
    """Publish events; return the ids of their messages."""
    ids = []
    for sequence in sequences:
        message = EventMessage("notes", "created", sequence)
        log.advance(origin, sequence)
        log.record(Delivery(((None, message),), origin, sequence))
        ids.append(message.id)
    return ids


def missed(log, id):
    deliveries = log.since(read_position(id))
    return None if deliveries is None else [f"{each.origin}{each.sequence}" for each in deliveries]


class TestPosition:
    def test_is_read(self):
        assert read_position("3e8~a:1~b:22") == Position(1.0, {"a": 1, "b": 22})
        assert read_position("3e8~") == Position(1.0, {})

    @pytest.mark.parametrize(
        "text", ["", "5", "x~a:1", "3e8~a", "3e8~a:x", "3e8~a:1~b:", "~".join(["1"] * 1002), "é~"]
    )
    def test_of_somebody_else_is_none(self, text):
        assert read_position(text) is None


class TestOneProcess:
    def test_nothing_is_missed_without_events(self, log):
        assert missed(log, log.position()) == []

    def test_all_since_an_event(self, log):
        ids = happen(log, "a", 1, 2, 3, 4)
        assert missed(log, ids[1]) == ["a3", "a4"]
        assert missed(log, ids[3]) == []

    def test_all_since_the_start(self, log):
        start = log.position()
        happen(log, "a", 1, 2)
        assert missed(log, start) == ["a1", "a2"]

    def test_events_for_nobody_count(self, log):
        log.advance("a", 1)
        start = log.position()
        log.advance("a", 2)
        happen(log, "a", 3)
        assert missed(log, start) == ["a3"]

    def test_too_many(self, log):
        ids = happen(log, "a", *range(1, 9))
        assert missed(log, ids[1]) is None
        assert missed(log, ids[2]) == ["a4", "a5", "a6", "a7", "a8"]

    def test_too_many_since_the_start(self, log, clock):
        start = log.position()
        clock.time += 1
        happen(log, "a", *range(1, 9))
        assert missed(log, start) is None

    def test_too_late(self, log, clock):
        ids = happen(log, "a", 1)
        clock.time += 59
        assert missed(log, ids[0]) == []
        clock.time += 2
        assert missed(log, ids[0]) is None

    def test_old_events_are_dropped(self, log, clock):
        happen(log, "a", 1, 2)
        clock.time += 61
        recent = log.position()
        happen(log, "a", 3)
        assert missed(log, recent) == ["a3"]
        assert len(log._entries) == 1

    def test_an_event_that_never_came(self, log):
        ids = happen(log, "a", 1, 3)
        assert missed(log, ids[0]) is None
        assert missed(log, ids[1]) == []

    def test_before_a_restart(self, log):
        assert missed(EventLog(5, 60), happen(log, "a", 1)[0]) is None


class TestSeveralProcesses:
    @pytest.fixture
    def logs(self, clock):
        return EventLog(10, 60, clock), EventLog(10, 60, clock)

    def test_hear_events_in_different_orders(self, logs):
        one, two = logs
        happen(one, "a", 1)
        seen = happen(one, "b", 1)[0]
        happen(one, "a", 2)
        happen(two, "b", 1, 2)
        happen(two, "a", 1, 2)
        assert missed(two, seen) == ["b2", "a2"]

    def test_may_be_behind(self, logs):
        one, two = logs
        happen(two, "a", 1)
        seen = happen(one, "a", 1, 2)[1]
        assert missed(two, seen) == []

    def test_that_started_later_know_too_little(self, logs):
        one, two = logs
        ids = happen(one, "a", 1, 2, 3)
        assert missed(two, ids[0]) is None
        happen(two, "a", 3)
        assert missed(two, ids[0]) is None
        assert missed(two, ids[1]) == ["a3"]

    def test_that_a_client_has_not_heard_of(self, logs, clock):
        one, two = logs
        start = one.position()
        clock.time += 1
        happen(two, "b", 1)
        assert missed(two, start) == ["b1"]
        happen(two, "c", 5)  # 1 to 4 were published before or after the client left
        assert missed(two, start) is None

    def test_that_are_silent_leave_the_ids(self, logs, clock):
        log, _ = logs
        happen(log, "a", 1)
        happen(log, "b", 1)
        clock.time += 100
        happen(log, "b", 2)
        assert read_position(log.position()).sequences == {"a": 1, "b": 2}
        clock.time += 100
        happen(log, "b", 3)
        assert read_position(log.position()).sequences == {"b": 3}
        recent = log.position()
        happen(log, "a", 2)
        assert missed(log, recent) == ["a2"]

    def test_that_are_gone_are_forgotten(self, clock, monkeypatch):
        monkeypatch.setattr("alula.realtime._event_log.MAX_ORIGINS", 3)
        log = EventLog(10, 60, clock)
        for number in range(10):
            clock.time += 200
            happen(log, f"w{number}", 1)
        assert len(log._sequences) == len(log._heard) == 1
        assert len(log._idle) == 3
        assert log._lost == {}
