"""The synchronous client: the same surface, driven from the same code."""

from __future__ import annotations

import asyncio
import inspect
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.client.raw_server import answer, raw_server

from alula import errors
from alula.client import (
    Client,
    ClientService,
    SyncClient,
    SyncService,
    authentication,
    create_sync_client,
    rest,
)
from alula.client._send_options import SendOptions
from alula.client._transport import AsyncTransport, BlockingTransport, run_sync


def client_of(server, **options):
    return create_sync_client().configure(rest(server.url).fetch(options=options))


def names_of(owner):
    return {name for name in dir(owner) if not name.startswith("_")}


class TestTheSurface:
    @pytest.mark.parametrize(
        ("waiting", "blocking"), [(Client, SyncClient), (ClientService, SyncService)]
    )
    def test_what_is_called_alike_takes_the_same(self, waiting, blocking):
        for name in names_of(waiting) & names_of(blocking):
            one, other = getattr(waiting, name), getattr(blocking, name)
            if inspect.isfunction(one) and inspect.isfunction(other):
                of_one, of_other = (
                    list(inspect.signature(each).parameters) for each in (one, other)
                )
                assert of_one == of_other, name
                assert not inspect.iscoroutinefunction(other)

    def test_a_client_has_what_the_other_has(self):
        only_waiting = {"around", "before", "after", "error", "compose_hooks", "hook_methods"}
        only_waiting |= {
            "hook_table",
            "connect",
            "wait_for_listeners",
            "has_listeners",
            "synchronous",
            "services",
        }
        assert names_of(Client) - names_of(SyncClient) <= only_waiting

    def test_a_service_passes_on_what_it_has_not(self):
        client = create_sync_client().configure(rest("http://here").fetch())
        messages = client.service("messages")
        assert repr(messages) == "service 'messages'"
        assert messages.path == "messages"
        assert messages.hooks == messages.handle.hooks
        with pytest.raises(AttributeError, match="has no method `archive`"):
            messages.archive({})
        with pytest.raises(AttributeError):
            messages._hidden  # noqa: B018  # reading it is the test
        with pytest.raises(AttributeError):
            SyncService.__new__(SyncService).handle  # noqa: B018  # reading it is the test

    def test_one_path_is_one_service(self):
        client = create_sync_client().configure(rest("http://here").fetch())
        assert client.service("messages") is client.service("/messages/", dict)

    def test_custom_methods_are_functions_of_their_name(self):
        client = create_sync_client().configure(rest("http://here").fetch())
        archive = client.service("messages", methods=["archive"]).archive
        assert archive.__name__ == "archive"
        assert archive.__qualname__ == "SyncService.archive"
        assert archive.__doc__ == "Call the custom method `archive` with ``(data, params)``."

    def test_settings_hooks_and_events(self):
        heard = []
        with raw_server(answer({"id": 1})) as server, client_of(server) as client:
            assert client.set("a", 1) is client
            assert (client.get("a"), client.settings) == (1, {"a": 1})
            assert client.rest.base == server.url
            client.hooks(after=[lambda context: heard.append(context.method)])
            client.service("items").on("created", lambda data, _: heard.append(data))
            client.on("ready", heard.append)
            assert client.emit("ready", 1)
            client.off("ready", heard.append)
            assert not client.emit("ready", 2)
            client.service("items").create({})
        assert heard == [1, "create", {"id": 1}]

    def test_another_server(self):
        with (
            raw_server(answer([1])) as server,
            raw_server(answer([2])) as other,
            client_of(server) as client,
        ):
            client.use("there", rest(other.url).fetch().service("items"))
            assert client.service("items").find() == [1]
            assert client.service("there").find() == [2]


class TestWhatDoesNotWait:
    async def test_it_works_where_a_loop_is_running(self):
        with raw_server(answer([1])) as server, client_of(server) as client:
            assert client.service("items").find() == [1]

    def test_hooks_may_be_coroutine_functions_that_do_not_wait(self):
        async def hook(context):
            context.params.query["a"] = 1

        with raw_server(answer([1])) as server, client_of(server) as client:
            client.hooks(before=[hook])
            client.service("items").find()
            assert b"GET /items?a=1 " in server.requests[0]

    def test_hooks_that_wait_are_refused(self):
        async def hook(context):
            await asyncio.sleep(1)

        client = create_sync_client().configure(rest("http://here").fetch())
        client.hooks(before=[hook])
        with pytest.raises(RuntimeError, match="write its hooks as plain functions"):
            asyncio.run(_in_a_loop(client))

    def test_what_a_coroutine_raises_or_returns_comes_out(self):
        async def fails():
            raise errors.Gone("over")

        async def works():
            return 5

        assert run_sync(works()) == 5
        with pytest.raises(errors.Gone):
            run_sync(fails())

    def test_a_listener_may_be_called_once(self):
        seen = []
        with (
            raw_server(answer({"id": 1}), answer({"id": 2})) as server,
            client_of(server) as client,
        ):
            client.service("items").once("created", lambda item, _: seen.append(item["id"]))
            client.once("ready", seen.append)
            client.service("items").create({})
            client.service("items").create({})
            client.emit("ready", "now")
            client.emit("ready", "again")
        assert seen == [1, "now"]

    def test_iteration_may_be_left_early(self):
        page = {"total": 4, "limit": 2, "skip": 0, "data": [1, 2]}
        with raw_server(answer(page)) as server, client_of(server) as client:
            assert next(client.service("items").iterate()) == 1

    def test_signing_in_needs_its_plugin(self):
        client = create_sync_client()
        with pytest.raises(RuntimeError, match="this client does not sign in"):
            client.login(strategy="local")
        client.configure(authentication())
        with pytest.raises(errors.NotAuthenticated, match="no access token in the storage"):
            client.re_authenticate()


async def _in_a_loop(client):
    client.service("items").find()


async def test_transports_say_what_a_subclass_must_do():
    for call in (AsyncTransport().send, BlockingTransport().send):
        with pytest.raises(NotImplementedError):
            await call(None, SendOptions())
    await AsyncTransport().close()
    await BlockingTransport().close()


class Slow(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"[]")

    def log_message(self, *_):
        """Stay silent."""


def test_threads_may_share_a_client():
    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        found = []
        with create_sync_client().configure(rest(url).fetch()) as client:
            items = client.service("items")
            threads = [
                threading.Thread(target=lambda: found.append(items.find())) for _ in range(40)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        server.shutdown()
        serving.join()
    assert found == [[]] * 40
