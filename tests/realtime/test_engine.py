"""Sessions: ids, heartbeats, queues, the change to websocket; without any I/O."""

from __future__ import annotations

import json

import pytest
from tests.realtime.asgi_peer import Clock

from alula._wire import MESSAGE, PING, ProtocolError
from alula.realtime._engine import Engine, EngineOptions, Refusal


def dumps(value, attachments):
    return json.dumps(value)


class Carrier:
    """A transport that writes as many frames as it may."""

    def __init__(self, name="websocket", room=1000):
        self.name = name
        self.room = room
        self.frames = []
        self.wakes = 0
        self.closed = None

    def write(self, frame):
        self.frames.append(frame)
        self.room -= 1
        return self.room > 0

    def wake(self):
        self.wakes += 1

    def close(self, reason):
        self.closed = reason


class Taker:
    """A receiver that keeps what it gets."""

    def __init__(self):
        self.frames = []
        self.closed_by = []
        self.at_once = []
        self.drains = 0

    def receive(self, frame, at_once=False):
        if frame == "4bad":
            raise ProtocolError("bad")
        self.frames.append(frame)
        self.at_once.append(at_once)

    def drained(self):
        self.drains += 1

    def closed(self, reason):
        self.closed_by.append(reason)


def opened(name="websocket", room=1000, address=None, **options):
    clock, carrier, taker = Clock(), Carrier(name, room), Taker()
    engine = Engine(EngineOptions(**options), clock)
    session = engine.open(carrier, address)
    session.start(taker, dumps)
    return engine, session, carrier, taker, clock


def test_a_session_begins_with_its_options():
    engine, session, carrier, _, _ = opened(ping_interval=0.5, ping_timeout=0.4, max_message=2000)
    assert json.loads(carrier.frames[0][1:]) == {
        "sid": session.id,
        "upgrades": [],
        "pingInterval": 500,
        "pingTimeout": 400,
        "maxPayload": 2000,
    }
    assert engine.find(session.id) is session


@pytest.mark.parametrize(
    ("transports", "upgrades"), [(("polling", "websocket"), ["websocket"]), (("polling",), [])]
)
def test_a_polling_session_names_its_upgrades(transports, upgrades):
    _, session, carrier, _, _ = opened("polling", transports=transports)
    assert carrier.frames == []
    assert carrier.wakes == 1
    assert json.loads(session.take_all()[0][1:])["upgrades"] == upgrades
    assert session.take_all() == []


def test_ids_are_secret_and_name_their_worker():
    clock = Clock()
    alone, worker = Engine(EngineOptions(), clock), Engine(EngineOptions(), clock, "w3")
    ids = {alone.new_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(len(sid) == 20 and "." not in sid for sid in ids)
    assert worker.new_id().startswith("w3.")
    with pytest.raises(Refusal, match="Session ID unknown"):
        alone.find("__proto__")


def test_a_ping_that_is_not_answered_ends_the_session():
    engine, session, carrier, taker, clock = opened()
    clock.advance(25)
    assert carrier.frames[1:] == [PING]
    clock.advance(19.9)
    assert session.is_open
    clock.advance(0.1)
    assert not session.is_open
    assert taker.closed_by == [carrier.closed] == ["ping timeout"]
    assert engine.sessions == {}
    session.close("again")
    assert taker.closed_by == ["ping timeout"]


def test_answers_keep_it_open():
    _, session, carrier, _, clock = opened()
    session.receive("3")  # nobody asked for it
    for _ in range(10):
        clock.advance(25)
        session.receive("3")
    assert session.is_open
    assert carrier.frames[1:] == [PING] * 10


def test_messages_go_to_the_receiver():
    _, session, _, taker, _ = opened()
    session.receive("42[]")
    session.receive(b"\1")
    session.receive("6")
    session.receive("5")
    assert taker.frames == ["42[]", b"\1"]
    assert session.is_open


def test_the_receiver_learns_whether_its_work_begins_at_once():
    _, session, _, taker, _ = opened()
    session.receive("42[]", True)
    session.receive("42[]")
    assert taker.at_once == [True, False]


@pytest.mark.parametrize("frame", ["", "2", "2probe", "0{}", "9", "hello", "4bad", "4" * 2001])
def test_what_is_not_a_packet_ends_the_session(frame):
    _, session, _, taker, _ = opened(max_message=2000)
    session.receive(frame)
    assert not session.is_open
    assert taker.closed_by[0].startswith("parse error")
    session.receive("42[]")  # it has ended
    session.send("42[]")
    assert taker.frames == []


def test_a_client_may_close():
    _, session, _, taker, _ = opened()
    session.receive("1")
    assert taker.closed_by == ["transport close"]


# -- slow readers ----------------------------------------------------------------------------------


def test_frames_wait_for_a_slow_reader_in_order():
    _, session, carrier, _, _ = opened(room=2)
    for number in range(5):
        session.send(f"4{number}")
    assert carrier.frames[1:] == ["40"]
    assert session.queued == 4
    carrier.room = 2
    session.flush()
    assert carrier.frames[1:] == ["40", "41", "42"]
    carrier.room = 100
    session.flush()
    session.send("45")
    assert carrier.frames[1:] == ["40", "41", "42", "43", "44", "45"]
    assert session.queued == 0


def test_too_many_frames_for_a_slow_reader_end_the_session():
    _, session, carrier, taker, _ = opened(room=1, backlog=10)
    for _ in range(10):
        session.send(MESSAGE)
    assert session.is_open
    session.send(MESSAGE)
    assert taker.closed_by == ["slow reader"]
    assert len(carrier.frames) == 1


def test_too_many_bytes_for_a_slow_reader_end_the_session():
    _, session, _, taker, _ = opened(room=1, backlog_bytes=1000)
    session.send("4" * 5000)  # one long answer alone is no slow reader
    assert session.is_open
    session.send(MESSAGE)
    assert taker.closed_by == ["slow reader"]


def test_a_ping_may_be_too_much_for_a_slow_reader():
    _, session, _, taker, clock = opened(room=1, backlog=1)
    session.send(MESSAGE)
    clock.advance(25)
    assert taker.closed_by == ["slow reader"]
    clock.advance(100)


ANSWER = "431" + "x" * 4_933  # 5,000 bytes with what a frame takes besides


def test_answers_of_calls_are_no_sign_of_a_slow_reader():
    engine, session, carrier, taker, _ = opened(room=1, backlog=2, backlog_bytes=1000)
    for _ in range(10):
        session.send(ANSWER)
    session.send("461-1[]")
    session.send(b"x" * 5_000)  # of an answer
    assert session.queued == 12
    session.send("42[1]")
    session.send("42[2]")
    assert session.is_open
    carrier.room = 100
    session.flush()
    assert carrier.frames[-1] == "42[2]"
    assert (session.queued, engine.backlog.waiting) == (0, 0)
    carrier.room = 1
    for frame in ("42[3]", ANSWER, "42[4]", "42[5]", "42[6]"):
        session.send(frame)
    assert taker.closed_by == ["slow reader"]
    assert engine.backlog.waiting == 0


def test_answers_for_a_client_are_limited():
    engine, session, _, taker, _ = opened(room=1, backlog_bytes=1000)
    engine.backlog.answer_bytes = 15_000
    for _ in range(4):
        session.send(ANSWER)
    assert engine.backlog.waiting == 20_000
    session.send(ANSWER)
    assert taker.closed_by == ["slow reader"]
    assert engine.backlog.waiting == 0


def test_answers_for_all_clients_are_limited():
    engine, first, *_ = opened("polling", backlog_bytes=1000)
    engine.backlog.all_answer_bytes = 15_000
    taker = Taker()
    second = engine.open(Carrier(room=1), None)
    second.start(taker, dumps)
    for _ in range(4):
        first.send(ANSWER)
    second.send(ANSWER)  # what may wait for everyone
    assert second.is_open
    second.send(ANSWER)
    assert taker.closed_by == ["slow reader"]
    assert engine.backlog.waiting == 20_000
    first.take_all()
    assert engine.backlog.waiting == 0
    assert first.is_open


# -- from polling to websocket ---------------------------------------------------------------------


def test_a_websocket_replaces_polling_and_gets_what_waits():
    _, session, polling, _, _ = opened("polling")
    session.take_all()
    websocket = Carrier()
    assert session.probe("2probe", websocket)
    assert websocket.frames == ["3probe"]
    assert session.probing
    session.send("41")
    assert session.probe("5", websocket)
    assert session.transport is websocket
    assert polling.closed == "upgrade"
    assert websocket.frames == ["3probe", "41"]
    assert not session.probing
    assert not session.probe("2probe", Carrier())  # it has one


@pytest.mark.parametrize("frame", ["5", "2wrong", "2", b"\1", "42[]"])
def test_another_first_frame_does_not_replace_polling(frame):
    _, session, polling, _, _ = opened("polling")
    assert not session.probe(frame, Carrier())
    assert session.transport is polling
    session.close("end")
    assert not session.probe("2probe", Carrier())


# -- limits ----------------------------------------------------------------------------------------


def test_sessions_of_a_process_are_limited():
    engine, session, *_ = opened(max_sessions=1)
    with pytest.raises(Refusal, match="Too many connections") as refused:
        engine.check_room("10.0.0.1")
    assert refused.value.status == 503
    session.close("end")
    engine.check_room("10.0.0.1")


def test_sessions_of_an_address_are_limited():
    engine, session, *_ = opened(address="10.0.0.1", max_sessions_of_address=2)
    engine.check_room("10.0.0.1")
    other = engine.open(Carrier(), "10.0.0.1")
    other.start(Taker(), dumps)
    with pytest.raises(Refusal, match="from this address") as refused:
        engine.check_room("10.0.0.1")
    assert refused.value.status == 429
    engine.check_room("10.0.0.2")
    engine.check_room(None)
    other.close("end")
    engine.check_room("10.0.0.1")
    session.close("end")
    assert engine._sessions_of == {}


def test_all_sessions_end_with_the_server():
    engine, _, carrier, taker, clock = opened()
    engine.close()
    assert carrier.closed == taker.closed_by[0] == "server shutting down"
    clock.advance(1000)
