"""What a client that comes back has missed, over one process and several."""

import asyncio
from types import SimpleNamespace

import pytest

from alula import App
from alula._channels import Connection, Event
from alula.realtime._event_ids import EventIds, Position, read_position
from alula.realtime._event_log import EventLog, LoggedEvent, estimated_size

IDS = EventIds(lambda: b"key")


class Clock:
    time = 1_000.0

    def __call__(self):
        return self.time


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def log(clock):
    return EventLog(5, 60, 100_000, IDS, clock)


def happen(log, origin, *sequences):
    """Publish events; return their positions."""
    ids = []
    for sequence in sequences:
        event = Event("notes", "created", None, sequence, origin=origin, sequence=sequence)
        log.advance(origin, sequence)
        log.record([(None, event)])
        ids.append(event.position)
    return ids


def position_of(signed):
    return read_position(signed.partition(".")[0])


def missed(log, id):
    deliveries = log.since(position_of(id))
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
    def test_nobody_resumes_from_before_lost_events(self, log, clock):
        [before] = happen(log, "a", 1)
        clock.time += 0.5
        log.lose()
        assert missed(log, before) is None
        assert missed(log, log.position()) == []

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
        assert missed(EventLog(5, 60, 100_000, IDS), happen(log, "a", 1)[0]) is None


class TestMemory:
    def test_records_are_estimated(self):
        assert estimated_size({}) == 50
        assert 1_000 < estimated_size({"a": "x" * 1_000}) < 1_200
        assert estimated_size([{"a": [b"x" * 100]}, {1, 2}, None]) > 250

    def test_a_record_that_contains_itself_counts_the_most(self, monkeypatch):
        monkeypatch.setattr("alula.realtime._event_log.MAX_COUNTED_BYTES", 1_000)
        record = {}
        record["self"] = record
        assert estimated_size(record) == 1_000

    def test_is_bounded(self, clock):
        log = EventLog(5, 60, 300, IDS, clock)
        ids = happen(log, "a", *range(1, 6))
        assert missed(log, ids[0]) is None
        assert missed(log, ids[1]) == ["a3", "a4", "a5"]
        assert log._bytes == 300

    def test_an_event_that_does_not_fit_is_lost(self, clock):
        log = EventLog(5, 60, 40, IDS, clock)
        start = log.position()
        [last] = happen(log, "a", 1)
        assert missed(log, start) is None
        assert missed(log, last) == []


class TestSeveralProcesses:
    @pytest.fixture
    def logs(self, clock):
        return EventLog(10, 60, 100_000, IDS, clock), EventLog(10, 60, 100_000, IDS, clock)

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

    def test_whose_bus_was_late(self, logs, clock):
        one, two = logs
        happen(two, "b", 1)
        clock.time += 5
        start = one.position()  # it should have "b", so that one has missed others, too
        assert missed(two, start) is None

    def test_whose_bus_was_late_for_too_many_events(self, logs, clock):
        one, two = logs
        happen(two, "b", 1)
        clock.time += 1
        happen(two, "a", *range(1, 11))
        happen(one, "a", *range(1, 11))
        clock.time += 5
        assert missed(two, one.position()) is None

    def test_that_are_silent_leave_the_ids(self, logs, clock):
        log, _ = logs
        happen(log, "a", 1)
        happen(log, "b", 1)
        clock.time += 100
        happen(log, "b", 2)
        assert position_of(log.position()).sequences == {"a": 1, "b": 2}
        clock.time += 100
        happen(log, "b", 3)
        assert position_of(log.position()).sequences == {"b": 3}
        recent = log.position()
        happen(log, "a", 2)
        assert missed(log, recent) == ["a2"]

    def test_that_are_gone_are_forgotten(self, clock, monkeypatch):
        monkeypatch.setattr("alula.realtime._event_log.MAX_ORIGINS", 3)
        log = EventLog(10, 60, 100_000, IDS, clock)
        for number in range(10):
            clock.time += 200
            happen(log, f"w{number}", 1)
        assert len(log._sequences) == len(log._heard) == 1
        assert len(log._idle) == 3
        assert log._lost == {}


def recall(log, origin, times):
    """Recall events from before by their times, the first of which has the number 1."""
    for sequence, time in enumerate(times, 1):
        event = Event("notes", "created", None, sequence, origin=origin, sequence=sequence)
        log.advance(origin, sequence, time)
        log.record([(None, event)], time)


class TestAProcessThatHasJustStarted:
    @pytest.fixture
    def old(self, clock):
        return EventLog(10, 60, 100_000, IDS, clock)

    @pytest.fixture
    def new(self, old, clock):
        """A log that begins behind ten seconds in which the old one was there."""
        clock.time += 10
        return EventLog(10, 60, 100_000, IDS, clock)

    def test_does_not_know_what_was_before(self, old, clock):
        start = old.position()
        clock.time += 10
        new = EventLog(10, 60, 100_000, IDS, clock)
        assert missed(new, start) is None
        assert missed(new, old.position()) == []

    def test_recalls_it(self, old, clock):
        ids = happen(old, "a", 1, 2)
        clock.time += 10
        new = EventLog(10, 60, 100_000, IDS, clock)
        new.begin_recall()
        recall(new, "a", [1_000.0, 1_000.0, 1_005.0])
        assert missed(new, ids[0]) is None
        new.end_recall(1_000.0)
        assert missed(new, ids[0]) == ["a2", "a3"]
        happen(new, "a", 4)
        assert missed(new, ids[1]) == ["a3", "a4"]

    def test_gives_recalled_events_ids_of_their_time(self, new):
        recall(new, "a", [1_000.0])
        [entry] = new._entries
        [(_, event)] = entry.targets
        assert position_of(event.position) == Position(1_000.0, {"a": 1})

    def test_knows_what_is_too_old(self, old, new):
        assert old.oldest == new.oldest == 950.0

    async def test_has_its_clients_wait(self, new, monkeypatch):
        await new.wait_for_recall()
        new.begin_recall()
        waiting = asyncio.create_task(new.wait_for_recall())
        await asyncio.sleep(0)
        assert not waiting.done()
        new.end_recall(0)
        await waiting
        monkeypatch.setattr("alula.realtime._event_log.RECALL_WAIT_SECONDS", 0.001)
        new.begin_recall()
        await new.wait_for_recall()


def test_a_gap_is_told(log):
    gaps = []
    log.on_gap = lambda: gaps.append(1)
    happen(log, "a", 3)  # what was before was never here
    happen(log, "a", 4)
    assert gaps == []
    happen(log, "a", 6)
    assert gaps == [1]


class TestALoggedEvent:
    def test_is_for_a_connection_what_its_first_channel_gets(self, caplog):
        app = App()
        link = SimpleNamespace(deliver=None)
        a, b, c = (Connection(link, provider="x", headers={}, ip=None) for _ in range(3))
        app.channel("a").join(a)
        app.channel("b").join(a, b)
        first, second = Event("echo", "created", 1, 1), Event("echo", "created", 1, 2)
        targets = [(app.channel("a"), first), (app.channel("b"), second)]
        logged = LoggedEvent(1.0, targets, 0)
        assert [logged.for_connection(each) for each in (a, b, c)] == [first, second, None]
        failing = app.channel("a").filter(lambda connection: 1 / 0)
        assert LoggedEvent(1.0, [(failing, first)], 0).for_connection(a) is None
        assert f"a filter failed; {a!r} misses the event 'created' of 'echo'" in caplog.text

    def test_counts_the_query_of_its_call(self, log):
        happen(log, "a", 1)
        before = log._bytes
        event = Event("notes", "created", None, 2, origin="a", sequence=2, query={"a": "b" * 99})
        log.record([(None, event)])
        assert log._bytes > 2 * before + 99
