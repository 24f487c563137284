"""Signing in a user whom the application has checked, and passwords that keep a session."""

from __future__ import annotations

import pytest
from tests.authentication.building import add_authentication, add_user, login, make_app
from tests.authentication.connecting import call as call_over
from tests.authentication.connecting import open_connection
from tests.authentication.test_token_cookies import CSRF, OWN, REFRESH, TOKEN, Browser
from tests.express.asgi_client import post_json

from alula import App, Params
from alula.adapters.memory import MemoryService
from alula.authentication import Extension, TokenCookie, authenticate, hash_password, protect
from alula.errors import Forbidden, NotAuthenticated
from alula.express import express, rest
from alula.express import json as json_body

EVE = {"email": "eve@example.com", "password": "of Eve alone"}


class SignUp:
    """A sign-up that returns a token; the hook below signs in."""

    secret_events = True

    def __init__(self, app):
        self.app = app

    async def create(self, data, params):
        return await self.app.service("users").create(data, params.copy(query={}))


async def sign_in_at_once(context):
    service = context.app.service("authentication").service
    context.result = await service.sign_in(context.result, context.params, http=context.http)


async def make(**options):
    app = express(App()).use(json_body()).configure(rest())
    app.use("users", MemoryService(start_id=1, unique=["email"]))
    app.use("sessions", MemoryService(), methods=[])
    add_authentication(app, **{"sessions": "sessions", **options})
    hashes = [hash_password("password")]
    app.service("users").hooks(
        around=[protect("password")],
        before={
            "create": hashes,
            "patch": [authenticate("jwt"), *hashes],
            "update": [authenticate("jwt"), *hashes],
            "remove": [authenticate("jwt")],
        },
    )
    app.use("sign-up", SignUp(app))
    app.service("sign-up").hooks(after={"create": [sign_in_at_once]})
    app.use("notes", MemoryService([{"id": 1}]))
    app.service("notes").hooks(around=[authenticate("jwt")])
    await app.setup()
    return app


def as_client(answer, **more):
    credentials = {"strategy": "jwt", "accessToken": answer["accessToken"]}
    return {"provider": "rest", "authentication": credentials, **more}


async def is_signed_in(app, answer):
    try:
        await app.service("notes").get(1, as_client(answer))
    except NotAuthenticated:
        return False
    return True


class TestSignUp:
    async def test_it_returns_a_token(self):
        app, told = await make(), []
        app.on("login", lambda result, params, context: told.append(result["user"]["email"]))
        answer = await post_json(app, EVE, "/sign-up")
        assert answer.status == 201
        made = answer.json
        assert made.keys() == {"accessToken", "refreshToken", "authentication", "user"}
        assert made["user"] == {"id": 1, "email": EVE["email"]}
        assert (made["authentication"]["strategy"], told) == ("application", [EVE["email"]])
        assert await is_signed_in(app, made)
        refresh = {"strategy": "refresh", "refreshToken": made["refreshToken"]}
        assert (await post_json(app, refresh, "/authentication")).status == 201
        assert "set-cookie" not in dict(answer.headers)

    @pytest.mark.parametrize(
        ("given", "others"),
        [({}, ""), ({"Set-Cookie": "a=1"}, "a"), ({"Set-Cookie": ["a=1", "b=2"]}, "ab")],
    )
    async def test_it_sets_cookies(self, given, others):
        app = await make(cookie=TokenCookie(tokens_in_body=False))

        def set_others(context):
            context.http["headers"] = {**given, "X-Own": "yes"}

        app.service("sign-up").hooks(before={"create": [set_others]})
        browser = Browser(app)
        answer = await browser.ask("POST", "/sign-up", EVE)
        assert answer.json.keys() == {"authentication", "user", "csrfToken"}
        assert browser.cookies.keys() == {TOKEN, CSRF, REFRESH, *others}
        assert (answer.get("x-own"), answer.get("cache-control")) == ("yes", "no-store")
        assert (await browser.ask("GET", "/notes")).status == 200

    async def test_a_page_of_another_site_gets_no_cookies(self):
        app = await make(cookie=TokenCookie())
        browser = Browser(app)
        headers = {**OWN, "Origin": "https://evil.example"}
        answer = await browser.ask("POST", "/sign-up", EVE, headers)
        assert (answer.status, browser.cookies) == (201, {})

    async def test_cookies_are_not_lost(self):
        app = await make(cookie=TokenCookie())
        user = await app.service("users").create(EVE)
        service = app.service("authentication").service
        with pytest.raises(RuntimeError, match=r"http=context\.http"):
            await service.sign_in(user, Params(provider="rest"))
        assert (await service.sign_in(user, Params(provider="socketio")))["accessToken"]
        assert (await service.sign_in(user, Params()))["accessToken"]

    async def test_own_code_may_set_them_for_a_browser_that_has_proved_itself(self):
        app = await make(cookie=TokenCookie())
        service = app.service("authentication").service
        user = await app.service("users").create(EVE)

        async def call_back(req, res):
            params = Params(provider="rest", headers=req.headers)
            result = await service.sign_in(user, params, http={})
            for line in service.token_cookies.lines_for(result):
                res.append("Set-Cookie", line)
            res.redirect("/")

        app.get("/callback", call_back)
        browser = Browser(app)
        from_elsewhere = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        assert (await browser.ask("GET", "/callback", None, from_elsewhere)).status == 302
        assert browser.cookies.keys() == {TOKEN, CSRF, REFRESH}
        assert (await browser.ask("GET", "/notes")).status == 200
        assert (await browser.ask("POST", "/notes", {}, OWN)).status == 403
        with_token = {**OWN, "X-CSRF-Token": browser.cookies[CSRF]}
        assert (await browser.ask("POST", "/notes", {}, with_token)).status == 201
        assert service.token_cookies.lines_for({"user": user}) == []

    @pytest.mark.parametrize("methods", [["otp"], ("hwk", "user"), []])
    async def test_it_says_how_the_user_has_proved_it(self, methods):
        app = await make()
        user = await app.service("users").create(EVE)
        service = app.service("authentication").service
        result = await service.sign_in(user, Params(), methods=methods)
        assert result["authentication"]["payload"].get("amr", []) == [*methods]

    async def test_methods_are_a_list(self):
        service = (await make()).service("authentication").service
        with pytest.raises(TypeError, match=r"methods is a list of texts: \['otp'\]"):
            await service.sign_in({"id": 1}, Params(), methods="otp")

    @pytest.mark.parametrize("strategy", ["github", "local"])
    async def test_it_names_the_strategy_and_calls_none(self, strategy):
        app, seen = await make(), []

        class Look(Extension):
            async def after_success(self, attempt):
                seen.append(attempt.strategy)

        service = app.service("authentication").service
        service.extensions.append(Look())
        user = await app.service("users").create(EVE)
        result = await service.sign_in(user, Params(), strategy=strategy)
        assert (result["authentication"]["strategy"], seen) == (strategy, [None])

    async def test_a_session_can_go_on(self):
        app = await make()
        eve = await app.service("users").create(EVE)
        service = app.service("authentication").service
        first = await service.sign_in(eve, Params(), methods=["pwd"])
        session_id = first["authentication"]["payload"]["sid"]
        again = await service.sign_in(eve, Params(), methods=["otp"], session_id=session_id)
        payload = again["authentication"]["payload"]
        assert (payload["sid"], payload["amr"]) == (session_id, ["pwd"])
        assert again["refreshToken"] == first["refreshToken"]
        assert len(await app.service("sessions").find()) == 1
        bob = await app.service("users").create({**EVE, "email": "bob@example.com"})
        for user, ended in ((bob, session_id), (eve, "another")):
            with pytest.raises(NotAuthenticated, match="session has ended"):
                await service.sign_in(user, Params(), session_id=ended)

    async def test_a_session_needs_sessions(self):
        app = await make(sessions=None)
        user = await app.service("users").create(EVE)
        service = app.service("authentication").service
        with pytest.raises(RuntimeError, match="has no sessions"):
            await service.sign_in(user, Params(), session_id="x")

    async def test_it_signs_a_connection_in(self):
        app = await make()
        connection = open_connection(app)
        made = await call_over(connection, app, "sign-up", "create", None, EVE)
        assert connection.user["email"] == made["user"]["email"] == EVE["email"]

    async def test_guesses_are_not_forgiven_and_it_costs_none(self):
        app = await make(throttle={"tries": 2})
        user = await app.service("users").create(EVE)
        service = app.service("authentication").service
        for _ in range(5):
            await service.sign_in(user, Params(provider="rest", ip="192.0.2.1"))
        wrong = login(EVE["email"], "wrong")
        answers = []
        for _ in range(3):
            answers.append((await post_json(app, wrong, "/authentication")).status)
            await service.sign_in(user, Params(provider="rest", ip="192.0.2.7"))
        assert answers == [401, 401, 429]


class TestWhoMay:
    @pytest.mark.parametrize("more", [{}, {"user_id": 1}, {"user": {"id": 1}}])
    async def test_clients_cannot(self, more):
        app = await make()
        await app.service("users").create(EVE)
        answer = await post_json(app, {"strategy": "application", **more}, "/authentication")
        assert answer.status == 401
        credentials = {"strategy": "application", **more}
        with pytest.raises(NotAuthenticated):
            await app.service("notes").get(1, {"provider": "rest", "authentication": credentials})

    async def test_hooks_of_sign_ins_decide(self):
        app = await make()

        def refuse(context):
            raise Forbidden("not today")

        app.service("authentication").hooks(before={"create": [refuse]})
        assert (await post_json(app, EVE, "/sign-up")).status == 403
        assert await app.service("sessions").find() == []

    async def test_a_hook_that_copies_the_credentials_lets_nobody_in(self):
        app = await make()

        def copy(context):
            context.data = {**context.data}

        app.service("authentication").hooks(before={"create": [copy]})
        assert (await post_json(app, EVE, "/sign-up")).status == 401

    async def test_a_user_who_is_gone_cannot(self):
        app = await make()
        user = await app.service("users").create(EVE)
        await app.service("users").remove(user["id"])
        service = app.service("authentication").service
        with pytest.raises(NotAuthenticated):
            await service.sign_in(user, Params())
        with pytest.raises(TypeError, match="this one has no 'id'"):
            await service.sign_in({"email": EVE["email"]}, Params())

    @pytest.mark.parametrize("change", ["patch", "remove"])
    async def test_a_password_that_changes_meanwhile_ends_it(self, change):
        app = await make()
        users = app.service("users")
        user = await users.create(EVE)
        sessions = app.service("sessions").service
        create = sessions.create

        async def change_first(data, params):
            if change == "patch":
                await users.patch(user["id"], {"password": "another one"})
            else:
                await users.remove(user["id"])
            return await create(data, params)

        @app.service("sessions").around("create")
        async def create_late(context, next):
            context.result = await change_first(context.data, context.params)

        with pytest.raises(NotAuthenticated):
            await app.service("authentication").service.sign_in(user, Params())
        assert await app.service("sessions").find() == []

    async def test_a_service_that_is_not_ready_says_so(self):
        service = make_app().service("authentication").service
        with pytest.raises(RuntimeError, match="after the setup"):
            await service.sign_in({"id": 1}, Params())
        app = make_app(entity=None, strategies=["jwt"])
        await app.setup()
        with pytest.raises(RuntimeError, match="has users"):
            await app.service("authentication").service.sign_in({"id": 1}, Params())

    async def test_without_sessions_there_is_an_access_token(self):
        app = make_app()
        user = await add_user(app)
        await app.setup()
        answer = await app.service("authentication").service.sign_in(user, Params())
        assert answer.keys() == {"accessToken", "authentication", "user"}


class TestANewPassword:
    @pytest.fixture
    async def app(self):
        app = await make()

        def keep(context):
            if context.params.provider is not None:
                context.params.keeps_session = True

        app.service("users").before("patch", "update", "remove")(keep)
        return app

    async def sign_in_twice(self, app):
        await app.service("users").create(EVE)
        sign_in = login(EVE["email"], EVE["password"])
        authentication = app.service("authentication")
        return [await authentication.create(sign_in, provider="rest") for _ in range(2)]

    @pytest.mark.parametrize("method", ["patch", "update"])
    async def test_keeps_the_session_of_the_caller(self, app, method):
        own, other = await self.sign_in_twice(app)
        data = {"email": EVE["email"], "password": "another one"}
        await app.service("users").call(method, 1, data, as_client(own))
        assert [await is_signed_in(app, answer) for answer in (own, other)] == [True, False]
        with pytest.raises(NotAuthenticated):
            await app.service("authentication").create(
                {"strategy": "refresh", "refreshToken": other["refreshToken"]}
            )

    async def test_by_the_application_ends_all(self, app):
        answers = await self.sign_in_twice(app)
        await app.service("users").patch(1, {"password": "another one"})
        assert [await is_signed_in(app, answer) for answer in answers] == [False, False]

    async def test_of_another_user_ends_all_of_theirs(self, app):
        answers = await self.sign_in_twice(app)
        admin = {"email": "admin@example.com", "password": "of the admin"}
        admin = (await post_json(app, admin, "/sign-up")).json
        await app.service("users").patch(1, {"password": "another one"}, as_client(admin))
        signed_in = [await is_signed_in(app, answer) for answer in (*answers, admin)]
        assert signed_in == [False, False, True]

    async def test_a_removal_keeps_nothing(self, app):
        answers = await self.sign_in_twice(app)
        await app.service("users").remove(1, as_client(answers[0]))
        assert await app.service("sessions").find() == []

    async def test_without_a_session_it_is_a_mistake_of_the_server(self, app):
        await self.sign_in_twice(app)
        given = {"keeps_session": True}
        with pytest.raises(RuntimeError, match="set it behind"):
            await app.service("users").patch(1, {"password": "another one"}, given)
        assert len(await app.service("sessions").find()) == 2
