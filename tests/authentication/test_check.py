"""`AuthenticationService.check`: a password is asked for again, and nobody signs in."""

from __future__ import annotations

import pytest
from tests.authentication.building import add_user, login, make_app

from alula import Params
from alula.adapters.memory import MemoryService
from alula.errors import NotAuthenticated, TooManyRequests

CALLER = {"provider": "rest", "ip": "192.0.2.1"}


async def test_a_check_counts_as_a_sign_in_but_begins_no_session():
    app = make_app(throttle={"tries": 2}, sessions="sessions")
    app.use("sessions", MemoryService(), methods=[])
    await app.setup()
    user = await add_user(app)
    service = app.service("authentication").service
    signed_in = []
    app.on("login", lambda *values: signed_in.append(values))
    for _ in range(3):  # a success costs nothing
        attempt = await service.check(login(), Params(CALLER))
        assert attempt.result["user"] == {"id": user["id"], "email": "ada@example.com"}
    assert await app.service("sessions").find() == []
    assert signed_in == []
    for error in (NotAuthenticated, NotAuthenticated, TooManyRequests):
        with pytest.raises(error):
            await service.check(login(password="wrong"), Params(CALLER))
    with pytest.raises(NotAuthenticated):
        await service.check("no credentials", Params(CALLER))
