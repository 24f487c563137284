"""An application that nobody uses any more is freed, with all that it had."""

from __future__ import annotations

import contextlib
import gc
import weakref

import pytest
from pydantic import BaseModel

from alula import App
from alula.accounts import Accounts
from alula.adapters.memory import MemoryService
from alula.adapters.relations import belongs_to
from alula.authentication import AuthenticationService, authenticate, hash_password, protect
from alula.client import create_client, rest
from alula.common_hooks import cache, only_own, prevent_changes, set_owner, soft_delete
from alula.errors import NotAuthenticated
from alula.express import ExpressApplication, api, compression, request_id
from alula.mcp import mcp
from alula.openapi import openapi
from alula.realtime import socketio, sse
from alula.schema import resolve, resolve_result, with_schema


class Note(BaseModel):
    text: str
    owner_id: int | None = None


def plain():
    app = App()
    app.use("notes", MemoryService())
    return app


def over_rest():
    app = api()
    app.use(compression(), request_id())
    app.use("notes", with_schema(MemoryService(), Note))
    return app


def with_relations():
    app = App()
    app.use("users", MemoryService())
    user = belongs_to("users", key="owner_id")
    app.use("notes", with_schema(MemoryService(relations={"user": user}), Note))
    return app


def with_hooks():
    app = App()
    app.use("notes", MemoryService())
    app.service("notes").hooks(
        around=[cache(10, by=None), resolve_result(resolve({"text": str}))],
        before={"patch": [prevent_changes("owner_id")]},
    )
    app.use("letters", MemoryService())
    app.service("letters").hooks(around=[soft_delete()])
    return app


def everything():
    app = api()
    app.configure(socketio())
    app.configure(sse())
    app.configure(openapi())
    app.use("users", MemoryService(unique=["email"], start_id=1))
    app.use("sessions", MemoryService(), methods=[])
    app.use("credentials", MemoryService(), methods=[])
    secret = "thirty-two random bytes at least"
    app.use("authentication", AuthenticationService(app, secret=secret, sessions="sessions"))
    app.configure(Accounts(store="credentials", api_keys=True))
    app.service("users").hooks(
        around={"all": [protect("password")]}, before={"create": [hash_password("password")]}
    )
    app.use("notes", with_schema(MemoryService(), Note))
    app.service("notes").hooks(
        around=[authenticate("jwt", "apiKey"), set_owner("owner_id")], before=[only_own("owner_id")]
    )
    app.service("notes").live()
    app.configure(mcp({"notes": ["find"]}, hosts=["api.example.com"]))
    return app


async def use(app):
    await app.setup()
    await app.service("notes").find()
    if isinstance(app, ExpressApplication):
        async with (
            await app.listen(0) as server,
            create_client().configure(rest(server.url).fetch()) as client,
        ):
            with contextlib.suppress(NotAuthenticated):
                await client.service("notes").find()
    await app.teardown()


@pytest.mark.parametrize("make", [plain, over_rest, with_relations, with_hooks, everything])
@pytest.mark.parametrize("is_used", [False, True])
async def test_an_application_is_freed(make, is_used):
    app = make()
    freed = [weakref.ref(app), *(weakref.ref(app.service(path).service) for path in app.services)]
    if is_used:
        await use(app)
    del app
    gc.collect()
    assert [each() for each in freed if each() is not None] == []
