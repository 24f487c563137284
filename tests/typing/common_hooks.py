"""What type checkers see of ready-made hooks; they read this file, nothing runs it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, assert_type

from alula import App, HookContext
from alula.adapters.memory import MemoryService
from alula.adapters.relations import belongs_to
from alula.common_hooks import (
    Cache,
    Conditional,
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
    populate,
    prevent_changes,
    rate_limit,
    set_owner,
    soft_delete,
    some,
    stash_before,
    timestamps,
    unix_milliseconds,
    unless,
    utc_now,
    validate,
)


def is_draft(context: HookContext) -> bool:
    return context.data is None


async def is_late(context: HookContext) -> bool:
    return context.id is None


def user_of(context: HookContext) -> str:
    return str(context.params.user)


def check(data: Any) -> None: ...


notes = App().use("notes", MemoryService()).service("notes")
kept = cache(60, by=None)
assert_type(kept, Cache)
assert_type(len(kept), int)
assert_type(kept.clear(), None)
assert_type(cache(2.5, by=user_of, capacity=10), Cache)
assert_type(iff(is_draft, allow("admin")), Conditional)
assert_type(unless(is_late, debug()).otherwise(debug()), Conditional)
iff(every(is_draft, some(is_late, is_external())), allow("admin"))
assert_type(unix_milliseconds(), int)
assert_type(utc_now(), datetime)
clock: Callable[[], object] = utc_now

notes.hooks(
    around=[timestamps(updated=None, now=utc_now), set_owner("userId", refuse=True), kept],
    before=[
        only_own("userId", of="_id", entity="account"),
        allow("admin", "editor", field="role", entity="account"),
        soft_delete("removedAt"),
        prevent_changes("userId"),
        rate_limit(10, window=60, by="user", entity="account", service="tries"),
        rate_limit(10, window=0.5, by=user_of),
        params_from_client("locale"),
        stash_before(),
        validate(check),
        keep("text"),
    ],
    after=[discard("secret"), populate({"author": belongs_to("users", "authorId")})],
)

cache(60)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
cache("60", by=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
cache(60, by="user")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
cache(60, by=None, size=10)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
only_own(["userId"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
only_own("userId", "id")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
only_own("userId", entity=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
set_owner("userId", refuses=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
allow(["admin", "editor"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
allow("admin", role="roles")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
rate_limit(10, 60, "user")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
rate_limit(10, window=60)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
rate_limit(10, window=60, by="ip")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
timestamps(now=utc_now())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
soft_delete(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
iff(True, debug())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
iff(is_draft, "debug")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
populate({"author": "users"})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
keep(["text"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
is_external(1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
notes.hooks(before=only_own("userId", filed="x"))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
