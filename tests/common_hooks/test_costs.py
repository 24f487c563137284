"""No hook takes more than 3 microseconds: at most so many calls of functions, which take the time.

The page of the hooks has the times. Calls do not depend on the clock, nor much on the version of
Python. A hook that checks in a call what it could check when it is made takes many more.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tests.common_hooks.conftest import ADA, app_of

from alula._context import HookContext, Params
from alula.common_hooks import (
    allow,
    cache,
    debug,
    discard,
    every,
    iff,
    is_external,
    keep,
    only_own,
    params_from_client,
    prevent_changes,
    rate_limit,
    set_owner,
    soft_delete,
    stash_before,
    timestamps,
    validate,
)
from alula.common_hooks._call import stored_record

RECORD = {"id": 1, "text": "Hello", "userId": 7, "createdAt": 5}
DATA = {"text": "Hello", "read": False, "room": 5}


class Stub:
    """A service that does nothing: what is left is the hook."""

    async def find(self, params):
        return [RECORD]

    async def get(self, id, params):
        return RECORD

    async def create(self, data, params):
        return data

    async def update(self, id, data, params):
        return data

    async def patch(self, id, data, params):
        return data

    async def remove(self, id, params):
        return RECORD

    def check_multi(self, method, params):
        """As the adapters have it."""


def before(context):
    """A hook that does nothing, with which one that does something is compared."""


async def read_before(context):
    await stored_record(context)


def around(context, next):
    return next()


def is_bulk(context):
    return False


async def calls_of(method: str, **hooks: Any) -> int:
    """Return how many functions a call of a client calls, in Python and in C."""
    handle = app_of(Stub(), **hooks)

    def call():
        record_id = None if method in {"find", "create"} else 1
        data = DATA if method in {"create", "update", "patch"} else None
        params = Params(ADA, ip="192.0.2.1")
        return handle.run(HookContext(handle.app, handle, method, params, record_id, data))

    for _ in range(3):  # what is made once, and kept
        await call()
    count = 0

    def note(frame, event, function):
        nonlocal count
        count += event in {"call", "c_call"}

    running = call()
    sys.setprofile(note)
    try:
        await running
    finally:
        sys.setprofile(None)
    return count


async def cost_of(kind: str, hook: Any, method: str, empty: Any = None) -> int:
    empty = empty or (around if kind == "around" else before)
    without = await calls_of(method, **{kind: {method: [empty]}})
    return await calls_of(method, **{kind: {method: [hook]}}) - without


@pytest.mark.parametrize(
    ("kind", "hook", "method", "limit"),
    [
        ("before", only_own("userId"), "find", 9),
        ("before", only_own("userId"), "get", 9),
        ("before", only_own("userId"), "remove", 9),
        ("around", set_owner("userId"), "create", 9),
        ("around", set_owner("userId"), "patch", 13),
        ("around", set_owner("userId", refuse=True), "create", 15),
        ("before", allow("admin", "writer"), "find", 11),
        ("around", timestamps(), "create", 5),
        ("around", timestamps(), "patch", 8),
        ("before", soft_delete(), "find", 5),
        ("before", soft_delete(), "create", 7),
        ("before", soft_delete(), "patch", 11),
        ("before", soft_delete(), "remove", 29),
        ("before", keep("text", "read", "address.town"), "create", 8),
        ("after", discard("userId", "address.town"), "get", 22),  # one of them looks for a stream
        ("before", iff(is_external(), before), "find", 7),
        ("around", iff(is_external(), around), "find", 16),
        ("before", iff(every(is_external(), is_bulk), before), "find", 10),
        ("before", rate_limit(10**9, window=10**7, by="user"), "find", 21),
        ("before", prevent_changes("email"), "patch", 8),
        ("before", validate(lambda data: None), "create", 9),
        ("around", params_from_client("language"), "find", 1),
        ("around", debug(), "find", 1),
        ("around", cache(60, by=None), "get", 13),
    ],
)
async def test_a_hook_calls_few_functions(kind, hook, method, limit):
    assert await cost_of(kind, hook, method) <= limit


@pytest.mark.parametrize(
    ("hook", "method", "limit"),
    [
        (set_owner("userId"), "update", 43),
        (timestamps(), "update", 39),
        (prevent_changes("email"), "update", 41),
        (stash_before(), "patch", 10),
    ],
)
async def test_a_hook_that_reads_calls_few_functions_besides(hook, method, limit):
    assert await cost_of("before", hook, method, read_before) <= limit
