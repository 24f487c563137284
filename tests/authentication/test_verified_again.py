"""Calls whose access token was verified before: what is remembered, and what each call checks."""

from __future__ import annotations

import sys
import time
from copy import deepcopy

import pytest
from tests.authentication.building import OTHER_SECRET, SECRET, add_authentication, make_app

from alula import UNSET, App, Params
from alula._user_code import callback_frames, place_of
from alula.adapters.memory import MemoryService
from alula.authentication import (
    AuthenticationService,
    AuthenticationStrategy,
    Extension,
    JWTStrategy,
    _hooks,
    authenticate,
)
from alula.authentication._access_tokens import Tokens
from alula.errors import Forbidden, NotAuthenticated, NotFound


class Notes:
    """Answers who is calling."""

    async def get(self, id, params):
        return {name: params.get(name) for name in ("user", "authentication", "authenticated")}


@pytest.fixture
def long_ways(monkeypatch):
    """The names of the strategies of each call that took the long way."""
    calls, identify = [], _hooks.identify

    def noted(service, params, strategies):
        calls.append(strategies)
        return identify(service, params, strategies)

    monkeypatch.setattr(_hooks, "identify", noted)
    return calls


@pytest.fixture
async def app(long_ways):
    return await started(make_app())


async def started(app, hook=None):
    users = app.service("users").service
    if isinstance(users, MemoryService):
        users.reset([{"id": 1, "email": "ada@example.com", "password": "hash"}])
    app.use("notes", Notes())
    app.service("notes").hooks(around=[hook or authenticate("jwt")])
    await app.setup()
    return app


def service_of(app):
    return app.service("authentication").service


def token_for(app, **claims):
    return service_of(app).create_access_token(claims, "1")


def read(app, token, **given):
    credentials = {"strategy": "jwt", "accessToken": token}
    return app.service("notes").get(1, provider="rest", authentication=credentials, **given)


async def is_short(app, token, long_ways):
    """Tell whether a call with a token that was verified takes the short way."""
    await read(app, token)
    await read(app, token)
    before = len(long_ways)
    await read(app, token)
    return len(long_ways) == before


async def test_later_calls_are_like_the_first(app, long_ways):
    token = token_for(app, role="admin")
    answers = [await read(app, token) for _ in range(4)]
    assert answers[0] == answers[1] == answers[3]
    assert answers[0]["user"] == {"id": 1, "email": "ada@example.com"}
    assert answers[0]["authenticated"] is True
    authentication = answers[0]["authentication"]
    assert (authentication["strategy"], authentication["accessToken"]) == ("jwt", token)
    assert authentication["payload"]["role"] == "admin"
    assert len(long_ways) == 1
    other = token_for(app)
    await read(app, other)  # its signature is verified
    assert len(long_ways) == 2


async def test_the_check_counts_for_its_service_alone(app):
    token, seen = token_for(app), []
    app.service("notes").hooks(before=[lambda context: seen.append(context.params)])
    for _ in range(2):
        await read(app, token)
    assert [params.authenticated_by for params in seen] == [service_of(app)] * 2


@pytest.mark.parametrize("claims", [{}, {"roles": ["admin"]}])
async def test_what_hooks_change_is_new_in_the_next_call(app, claims):
    def change(context):
        context.params.user["email"] = context.params.user["added"] = "changed"
        payload = context.params.authentication["payload"]
        payload["sub"] = "2"
        payload.setdefault("roles", []).append("root")
        context.params.authentication["strategy"] = "changed"

    def note(context):
        seen.append(deepcopy((context.params.user, context.params.authentication)))

    seen = []
    app.service("notes").hooks(before=[note], after=[change])
    token = token_for(app, **claims)
    for _ in range(4):
        await read(app, token)
    assert seen == seen[:1] * 4
    assert (await app.service("users").get(1))["email"] == "ada@example.com"


async def test_a_token_expires(app, monkeypatch):
    now = time.time()
    token = token_for(app, exp=int(now) + 60)
    for _ in range(3):
        await read(app, token)
    monkeypatch.setattr(time, "time", lambda: now + 61)
    with pytest.raises(NotAuthenticated, match="jwt expired"):
        await read(app, token)
    assert service_of(app).tokens.verified == {}


async def test_a_token_that_begins_later_is_looked_at_each_time(app, monkeypatch, long_ways):
    now = time.time()
    token = token_for(app, nbf=int(now) - 10)
    assert not await is_short(app, token, long_ways)
    monkeypatch.setattr(time, "time", lambda: now - 100)
    with pytest.raises(NotAuthenticated, match="jwt not active"):
        await read(app, token)


async def test_the_user_is_as_stored_now(app, long_ways):
    token, users = token_for(app), app.service("users")
    assert await is_short(app, token, long_ways)
    await users.patch(1, {"email": "new@example.com"})
    assert (await read(app, token))["user"]["email"] == "new@example.com"
    await users.remove(1)
    with pytest.raises(NotAuthenticated, match="does not exist"):
        await read(app, token)
    assert service_of(app).tokens.verified == {}


async def test_hooks_of_the_users_run_from_their_registration_on(app, long_ways):
    token, seen = token_for(app), []
    assert await is_short(app, token, long_ways)

    def look(context):
        seen.append(context.params.get("ip"))
        if gone:
            raise NotAuthenticated("No longer")
        context.result["email"] = "hooked"

    gone = False
    app.service("users").hooks(after={"get": [look]})
    before = len(long_ways)
    assert (await read(app, token, ip="192.0.2.1"))["user"]["email"] == "hooked"
    await read(app, token)
    assert len(long_ways) == before  # the token needs no other check
    assert seen == ["192.0.2.1", None]
    gone = True
    with pytest.raises(NotAuthenticated, match="No longer"):
        await read(app, token)
    assert service_of(app).tokens.verified == {}
    assert len(seen) == 3  # the hook has run once


async def test_a_user_who_is_away_for_a_moment(long_ways):
    class Users:
        ignores_caller = True
        id = "id"

        async def get(self, id, params):
            if answers.pop() is None:
                raise NotFound("Not now")
            return {"id": 1}

    app, answers = await started(make_app(Users())), [1] * 5
    token = token_for(app)
    assert await is_short(app, token, long_ways)
    answers[:] = [1, None]
    assert (await read(app, token))["user"] == {"id": 1}
    answers[:] = [None, None]
    with pytest.raises(NotAuthenticated, match="does not exist"):
        await read(app, token)
    assert service_of(app).tokens.verified == {}


async def test_another_service_of_users_counts_from_its_registration_on(app, long_ways):
    token = token_for(app)
    assert await is_short(app, token, long_ways)
    await app.unuse("users")
    with pytest.raises(LookupError, match="register the service of the users"):
        await read(app, token)
    app.use("users", MemoryService([{"id": 1, "email": "other@example.com"}]))
    assert (await read(app, token))["user"]["email"] == "other@example.com"


async def test_users_of_another_kind(long_ways):
    class Users:
        ignores_caller = True
        id = "id"

        async def get(self, id, params):
            return answer

    app = await started(make_app(Users()))
    token, answer = token_for(app), "no record"
    assert await is_short(app, token, long_ways)
    assert (await read(app, token))["user"] == "no record"
    answer = UNSET
    with pytest.raises(RuntimeError, match="UNSET"):
        await read(app, token)


@pytest.mark.parametrize("fields", [(), ("email", "secret")])
async def test_any_number_of_hidden_fields(fields, long_ways):
    class Keys(AuthenticationStrategy):
        secret_fields = fields

    app = make_app(strategies=["jwt"])
    service_of(app).register("keys", Keys())
    await started(app)
    token = token_for(app)
    assert await is_short(app, token, long_ways)
    record = {"id": 1, "email": "ada@example.com", "password": "hash"}
    expected = {name: value for name, value in record.items() if name not in fields}
    assert (await read(app, token))["user"] == expected


class TestExtensions:
    async def test_those_that_check_tokens_check_each(self, long_ways):
        class Blocked(Extension):
            async def check_token(self, payload, entity, params):
                seen.append((payload["sub"], entity["password"], params.provider))
                if error is not None:
                    raise error

        seen, error = [], None
        app = await started(make_app(extensions=[Blocked()]))
        token = token_for(app)
        assert await is_short(app, token, long_ways)
        assert seen == [("1", "hash", "rest")] * 3
        assert len(service_of(app).tokens.verified) == 1
        error = NotFound("Nothing")
        with pytest.raises(NotFound, match="Nothing"):
            await read(app, token)
        assert len(service_of(app).tokens.verified) == 1
        error = NotAuthenticated("Blocked")
        with pytest.raises(NotAuthenticated, match="Blocked"):
            await read(app, token)
        assert service_of(app).tokens.verified == {}
        assert len(seen) == 5

    async def test_one_that_is_added_later(self, app, long_ways):
        class Blocked(Extension):
            async def check_token(self, payload, entity, params):
                raise NotAuthenticated("Blocked")

        token = token_for(app)
        assert await is_short(app, token, long_ways)
        service_of(app).extensions.append(Extension())
        assert await is_short(app, token, long_ways)
        blocked = Blocked()
        service_of(app).extensions.append(blocked)
        with pytest.raises(NotAuthenticated, match="Blocked"):
            await read(app, token)
        service_of(app).extensions.remove(blocked)
        assert await is_short(app, token, long_ways)

    async def test_one_whose_object_gets_another_method(self, long_ways):
        async def refuse(payload, entity, params):
            if refuses:
                raise NotAuthenticated("Refused")

        refuses, extension = True, Extension()
        app = await started(make_app(extensions=[extension]))
        token = token_for(app)
        assert await is_short(app, token, long_ways)
        extension.check_token = refuse
        with pytest.raises(NotAuthenticated, match="Refused"):
            await read(app, token)
        refuses = False
        assert not await is_short(app, token, long_ways)
        service_of(app).decide_again()
        assert not await is_short(app, token, long_ways)


class TestTheService:
    async def test_a_strategy_that_takes_the_place_of_the_built_in_one(self, app, long_ways):
        class Refusing(JWTStrategy):
            async def authenticate(self, authentication, params):
                raise NotAuthenticated("Refused")

        token = token_for(app)
        assert await is_short(app, token, long_ways)
        service_of(app).register("jwt", Refusing())
        with pytest.raises(NotAuthenticated, match="Refused"):
            await read(app, token)
        service_of(app).register("jwt", JWTStrategy())
        assert await is_short(app, token, long_ways)

    @pytest.mark.parametrize("name", ["authenticate", "authenticate_without"])
    async def test_a_method_of_one_strategy(self, app, name, long_ways):
        async def refuse(*_):
            raise NotAuthenticated("Refused")

        token, strategy = token_for(app), service_of(app).strategy("jwt")
        assert await is_short(app, token, long_ways)
        strategy.note = "an attribute of its own"
        assert await is_short(app, token, long_ways)
        setattr(strategy, name, refuse)
        with pytest.raises(NotAuthenticated, match="Refused"):
            await read(app, token)

    async def test_methods_of_one_service(self, app, long_ways):
        def refuse(*_):
            raise NotAuthenticated("Refused")

        token, service = token_for(app), service_of(app)
        for name in ("verify_access_token", "authenticate"):
            assert await is_short(app, token, long_ways)
            setattr(service, name, refuse)
            with pytest.raises(NotAuthenticated, match="Refused"):
                await read(app, token)
            delattr(service, name)

    async def test_another_secret(self, app, long_ways):
        token, service = token_for(app), service_of(app)
        assert await is_short(app, token, long_ways)
        service.tokens = Tokens(OTHER_SECRET)
        with pytest.raises(NotAuthenticated, match="invalid signature"):
            await read(app, token)
        assert await is_short(app, token_for(app), long_ways)
        del service.tokens  # made again, with the secret of the service
        assert await is_short(app, token, long_ways)

    async def test_subclasses_that_do_it_differently(self, long_ways):
        class Verifying(AuthenticationService):
            def verify_access_token(self, token):
                return super().verify_access_token(token)

        class Rotating(AuthenticationService):
            @property
            def tokens(self):
                return self.__dict__.setdefault("now", Tokens(SECRET))

        class Naming(AuthenticationService):
            """Has a name of its own."""

        for kind, short in ((Verifying, False), (Rotating, False), (Naming, True)):
            app = App().use("users", MemoryService())
            app.use("authentication", kind(app, secret=SECRET))
            await started(app)
            assert await is_short(app, token_for(app), long_ways) is short

    async def test_tokens_or_users_that_do_it_differently(self, app, long_ways):
        async def get(id, params):
            return {"id": id, "name": "made up"}

        token, service = token_for(app), service_of(app)
        service.tokens.verify = service.tokens.verify
        assert not await is_short(app, token, long_ways)
        del service.tokens
        service.entities.get = get
        assert not await is_short(app, token, long_ways)
        assert (await read(app, token))["user"] == {"id": "1", "name": "made up"}

    async def test_tokens_without_users(self, long_ways):
        app = await started(make_app(entity=None, strategies=["jwt"]))
        token = token_for(app)
        assert not await is_short(app, token, long_ways)
        assert (await read(app, token))["user"] is None

    async def test_the_default_is_another_one(self, app, long_ways):
        token = token_for(app)
        assert await is_short(app, token, long_ways)
        app.use("admins", MemoryService([{"id": 1, "name": "root"}]))
        add_authentication(app, "admin-login", service="admins", secret=OTHER_SECRET)
        app.set("authentication", "admin-login")
        with pytest.raises(NotAuthenticated, match="invalid signature"):
            await read(app, token)
        admin = app.service("admin-login").service.create_access_token({}, "1")
        assert await is_short(app, admin, long_ways)
        app.set("authentication", "authentication")
        assert await is_short(app, token, long_ways)
        await app.unuse("authentication")
        with pytest.raises(LookupError, match="no authentication service"):
            await read(app, token)

    async def test_a_path_of_its_own(self, long_ways):
        app = make_app()
        app.use("admins", MemoryService([{"id": 1, "name": "root"}]))
        add_authentication(app, "admin-login", service="admins", secret=OTHER_SECRET)
        await started(app, authenticate(service="admin-login", strategies=["jwt"]))
        admin = app.service("admin-login").service.create_access_token({}, "1")
        assert await is_short(app, admin, long_ways)
        assert (await read(app, admin))["user"] == {"id": 1, "name": "root"}
        with pytest.raises(NotAuthenticated, match="invalid signature"):
            await read(app, token_for(app))

    async def test_that_of_another_application(self, app, long_ways):
        outer = App().use("api", app).use("notes", Notes())
        outer.set("authentication", "api/authentication")
        outer.service("notes").hooks(around=[authenticate("jwt")])
        token = token_for(app)
        assert await is_short(app, token, long_ways)
        assert not await is_short(outer, token, long_ways)
        assert (await read(outer, token))["user"]["id"] == 1

    async def test_before_the_setup(self, long_ways):
        app = make_app(MemoryService([{"id": 1}]))
        app.use("notes", Notes()).service("notes").hooks(around=[authenticate("jwt")])
        token = token_for(app)
        assert not await is_short(app, token, long_ways)
        await app.setup()
        assert await is_short(app, token, long_ways)

    async def test_one_that_is_known_by_its_methods_alone(self, long_ways):
        class Door:
            entity = "user"

            async def create(self, data, params):
                return {}

            async def authenticate(self, authentication, params, *strategies):
                return {"authentication": authentication, "user": {"id": 7}}

        app = App().use("authentication", Door()).use("notes", Notes())
        app.set("authentication", "authentication")
        app.service("notes").hooks(around=[authenticate("jwt")])
        assert not await is_short(app, "any", long_ways)
        assert (await read(app, "any"))["user"] == {"id": 7}


class TestTheCall:
    @pytest.mark.parametrize(
        ("credentials", "message"),
        [
            ({"strategy": "jwt"}, "No access token"),
            ({"strategy": "jwt", "accessToken": None}, "No access token"),
            ({"strategy": "jwt", "accessToken": ["x"]}, "jwt must be a string"),
            ({"strategy": "jwt", "accessToken": "\ud800"}, "jwt malformed"),
            ({"accessToken": "x"}, "no `strategy` set"),
            ({"strategy": "local", "accessToken": "x"}, "strategy not allowed"),
            (["jwt"], "no `strategy` set"),
            ("jwt", "no `strategy` set"),
            (7, "no `strategy` set"),
            ({}, "no `strategy` set"),
            (None, "Not authenticated"),
        ],
    )
    async def test_any_other_credentials(self, app, credentials, message, long_ways):
        assert await is_short(app, token_for(app), long_ways)
        params = Params(provider="rest")
        params.authentication = credentials
        with pytest.raises(NotAuthenticated, match=message):
            await app.service("notes").get(1, params)

    async def test_a_strategy_that_is_not_allowed_helps_no_token(self, app, long_ways):
        service_of(app).register("other", JWTStrategy())
        token = token_for(app)
        assert await is_short(app, token, long_ways)
        credentials = {"strategy": "other", "accessToken": token}
        with pytest.raises(NotAuthenticated, match="strategy not allowed"):
            await app.service("notes").get(1, provider="rest", authentication=credentials)

    async def test_internal_calls_pass(self, app, long_ways):
        assert await is_short(app, token_for(app), long_ways)
        assert (await app.service("notes").get(1))["user"] is None

    async def test_what_was_checked_is_not_checked_again(self, app, long_ways):
        def rename(context):
            context.params.user["email"] = "renamed"

        async def renaming(context, next):
            rename(context)
            await next()

        app.service("notes").hooks(around=[renaming, authenticate("jwt")])
        token = token_for(app)
        for _ in range(3):
            assert (await read(app, token))["user"]["email"] == "renamed"

    async def test_the_connection_of_a_refused_token_is_signed_out(self, app, monkeypatch):
        token, refused = token_for(app), []
        for _ in range(2):
            await read(app, token)
        connections = service_of(app).connections
        monkeypatch.setattr(connections, "refused", lambda *args: refused.append(args))
        await app.service("users").remove(1)
        with pytest.raises(NotAuthenticated):
            await read(app, token)
        assert refused == [(None, token)]

    async def test_an_error_of_the_method_is_not_of_the_check(self, app, long_ways):
        async def get(id, params):
            raise NotFound("No such note")

        token = token_for(app)
        assert await is_short(app, token, long_ways)
        app.use("others", type("Others", (), {"get": staticmethod(get)})())
        app.service("others").hooks(around=[authenticate("jwt")])
        credentials = {"strategy": "jwt", "accessToken": token}
        for _ in range(2):
            with pytest.raises(NotFound, match="No such note"):
                await app.service("others").get(1, provider="rest", authentication=credentials)

    async def test_a_check_that_blocks_the_loop_is_named(self):
        class Looking(Extension):
            async def check_token(self, payload, entity, params):
                frames = callback_frames(sys._getframe())
                whats.append([place_of(frames[at:]).what for at in range(len(frames))])

        whats = []
        app = await started(make_app(extensions=[Looking()]))
        token = token_for(app)
        for _ in range(2):
            await read(app, token)
        for each in whats:
            assert any("authenticate(...) of service 'notes'" in (what or "") for what in each)


async def test_one_hook_of_two_applications(long_ways):
    hook = authenticate("jwt")
    first, second = [
        await started(make_app(secret=secret), hook) for secret in (SECRET, OTHER_SECRET)
    ]
    for app, other in ((first, second), (second, first)):
        assert await is_short(app, token_for(app), long_ways)
        with pytest.raises(NotAuthenticated, match="invalid signature"):
            await read(other, token_for(app))


async def test_hooks_behind_it_may_refuse(app, long_ways):
    def refuse(context):
        raise Forbidden("Not you")

    token = token_for(app)
    assert await is_short(app, token, long_ways)
    app.service("notes").hooks(before=[refuse])
    for _ in range(2):
        with pytest.raises(Forbidden, match="Not you"):
            await read(app, token)
