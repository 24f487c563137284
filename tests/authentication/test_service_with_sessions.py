"""Sign-in, renewal and sign-out with sessions, as clients of the service see them."""

from __future__ import annotations

import logging
import time

import pytest
from tests.authentication.building import Clock
from tests.express.asgi_client import call

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import (
    AuthenticationService,
    AuthenticationStrategy,
    JWTStrategy,
    authenticate,
    hash_password,
)
from alula.authentication._attempt import current_attempt
from alula.authentication._local_strategy import LocalStrategy
from alula.authentication._passwords import Passwords
from alula.errors import BadRequest, NotAuthenticated, TooManyRequests
from alula.express import express, json, rest

SECRET = "a secret of the tests, which is long enough"
ADA = {"strategy": "local", "email": "ada@example.com", "password": "correct horse"}
QUICK = {"time_cost": 1, "memory_cost": 8, "parallelism": 1, "least_floor": 0.0}


async def make_app(app=None, **options):
    app = App() if app is None else app
    service = AuthenticationService(app, secret=SECRET, **options)
    service.register("local", LocalStrategy(passwords=Passwords(**QUICK)))
    app.use("authentication", service)
    app.use("users", MemoryService(start_id=1))
    app.use("sessions", MemoryService(), methods=[])
    app.use("secrets", MemoryService([{"id": 1}]))
    app.service("users").hooks(before={method: [hash_password("password")] for method in WRITES})
    app.service("secrets").hooks(around=[authenticate("jwt")])
    await app.setup()
    await app.service("users").create({"email": ADA["email"], "password": ADA["password"]})
    return app


WRITES = ("create", "update", "patch")


@pytest.fixture
async def app():
    return await make_app(sessions="sessions")


def outside(**params):
    return {"provider": "rest", "ip": "192.0.2.1", **params}


async def sign_in(app, data=ADA, **params):
    return await app.service("authentication").create(data, outside(**params))


async def renew(app, answer):
    return await sign_in(app, {"strategy": "refresh", "refreshToken": answer["refreshToken"]})


def proof_of(answer):
    return {"strategy": "jwt", "accessToken": answer["accessToken"]}


async def sign_out(app, answer, **params):
    params = outside(authentication=proof_of(answer), **params)
    return await app.service("authentication").remove(None, params)


async def is_good(app, answer):
    """Tell whether an access token opens what is protected."""
    try:
        await app.service("secrets").get(1, outside(authentication=proof_of(answer)))
    except NotAuthenticated:
        return False
    return True


async def test_a_sign_in_brings_a_refresh_token_and_a_short_access_token(app):
    answer = await sign_in(app)
    assert list(answer) == ["accessToken", "refreshToken", "authentication", "user"]
    payload = answer["authentication"]["payload"]
    assert payload["exp"] - payload["iat"] == 900
    assert payload["sid"]
    assert answer["user"] == {"email": ADA["email"], "id": 1}
    assert await is_good(app, answer)


async def test_without_sessions_nothing_is_different():
    app = await make_app()
    answer = await sign_in(app)
    assert list(answer) == ["accessToken", "authentication", "user"]
    payload = answer["authentication"]["payload"]
    assert payload["exp"] - payload["iat"] == 86_400
    assert "sid" not in payload
    with pytest.raises(NotAuthenticated, match="not allowed"):
        await sign_in(app, {"strategy": "refresh", "refreshToken": "any"})


async def test_a_lifetime_that_is_given_counts_with_sessions_too():
    app = await make_app(sessions={"service": "sessions", "lifetime": "7d"}, expires_in="5m")
    payload = (await sign_in(app))["authentication"]["payload"]
    assert payload["exp"] - payload["iat"] == 300
    (record,) = await app.service("sessions").find()
    assert record["expiresAt"] - record["createdAt"] == 7 * 86_400_000


async def test_a_token_ends_with_its_session():
    clock = Clock()
    app = await make_app(
        sessions={"service": "sessions", "now": clock, "lifetime": 600, "absolute": 800}
    )
    clock.time = began_at = int(time.time())
    answer = await sign_in(app)
    assert answer["authentication"]["payload"]["exp"] == began_at + 600
    clock.time += 500
    payload = (await renew(app, answer))["authentication"]["payload"]
    assert payload["exp"] == began_at + 800
    short = await sign_in(app, payload={"exp": began_at + 60})
    assert short["authentication"]["payload"]["exp"] == began_at + 60


async def test_tokens_say_when_and_how_the_user_signed_in():
    clock = Clock()
    app = await make_app(sessions={"service": "sessions", "now": clock})
    first = await sign_in(app)
    clock.time += 600.5
    second = await renew(app, first)
    for answer in (first, second):
        payload = answer["authentication"]["payload"]
        assert (payload["auth_time"], payload["amr"]) == (1_800_000_000, ["pwd"])
    clock.time += 1
    payload = (await sign_in(app))["authentication"]["payload"]
    assert payload["auth_time"] == 1_800_000_601


async def test_a_strategy_may_set_other_methods_for_one_attempt(app):
    class Badge(AuthenticationStrategy):
        methods = ("hwk",)

        async def authenticate(self, authentication, params):
            if authentication.get("pin"):
                current_attempt(self.authentication).methods = (*self.methods, "pin")
            return {"authentication": {"strategy": self.name}, "user": {"id": 1}}

    app.service("authentication").service.offer("badge", Badge(), signs_in=True)
    for more, methods in (({}, ["hwk"]), ({"pin": 1}, ["hwk", "pin"])):
        answer = await sign_in(app, {"strategy": "badge", **more})
        assert answer["authentication"]["payload"]["amr"] == methods
        assert (await renew(app, answer))["authentication"]["payload"]["amr"] == methods


async def test_sessions_of_an_earlier_version_have_no_methods(app):
    store = app.service("sessions").service._store
    for missing in (lambda record: record.pop("methods"), lambda record: record.update(methods="")):
        answer = await sign_in(app)
        missing(store[answer["authentication"]["payload"]["sid"]])
        payload = (await renew(app, answer))["authentication"]["payload"]
        assert "amr" not in payload
        assert payload["auth_time"] <= time.time()


async def test_a_store_that_refuses_sessions_is_a_mistake_of_the_server(app):
    def refuse(context):
        raise BadRequest("Invalid key methods in the data: there is no such field")

    app.service("sessions").hooks(before={"create": [refuse]})
    with pytest.raises(RuntimeError, match=r"'sessions' cannot store .* properties id, userId"):
        await sign_in(app)


async def test_a_refresh_token_brings_new_ones_of_the_same_session(app):
    first = await sign_in(app)
    second = await renew(app, first)
    assert list(second) == ["accessToken", "refreshToken", "authentication", "user"]
    assert second["authentication"]["strategy"] == "refresh"
    assert second["accessToken"] != first["accessToken"]
    assert second["refreshToken"] != first["refreshToken"]
    sids = {answer["authentication"]["payload"]["sid"] for answer in (first, second)}
    assert len(sids) == 1
    assert len(await app.service("sessions").find()) == 1
    assert await is_good(app, first)
    assert await is_good(app, second)


async def test_a_refresh_token_used_twice_ends_the_session(app, caplog):
    first = await sign_in(app)
    second = await renew(app, first)
    with caplog.at_level(logging.WARNING), pytest.raises(NotAuthenticated, match="has ended"):
        await renew(app, first)
    assert "used twice" in caplog.text
    assert not await is_good(app, first)
    assert not await is_good(app, second)
    with pytest.raises(NotAuthenticated):
        await renew(app, second)


@pytest.mark.parametrize("token", [None, 5, {"$ne": ""}, "x", "x" * 1_000_000])
async def test_what_is_no_refresh_token_is_refused(app, token):
    with pytest.raises(NotAuthenticated, match="Invalid refresh token"):
        await sign_in(app, {"strategy": "refresh", "refreshToken": token})


async def test_an_access_token_is_no_refresh_token_and_the_other_way_round(app):
    answer = await sign_in(app)
    swapped = {"accessToken": answer["refreshToken"], "refreshToken": answer["accessToken"]}
    assert not await is_good(app, swapped)
    with pytest.raises(NotAuthenticated):
        await renew(app, swapped)


async def test_a_client_that_knows_nothing_of_it_signs_in_again_with_its_token(app):
    answer = await sign_in(app)
    again = await sign_in(app, proof_of(answer))
    assert again["accessToken"] == answer["accessToken"]
    assert "refreshToken" not in again
    assert len(await app.service("sessions").find()) == 1


async def test_signing_out_ends_the_session_at_once(app):
    here, there = await sign_in(app), await sign_in(app)
    await sign_out(app, here)
    assert not await is_good(app, here)
    with pytest.raises(NotAuthenticated):
        await renew(app, here)
    with pytest.raises(NotAuthenticated):
        await sign_out(app, here)
    assert await is_good(app, there)


@pytest.mark.parametrize("everywhere", ["true", True])
async def test_signing_out_everywhere(app, everywhere):
    here, there = await sign_in(app), await sign_in(app)
    await app.service("users").create({"email": "bob@example.com", "password": "pw"})
    bob = await sign_in(app, {**ADA, "email": "bob@example.com", "password": "pw"})
    await sign_out(app, here, query={"everywhere": everywhere})
    assert not await is_good(app, here)
    assert not await is_good(app, there)
    assert await is_good(app, bob)


async def test_everywhere_needs_the_exact_value(app):
    here, there = await sign_in(app), await sign_in(app)
    await sign_out(app, here, query={"everywhere": "false"})
    assert await is_good(app, there)


@pytest.mark.parametrize("everywhere", [["true"], {"a": "true"}])
async def test_odd_values_of_everywhere_do_no_harm(app, everywhere):
    here, there = await sign_in(app), await sign_in(app)
    await sign_out(app, here, query={"everywhere": everywhere})
    assert not await is_good(app, here)
    assert await is_good(app, there)


@pytest.mark.parametrize("method", ["patch", "update"])
async def test_a_new_password_ends_all_sessions(app, method):
    answers = [await sign_in(app), await sign_in(app)]
    data = {"email": ADA["email"], "password": "another one"}
    await getattr(app.service("users"), method)(1, data)
    assert not any([await is_good(app, answer) for answer in answers])
    assert await is_good(app, await sign_in(app, {**ADA, "password": "another one"}))


async def test_a_hash_that_is_renewed_ends_no_session(app):
    answer = await sign_in(app)
    strong = {**QUICK, "time_cost": 2}
    service = app.service("authentication").service
    service.register("local", LocalStrategy(passwords=Passwords(**strong)))
    before = (await app.service("users").get(1))["password"]
    await sign_in(app)
    assert (await app.service("users").get(1))["password"] != before
    assert await is_good(app, answer)


async def test_a_user_who_is_removed_has_no_session_left(app):
    answer = await sign_in(app)
    await app.service("users").remove(1)
    assert await app.service("sessions").find() == []
    for attempt in (renew(app, answer), sign_in(app, proof_of(answer))):
        with pytest.raises(NotAuthenticated):
            await attempt


async def test_a_user_who_is_gone_otherwise_renews_nothing(app):
    answer = await sign_in(app)
    app.service("users").service.reset()  # past the hooks
    with pytest.raises(NotAuthenticated):
        await renew(app, answer)
    assert await app.service("sessions").find() == []


async def test_set_up_again_counts_sessions_once(app):
    await app.teardown()
    await app.setup()
    await sign_in(app)
    ended = []
    note = [lambda context: ended.append(context.params.query)]
    app.service("sessions").hooks(before={"remove": note})
    await app.service("users").patch(1, {"password": "new"})
    assert ended == [{"userId": "1"}] * 2  # before the change, and once more after it


async def test_a_proof_without_a_token_can_be_signed_out(app):
    class Door(JWTStrategy):
        async def authenticate(self, authentication, params):
            return {"authentication": {"strategy": self.name}, "user": {"id": 1}}

    service = app.service("authentication").service
    service.register("jwt", Door())
    answer = await sign_in(app)
    await app.service("authentication").remove(None, outside(authentication={"strategy": "jwt"}))
    assert len(await app.service("sessions").find()) == 1
    await sign_out(app, answer, query={"everywhere": "true"})
    assert await app.service("sessions").find() == []


async def test_a_strategy_that_confirms_nothing_begins_a_session_too(app):
    class Door(JWTStrategy):
        async def authenticate(self, authentication, params):
            return {"authentication": {"strategy": self.name}, "user": {"id": 1}}

    app.service("authentication").service.register("jwt", Door())
    answer = await sign_in(app, {"strategy": "jwt"})
    assert (await renew(app, answer))["user"] == {"email": ADA["email"], "id": 1}


async def test_sessions_need_users():
    app = App()
    app.use("sessions", MemoryService(), methods=[])
    service = AuthenticationService(
        app, secret=SECRET, entity=None, strategies=["jwt"], sessions="sessions"
    )
    app.use("authentication", service)
    with pytest.raises(ValueError, match="sessions need users"):
        await app.setup()


async def test_users_that_cannot_be_changed_can_have_sessions():
    class Users:
        id = "id"

        async def find(self, params):
            return []

        async def get(self, id, params):
            return {"id": id}

    app = App()
    app.use("users", Users())
    app.use("sessions", MemoryService(), methods=[])
    app.use("authentication", AuthenticationService(app, secret=SECRET, sessions="sessions"))
    await app.setup()


# -- throttle ----------------------------------------------------------------------------------


async def guess(app, number=1, **params):
    """Return how often a wrong password was looked at, out of some tries."""
    looked = 0
    for _ in range(number):
        try:
            await sign_in(app, {**ADA, "password": "wrong"}, **params)
        except NotAuthenticated:
            looked += 1
        except TooManyRequests:
            continue
    return looked


async def test_sign_in_is_throttled_by_default():
    app = await make_app()
    assert await guess(app, 20) == 10
    with pytest.raises(TooManyRequests, match="try again in 90 seconds"):
        await sign_in(app)
    assert (await sign_in(app, ip="192.0.2.2"))["user"]["id"] == 1


async def test_a_whole_address_is_throttled_by_default():
    app = await make_app()
    looked = 0
    for number in range(60):
        try:
            await sign_in(app, {**ADA, "email": f"{number}@example.com"})
        except NotAuthenticated:
            looked += 1
        except TooManyRequests:
            pass
    assert looked == 50


async def test_throttling_can_be_set_and_turned_off():
    assert await guess(await make_app(throttle={"tries": 3}), 5) == 3
    assert await guess(await make_app(throttle=False), 15) == 15
    assert (await make_app(throttle=False)).service("authentication").service.throttle is None


async def test_internal_calls_are_not_throttled():
    app = await make_app(throttle={"tries": 3})
    assert await guess(app, 10, provider=None) == 10


async def test_tokens_are_not_throttled(app):
    answer = await sign_in(app)
    for _ in range(60):
        for wrong in (
            {"strategy": "jwt", "accessToken": "wrong"},
            {"strategy": "refresh", "refreshToken": "wrong"},
            {"strategy": "none"},
            {"strategy": ["local"]},
            {},
            None,
        ):
            with pytest.raises(NotAuthenticated):
                await sign_in(app, wrong)
    assert (await renew(app, answer))["user"]["id"] == 1


async def test_a_user_name_that_is_none_costs_tries_of_the_address():
    app = await make_app(throttle={"per_address": 3})
    for email in (None, {"$ne": ""}, ["a"]):
        with pytest.raises(NotAuthenticated):
            await sign_in(app, {**ADA, "email": email})
    with pytest.raises(TooManyRequests):
        await sign_in(app)


async def test_what_the_server_failed_at_costs_no_try():
    app = await make_app(throttle={"tries": 3})
    broken = True

    def fail(context):
        if broken:
            raise OSError("the database is away")

    app.service("users").hooks(before={"find": [fail]})
    for _ in range(5):
        with pytest.raises(OSError, match="away"):
            await sign_in(app)
    broken = False
    assert (await sign_in(app))["user"]["id"] == 1


def test_an_unknown_option_is_an_error():
    for options in ({"throttle": {"trys": 3}}, {"sessions": {"service": "s", "lifetimes": 3}}):
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            AuthenticationService(App(), **options)


# -- signing out without an access token -------------------------------------------------------


def refresh_proof(answer):
    return {"strategy": "refresh", "refreshToken": answer["refreshToken"]}


async def sign_out_by_refresh(app, answer, **params):
    params = outside(authentication=refresh_proof(answer), **params)
    return await app.service("authentication").remove(None, params)


async def test_a_refresh_token_signs_out(app):
    here, there = await sign_in(app), await sign_in(app)
    answer = await sign_out_by_refresh(app, here)
    assert answer == {
        "authentication": {"strategy": "refresh"},
        "user": {"email": ADA["email"], "id": 1},
    }
    assert not await is_good(app, here)
    with pytest.raises(NotAuthenticated):
        await renew(app, here)
    with pytest.raises(NotAuthenticated):
        await sign_out_by_refresh(app, here)
    assert await is_good(app, there)


async def test_a_refresh_token_signs_out_everywhere(app):
    answers = [await sign_in(app), await sign_in(app)]
    await sign_out_by_refresh(app, answers[0], query={"everywhere": "true"})
    assert await app.service("sessions").find() == []


async def test_reuse_of_a_refresh_token_ends_the_session_of_its_successor(app):
    first = await sign_in(app)
    second = await renew(app, first)
    with pytest.raises(NotAuthenticated, match="has ended"):
        await sign_out_by_refresh(app, first)
    assert not await is_good(app, second)


async def test_a_refresh_token_opens_nothing_else(app):
    answer = await sign_in(app)
    with pytest.raises(NotAuthenticated, match="not allowed"):
        await app.service("secrets").get(1, outside(authentication=refresh_proof(answer)))
    assert await is_good(app, await renew(app, answer))


class Request:
    def __init__(self, method, *headers):
        self.scope = {"method": method, "headers": [(b"host", b"a"), *headers]}
        self.sent_headers = dict(self.scope["headers"])


@pytest.mark.parametrize(
    ("method", "header", "token"),
    [
        ("DELETE", b"Refresh a.0.b", "a.0.b"),
        ("DELETE", b"refresh  a.0.b ", "a.0.b"),
        ("DELETE", b"Refresh \xff", "\xff"),
        ("DELETE", b"Refresh", None),
        ("DELETE", b"Basic a.0.b", None),
        ("POST", b"Refresh a.0.b", None),
        ("GET", b"Refresh a.0.b", None),
    ],
)
async def test_a_header_brings_a_refresh_token(app, method, header, token):
    service = app.service("authentication").service
    proof = service.parse(Request(method, (b"authorization", header)), None)
    if token is None:
        assert proof is None or proof["strategy"] == "jwt"
    else:
        assert proof == {"strategy": "refresh", "refreshToken": token}
    assert service.parse(Request("DELETE"), None) is None


async def test_it_signs_out_over_http():
    app = express(App())
    app.use(json())
    app.configure(rest())
    await make_app(app, sessions="sessions")
    first, second = await sign_in(app), await sign_in(app)
    headers = {"Authorization": f"Refresh {first['refreshToken']}"}
    answer = await call(app, "DELETE", "/authentication", headers=headers)
    assert (answer.status, answer.json["authentication"]) == (200, {"strategy": "refresh"})
    assert not await is_good(app, first)
    assert await is_good(app, second)
    headers = {"Authorization": f"Refresh {second['refreshToken']}"}
    assert (await call(app, "GET", "/secrets/1", headers=headers)).status == 401
    assert await is_good(app, second)


async def test_everywhere_needs_no_id_that_clients_may_see(app):
    async def without_id(context, next):
        await next()
        if context.params.get("provider") is not None:
            context.dispatch = {"email": ADA["email"]}

    app.service("users").hooks(around={"get": [without_id]})
    here = await sign_in(app)
    await sign_in(app)
    answer = await sign_out(app, here, query={"everywhere": "true"})
    assert answer["user"] == {"email": ADA["email"]}
    assert await app.service("sessions").find() == []
