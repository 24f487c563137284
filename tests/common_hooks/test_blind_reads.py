"""Attacks: answers that depend on a record which the caller cannot reach.

A client chooses the query of `update`, `patch` and `remove`. If a hook reads the stored record by
it before the conditions of the other hooks count, the answer is yes or no to any question about
any record, and 138 requests read a text. So each request is sent to applications that differ in the
other user's record alone. Their answers must be equal.
"""

from __future__ import annotations

import itertools
import json
from typing import Any
from urllib.parse import quote

import pytest
from tests.express.asgi_client import call
from tests.realtime.asgi_peer import Peer

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService, authenticate
from alula.common_hooks import (
    iff,
    is_external,
    only_own,
    prevent_changes,
    set_owner,
    stash_before,
    timestamps,
    validate,
)
from alula.errors import Forbidden
from alula.express import express, rest
from alula.express import json as json_body
from alula.realtime import socketio
from alula.schema import with_schema

# Thousands of requests to whole applications; each hook has tests of its own.
pytestmark = pytest.mark.untraced

ADA, BOB = 1, 2
MINE, OF_BOB = 1, 2

WORLDS: dict[str, Any] = {
    "low": {"text": "apple", "secret": "a", "status": "new"},
    "high": {"text": "zebra", "secret": "z", "status": "old"},
    "missing": None,
}
"""The record of Bob, which is all that the applications differ in."""


NOTE = {
    "properties": {
        "id": {"type": "integer"},
        "text": {"type": "string"},
        "userId": {"type": "integer"},
        "secret": {"type": "string"},
        "status": {"type": "string"},
        "createdAt": {"type": "integer"},
        "updatedAt": {"type": "integer"},
    },
    "required": ["id", "text", "userId"],
    "additionalProperties": False,
}


def sign_in():
    return authenticate("jwt")


def short(data):
    return {"text": "is too long"} if len(str(data.get("text"))) > 9 else {}


def refuse_bob(context):
    """A guard as applications have it, which neither narrows the query nor needs a user."""
    if context.params.user is None or str(context.id) == str(OF_BOB):
        raise Forbidden("Not yours")


def narrow_by_hand(context):
    context.params.query["userId"] = context.params.user["id"]


def on_service(**hooks):
    return lambda app, notes: notes.hooks(**hooks)


def on_application(outer, **hooks):
    """Register hooks of the application, which run before all hooks of the service."""

    def register(app, notes):
        app.hooks(**outer)
        notes.hooks(**hooks)

    return register


OWN = {"around": [sign_in()], "before": [only_own()]}

SETUPS: dict[str, Any] = {
    "set_owner": on_service(around=[sign_in(), set_owner()], before=[only_own()]),
    "set_owner refusing": on_service(
        around=[sign_in(), set_owner(refuse=True)], before=[only_own()]
    ),
    "timestamps": on_service(around=[timestamps(), sign_in()], before=[only_own()]),
    "timestamps of the application": on_application({"around": [timestamps()]}, **OWN),
    "prevent_changes": on_service(
        around=[sign_in()], before=[prevent_changes("status"), only_own()]
    ),
    "prevent_changes of the application": on_application(
        {"before": [prevent_changes("status", "secret")]}, **OWN
    ),
    "prevent_changes, ignoring": on_service(
        around=[sign_in()], before=[prevent_changes("status", discard=True), only_own()]
    ),
    "stash_before": on_service(around=[sign_in()], before=[stash_before(), only_own()]),
    "stash_before and a check": on_service(
        around=[sign_in()],
        before={
            "update": [stash_before(), validate(short), narrow_by_hand],
            "patch": [stash_before(), validate(short), narrow_by_hand],
            "remove": [stash_before(), narrow_by_hand],
        },
    ),
    "stash_before of the application": on_application(
        {"before": [stash_before()], "around": [timestamps()]}, **OWN
    ),
    "a condition": on_service(
        around=[sign_in()],
        before=[
            iff(is_external(), stash_before(), prevent_changes("status")),
            only_own(),
        ],
    ),
    "a guard of one's own": on_service(
        around=[timestamps(), sign_in(), set_owner()],
        before={
            "update": [stash_before(), prevent_changes("status"), refuse_bob, validate(short)],
            "patch": [stash_before(), validate(short), refuse_bob],
            "remove": [stash_before(), refuse_bob],
        },
    ),
}

QUERIES: list[dict[str, Any]] = [
    {},
    {"text": {"$gt": "m"}},
    {"secret": {"$gt": "m"}},
    {"secret": "a"},
    {"$or": [{"text": {"$lt": "m"}}, {"id": 99}]},
]

RECORD = {"id": OF_BOB, "text": "mine", "userId": ADA, "status": "new"}
DATA: list[Any] = [
    RECORD,
    {**RECORD, "text": "x" * 20},  # refused by a check of the application
    {**RECORD, "text": 5},  # and by the schema
    {"status": "old", "text": "mine"},
]


async def build(register: Any, of_bob: Any, *, is_mounted: bool, has_schema: bool) -> Any:
    inner = App()
    records: list[dict[str, Any]] = [{"id": MINE, "text": "of Ada", "userId": ADA}]
    if of_bob is not None:
        records.append({"id": OF_BOB, "userId": BOB, **of_bob})
    service = MemoryService(records, multi=["patch", "remove"])
    inner.use("users", MemoryService([{"id": ADA}, {"id": BOB}]))
    inner.use("authentication", auth_of(inner))
    inner.use("notes", with_schema(service, NOTE, hidden=["secret"]) if has_schema else service)
    app = inner
    if is_mounted:  # the hooks are those of an outer application, the guards those of the inner
        inner.service("notes").hooks(around=[sign_in()], before=[only_own()])
        app = App().use("notes", inner.service("notes"))
        app.use("users", inner.service("users"))
        app.use("authentication", auth_of(app))
    register(app, app.service("notes"))
    web = express(app)
    web.use(json_body()).configure(rest()).configure(socketio())
    await web.setup()
    return web


def auth_of(app: Any) -> AuthenticationService:
    return AuthenticationService(app, secret="s" * 32, strategies=["jwt"], throttle=False)


def requests() -> list[tuple[str, Any, Any]]:
    calls = [(method, data, query) for method in ("update", "patch") for data in DATA
             for query in QUERIES]  # fmt: skip
    return [*calls, *(("remove", None, query) for query in QUERIES)]


def query_string(query: Any, prefix: str = "") -> list[str]:
    if isinstance(query, list):
        query = dict(enumerate(query))
    if isinstance(query, dict):
        return [
            part
            for name, value in query.items()
            for part in query_string(value, f"{prefix}[{name}]" if prefix else name)
        ]
    return [f"{quote(prefix)}={quote(str(query))}"]


async def answers_over_rest(app: Any, token: str | None) -> list[Any]:
    headers = {"content-type": "application/json"}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    verbs = {"update": "PUT", "patch": "PATCH", "remove": "DELETE"}
    answers: list[Any] = []
    for method, data, query in requests():
        url = f"/notes/{OF_BOB}?{'&'.join(query_string(query))}"
        body = None if data is None else json.dumps(data).encode()
        answer = await call(app, verbs[method], url, body, headers)
        answers.append((method, data, query, answer.status, answer.json))
    return answers


async def answers_over_a_socket(app: Any, token: str | None) -> list[Any]:
    peer = Peer(app)
    await peer.join()
    if token is not None:
        credentials = {"strategy": "jwt", "accessToken": token}
        error, _ = await peer.call("create", "authentication", credentials, {})
        assert error is None
    answers: list[Any] = []
    for method, data, query in requests():
        arguments = [method, "notes", OF_BOB, *([] if data is None else [data]), query]
        answers.append((method, data, query, await peer.call(*arguments)))
    await peer.leave()
    return answers


PLACES = ["service", "schema", "mount"]
TRANSPORTS = [answers_over_rest, answers_over_a_socket]
CALLERS = ["ada", "nobody"]


def is_tried_always(setup: str, place: str, transport: Any, caller: str) -> bool:
    """Tell whether `make test` has a case: one of two, with every pair of choices."""
    row = (PLACES.index(place), TRANSPORTS.index(transport), CALLERS.index(caller))
    return (sum(row) + [*SETUPS].index(setup)) % 2 == 0


@pytest.mark.parametrize(
    ("setup", "place", "transport", "caller"),
    [
        pytest.param(*case, marks=[] if is_tried_always(*case) else pytest.mark.release)
        for case in itertools.product(SETUPS, PLACES, TRANSPORTS, CALLERS)
    ],
)
async def test_no_answer_depends_on_the_record_of_somebody_else(setup, place, transport, caller):
    answers = []
    for of_bob in WORLDS.values():
        app = await build(
            SETUPS[setup], of_bob, is_mounted=place == "mount", has_schema=place == "schema"
        )
        tokens = app.service("authentication").service
        token = tokens.create_access_token({}, str(ADA)) if caller == "ada" else None
        stored = await app.service("notes").find()
        answers.append(await transport(app, token))
        assert await app.service("notes").find() == stored
        await app.teardown()
    low, high, missing = answers
    assert low == high
    assert low == missing
