"""The stores of FeathersJS' front ends, live: feathers-pinia and feathers-reactive, unmodified.

The checks are in ``stores.mjs``; each is a test here.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import anyio.to_thread
import pytest
from tests.interop.node_script import assert_passed, run_checks
from tests.requirements import require_node_modules

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import (
    AuthenticationService,
    LocalStrategy,
    authenticate,
    hash_password,
    protect,
)
from alula.express import express, json, rest
from alula.realtime import socketio

SCRIPT = Path(__file__).with_name("stores.mjs")
PACKAGES = (
    "@feathersjs/authentication-client",
    "@feathersjs/feathers",
    "@feathersjs/socketio-client",
    "feathers-pinia",
    "feathers-reactive",
    "pinia",
    "rxjs",
    "socket.io-client",
    "vue",
)
CHECKS = tuple(
    f"{store}: {check}"
    for store in ("feathers-pinia", "feathers-reactive")
    for check in (
        "what one creates, both show",
        "what one changes or removes, both show",
        "nothing comes after sign-out",
        "a network that fails signs in again",
    )
)


def make_app():
    """Return the server of feathers-chat: whoever is signed in gets all messages."""
    app = express(App()).use(json()).configure(rest()).configure(socketio())
    authentication = AuthenticationService(app, secret="a secret of thirty-two characters")
    authentication.register("local", LocalStrategy(username_field="email"))
    app.use("authentication", authentication)
    paginate = {"default": 10, "max": 50}
    app.use("users", MemoryService(paginate=paginate))
    app.use("messages", MemoryService(paginate=paginate, multi=True))
    app.service("users").hooks(
        around={"all": [protect("password")]}, before={"create": [hash_password("password")]}
    )
    times = itertools.count()

    def add_time(context):
        context.data = {**context.data, "createdAt": next(times)}

    app.service("messages").hooks(
        around={"all": [authenticate("jwt")]}, before={"create": [add_time]}
    )

    @app.on("login")
    def login(result, params, context):
        app.channel("authenticated").join(params.get("connection"))

    app.publish(lambda data, context: app.channel("authenticated"))
    return app


@pytest.fixture(scope="module")
async def outcomes():
    require_node_modules(*PACKAGES)
    app = make_app()
    async with await app.listen(0) as server:
        for name in ("ada", "bob"):
            data = {"email": f"{name}@example.com", "password": "right"}
            await app.service("users").create(data)
        return await anyio.to_thread.run_sync(run_checks, SCRIPT, PACKAGES, server.url)


@pytest.mark.parametrize("check", CHECKS)
async def test_store(check, outcomes):
    assert_passed(outcomes, check)


async def test_no_check_runs_that_is_not_listed(outcomes):
    assert tuple(outcomes) == CHECKS
