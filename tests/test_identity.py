"""Who is calling: what hook and middleware have in common, with services that only look alike."""

from __future__ import annotations

import pytest

from alula import App, Params
from alula._identity import (
    authentication_at,
    authentication_lookup,
    find_authentication,
    identify,
    strategies_of,
)
from alula.errors import NotAuthenticated
from alula.express import express


class Door:
    """Looks like an authentication service."""

    def __init__(self):
        self.asked = []

    async def create(self, data, params):
        return {}

    async def authenticate(self, proof, params, *strategies):
        self.asked.append((proof, strategies))
        if proof.get("key") != "k":
            raise NotAuthenticated("no")
        return {"accessToken": "t", "authentication": {"strategy": "key"}, "user": 1, "more": 2}


@pytest.fixture
def door():
    return Door()


@pytest.fixture
def app(door):
    return App().use("authentication", door)


PROOF = {"strategy": "key", "key": "k"}


async def test_params_get_what_was_proved(door):
    params = Params(provider="rest", authentication=PROOF)
    await identify(door, params, ("key",))
    assert door.asked == [(PROOF, ("key",))]
    assert (params.user, params.more, params.authenticated) == (1, 2, True)
    assert params.authentication == {"strategy": "key"}
    assert "accessToken" not in params


async def test_params_stay_as_they_are_where_it_fails(door):
    params = Params(provider="rest", authentication={"strategy": "key"})
    with pytest.raises(NotAuthenticated):
        await identify(door, params, ("key",))
    assert (params.get("user"), params.get("authenticated")) == (None, None)


async def test_nobody(door):
    with pytest.raises(NotAuthenticated, match="Not authenticated"):
        await identify(door, Params(provider="rest"), ("key",))
    await identify(door, Params(), ("key",))
    assert door.asked == []


async def test_once_is_enough_for_one_service_and_strategy(door):
    params = Params(provider="rest", authentication=PROOF)
    await identify(door, params, ("key",))
    await identify(door, params, ("other", "key"))
    assert len(door.asked) == 1
    with pytest.raises(NotAuthenticated):
        await identify(door, params, ("other",))
    params.authentication = {"strategy": "key"}
    with pytest.raises(NotAuthenticated):
        await identify(Door(), params, ("key",))


def test_the_default_service(app, door):
    other = Door()
    app.use("other", other)
    assert find_authentication(app) is authentication_at(app) is door
    assert find_authentication(app, "other") is other
    app.set("authentication", "other")
    assert find_authentication(app) is authentication_at(app) is other
    assert find_authentication(app, "authentication") is door


def test_the_service_of_another_application(app, door):
    outer = App().use("api", App().use("v1", app))
    assert find_authentication(outer, "api/v1/authentication") is door
    assert authentication_at(outer.set("authentication", "api/v1/authentication")) is door


async def test_a_look_up_sees_each_change(app, door):
    look_up = authentication_lookup(None)
    assert look_up(app) is look_up(app) is door
    other = Door()
    app.use("other", other).set("authentication", "other")
    assert look_up(app) is other
    await app.unuse("other")
    for _ in range(2):  # it remembers no service that is gone
        with pytest.raises(LookupError, match="no authentication service at 'other'"):
            look_up(app)
    third = Door()
    assert look_up(app.use("other", third)) is third


def test_a_look_up_tells_applications_apart(app, door):
    look_up = authentication_lookup(None)
    other = Door()
    second = App().use("authentication", other)
    for _ in range(2):
        assert look_up(app) is door
        assert look_up(second) is other
    with pytest.raises(LookupError, match="no authentication service"):
        look_up(App())
    with pytest.raises(LookupError, match="has no services"):
        look_up(express())
    assert look_up(app) is door


def test_a_look_up_of_one_path(app, door):
    look_up = authentication_lookup("authentication")
    app.use("other", Door()).set("authentication", "other")
    assert look_up(app) is door


def test_no_service():
    app = App()
    assert find_authentication(app) is None
    with pytest.raises(LookupError, match="no authentication service at 'authentication'"):
        authentication_at(app)
    app.set("authentication", "elsewhere")
    with pytest.raises(LookupError, match="at 'elsewhere'; register one there"):
        authentication_at(app)


def test_an_application_without_services():
    with pytest.raises(LookupError, match=r"<WebApplication .*Router\(\) in its place"):
        find_authentication(express())


def test_strategies():
    assert strategies_of("f", ("a",), None) == ("a",)
    assert strategies_of("f", ("a",), ["b"]) == ("a", "b")
    assert strategies_of("f", (), ("b",)) == ("b",)
    for names, strategies in (((), None), ((), [])):
        with pytest.raises(TypeError, match=r"f\(\) needs .*: f\('jwt'\)"):
            strategies_of("f", names, strategies)
    for names, strategies in (((5,), None), ((), "jwt"), ((), [None])):
        with pytest.raises(TypeError, match=r"f\(...\) takes names of strategies: f\('jwt'\)"):
            strategies_of("f", names, strategies)
