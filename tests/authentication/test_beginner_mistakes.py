"""Mistakes with sign-in: each is told where it is made, and none lets anybody in."""

import pytest

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import (
    AuthenticationService,
    JWTStrategy,
    authenticate,
    hash_password,
    hide_taken,
    password_hash,
    protect,
)
from alula.errors import NotAuthenticated
from alula.schema import resolve

SECRET = "a secret of the tests, long enough"


@pytest.fixture
def app():
    app = App()
    app.use("users", MemoryService([{"email": "ann@example.com", "password": "plain text"}]))
    app.use("authentication", AuthenticationService(app, secret=SECRET, throttle=False))
    return app


@pytest.mark.parametrize("kind", ["around", "before", "after"])
@pytest.mark.parametrize("maker", [authenticate, hash_password, protect, hide_taken])
def test_what_makes_a_hook_is_not_one(app, maker, kind):
    name = maker.__name__
    with pytest.raises(TypeError, match=rf"{name} makes a hook.*write {name}"):
        app.service("users").hooks(**{kind: [maker]})


def test_what_makes_a_resolver_is_not_one():
    expected = r"the resolver of 'password': .*password_hash makes one .* write password_hash\("
    with pytest.raises(TypeError, match=expected):
        resolve({"password": password_hash})


@pytest.mark.parametrize("make", [hash_password, protect, hide_taken])
def test_fields_in_a_list(make):
    with pytest.raises(TypeError, match="names of properties, one by one"):
        make(["password"])


@pytest.mark.parametrize("proof", [None, {"strategy": "jwt", "accessToken": "x"}])
async def test_a_misspelt_strategy_is_an_error(app, caplog, proof):
    await app.setup()
    app.service("users").hooks(around=[authenticate("jtw")])
    with pytest.raises(NotAuthenticated):
        await app.service("users").find(provider="rest", authentication=proof)
    (line,) = [record.getMessage() for record in caplog.records if "nobody" in record.message]
    assert line == (
        "nobody can pass authenticate('jtw'): no strategy is registered as 'jtw';"
        " registered: jwt, local"
    )


async def test_one_registered_strategy_is_enough(app, caplog):
    await app.setup()
    app.service("users").hooks(around=[authenticate("key", "jwt")])
    with pytest.raises(NotAuthenticated):
        await app.service("users").find(provider="rest")
    assert "nobody" not in caplog.text


async def test_a_password_that_was_stored_as_it_is(app, caplog):
    await app.setup()
    proof = {"strategy": "local", "email": "ann@example.com", "password": "plain text"}
    with pytest.raises(NotAuthenticated):
        await app.service("authentication").create(proof)
    assert "a stored password is not a hash" in caplog.text
    assert "plain text" not in caplog.text


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"secret": 12345678}, "secret is a string or bytes, not of type int"),
        ({"service": MemoryService()}, "service is the path of the users' service, not"),
        ({"throttle": "off"}, "throttle is 'off'; write True, False, or options"),
        ({"throttle": None}, "throttle is None; write True, False, or options"),
    ],
)
def test_options_of_another_type(app, given, expected):
    with pytest.raises(TypeError, match=expected):
        AuthenticationService(app, **{"secret": SECRET, **given})


def test_the_class_of_the_application():
    with pytest.raises(TypeError, match="takes the application, not <class"):
        AuthenticationService(App, secret=SECRET)


async def test_no_strategies():
    app = App().use("users", MemoryService())
    app.use("authentication", AuthenticationService(app, secret=SECRET, strategies=[]))
    with pytest.raises(ValueError, match=r"nobody can sign in: .*strategies=\['jwt', 'local'\]"):
        await app.setup()


async def test_strategies_that_only_read_requests():
    app = App().use("users", MemoryService())
    service = AuthenticationService(app, secret=SECRET, strategies=[], parse_strategies=["jwt"])
    service.register("jwt", JWTStrategy())
    await app.use("authentication", service).setup()
    assert service.strategies == ()


class TestStrategiesOfHooks:
    """Those that nobody registers are told at the start, not only by the first call."""

    @pytest.mark.parametrize("kind", ["around", "before"])
    async def test_of_a_service(self, app, kind):
        app.service("users").hooks({kind: {"get": [authenticate("jwt", "jtw")]}})
        expected = r"^authenticate\('jtw'\) of service 'users': no strategy .*: jwt, local$"
        with pytest.raises(LookupError, match=expected):
            await app.setup()

    async def test_of_the_application(self, app):
        app.hooks(before=[authenticate("jtw")])
        with pytest.raises(LookupError, match="no strategy is registered as 'jtw'"):
            await app.setup()

    async def test_of_a_service_that_a_hook_names(self, app):
        staff = AuthenticationService(app, secret=SECRET, strategies=["badge"])
        staff.register("badge", JWTStrategy())
        app.use("staff", staff)
        app.service("users").hooks(before=[authenticate(service="staff", strategies=["badge"])])
        await app.setup()
        app.service("users").hooks(before=[authenticate(service="staff", strategies=["jtw"])])
        with pytest.raises(LookupError, match=r"authenticate\('jtw'\).*registered: badge"):
            await staff.setup(app, "staff")

    async def test_of_another_application_are_its_own(self, app):
        inner = App().use("notes", MemoryService())
        inner.service("notes").hooks(before=[authenticate("badge")])
        app.use("inner", inner)
        await app.setup()
