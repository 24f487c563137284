"""What servers and networks do wrong: the right error in time, and nothing left open."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
from pathlib import Path

import pytest
from tests.client.kinds import KINDS, WAITING, Kind, settled
from tests.client.raw_server import CLOSE, RESET, STALL, answer, raw_server

from alula import errors
from alula.client import AbortController, Aborted

SOON = 30.0
ARGUMENTS = {
    "find": (),
    "get": (1,),
    "create": ({},),
    "update": (1, {}),
    "patch": (1, {}),
    "remove": (1,),
}
OPEN_FILES = Path("/proc/self/fd")


async def test_nobody_listens(kind):
    with socket.socket() as bound:  # so that nobody else takes the port
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        async with kind.client(url) as client:
            with pytest.raises(errors.Unavailable, match=f"GET {url}/items failed: .") as caught:
                await settled(client.service("items").find())
    assert caught.value.code == 503
    assert isinstance(caught.value.__cause__.__cause__, Exception)
    assert caught.value.to_dict() == {
        "name": "Unavailable",
        "message": "the called server cannot be reached, or the connection broke",
        "code": 503,
        "className": "unavailable",
    }


@pytest.mark.parametrize(
    "step",
    [
        RESET,
        CLOSE,
        (b"HTTP/1.1 200 OK\r\ncontent-le", CLOSE),
        (b'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"a":', CLOSE),
        (b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{"a":\r\n', CLOSE),
        (b"this is no HTTP at all\r\n\r\n", CLOSE),
    ],
    ids=["reset", "closed", "half a head", "half a body", "half of the chunks", "no HTTP"],
)
async def test_an_answer_that_does_not_come_whole(kind, step):
    with raw_server(step) as server:
        async with kind.client(server.url, timeout=SOON) as client:
            with pytest.raises(errors.Unavailable):
                await settled(client.service("items").find())


@pytest.mark.parametrize(
    "first", [b"", b'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"a":'], ids=["nothing", "half"]
)
async def test_an_answer_that_stalls(kind, first):
    with raw_server(answer([1]), (first, STALL)) as server:
        async with kind.client(server.url) as client:
            # What a library loads with its first request may take longer than the timeout.
            await settled(client.service("items").find())
            began = time.monotonic()
            # Long enough for the request to go out on a slow machine.
            with pytest.raises(errors.Timeout, match=r"took longer than 1 seconds"):
                await settled(client.service("items").find(connection={"timeout": 1}))
            assert time.monotonic() - began < SOON
            assert await asyncio.to_thread(server.disconnected.wait, SOON)


async def test_an_answer_that_is_too_large(kind):
    chunks = b"".join(b"3e8\r\n" + b"x" * 1000 + b"\r\n" for _ in range(5)) + b"0\r\n\r\n"
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunks
    with raw_server(answer("x" * 2000), chunked, answer("x" * 998)) as server:
        async with kind.client(server.url, max_response_size=1000) as client:
            items = client.service("items")
            for _ in range(2):
                with pytest.raises(errors.BadGateway, match="larger than 1000 bytes"):
                    await settled(items.find())
            assert await settled(items.find()) == "x" * 998


async def test_a_large_body(kind):
    with raw_server(answer({"id": 1})) as server:
        async with kind.client(server.url) as client:
            text = "x" * 2_000_000
            assert await settled(client.service("items").create({"text": text})) == {"id": 1}
    assert server.requests[0].endswith(b'\r\n\r\n{"text":"%s"}' % text.encode())


@pytest.fixture
async def may_lose_connections():
    """Take no notice of writers of aiohttp that nobody waits for when their connection ends."""
    loop = asyncio.get_running_loop()
    handler = loop.get_exception_handler()

    def handle(loop, context):
        if not isinstance(context.get("exception"), ConnectionError):
            handler(loop, context)

    loop.set_exception_handler(handle)
    yield
    gc.collect()
    loop.set_exception_handler(handler)


@pytest.mark.usefixtures("may_lose_connections")
async def test_an_answer_before_the_body_was_sent_whole():
    """The other libraries send all of it first, so they wait for a server that does not read."""
    before, aiohttp = asyncio.all_tasks(), Kind("aiohttp", synchronous=False)
    refused = answer({"name": "PayloadTooLarge", "code": 413, "message": "too much"}, 413)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.settimeout(SOON)
        async with aiohttp.client(url, timeout=SOON) as client:
            items = client.service("items")
            creating = asyncio.create_task(items.create({"text": "x" * 50_000_000}))
            first, _ = await asyncio.to_thread(listening.accept)
            with first:
                await asyncio.to_thread(first.recv, 1000)
                first.sendall(refused)
                with pytest.raises(errors.FrameworkError, match="too much") as caught:
                    await creating
                assert caught.value.code == 413
                finding = asyncio.create_task(items.find())
                second, _ = await asyncio.to_thread(listening.accept)  # the first is half used
                with second:
                    assert (await asyncio.to_thread(second.recv, 1000)).startswith(b"GET /items ")
                    second.sendall(answer([]))
                    assert await finding == []
    assert asyncio.all_tasks() <= before


async def test_a_pool_that_the_server_has_closed(kind):
    with raw_server((answer([1]), CLOSE), (answer([2]), CLOSE)) as server:
        async with kind.client(server.url) as client:
            items = client.service("items")
            assert await settled(items.find()) == [1]
            await asyncio.sleep(0.1)
            assert await settled(items.find()) == [2]


class TestAConnectionThatIsClosedJustThen:
    """The server closes an idle connection while the next request is on its way."""

    @pytest.mark.parametrize("step", [CLOSE, RESET])
    @pytest.mark.parametrize("method", ["find", "get"])
    async def test_a_read_is_sent_again(self, kind, method, step):
        with raw_server(answer([1]), step, answer([2])) as server:
            async with kind.client(server.url, timeout=SOON) as client:
                items = client.service("items")
                assert await settled(items.find()) == [1]
                assert await settled(getattr(items, method)(*ARGUMENTS[method])) == [2]
            assert (server.connections, len(server.requests)) == (2, 3)

    async def test_only_once(self, kind):
        with raw_server(answer([1]), CLOSE, CLOSE, answer([2])) as server:
            async with kind.client(server.url, timeout=SOON) as client:
                await settled(client.service("items").find())
                with pytest.raises(errors.Unavailable):
                    await settled(client.service("items").find())
            assert len(server.requests) == 3

    @pytest.mark.parametrize("step", [CLOSE, RESET])
    @pytest.mark.parametrize("method", ["create", "update", "patch", "remove"])
    async def test_a_write_is_not(self, kind, method, step):
        with raw_server(answer([1]), step, answer([2])) as server:
            async with kind.client(server.url, timeout=SOON) as client:
                items = client.service("items")
                await settled(items.find())
                with pytest.raises(errors.Unavailable):
                    await settled(getattr(items, method)(*ARGUMENTS[method]))
            assert len(server.requests) == 2

    async def test_nor_is_what_was_half_answered(self, kind):
        half = (b'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"a":', CLOSE)
        with raw_server(answer([1]), half, answer([2])) as server:
            async with kind.client(server.url, timeout=SOON) as client:
                await settled(client.service("items").find())
                with pytest.raises(errors.Unavailable):
                    await settled(client.service("items").find())
            assert len(server.requests) == 2

    @pytest.mark.parametrize("step", [CLOSE, RESET])
    @pytest.mark.parametrize("method", ["find", "get", "create", "update", "patch", "remove"])
    async def test_nor_is_anything_on_a_new_connection(self, kind, method, step):
        with raw_server(step, answer([2])) as server:
            async with kind.client(server.url, timeout=SOON) as client:
                with pytest.raises(errors.Unavailable):
                    await settled(getattr(client.service("items"), method)(*ARGUMENTS[method]))
            assert len(server.requests) == 1


async def test_connections_are_used_again(kind):
    with raw_server(*[answer([n]) for n in range(5)]) as server:
        async with kind.client(server.url) as client:
            for n in range(5):
                assert await settled(client.service("items").find()) == [n]
            assert server.connections == 1


HINT = b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n"


@pytest.mark.parametrize(
    "hint", [HINT, 2 * HINT, b"HTTP/1.1 100 Continue\r\n\r\n"], ids=["hint", "hints", "continue"]
)
async def test_informational_responses_are_skipped(kind, hint):
    with raw_server(hint + answer([1]), answer([2])) as server:
        async with kind.client(server.url, timeout=SOON) as client:
            assert await settled(client.service("items").find()) == [1]
            assert await settled(client.service("items").find()) == [2]
        assert server.connections == 1


@pytest.mark.parametrize("kind", [each for each in KINDS if each.library == "fetch"], ids=str)
async def test_who_says_things_without_end_is_left(kind):
    with raw_server(100 * HINT + answer([1]), answer([2])) as server:
        async with kind.client(server.url, timeout=SOON) as client:
            with pytest.raises(errors.FrameworkError, match="got status 103"):
                await settled(client.service("items").find())
            assert await settled(client.service("items").find()) == [2]
        assert server.connections == 2


async def test_a_client_that_was_closed_opens_again(kind):
    with raw_server(answer([1]), answer([2])) as server:
        async with kind.client(server.url) as client:
            assert await settled(client.service("items").find()) == [1]
            await settled(client.close())
            assert await settled(client.service("items").find()) == [2]
            assert server.connections == 2


def open_files():
    return len(list(OPEN_FILES.iterdir()))


@pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="open files are counted where /proc is")
async def test_nothing_stays_open(kind, alula_url):
    before = open_files()
    for _ in range(3):
        async with kind.client(alula_url) as client:
            for _ in range(20):
                await settled(client.service("echo").find())
                with pytest.raises(errors.NotFound):
                    await settled(client.service("nowhere").find())
            assert open_files() <= before + 5
    async with asyncio.timeout(SOON):
        while open_files() > before:  # noqa: ASYNC110  # connections end a moment later
            await asyncio.sleep(0.01)


class TestProxies:
    PAGE = b"<html><title>502 Bad Gateway</title><body>nginx</body></html>"

    async def test_an_error_page(self, kind):
        with raw_server(answer(body=self.PAGE, status=502, content_type="text/html")) as server:
            async with kind.client(server.url) as client:
                with pytest.raises(errors.BadGateway, match=r"502 .*Bad Gateway nginx") as caught:
                    await settled(client.service("items").find())
        cause = caught.value.__cause__
        assert (cause.status, cause.headers["content-type"]) == (502, "text/html")
        assert cause.body == self.PAGE
        assert caught.value.data is None

    async def test_a_page_in_the_place_of_an_answer(self, kind):
        with raw_server(answer(body=b"<html>Sign in</html>", content_type="text/html")) as server:
            async with kind.client(server.url) as client:
                with pytest.raises(errors.BadGateway, match=r"200 with text/html .*JSON: Sign in"):
                    await settled(client.service("items").find())

    async def test_a_redirect(self, kind):
        with raw_server(answer(status=301, location="https://else/items")) as server:
            async with kind.client(server.url) as client:
                with pytest.raises(errors.BadGateway, match=r"301 .* https://else/items"):
                    await settled(client.service("items").find())
            assert len(server.requests) == 1


class TestGivingUp:
    @pytest.mark.parametrize("kind", WAITING, ids=str)
    async def test_cancelling_closes_the_connection(self, kind):
        with raw_server(STALL) as server:
            async with kind.client(server.url) as client:
                call = asyncio.create_task(client.service("items").find())
                assert await asyncio.to_thread(server.stalled.wait, SOON)
                call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call
                assert await asyncio.to_thread(server.disconnected.wait, SOON)

    async def test_a_signal_closes_the_connection(self, kind):
        controller = AbortController()
        with raw_server(STALL) as server:

            def abort():
                server.stalled.wait(SOON)
                controller.abort()

            thread = threading.Thread(target=abort)
            thread.start()
            async with kind.client(server.url) as client:
                with pytest.raises(Aborted, match="was aborted by its signal") as caught:
                    await settled(
                        client.service("items").find(connection={"signal": controller.signal})
                    )
                assert (caught.value.name, caught.value.code) == ("AbortError", 499)
                assert await asyncio.to_thread(server.disconnected.wait, SOON)
                with pytest.raises(Aborted):  # at once, without a request
                    await settled(
                        client.service("items").find(connection={"signal": controller.signal})
                    )
            thread.join()
            assert len(server.requests) == 1

    async def test_a_signal_that_is_silent_changes_nothing(self, kind):
        controller = AbortController()
        with raw_server(answer([1])) as server:
            async with kind.client(server.url) as client:
                options = {"connection": {"signal": controller.signal}}
                assert await settled(client.service("items").find(options)) == [1]
        controller.abort()

    @pytest.mark.parametrize("kind", WAITING, ids=str)
    @pytest.mark.parametrize(
        "ends", [["cancel"], ["cancel", "abort"], ["abort", "cancel"]], ids=str
    )
    async def test_who_cancels_is_heard_beside_a_signal(self, kind, ends):
        controller = AbortController()
        with raw_server(STALL) as server:
            async with kind.client(server.url) as client:
                given = {"signal": controller.signal}
                call = asyncio.create_task(client.service("items").find(connection=given))
                assert await asyncio.to_thread(server.stalled.wait, SOON)
                for end in ends:
                    {"cancel": call.cancel, "abort": controller.abort}[end]()
                with pytest.raises(asyncio.CancelledError):
                    await call
                assert await asyncio.to_thread(server.disconnected.wait, SOON)


class TestTryingAgain:
    async def test_until_it_succeeds(self, kind):
        steps = [
            CLOSE,
            answer(status=503, body=b"<h1>down</h1>", retry_after="0"),
            answer({"name": "TooManyRequests", "code": 429}, 429, retry_after="0"),
            answer({"name": "BadGateway", "code": 502}, 502),
            answer([1]),
        ]
        with raw_server(*steps) as server:
            async with kind.client(server.url, retries=4) as client:
                assert await settled(client.service("items").find()) == [1]
            assert len(server.requests) == 5

    async def test_not_more_often_than_retries(self, kind):
        with raw_server(*[answer(status=503, retry_after="0")] * 5) as server:
            async with kind.client(server.url, retries=2) as client:
                with pytest.raises(errors.Unavailable):
                    await settled(client.service("items").find())
            assert len(server.requests) == 3

    @pytest.mark.parametrize(
        "step",
        [answer("x" * 2000), answer(status=301), answer(body=b"<html>"), answer(status=500)],
        ids=["too large", "redirect", "no JSON", "another error"],
    )
    async def test_not_what_will_not_pass(self, kind, step):
        with raw_server((step, CLOSE)) as server:
            async with kind.client(server.url, retries=2, max_response_size=1000) as client:
                with pytest.raises(errors.FrameworkError):
                    await settled(client.service("items").find())
            assert len(server.requests) == 1

    async def test_not_unless_it_is_asked_for(self, kind):
        with raw_server(answer(status=503, retry_after="0")) as server:
            async with kind.client(server.url) as client:
                with pytest.raises(errors.Unavailable):
                    await settled(client.service("items").find())
            assert len(server.requests) == 1


def drip(text: bytes, pause: float = 0.05):
    """Return a step that sends bytes one by one, each long before a step of the client is late."""

    def send(connection):
        for byte in text:
            connection.sendall(bytes([byte]))
            time.sleep(pause)

    return send


OK = b"HTTP/1.1 200 OK\r\n"
IN_CHUNKS = OK + b"transfer-encoding: chunked\r\n\r\n"
DRIPS = {  # what comes at once, and what in drops
    "head": (OK, b"x-endless: " + b"x" * 400),
    "hints": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 20),
    "body": (OK + b"content-length: 900\r\n\r\n", b"x" * 400),
    "body until the end": (OK + b"connection: close\r\n\r\n[]", b" " * 400),
    "length of a chunk": (IN_CHUNKS, b"0" * 400),
    "trailer": (IN_CHUNKS + b"0\r\nx: ", b"x" * 400),
}


@pytest.mark.parametrize(("at_once", "text"), DRIPS.values(), ids=DRIPS)
async def test_what_comes_in_drops_is_bounded_as_a_whole(kind, at_once, text):
    step = (at_once, drip(text))
    with raw_server(answer([1]), step, step) as server:
        async with kind.client(server.url) as client:
            items = client.service("items")
            assert await settled(items.find()) == [1]  # what follows goes out on that connection
            began = time.monotonic()
            with pytest.raises(errors.Timeout, match=r"took longer than 0\.4 seconds"):
                await settled(items.find(connection={"timeout": 0.4}))
            assert 0.3 < time.monotonic() - began < 10  # of 20 seconds


async def test_without_a_limit_nothing_is_bounded(kind):
    with raw_server(drip(answer([1]), 0.005)) as server:
        async with kind.client(server.url, timeout=None) as client:
            assert await settled(client.service("items").find()) == [1]
