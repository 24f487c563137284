"""The protocol of the client, frame by frame; there is no network here."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime

import pytest
from tests.client.socketio_server import frames_of, opening

from alula import errors
from alula._wire import PacketType, ProtocolError
from alula.client import RequestError
from alula.client._socketio._session import (
    LEAVE,
    Answer,
    Refused,
    Session,
    SessionEnded,
    SocketRequest,
)


class SignIn:
    path = "authentication"

    def __init__(self, token="t1"):
        self.access_token = token
        self.result = None

    def credentials(self):
        return {"strategy": "jwt", "accessToken": self.access_token}

    def renewed(self, result):
        self.result = result

    def rejected(self, error):
        if error.code == 401:
            self.access_token = None
        return error.code == 401


class Client:
    """A session, what it told, and a server's hand on it."""

    def __init__(self, sign_in=None, auth=None, **handshake):
        self.events = []
        self.sign_in = sign_in
        self.handshake = handshake
        self.session = Session(self, auth or {}, 10_000)
        self.outcomes = {}

    def event(self, path, name, data):
        self.events.append((path, name, data))

    def stored_sign_in(self):
        return self.sign_in

    def written(self):
        frames = list(self.session.frames)
        self.session.frames.clear()
        return frames

    def join(self, **data):
        """Open a connection and join; return the data of the client's own packet."""
        self.session.opened()
        self.session.receive(opening(**self.handshake))
        (frame,) = self.written()
        assert frame.startswith("40")
        self.receive(PacketType.CONNECT, {"sid": "s", **data})
        return json.loads(frame[2:] or "null")

    def receive(self, *packet):
        for frame in frames_of(*packet):
            self.session.receive(frame)

    def call(self, method, *arguments, repeatable=False):
        request = SocketRequest(
            method, f"http://here/{arguments[0]}", [method, *arguments], repeatable=repeatable
        )
        encoded = self.session.encode(request)
        self.session.send(request, encoded, lambda told: self.outcomes.update({encoded[0]: told}))
        return encoded[0]


@pytest.fixture
def client():
    return Client()


class TestAConnection:
    def test_is_ready_once_it_has_joined(self, client):
        assert not client.session.is_ready
        assert client.join() is None
        assert client.session.is_ready
        assert not client.session.recovered
        assert client.session.silence == 45.0

    def test_joins_with_the_data_that_it_was_given(self):
        assert Client(auth={"tenant": "acme"}).join() == {"tenant": "acme"}

    def test_answers_each_ping(self, client):
        client.join()
        client.session.receive("2")
        client.session.receive("2probe")
        assert client.written() == ["3", "3probe"]

    def test_passes_over_what_means_nothing_to_it(self, client):
        client.join()
        client.session.receive("6")
        client.session.receive("40/admin,{}")
        assert client.session.is_ready

    @pytest.mark.parametrize("frame", ["40", "2x", b"x"])
    def test_begins_with_a_session(self, client, frame):
        client.session.opened()
        if frame == "2x":
            client.session.receive(frame)
            assert client.written() == ["3x"]
        else:
            with pytest.raises(ProtocolError):
                client.session.receive(frame)

    @pytest.mark.parametrize("frame", ["0", "6", '0{"sid": 1}', "0[[[", "0" + "[" * 100_000])
    def test_takes_no_other_handshake(self, client, frame):
        client.session.opened()
        with pytest.raises(ProtocolError):
            client.session.receive(frame)

    @pytest.mark.parametrize("frame", ["1", "41"])
    def test_ends_when_the_server_says_so(self, client, frame):
        client.join()
        with pytest.raises(SessionEnded):
            client.session.receive(frame)

    def test_says_that_it_goes(self):
        assert LEAVE == "41"


class TestARefusal:
    def refused_with(self, data):
        client = Client()
        client.session.opened()
        client.session.receive(opening())
        with pytest.raises(Refused) as caught:
            client.receive(PacketType.CONNECT_ERROR, data)
        return caught.value.error

    def test_has_the_message_and_the_data(self):
        error = self.refused_with({"message": "refused: so", "data": {"reason": "so"}})
        assert isinstance(error, errors.Forbidden)
        assert (error.message, error.data) == ("refused: so", {"reason": "so"})

    def test_that_is_an_error_is_that_error(self):
        conflict = errors.Conflict("no entry", {"why": "because"}).to_dict()
        error = self.refused_with({"message": "no entry", "data": conflict})
        assert isinstance(error, errors.Conflict)
        assert (str(error), error.data) == ("no entry", {"why": "because"})

    def test_that_is_a_text(self):
        assert self.refused_with("Invalid namespace").message == "Invalid namespace"


class TestCalls:
    def test_a_result(self, client):
        client.join()
        call_id = client.call("find", "messages", {"$limit": 1})
        assert client.written() == ['421["find","messages",{"$limit":1}]']
        client.receive(PacketType.ACK, [None, [1]], call_id)
        assert client.outcomes[call_id] == Answer(None, [1])
        assert client.outcomes[call_id].status == 200
        assert client.outcomes[call_id].headers == {}

    def test_an_answer_without_anything(self, client):
        client.join()
        call_id = client.call("find", "messages", {})
        client.receive(PacketType.ACK, [], call_id)
        assert client.outcomes[call_id] == Answer(None, None)

    def test_dates_and_binary_data(self, client):
        client.join()
        client.call("create", "files", {"at": datetime(2030, 1, 2, tzinfo=UTC), "b": b"\0\1"}, {})
        text, data = client.written()
        assert text.startswith('451-1["create","files",{"at":"2030-01-02T00:00:00.000Z","b":{"_pl')
        assert data == b"\0\1"

    def test_half_characters_are_escaped(self, client):
        client.join()
        client.call("create", "s", {"text": "ü\ud800", "b": b"x"}, {})
        text, data = client.written()
        assert "\\u00fc\\ud800" in text
        assert data == b"x"

    @pytest.mark.parametrize(("value", "error"), [(object(), TypeError), (math.nan, ValueError)])
    def test_what_cannot_be_sent(self, client, value, error):
        client.join()
        with pytest.raises(error):
            client.call("create", "s", {"a": value})

    def test_binary_data_comes_back(self, client):
        client.join()
        call_id = client.call("get", "files", 1, {})
        client.receive(PacketType.ACK, [None, {"b": b"\0\1"}], call_id)
        assert client.outcomes[call_id].result == {"b": b"\0\1"}

    def test_a_call_that_was_given_up(self, client):
        client.join()
        call_id = client.call("find", "messages", {})
        client.session.forget(call_id)
        client.receive(PacketType.ACK, [None, []], call_id)
        assert client.outcomes == {}

    def test_a_call_that_is_too_large_is_not_sent(self):
        client = Client(max_payload=1_000)
        client.join()
        client.call("create", "s", "z" * 900)
        for data in ("z" * 1_000, "ü" * 500, b"x" * 1_001):
            with pytest.raises(errors.PayloadTooLarge, match="the server takes 1000 bytes"):
                client.call("create", "s", data)

    def test_any_size_where_the_server_names_none(self):
        client = Client(max_payload=0)
        client.join()
        client.call("create", "s", "z" * 10_000)
        assert len(client.written()) == 1

    def test_after_a_break_nobody_knows_what_became_of_it(self, client):
        client.join()
        change = client.call("create", "messages", {})
        read = client.call("find", "messages", {}, repeatable=True)
        client.session.closed("the cable broke")
        assert isinstance(client.outcomes[change], errors.Unavailable)
        assert "carried out or not" in client.outcomes[change].message
        assert "the cable broke" in str(client.outcomes[change].__cause__)
        assert client.outcomes[read] is None
        assert client.written() == []
        assert not client.session.is_ready


class TestErrors:
    def error_of(self, value):
        request = SocketRequest("get", "http://here/messages", (), repeatable=True)
        answer = Answer(value, None)
        with pytest.raises(errors.FrameworkError) as caught:
            answer.read(request)
        assert isinstance(caught.value.__cause__, RequestError)
        return caught.value, answer.status

    def test_an_error_of_the_interface(self):
        given = errors.NotFound("No record", {"id": 1}, errors={"id": "is wrong"}).to_dict()
        error, status = self.error_of(given)
        assert isinstance(error, errors.NotFound)
        assert (error.to_dict(), status) == (given, 404)
        assert error.__cause__.status == 404
        assert json.loads(error.__cause__.body) == given

    @pytest.mark.parametrize("value", [{"message": "boom"}, "boom", {"code": "E", "x": b"\0"}, [1]])
    def test_other_errors_are_of_the_server(self, value):
        error, status = self.error_of(value)
        assert (error.code, status) == (500, 500)

    @pytest.mark.parametrize("code", [200, 304, 1_000])
    def test_no_status_that_is_none_of_an_error(self, code):
        error, _ = self.error_of({"name": "Odd", "message": "odd", "code": code})
        assert error.code == 500

    def test_nothing_is_no_error(self):
        for nothing in (None, False):
            assert Answer(nothing, 1).read(SocketRequest("a", "b", (), repeatable=True)) == 1
            assert Answer(nothing, 1).status == 200


class TestEvents:
    def test_of_a_service(self, client):
        client.join()
        client.receive(PacketType.EVENT, ["boxes/:id/items created", {"id": 1}])
        client.receive(PacketType.EVENT, ["feed pinged"])
        client.receive(PacketType.EVENT, ["feed sent", "text"])
        assert client.events == [
            ("boxes/:id/items", "created", {"id": 1}),
            ("feed", "pinged", None),
            ("feed", "sent", "text"),
        ]

    @pytest.mark.parametrize("name", ["hello", 7])
    def test_others_are_none_of_a_service(self, client, name):
        client.join()
        client.receive(PacketType.EVENT, [name, {"id": 1}])
        assert client.events == []


class TestRecovery:
    def test_begins_with_what_it_was_told(self, client):
        assert client.join(pid="p1") is None
        client.receive(PacketType.EVENT, ["feed created", {"id": 1}, "o1"])
        client.receive(PacketType.EVENT, ["feed created", {"id": 2}, "o2"])
        client.session.closed("")
        assert client.join(pid="p1") == {"pid": "p1", "offset": "o2"}
        assert client.session.recovered
        client.receive(PacketType.EVENT, ["feed sent", "a text", "o3"])
        assert [data for _, _, data in client.events] == [{"id": 1}, {"id": 2}, "a text"]

    def test_another_session_begins_anew(self, client):
        client.join(pid="p1")
        client.receive(PacketType.EVENT, ["feed created", {"id": 1}, "o1"])
        client.session.closed("")
        client.join(pid="p2")
        assert not client.session.recovered
        client.session.closed("")
        assert client.join() == {"pid": "p2"}
        client.session.closed("")
        assert client.join() is None

    def test_an_offset_may_come_alone(self, client):
        client.join(pid="p1")
        client.receive(PacketType.EVENT, ["", "o1"])
        client.session.closed("")
        assert client.join(pid="p1") == {"pid": "p1", "offset": "o1"}
        assert client.events == []


class TestASignIn:
    def test_is_renewed_before_anything_else(self):
        sign_in = SignIn()
        client = Client(sign_in)
        client.join()
        assert not client.session.is_ready
        assert client.written() == [
            '421["create","authentication",{"strategy":"jwt","accessToken":"t1"},{}]'
        ]
        client.receive(PacketType.ACK, [None, {"accessToken": "t1"}], 1)
        assert client.session.is_ready
        assert sign_in.result == {"accessToken": "t1"}

    def test_a_token_that_is_rejected_is_forgotten(self):
        sign_in = SignIn()
        client = Client(sign_in)
        client.join()
        client.receive(PacketType.ACK, [errors.NotAuthenticated("expired").to_dict()], 1)
        assert client.session.is_ready
        assert sign_in.access_token is None

    def test_another_failure_ends_the_connection(self):
        client = Client(SignIn())
        client.join()
        with pytest.raises(SessionEnded, match=r"could not be renewed: .*database"):
            client.receive(PacketType.ACK, [errors.Unavailable("no database").to_dict()], 1)
        assert not client.session.is_ready

    def test_a_break_meanwhile(self):
        sign_in = SignIn()
        client = Client(sign_in)
        client.join()
        client.session.closed("")
        assert sign_in.result is None
        assert not client.session.is_ready
