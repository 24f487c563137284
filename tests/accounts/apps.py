"""An authenticator app, and people who have set one up, for tests of second factors."""

from __future__ import annotations

import time
from base64 import b32decode
from typing import Any

import pytest
from tests.accounts.building import FROM_AFAR, World

from alula.accounts import _factors
from alula.accounts._totp import code_at
from alula.errors import NotAuthenticated


class AuthenticatorApp:
    """Shows codes by a clock that tests turn, which the application gets, too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = time.time() // 30 * 30 + 15  # no step ends during a test
        self.secret = b""
        monkeypatch.setattr(_factors, "time", self)

    def time(self) -> float:
        return self.now

    def code(self, *, steps: int = 0) -> str:
        """Return the code of now, or of some steps later."""
        return code_at(self.secret, int(self.now // 30) + steps)

    def wait(self) -> None:
        """Let the next code come."""
        self.now += 30

    async def begin(self, world: World, me: dict[str, Any]) -> dict[str, str]:
        """Begin a set-up, and read its secret."""
        begun = await world.app.service("account/second-factor").create({}, me)
        self.secret = b32decode(begun["secret"])
        return begun

    async def set_up(self, world: World, me: dict[str, Any]) -> dict[str, Any]:
        """Turn the second factor on. The next code is one that was not used."""
        await self.begin(world, me)
        confirmed = await world.app.service("account/second-factor").patch(
            None, {"code": self.code()}, me
        )
        self.wait()
        return confirmed


def as_caller(signed_in: dict[str, Any], **params: Any) -> dict[str, Any]:
    """Return the params of a client who has signed in."""
    bearer = {"strategy": "jwt", "accessToken": signed_in["accessToken"]}
    return {**FROM_AFAR, "authentication": bearer, **params}


async def ask(world: World, **changes: Any) -> dict[str, Any]:
    """Sign in with a password; return what asks for the second factor."""
    with pytest.raises(NotAuthenticated) as error:
        await world.sign_in(**changes)
    data = error.value.data
    assert data["code"] == "second_factor"
    return data


async def enter(world: World, credentials: dict[str, Any], **params: Any) -> dict[str, Any]:
    """Sign in as a client."""
    return await world.app.service("authentication").create(credentials, {**FROM_AFAR, **params})


async def refused(world: World, credentials: dict[str, Any], **params: Any) -> str | None:
    """Return the code of the error for credentials."""
    with pytest.raises(NotAuthenticated) as error:
        await enter(world, credentials, **params)
    return error.value.data and error.value.data["code"]


async def by_recovery_code(world: World, code: object, **changes: Any) -> dict[str, Any]:
    """Return the credentials of a second step by a recovery code."""
    return {**await by_code(world, code, **changes), "strategy": "recovery"}


async def by_code(world: World, code: object, **changes: Any) -> dict[str, Any]:
    """Return the credentials of a second step whose first step has just passed."""
    ticket = (await ask(world, **changes))["ticket"]
    return {"strategy": "totp", "ticket": ticket, "code": code}
