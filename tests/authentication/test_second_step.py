"""A step between the credentials and the success, such as a second factor."""

from __future__ import annotations

import pytest
from tests.authentication.building import add_user, login, make_app

from alula import Params
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationStrategy, Extension
from alula.errors import NotAuthenticated, TooManyRequests

CALLER = {"provider": "rest", "ip": "192.0.2.1"}


class SecondFactor(Extension):
    """Asks for a code after a password."""

    def __init__(self):
        self.steps = []

    async def second_step(self, attempt):
        self.steps.append("second step")
        if attempt.result["authentication"]["strategy"] != "code":
            raise NotAuthenticated("A second factor is needed", {"code": "second_factor"})

    async def after_failure(self, attempt, error):
        self.steps.append(f"failure: {error.data['code']}")

    async def after_success(self, attempt):
        self.steps.append("success")


class Code(AuthenticationStrategy):
    """Stands for a strategy that finishes a sign-in which a password has begun."""

    looks_up_account = True

    def account_of(self, authentication):
        return authentication["email"]

    async def authenticate(self, authentication, params):
        user = await self.app.service("users").get(1)
        await self.authentication.account_found(1, params)
        return {"authentication": {"strategy": self.name}, "user": user}


@pytest.fixture
async def factor():
    return SecondFactor()


@pytest.fixture
async def app(factor):
    app = make_app(extensions=[factor], throttle={"tries": 3}, sessions="sessions")
    app.use("sessions", MemoryService(), methods=[])
    app.service("authentication").service.offer("code", Code(), signs_in=True)
    await app.setup()
    await add_user(app)
    return app


async def sign_in(app, data=None):
    return await app.service("authentication").create(data or login(), CALLER)


async def asked(app):
    with pytest.raises(NotAuthenticated) as caught:
        await sign_in(app)
    assert caught.value.data == {"code": "second_factor"}


async def test_it_comes_before_the_success_and_may_refuse(app, factor):
    await asked(app)
    assert factor.steps == ["second step", "failure: second_factor"]
    assert await app.service("sessions").find() == []


async def test_a_password_alone_gives_no_tries_back(app):
    for _ in range(3):
        await asked(app)
    with pytest.raises(TooManyRequests):
        await sign_in(app)


async def test_all_steps_together_do(app, factor):
    for _ in range(6):
        await asked(app)
        await asked(app)
        assert await sign_in(app, {"strategy": "code", "email": "ada@example.com"})
    assert factor.steps[-2:] == ["second step", "success"]


async def test_it_makes_no_network_known_before_all_steps(app):
    throttle = app.service("authentication").service.throttle
    await asked(app)
    assert throttle._known._times == {}
    await sign_in(app, {"strategy": "code", "email": "ada@example.com"})
    assert len(throttle._known._times) == 2


async def test_a_wrong_password_does_not_get_there(app, factor):
    with pytest.raises(NotAuthenticated, match="Invalid login"):
        factor.after_failure = Extension().after_failure
        await sign_in(app, login(password="wrong"))
    assert factor.steps == []


async def test_a_sign_in_by_own_code_passes_it_too(app, factor):
    with pytest.raises(NotAuthenticated, match="second factor"):
        await app.service("authentication").service.sign_in({"id": 1}, Params())
    assert factor.steps == ["second step", "failure: second_factor"]
