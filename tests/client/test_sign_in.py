"""Signing in: the token, its storage, and to whom it is sent."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.faking import FakeFetch, faked

from alula import errors
from alula.client import authentication, create_client, rest

SOON = 10.0
ANSWER = {"accessToken": "t0ken", "authentication": {"strategy": "local"}, "user": {"id": 1}}


def refused(kind, message="no"):
    error = kind(message)
    return error.code, error.to_dict(), {}


def client_of(*answers, **options):
    client, fetch = faked(*answers)
    return client.configure(authentication(**options)), fetch


def headers_of(fetch, at=-1):
    return fetch.calls[at][1]["headers"]


class TestLogin:
    async def test_the_token_goes_along_from_then_on(self):
        client, fetch = client_of(ANSWER, [])
        heard = []
        client.on("login", heard.append)
        assert not client.authentication.authenticated
        assert await client.login({"strategy": "local"}, email="a@b.c") == ANSWER
        assert fetch.calls[0][0] == "http://here/api/authentication"
        assert fetch.calls[0][1]["body"] == '{"strategy":"local","email":"a@b.c"}'
        assert "Authorization" not in headers_of(fetch)
        assert client.authentication.authenticated
        assert client.authentication.result == ANSWER
        assert client.authentication.storage == {"alula-jwt": "t0ken"}
        assert heard == [ANSWER]
        await client.service("messages").find()
        assert headers_of(fetch)["Authorization"] == "Bearer t0ken"

    async def test_headers_of_a_call_win(self):
        client, fetch = client_of(storage={"alula-jwt": "t0ken"})
        await client.service("messages").find(headers={"authorization": "mine"})
        sent = headers_of(fetch)
        assert sent.pop("Accept").startswith("application/json")
        assert sent == {"authorization": "mine"}

    async def test_with_other_words(self):
        options = {"path": "/sign-in", "storage_key": "k", "header": "X-Auth", "scheme": "JWT"}
        client, fetch = client_of(ANSWER, ANSWER, [], jwt_strategy="token", **options)
        await client.login(strategy="local")
        assert fetch.urls == ["http://here/api/sign-in"]
        assert client.authentication.storage == {"k": "t0ken"}
        await client.re_authenticate(force=True)
        assert fetch.calls[1][1]["body"] == '{"strategy":"token","accessToken":"t0ken"}'
        await client.service("messages").find()
        assert headers_of(fetch)["X-Auth"] == "JWT t0ken"

    @pytest.mark.parametrize(
        ("kind", "kept"),
        [
            (errors.NotAuthenticated, False),
            (errors.Forbidden, False),
            (errors.NotAcceptable, False),
            (errors.BadRequest, True),
            (errors.Timeout, True),
            (errors.Unavailable, True),
        ],
    )
    async def test_a_failure_ends_what_was_there(self, kind, kept):
        client, _ = client_of(ANSWER, refused(kind))
        await client.login(strategy="local")
        with pytest.raises(kind):
            await client.login(strategy="local")
        assert not client.authentication.authenticated
        assert (client.authentication.access_token == "t0ken") is kept

    async def test_calls_that_begin_meanwhile_wait(self):
        client, fetch = client_of(ANSWER, [])
        login = asyncio.create_task(client.login(strategy="local"))
        find = asyncio.create_task(client.service("messages").find())
        await asyncio.gather(login, find)
        assert headers_of(fetch)["Authorization"] == "Bearer t0ken"

    @pytest.mark.parametrize("answer", [{"id": 1}, None, [], "x", {"accessToken": None}])
    async def test_an_answer_without_a_token(self, answer):
        client, _ = client_of(ANSWER, answer)
        await client.login(strategy="local")
        with pytest.raises(errors.BadGateway, match="of 'authentication' has no `accessToken`; gi"):
            await client.login(strategy="local")
        assert not client.authentication.authenticated
        assert client.authentication.access_token == "t0ken"

    async def test_without_the_plugin(self):
        client = create_client()
        for call in (client.login(), client.re_authenticate(), client.logout()):
            with pytest.raises(RuntimeError, match="does not sign in; configure it"):
                await call


class TestHooksOfASignIn:
    async def test_their_calls_do_not_wait_for_it(self):
        client, fetch = client_of(ANSWER)

        async def ask(context):
            await asyncio.gather(client.service("settings").find())

        client.service("authentication").hooks(before={"create": [ask]})
        async with asyncio.timeout(SOON):
            assert await client.login(strategy="local") == ANSWER
        assert fetch.urls == ["http://here/api/settings", "http://here/api/authentication"]

    @pytest.mark.parametrize("method", ["login", "re_authenticate"])
    async def test_they_cannot_sign_in_again(self, method):
        client, _ = client_of(refused(errors.NotAuthenticated), storage={"alula-jwt": "old"})

        async def again(context):
            await getattr(client, method)()

        client.hooks(error=[again])
        async with asyncio.timeout(SOON):
            with pytest.raises(RuntimeError, match="leave out the path 'authentication'"):
                await client.login(strategy="local")

    async def test_listeners_may(self):
        client, fetch = client_of(ANSWER)

        async def again(answer):
            client.off("login")
            await client.re_authenticate(force=True)

        client.on("login", again)
        async with asyncio.timeout(SOON):
            await client.login(strategy="local")
            await client.close()  # it waits for listeners
        assert len(fetch.calls) == 2


class TestReAuthenticate:
    async def test_with_what_is_stored(self):
        client, fetch = client_of(ANSWER, storage={"alula-jwt": "old"})
        assert await client.re_authenticate() == ANSWER
        assert fetch.calls[0][1]["body"] == '{"strategy":"jwt","accessToken":"old"}'
        assert client.authentication.access_token == "t0ken"

    async def test_asks_once(self):
        client, fetch = client_of(ANSWER, storage={"alula-jwt": "old"})
        both = await asyncio.gather(client.re_authenticate(), client.re_authenticate())
        assert both == [ANSWER, ANSWER]
        assert len(fetch.calls) == 1
        await client.re_authenticate(force=True)
        assert len(fetch.calls) == 2

    async def test_with_nothing_stored(self):
        client, fetch = client_of(ANSWER)
        with pytest.raises(errors.NotAuthenticated, match="no access token in the storage"):
            await client.re_authenticate()
        assert fetch.calls == []


class TestLogout:
    async def test_forgets(self):
        client, fetch = client_of(ANSWER, {"user": {"id": 1}}, [])
        heard = []
        client.on("logout", heard.append)
        await client.login(strategy="local")
        assert await client.logout() == {"user": {"id": 1}}
        assert fetch.calls[1][1]["method"] == "DELETE"
        assert headers_of(fetch)["Authorization"] == "Bearer t0ken"
        assert heard == [{"user": {"id": 1}}]
        assert (client.authentication.result, client.authentication.storage) == (None, {})
        await client.service("messages").find()
        assert "Authorization" not in headers_of(fetch)

    async def test_with_a_token_that_is_no_longer_good(self):
        client, _ = client_of(refused(errors.NotAuthenticated), storage={"alula-jwt": "old"})
        assert await client.logout() is None
        assert client.authentication.access_token is None

    async def test_of_a_server_that_is_away(self):
        client, _ = client_of(refused(errors.Unavailable), storage={"alula-jwt": "old"})
        with pytest.raises(errors.Unavailable):
            await client.logout()
        assert client.authentication.access_token == "old"


class TestWhoGetsTheToken:
    async def test_no_other_server(self):
        client, _ = client_of(storage={"alula-jwt": "t0ken"})
        there = FakeFetch([])
        client.use("there", rest("http://there").fetch(there).service("x"))
        await client.service("there").find()
        assert "Authorization" not in headers_of(there)

    async def test_no_service_of_this_program(self):
        class Local:
            async def find(self, params):
                return dict(params.headers)

        client, _ = client_of(storage={"alula-jwt": "t0ken"})
        client.use("local", Local())
        assert await client.service("local").find() == {}
