"""Long polling, the change to websocket, and requests from other origins."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.realtime.asgi_peer import PATH, Peer, request, settle
from tests.realtime.test_socketio import POLL, Busy, joined, make

from alula._shares import Shares
from alula.realtime import socketio
from alula.realtime._handshake import headers_of
from alula.realtime._polling import Polling, UnsupportedBody, read_body


class PollingPeer:
    """A client that polls."""

    def __init__(self, web):
        self.web = web

    async def open(self):
        response = await request(self.web, POLL)
        [handshake] = response.frames
        self.url = f"{POLL}&sid={json.loads(handshake[1:])['sid']}"
        return self

    async def join(self):
        await self.open()
        assert (await self.post("40")).body == b"ok"
        await settle()
        [joined] = (await self.get()).frames
        assert joined.startswith("40")
        return self

    def get(self, **options):
        return request(self.web, self.url, **options)

    def post(self, body, **options):
        raw = body.encode() if isinstance(body, str) else body
        return request(self.web, self.url, "POST", raw, **options)

    async def is_open(self):
        """Tell whether the session exists; a poll would wait."""
        return (await request(self.web, self.url, "PUT")).json["code"] == 3


@pytest.fixture
def web():
    return make()


async def test_calls_and_events_by_polling(web):
    peer = await PollingPeer(web).join()
    waiting = asyncio.ensure_future(peer.get())
    await settle()
    await web.service("feed").create({"n": 1})
    response = await waiting
    assert response.frames == ['42["feed created",{"n":1,"id":1}]']
    assert response.headers["content-type"] == "text/plain; charset=UTF-8"
    assert response.headers["cache-control"] == "no-store"
    await peer.post('421["get","things",1]\x1e422["get","things",2]\x1e423["nothing"]')
    await settle()
    frames = (await peer.get()).frames
    assert sorted(frame[:3] for frame in frames) == ["431", "432", "433"]
    await peer.post("41")
    await peer.post("1")
    assert not await peer.is_open()


async def test_calls_of_a_body_count_before_the_first_of_them_begins():
    peer = await PollingPeer(make(max_calls=2)).join()
    await peer.post("\x1e".join(f'42{number}["get","things",{number}]' for number in range(1, 6)))
    await settle()
    answers = {frame[:3]: json.loads(frame[3:]) for frame in (await peer.get()).frames}
    assert [len(answers[f"43{number}"]) for number in range(1, 6)] == [2, 2, 1, 1, 1]
    assert answers["435"][0]["message"] == "More than 2 calls are under way"
    await peer.post('426["get","things",6]')  # those that have ended count no more
    await settle()
    [frame] = (await peer.get()).frames
    assert frame.startswith("436[null,")


async def test_binary_data_by_polling(web):
    peer = await PollingPeer(web).join()
    await peer.post('451-1["create","things",{"_placeholder":true,"num":0}]\x1ebAQID')
    await settle()
    frames = (await peer.get()).frames
    assert frames == ['461-1[null,{"_placeholder":true,"num":0}]', b"\1\2\3"]
    await peer.post("1")


@pytest.mark.parametrize("body", ["", "9", "hello", "4\x1e", "bA", "40\x1e40", b"4\xff"])
async def test_what_is_not_a_packet_is_a_400_and_ends_the_session(web, body):
    peer = await PollingPeer(web).open()
    response = await peer.post(body)
    assert (response.status, response.json["code"]) == (400, 3)
    await settle()
    assert not await peer.is_open()


async def test_bodies_are_limited(web):
    web = make(max_message=100)
    peer = await PollingPeer(web).open()
    response = await request(web, peer.url, "POST", [b"4" * 60, b"4" * 60])
    assert (response.status, response.headers["connection"]) == (413, "close")
    assert await peer.is_open()
    response = await peer.post("40", headers={"content-type": "application/octet-stream"})
    assert response.status == 400
    assert not await peer.is_open()


async def test_a_body_may_come_in_parts_and_only_one_at_a_time(web):
    peer = await PollingPeer(web).open()
    assert (await request(web, peer.url, "POST", [b"4", b"0"])).status == 200
    gone = asyncio.Event()
    gone.set()
    polling = next(iter(web.endpoints._endpoints[0].app._engine.sessions.values())).transport
    assert isinstance(polling, Polling)
    with pytest.raises(RuntimeError, match="not written"):
        polling.write("40")
    polling._takes = True
    assert (await peer.post("41")).status == 400
    assert not await peer.is_open()


async def test_bodies_that_have_not_arrived_are_limited_together():
    shares = Shares(1_000)
    arrives = asyncio.Event()

    def body():
        parts = [b"4" * 100, b"4"]

        async def receive():
            if len(parts) == 1:
                await arrives.wait()
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

        return receive

    bodies = [asyncio.ensure_future(read_body(body(), 200, shares, "a")) for _ in range(6)]
    await settle()
    assert [task.done() for task in bodies] == [False] * 5 + [True]
    with pytest.raises(UnsupportedBody, match="429"):
        bodies[5].result()
    other = asyncio.ensure_future(read_body(body(), 200, shares, "b"))
    await settle()
    assert not other.done()
    bodies[0].cancel()  # its client leaves
    await settle()
    arrives.set()
    assert await asyncio.gather(*bodies[1:5], other) == [b"4" * 101] * 5
    assert shares._taken == {}


async def test_a_body_that_does_not_fit_the_share_is_a_429(monkeypatch):
    monkeypatch.setattr("alula.realtime._sockets._CLIENTS_OF_CALL_BYTES", 0)
    peer = await PollingPeer(make()).open()
    assert (await peer.post("40")).status == 429


async def test_many_calls_in_a_body_leave_turns_to_others(web):
    peer = await PollingPeer(web).join()
    posting = asyncio.ensure_future(peer.post("\x1e".join(['42["get","nowhere",1]'] * 1_000)))
    turns = 0
    while not posting.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 1_000 / 64
    assert posting.result().body == b"ok"
    await peer.post("1")


async def test_long_calls_of_a_body_leave_turns_to_others(web):
    busy = Busy(web)
    web.use("busy", busy)
    peer, other = await PollingPeer(web).join(), await joined(web, ip="10.0.0.2")
    frames = "\x1e".join(f'42{number}["create","busy",{number}]' for number in range(64))
    posting = asyncio.ensure_future(peer.post(frames))
    await settle()
    other.send('421["create","busy","other"]')
    await other.next()
    assert busy.order()[0] < 25  # it came in the 20th round
    assert (await posting).body == b"ok"
    await peer.post("1")
    await other.leave()


async def test_frames_of_two_bodies_do_not_mix(web):
    peer = await PollingPeer(web).join()
    call = '451-1["create","things",{"_placeholder":true,"num":0}]'
    first = asyncio.ensure_future(peer.post("\x1e".join(["6"] * 63 + [call, "bAQI="])))
    await asyncio.sleep(0)
    assert (await peer.post('42["get","things",1]')).status == 400
    await first
    assert not await peer.is_open()


async def test_a_client_that_leaves_in_mid_request(web):
    peer = await PollingPeer(web).open()
    gone = asyncio.Event()
    gone.set()
    response = await request(web, peer.url, "POST", [], leave=gone)
    assert response.status == 400


async def test_two_waiting_requests_end_the_session(web):
    peer = await PollingPeer(web).join()
    waiting = asyncio.ensure_future(peer.get())
    await settle()
    assert (await peer.get()).status == 400
    assert (await waiting).frames == ["1"]
    assert not await peer.is_open()


async def test_a_waiting_request_gets_what_was_sent_before_the_end(web):
    peer = await PollingPeer(web).join()
    waiting = asyncio.ensure_future(peer.get())
    await settle()
    web.service("feed").emit("created", {"n": 1})
    [connection] = web.channel("everyone").connections
    await connection.close("signed out")
    assert (await waiting).frames == ['42["feed created",{"n":1}]', "1"]
    assert not await peer.is_open()


async def test_a_waiting_request_gets_a_noop_when_its_client_closes(web):
    peer = await PollingPeer(web).join()
    waiting = asyncio.ensure_future(peer.get())
    await settle()
    assert (await peer.post("1")).body == b"ok"
    assert (await waiting).frames == ["6"]
    refused = await peer.get()
    assert (refused.status, refused.json["code"]) == (400, 1)


async def test_what_a_client_that_left_did_not_get_waits_for_it(web):
    peer = await PollingPeer(web).join()
    gone = asyncio.Event()
    waiting = asyncio.ensure_future(peer.get(leave=gone))
    await settle()
    gone.set()
    assert (await waiting).body == b""
    await web.service("feed").create({"n": 1})
    assert (await peer.get()).frames == ['42["feed created",{"n":1,"id":1}]']
    await peer.post("1")


async def test_a_stopping_server_ends_requests_that_wait_and_takes_no_new_clients(web):
    peer = await PollingPeer(web).join()
    other = await joined(web)
    waiting = asyncio.ensure_future(peer.get())
    await settle()
    web.endpoints.close()
    assert (await waiting).frames == ["1"]
    await other.wait_closed()
    refused = await request(web, POLL)
    assert refused.status == 503
    await web.setup()
    assert (await request(web, POLL)).status == 200
    await web.teardown()


# -- the change to websocket -----------------------------------------------------------------------


async def test_a_websocket_takes_over(web):
    polling = await PollingPeer(web).join()
    waiting = asyncio.ensure_future(polling.get())
    await settle()
    peer = Peer(web, polling.url.replace("polling", "websocket"))
    peer.send("2probe")
    assert await peer.next() == ("3probe", None)
    assert (await waiting).frames == ["6"]
    # A further request gets a noop soon, since the client stops polling only then.
    assert (await polling.get()).frames == ["6"]
    await web.service("feed").create({"n": 1})
    peer.send("5")
    assert await peer.next() == ("42", ["feed created", {"n": 1, "id": 1}])
    assert await peer.call("get", "things", 1) == [None, {"id": 1, "name": None}]
    for method in ("GET", "POST"):
        response = await request(web, polling.url, method)
        assert (response.status, response.json["code"]) == (400, 3)
    second = Peer(web, polling.url.replace("polling", "websocket"))
    await second.wait_closed()
    assert second.accepted  # and closed at once, as the protocol has it
    assert await peer.call("get", "things", 1) == [None, {"id": 1, "name": None}]
    await peer.leave()
    assert not await polling.is_open()


@pytest.mark.parametrize("frame", ["2wrong", "5", None])
async def test_polling_goes_on_if_the_websocket_fails(web, frame):
    polling = await PollingPeer(web).join()
    peer = Peer(web, polling.url.replace("polling", "websocket"))
    if frame is None:
        peer.send("2probe")
        await peer.next()
        await peer.leave()
    else:
        peer.send(frame)
        await peer.wait_closed()
    await polling.post('421["get","things",1]')
    await settle()
    assert (await polling.get()).frames == ['431[null,{"id":1,"name":null}]']
    await polling.post("1")


async def test_one_websocket_at_a_time_may_take_over(web):
    # Those that wait are in no limit for connections.
    polling = await PollingPeer(web).join()
    url = polling.url.replace("polling", "websocket")
    first, second = Peer(web, url), Peer(web, url)
    await second.wait_closed()
    assert first.accepted
    second.send("2probe")
    await settle()
    assert second.from_server.empty()
    await first.leave()
    third = Peer(web, url)
    third.send("2probe")
    assert await third.next() == ("3probe", None)
    third.send("5")
    await settle()
    assert await third.call("get", "things", 1) == [None, {"id": 1, "name": None}]
    await third.leave()


async def test_a_websocket_that_never_takes_over_is_closed():
    web = make(upgrade_timeout=0.02)
    polling = await PollingPeer(web).join()
    peer = Peer(web, polling.url.replace("polling", "websocket"))
    await peer.wait_closed()
    assert await polling.is_open()
    await polling.post("1")


# -- other origins ---------------------------------------------------------------------------------

HOST = {"host": "api.example"}
ORIGINS = [
    (None, {}, True),
    (None, {"origin": "https://api.example"}, True),
    (None, {"origin": "https://evil.example"}, True),
    (None, {"origin": "https://evil.example", "cookie": "session=1"}, False),
    (None, {"origin": "null", "cookie": "session=1"}, False),
    (None, {"origin": "https://API.example", "cookie": "session=1"}, True),
    (["https://app.example/"], {"origin": "https://APP.example", "cookie": "session=1"}, True),
    (["https://app.example"], {"origin": "https://evil.example"}, False),
    (["https://app.example"], {"origin": "https://app.example.evil.example"}, False),
    ("*", {"origin": "https://evil.example"}, True),
    ("*", {"origin": "https://evil.example", "cookie": "session=1"}, False),
    ("*", {"origin": "https://api.example", "cookie": "session=1"}, True),
]


@pytest.mark.parametrize(("origins", "headers", "is_admitted"), ORIGINS)
async def test_websockets_of_other_pages(origins, headers, is_admitted):
    web = make(origins=origins)
    peer = Peer(web, f"{PATH}websocket", {**HOST, **headers})
    await settle()
    assert peer.accepted is is_admitted
    await peer.leave()


@pytest.mark.parametrize(
    ("origins", "error", "text"),
    [
        (["localhost:5173"], ValueError, '"localhost:5173" lacks http:// or https://'),
        (["https://a.example", "*"], ValueError, r'write origins="\*"'),
        (["https://a.example/app"], ValueError, 'write "https://a.example"'),
        (["https://a.example:8443/app/?x#y"], ValueError, 'write "https://a.example:8443"'),
        (["https://a.example?x"], ValueError, 'write "https://a.example"'),
        (["https://me@a.example"], ValueError, 'write "https://a.example"'),
        (["https://*.a.example"], ValueError, "a wildcard, which matches nothing; list each"),
        (["https://a.example:*"], ValueError, "a wildcard"),
        (["https://a.example:443"], ValueError, 'leave out; write "https://a.example"'),
        (["http://a.example:80/"], ValueError, 'leave out; write "http://a.example"'),
        (["https://a.example,https://b.example"], ValueError, "each of them as a string"),
        (["https://"], ValueError, "lacks|is not an origin"),
        (True, TypeError, "give a list"),
    ],
)
def test_origins_that_match_nothing_are_refused(origins, error, text):
    with pytest.raises(error, match=text):
        socketio(origins=origins)


@pytest.mark.parametrize(
    "origin", ["http://localhost:5173", "https://a.example/", "http://[::1]:80443", "app://x"]
)
def test_origins_of_browsers_are_accepted(origin):
    socketio(origins=[origin])


@pytest.mark.parametrize(
    ("origins", "origin", "is_reported"),
    [
        (None, "https://evil.example", True),
        (["https://app.example"], "https://evil.example", True),
        (["https://app.example"], "https://APP.example", False),
        (["https://app.example"], "https://api.example", False),
        (None, "https://api.example", False),
        ("*", "https://evil.example", False),
        (None, None, False),
    ],
)
async def test_a_page_that_its_browser_refuses_is_reported_once(
    origins, origin, is_reported, caplog
):
    web = make(origins=origins)
    headers = HOST if origin is None else {**HOST, "origin": origin}
    for _ in range(2):
        await request(web, POLL, headers=headers)
    text = f"a page of '{origin}' polls, but its browser does not let it read the responses"
    assert caplog.text.count(text) == is_reported
    web.endpoints.close()


async def test_a_flood_of_origins_is_not_reported_without_end(monkeypatch, caplog):
    monkeypatch.setattr("alula.realtime._handshake.MAX_REPORTED_ORIGINS", 2)
    web = make()
    for number in range(4):
        await request(web, POLL, headers={**HOST, "origin": f"https://{number}{'x' * 500}"})
    assert caplog.text.count("polls, but") == 2
    assert "x" * 200 not in caplog.text
    web.endpoints.close()


async def test_pages_of_allowed_origins_may_read_responses():
    web = make(origins=["https://app.example"])
    for query in ("", "&sid=unknown"):
        response = await request(web, POLL + query, headers={"origin": "https://app.example"})
        assert response.headers["access-control-allow-origin"] == "https://app.example"
        assert response.headers["access-control-allow-credentials"] == "true"
        assert response.headers["vary"] == "Origin"
        response = await request(web, POLL + query, headers={"origin": "https://evil.example"})
        assert "access-control-allow-origin" not in response.headers
        assert response.headers["vary"] == "Origin"


async def test_all_pages_may_read_responses_without_credentials():
    response = await request(make(origins="*"), POLL, headers={"origin": "https://a.example"})
    assert response.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in response.headers


@pytest.mark.parametrize("asked", [None, "content-type"])
async def test_preflights_are_answered(asked):
    headers = {"origin": "https://app.example", "access-control-request-method": "POST"}
    if asked:
        headers["access-control-request-headers"] = asked
    web = make(origins=["https://app.example"])
    response = await request(web, POLL, "OPTIONS", headers=headers)
    assert response.status == 204
    assert response.headers.get("access-control-allow-headers") == asked
    response = await request(make(), POLL, "OPTIONS", headers=headers)
    assert response.status == 400


def test_headers_that_were_sent_twice_are_joined():
    raw = [(b"cookie", b"a=1"), (b"x-a", b"1"), (b"Cookie", b"b=2"), (b"x-a", b"2")]
    assert headers_of({"headers": raw}) == {"cookie": "a=1; b=2", "x-a": "1, 2"}
