"""Base URLs, options, and what binds a connection to a client."""

from __future__ import annotations

import asyncio
import math
import sys
from types import ModuleType, SimpleNamespace

import aiohttp
import httpx2
import pytest
from tests.client.faking import FakeFetch, faked
from tests.client.kinds import KINDS, settled
from tests.client.raw_server import answer, raw_server

from alula import Params, errors
from alula.client import RestService, create_client, create_sync_client, rest
from alula.client._connection import Options, read_options
from alula.client._retries import Retries


class TestBaseURLs:
    @pytest.mark.parametrize(
        ("base", "name", "url"),
        [
            ("http://here", "api/v1/messages", "http://here/api/v1/messages"),
            ("http://here/", "/messages/", "http://here/messages"),
            ("https://here:3030/api/v1", "messages", "https://here:3030/api/v1/messages"),
            ("http://here/api//", "messages", "http://here/api/messages"),
        ],
    )
    async def test_services_stand_below_it(self, base, name, url):
        fetch = FakeFetch([])
        client = create_client().configure(rest(base).fetch(fetch))
        await client.service(name).find()
        assert fetch.urls == [url]

    @pytest.mark.parametrize("base", [None, "", "here", "/api", "ftp://here", "http://"])
    def test_outside_a_browser_it_is_needed(self, base):
        with pytest.raises(ValueError, match="a base URL is needed"):
            rest(base)

    @pytest.mark.parametrize("base", ["http://here?a=1", "http://here/#x", "http://u:pw@here"])
    def test_what_it_cannot_have(self, base):
        with pytest.raises(ValueError, match="no query, no fragment and no user") as caught:
            rest(base)
        assert "pw" not in str(caught.value)


class TestInABrowser:
    @pytest.fixture
    def page(self, monkeypatch):
        fetch = FakeFetch([1])
        fetch.aborted = []

        class Controller:
            signal = "the signal"

            def abort(self):
                fetch.aborted.append(self)

        location = SimpleNamespace(origin="https://page")
        modules = {
            "js": SimpleNamespace(
                location=location, AbortController=SimpleNamespace(new=Controller)
            ),
            "pyodide": ModuleType("pyodide"),
            "pyodide.http": SimpleNamespace(pyfetch=fetch),
        }
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setattr(sys, "platform", "emscripten")
        return fetch

    @pytest.mark.parametrize(
        ("base", "url"),
        [
            (None, "https://page/items"),
            ("/api", "https://page/api/items"),
            ("https://else", "https://else/items"),
        ],
    )
    async def test_the_server_of_the_page_is_meant(self, page, base, url):
        client = create_client().configure(rest(base).fetch())
        assert await client.service("items").find() == [1]
        assert page.urls == [url]
        assert page.calls[0][1]["signal"] == "the signal"
        assert page.aborted == []

    async def test_a_call_that_is_given_up_gives_its_request_up(self, page):
        client = create_client().configure(rest().fetch())
        call = asyncio.create_task(client.service("items").find())
        await asyncio.sleep(0)
        assert len(page.calls) == 1
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert len(page.aborted) == 1

    async def test_a_function_of_ones_own_comes_first(self, page):
        own = FakeFetch([2])
        client = create_client().configure(rest().fetch(own))
        assert await client.service("items").find() == [2]
        assert page.calls == []

    def test_nothing_blocks_there(self, page):
        with pytest.raises(TypeError, match="would block the browser"):
            create_sync_client().configure(rest().fetch())


class TestOptions:
    def test_defaults(self):
        assert read_options(None) == Options({}, 60.0, 100 * 1024 * 1024, Retries(0))

    def test_as_they_are_given(self):
        given = {"headers": {"A": "b"}, "timeout": None, "max_response_size": 5, "retries": 2}
        assert read_options(given) == Options({"A": "b"}, None, 5, Retries(2))

    def test_a_name_that_is_not_known(self):
        with pytest.raises(ValueError, match=r"options: header, tries; .*headers"):
            read_options({"tries": 1, "header": {}})

    @pytest.mark.parametrize("seconds", [0, -1, "5", True, math.nan, math.inf, 2_000_001])
    async def test_a_timeout_that_is_none(self, seconds):
        with pytest.raises(ValueError, match="timeout is a number of seconds"):
            read_options({"timeout": seconds})
        client, fetch = faked()
        with pytest.raises(ValueError, match="timeout is a number of seconds"):
            await client.service("x").find(connection={"timeout": seconds})
        assert fetch.calls == []

    @pytest.mark.parametrize("size", [0, -1, 1.5, None, "5"])
    def test_a_size_that_is_none(self, size):
        with pytest.raises(ValueError, match="max_response_size is a number of bytes"):
            read_options({"max_response_size": size})

    async def test_params_connection_is_a_mapping(self):
        client, _ = faked()
        with pytest.raises(TypeError, match=r"params.connection is \['x'\]; give a mapping"):
            await client.service("x").find(connection=["x"])
        with pytest.raises(TypeError, match=r"signal 5; .*AbortController"):
            await client.service("x").find(connection={"signal": 5})


class TestFetchFunctions:
    async def test_they_get_what_the_browser_s_gets(self):
        client, fetch = faked()
        await client.service("x").create({"a": "ü"}, connection={"credentials": "include"})
        url, given = fetch.calls[0]
        assert url == "http://here/api/x"
        assert given == {
            "method": "POST",
            "headers": {
                "Accept": "application/json, text/event-stream;q=0.9",
                "Content-Type": "application/json",
            },
            "body": '{"a":"ü"}',
            "credentials": "include",
        }

    async def test_without_a_body_there_is_none(self):
        client, fetch = faked()
        await client.service("x").find()
        assert "body" not in fetch.calls[0][1]

    async def test_header_names_are_read_in_any_case(self):
        client, _ = faked((503, b"<p>", {"Content-Type": "text/html"}))
        with pytest.raises(errors.Unavailable, match="503 with text/html"):
            await client.service("x").find()

    async def test_their_failures_are_of_the_family(self):
        client, _ = faked(OSError("no route"))
        with pytest.raises(errors.Unavailable, match="http://here/api/x failed: no route"):
            await client.service("x").find()

    async def test_their_limits_of_time_are_too(self):
        client, _ = faked(TimeoutError())
        with pytest.raises(errors.Timeout, match="http://here/api/x took too long"):
            await client.service("x").find()

    async def test_the_built_in_one_knows_few_options(self, kind):
        if kind.library != "fetch":
            pytest.skip("other libraries get theirs")
        async with kind.client("http://127.0.0.1:9") as client:
            with pytest.raises(TypeError, match=r"params\.connection has cache, mode"):
                await settled(client.service("x").find(connection={"cache": 1, "mode": 2}))

    def test_a_function_serves_a_client_that_blocks(self):
        with create_sync_client().configure(rest("http://here").fetch(FakeFetch([1]))) as client:
            assert client.service("x").find() == [1]


class TestLibraries:
    async def test_a_client_of_ones_own_stays_open(self):
        with raw_server(answer([1]), answer([2])) as server:
            async with httpx2.AsyncClient(headers={"x-own": "yes"}, trust_env=False) as own:
                async with create_client().configure(rest(server.url).httpx(own)) as client:
                    assert await client.service("x").find() == [1]
                assert not own.is_closed
                assert (await own.get(server.url)).json() == [2]
            assert b"x-own: yes" in server.requests[0]

    async def test_a_session_of_ones_own_stays_open(self):
        with raw_server(answer([1])) as server:
            async with aiohttp.ClientSession(headers={"x-own": "yes"}) as own:
                async with create_client().configure(rest(server.url).aiohttp(own)) as client:
                    assert await client.service("x").find() == [1]
                assert not own.closed
            assert b"x-own: yes" in server.requests[0]

    async def test_a_session_of_ones_own_sends_a_removal_once(self):
        with raw_server("close", answer([1])) as server:
            async with aiohttp.ClientSession() as own:
                client = create_client().configure(rest(server.url).aiohttp(own))
                with pytest.raises(errors.Unavailable):
                    await client.service("x").remove(1)
            assert len(server.requests) == 1

    async def test_middlewares_of_a_call_run(self):
        seen = []

        async def note(request, handler):
            seen.append(request.method)
            return await handler(request)

        with raw_server(answer([1])) as server:
            async with create_client().configure(rest(server.url).aiohttp()) as client:
                await client.service("x").find(connection={"middlewares": [note]})
        assert seen == ["GET"]

    def test_a_blocking_client_of_ones_own_stays_open(self):
        with raw_server(answer([1])) as server, httpx2.Client(trust_env=False) as own:
            with create_sync_client().configure(rest(server.url).httpx(own)) as client:
                assert client.service("x").find() == [1]
            assert not own.is_closed

    async def test_a_timeout_of_ones_own_client_counts(self):
        with raw_server("stall") as server:
            async with httpx2.AsyncClient(timeout=0.1, trust_env=False) as own:
                client = create_client().configure(rest(server.url).httpx(own))
                with pytest.raises(errors.Timeout, match="/x took too long"):
                    await client.service("x").find()

    async def test_a_timeout_of_ones_own_session_counts(self):
        with raw_server("stall") as server:
            limit = aiohttp.ClientTimeout(sock_read=0.1)
            async with aiohttp.ClientSession(timeout=limit) as own:
                client = create_client().configure(rest(server.url).aiohttp(own))
                with pytest.raises(errors.Timeout, match="/x took too long"):
                    await client.service("x").find()

    def test_what_is_no_client(self):
        with pytest.raises(TypeError, match=r"httpx\(client\) takes an httpx2.AsyncClient"):
            create_client().configure(rest("http://here").httpx("x"))
        with pytest.raises(TypeError, match=r"takes an httpx2.Client or httpx2.AsyncClient here"):
            create_sync_client().configure(rest("http://here").httpx("x"))
        with httpx2.Client() as own, pytest.raises(TypeError, match=r"takes an httpx2.AsyncClient"):
            create_client().configure(rest("http://here").httpx(own))
        with pytest.raises(TypeError, match=r"takes an aiohttp.ClientSession"):
            create_client().configure(rest("http://here").aiohttp("x"))

    def test_a_session_belongs_to_another_loop_than_that_of_a_client_that_blocks(self):
        with pytest.raises(TypeError, match=r"give none: aiohttp\(\)"):
            create_sync_client().configure(rest("http://here").aiohttp("a session"))

    def test_a_client_that_blocks_closes_the_asynchronous_one_of_the_user(self):
        own = httpx2.AsyncClient(headers={"x-own": "yes"}, trust_env=False)
        with raw_server(answer([1]), answer([2])) as server:
            with create_sync_client().configure(rest(server.url).httpx(own)) as client:
                assert [client.service("x").find() for _ in range(2)] == [[1], [2]]
            assert b"x-own: yes" in server.requests[0]
        assert own.is_closed

    @pytest.mark.parametrize("library", ["httpx", "aiohttp"])
    def test_what_is_missing_is_named(self, library, monkeypatch):
        package = "httpx2" if library == "httpx" else "aiohttp"
        monkeypatch.setitem(sys.modules, package, None)
        monkeypatch.delitem(sys.modules, f"alula.client._{library}", raising=False)
        with pytest.raises(ImportError, match=rf"needs {package}.*pip install 'alula\[{library}\]"):
            getattr(rest("http://here"), library)()


class TestBinding:
    def test_one_connection_serves_one_kind_of_client(self):
        connection = rest("http://here").fetch()
        create_client().configure(connection)
        create_client().configure(connection)
        with pytest.raises(TypeError, match="connection to http://here serves"):
            create_sync_client().configure(connection)

    async def test_unbound_it_waits(self):
        connection = rest("http://here").fetch(FakeFetch([1]))
        await connection.close()
        assert await connection.service("x").find(Params()) == [1]

    @pytest.mark.parametrize("kind", KINDS, ids=str)
    async def test_closing_what_was_never_used(self, kind):
        async with kind.client("http://here") as client:
            assert repr(client) == "the client of http://here"

    async def test_a_service_class_of_ones_own(self):
        class Loud(RestService):
            async def find(self, params):
                return [f"{each}!" for each in await super().find(params)]

        client, _ = faked(["a"], service_class=Loud)
        assert await client.service("x").find() == ["a!"]


async def test_an_answer_of_a_fetch_function_may_be_too_large():
    client, _ = faked("x" * 98, max_response_size=100)
    assert await client.service("x").find() == "x" * 98
    client, _ = faked("x" * 99, max_response_size=100)
    with pytest.raises(errors.BadGateway, match="larger than 100 bytes"):
        await client.service("x").find()


@pytest.mark.parametrize("create", [create_client, create_sync_client])
async def test_a_server_alone_means_fetch(create):
    client = create().configure(rest("http://here/api"))
    assert client.rest.base == "http://here/api"
    assert repr(rest("http://here/api/")) == "rest('http://here/api')"
    with pytest.raises(RuntimeError, match="a client has one"):
        client.configure(rest("http://there"))
    closing = client.close()
    if closing is not None:
        await closing


async def test_a_server_alone_sends():
    with raw_server(answer([1, 2])) as server:
        async with create_client().configure(rest(server.url)) as client:
            assert await client.service("items").find() == [1, 2]
