"""The event loop of a synchronous client: interrupts, forks, threads, and how it ends."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import httpx2
import pytest
from tests.client.kinds import KINDS, WAITING
from tests.client.raw_server import STALL, answer, raw_server
from tests.client.socketio_server import SILENT, ScriptedServer

from alula import App, errors
from alula.adapters.memory import MemoryService
from alula.client import create_sync_client, rest, socketio
from alula.express import error_handler, express, json
from alula.express import rest as serve_rest

SOON = 30.0
BLOCKING = [kind for kind in KINDS if kind not in WAITING]
STRICT = ["-W", "error"]
MAY_FORK = [*STRICT, "-W", "ignore:This process:DeprecationWarning"]
BESIDE = Path(__file__).parents[2]


@pytest.fixture(params=BLOCKING, ids=str)
def blocking(request):
    """Each kind of client that blocks."""
    return request.param


def client_of(kind, server, **options):
    return create_sync_client().configure(kind.connection(server.url, **options))


def until(condition):
    deadline = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def threads_of_clients():
    return [each for each in threading.enumerate() if each.name == "alula-client"]


class TestInterrupts:
    @pytest.fixture
    def interrupt(self):
        """Press Ctrl-C once something is true."""
        threads = []

        def interrupt(when):
            def run():
                when()
                os.kill(os.getpid(), signal.SIGINT)

            threads.append(threading.Thread(target=run))
            threads[-1].start()

        yield interrupt
        for thread in threads:
            thread.join()

    def test_a_call_is_cancelled(self, blocking, interrupt):
        with raw_server(STALL, answer([1])) as server, client_of(blocking, server) as client:
            interrupt(lambda: server.stalled.wait(SOON))
            with pytest.raises(KeyboardInterrupt):
                client.service("items").find()
            assert server.disconnected.wait(SOON)
            assert client.service("items").find() == [1]

    def test_a_call_is_cancelled_before_its_future_is_there(self, monkeypatch):
        start = asyncio.run_coroutine_threadsafe

        def start_and_interrupt(coroutine, loop):
            start(coroutine, loop)
            assert server.stalled.wait(SOON)
            raise KeyboardInterrupt

        with (
            raw_server(STALL, answer([1])) as server,
            create_sync_client().configure(rest(server.url).httpx()) as client,
        ):
            with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
                patched.setattr(asyncio, "run_coroutine_threadsafe", start_and_interrupt)
                client.service("items").find()
            assert server.disconnected.wait(SOON)
            assert client.service("items").find() == [1]

    def test_a_call_is_cancelled_before_it_has_begun(self, monkeypatch):
        start, goes_on, sent = asyncio.run_coroutine_threadsafe, threading.Event(), []

        def start_late_and_interrupt(coroutine, loop):
            loop.call_soon_threadsafe(goes_on.wait, SOON)
            start(coroutine, loop)
            raise KeyboardInterrupt

        def respond(request):
            sent.append(request.url.path)
            return _respond(request)

        own = httpx2.AsyncClient(transport=httpx2.MockTransport(respond))
        with create_sync_client().configure(rest("http://here").httpx(own)) as client:
            with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
                patched.setattr(asyncio, "run_coroutine_threadsafe", start_late_and_interrupt)
                client.service("first").find()
            goes_on.set()
            client.service("second").find()
        assert sent == ["/second"]

    def test_a_call_over_socketio(self, interrupt):
        with (
            ScriptedServer() as server,
            create_sync_client().configure(socketio(server.url)) as client,
        ):
            server.answers["create", "messages"] = SILENT
            client.open()
            interrupt(lambda: until(lambda: server.calls))
            with pytest.raises(KeyboardInterrupt):
                client.service("messages").create({})
            assert client.service("messages").get(1) is None

    def test_closing(self, interrupt):
        closing = threading.Event()

        class Slow(httpx2.AsyncClient):
            async def aclose(self):
                closing.set()
                await asyncio.sleep(SOON)

        connection = rest("http://here").httpx(Slow(transport=httpx2.MockTransport(_respond)))
        client = create_sync_client().configure(connection)
        client.service("items").find()
        interrupt(lambda: closing.wait(SOON))
        with pytest.raises(KeyboardInterrupt):
            client.close()
        assert threads_of_clients() == []

    def test_closing_before_it_waits(self, monkeypatch):
        start = asyncio.run_coroutine_threadsafe

        class Slow(httpx2.AsyncClient):
            async def aclose(self):
                await asyncio.sleep(SOON)

        def start_and_interrupt(coroutine, loop):
            start(coroutine, loop)
            raise KeyboardInterrupt

        connection = rest("http://here").httpx(Slow(transport=httpx2.MockTransport(_respond)))
        client = create_sync_client().configure(connection)
        client.service("items").find()
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(asyncio, "run_coroutine_threadsafe", start_and_interrupt)
            client.close()
        assert threads_of_clients() == []


def _respond(request):
    return httpx2.Response(200, json=[request.url.path])


class TestThreads:
    def test_many_call_at_once(self, blocking):
        found = []

        def find(n):
            found.append(client.service(f"items-{n % 3}").find())

        with raw_server(*[answer([1])] * 40) as server, client_of(blocking, server) as client:
            threads = [threading.Thread(target=find, args=[n]) for n in range(40)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(SOON)
        assert found == [[1]] * 40

    @pytest.mark.parametrize("library", ["httpx", "aiohttp"])
    def test_a_call_of_another_thread_ends_when_the_client_is_closed(self, library):
        caught = []

        def find():
            with pytest.raises(errors.Unavailable, match=r"/items failed: ") as raised:
                client.service("items").find()
            caught.append(raised.value)

        with raw_server(STALL) as server:
            client = create_sync_client().configure(getattr(rest(server.url), library)())
            thread = threading.Thread(target=find)
            thread.start()
            assert server.stalled.wait(SOON)
            client.close()
            thread.join(SOON)
        assert len(caught) == 1

    def test_what_hangs_is_cancelled_when_the_client_is_closed(self):
        has_begun, caught = threading.Event(), []

        async def hang(url, **_):
            has_begun.set()
            await asyncio.sleep(SOON)

        def find():
            with pytest.raises(errors.Unavailable, match="the client was closed") as raised:
                client.service("items").find()
            caught.append(raised.value)

        client = create_sync_client().configure(rest("http://here").fetch(hang))
        thread = threading.Thread(target=find)
        thread.start()
        assert has_begun.wait(SOON)
        client.close()
        thread.join(SOON)
        assert len(caught) == 1

    def test_its_own_loop_cannot_wait_for_it(self):
        async def fetch(url, **_):
            return client.service("others").find()

        connection = rest("http://here").fetch(fetch)
        refused = pytest.raises(RuntimeError, match="called in its own event loop")
        with create_sync_client().configure(connection) as client, refused:
            client.service("items").find()

    async def test_another_loop_may_be_running(self, blocking):
        with raw_server(answer([1])) as server, client_of(blocking, server) as client:
            assert client.service("items").find() == [1]

    def test_hooks_run_in_the_thread_that_calls_and_may_call(self):
        seen = []

        def hook(context):
            if context.path == "items":
                seen.append((threading.current_thread(), client.service("others").find()))

        with (
            raw_server(answer([1]), answer([2])) as server,
            create_sync_client().configure(rest(server.url).httpx()) as client,
        ):
            client.hooks(before=[hook])
            assert client.service("items").find() == [2]
        assert seen == [(threading.current_thread(), [1])]

    def test_the_context_of_the_caller_is_there(self):
        from contextvars import ContextVar

        variable = ContextVar("variable", default=0)
        seen = []

        async def hook(request):
            seen.append(variable.get())

        own = httpx2.AsyncClient(
            transport=httpx2.MockTransport(_respond), event_hooks={"request": [hook]}
        )
        with create_sync_client().configure(rest("http://here").httpx(own)) as client:
            variable.set(5)
            client.service("items").find()
        assert seen == [5]


class TestErrors:
    def test_their_traceback_shows_both_sides(self):
        async def fetch(url, **_):
            raise ZeroDivisionError

        connection = rest("http://here").fetch(fetch)
        failing = pytest.raises(ZeroDivisionError)
        with create_sync_client().configure(connection) as client, failing as caught:
            client.service("items").find()
        names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert names[0] == "test_their_traceback_shows_both_sides"
        assert names[-1] == "fetch"

    def test_an_exit_ends_the_call_and_the_next_one_works(self):
        async def fetch(url, **_):
            if url.endswith("exit"):
                raise SystemExit(3)
            return await respond()

        async def respond():
            return httpx2.Response(200)  # it has no `bytes`

        with create_sync_client().configure(rest("http://here").fetch(fetch)) as client:
            with pytest.raises(SystemExit):
                client.service("exit").find()
            until(lambda: not threads_of_clients())
            with pytest.raises(AttributeError):
                client.service("items").find()

    @pytest.mark.parametrize("closes", [True, False])
    def test_an_exit_leaves_nothing_to_close(self, closes):
        async def fetch(url, **_):
            raise SystemExit(3)

        client = create_sync_client().configure(rest("http://here").fetch(fetch))
        with pytest.raises(SystemExit):
            client.service("exit").find()
        until(lambda: not threads_of_clients())
        if closes:
            client.close()
        del client
        gc.collect()


class TestApplicationsInTheSameProcess:
    def test_are_called_without_a_network(self):
        app = express(App())
        app.use(json())
        app.configure(serve_rest())
        app.use("messages", MemoryService(start_id=1))
        app.use(error_handler(logger=False))
        own = httpx2.AsyncClient(transport=httpx2.ASGITransport(app))
        with create_sync_client().configure(rest("http://app").httpx(own)) as client:
            messages = client.service("messages")
            assert messages.create({"text": "Hi"}) == {"id": 1, "text": "Hi"}
            with pytest.raises(errors.NotFound):
                messages.get(2)


class TestTheEnd:
    def test_the_next_call_begins_again(self, blocking):
        with raw_server(answer([1]), answer([2])) as server:
            client = client_of(blocking, server)
            assert client.service("items").find() == [1]
            client.close()
            assert threads_of_clients() == []
            assert client.service("items").find() == [2]
            client.close()
            client.close()
        assert threads_of_clients() == []

    @pytest.mark.parametrize("library", ["httpx", "aiohttp"])
    def test_a_client_that_nobody_has_any_more_leaves_nothing(self, library):
        with raw_server(answer([1])) as server:
            client = create_sync_client().configure(getattr(rest(server.url), library)())
            client.service("items").find()
            assert len(threads_of_clients()) == 1
            del client
            gc.collect()
            until(lambda: not threads_of_clients())

    @pytest.mark.parametrize("library", ["fetch", "httpx", "aiohttp"])
    @pytest.mark.parametrize("closes", [True, False])
    def test_a_program_ends_without_a_word(self, library, closes):
        with raw_server(answer([1])) as server:
            code = (
                "from alula.client import create_sync_client, rest\n"
                f"client = create_sync_client().configure(rest({server.url!r}).{library}())\n"
                "assert client.service('items').find() == [1]\n" + "client.close()\n" * closes
            )
            assert outcome(code, *(STRICT if closes else ())) == (0, "", "")

    def test_a_program_with_an_open_connection_ends_too(self):
        with ScriptedServer() as server:
            code = (
                "from alula.client import create_sync_client, socketio\n"
                f"client = create_sync_client().configure(socketio({server.url!r}))\n"
                "client.service('messages').on('created', print)\n"
                "client.open()\n"
            )
            assert outcome(code) == (0, "", "")


def outcome(code, *flags):
    command = [sys.executable, *flags, "-c", code]
    ended = subprocess.run(
        command, cwd=BESIDE, capture_output=True, text=True, timeout=SOON * 2, check=False
    )
    return ended.returncode, ended.stdout, ended.stderr


FORKS = """
import os
from alula.client import create_sync_client, rest

client = create_sync_client().configure(rest({url!r}).{library}())
items = client.service("items")
assert items.find() == [1]
child = os.fork()
if not child:
    assert items.find() == [2]
    client.close()
    os._exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
assert items.find() == [3]
client.close()
"""
FORKS_WITH_LISTENERS = """
import os, queue
from alula.client import create_sync_client, socketio

client = create_sync_client().configure(socketio({url!r}))
heard = queue.Queue()
client.on("connect", heard.put)
client.open()
heard.get(timeout=30)
child = os.fork()
if not child:
    assert not client.connection.is_connected
    assert client.service("messages").find() is None
    heard.get(timeout=30)
    client.close()
    os._exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
assert client.connection.is_connected
assert client.service("messages").find() is None
client.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
class TestForks:
    @pytest.mark.parametrize("library", ["fetch", "httpx", "aiohttp"])
    def test_a_child_has_connections_of_its_own(self, library):
        with raw_server(answer([1]), answer([2]), answer([3])) as server:
            code = FORKS.format(url=server.url, library=library)
            assert outcome(code, *MAY_FORK) == (0, "", "")
            assert server.connections == 2

    def test_a_child_has_listeners_of_its_own(self):
        with ScriptedServer() as server:
            code = FORKS_WITH_LISTENERS.format(url=server.url)
            assert outcome(code, *MAY_FORK) == (0, "", "")
            assert len(server.joins) == 2
