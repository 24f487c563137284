"""Hooks around the calls: log lines, checks of data, and the author of each message."""

import logging
import time
from datetime import UTC, datetime

from examples.chat.checks import text_of

from alula import HookContext

log = logging.getLogger("chat")

MAX_TEXT = 500


async def log_call(context: HookContext, next) -> None:
    """Log each call with its outcome and duration."""
    started = time.perf_counter()
    outcome = "ok"
    try:
        await next()
    except Exception as error:
        outcome = type(error).__name__
        raise
    finally:
        milliseconds = (time.perf_counter() - started) * 1000
        log.info("%-8s %-6s %-10s %6.2f ms", context.path, context.method, outcome, milliseconds)


def check_message(context: HookContext) -> None:
    """Keep the text of a new message; the server sets author and time."""
    user = context.params.user or {
        "_id": context.data["userId"]
    }  # an internal call: the welcome message
    context.data = {
        "text": text_of(context.data, "text", MAX_TEXT),
        "userId": user["_id"],
        "reactions": {},
        "createdAt": now(),
    }


def check_edit(context: HookContext) -> None:
    """Let clients change only the text of a message."""
    if context.params.provider is not None:
        context.data = {"text": text_of(context.data, "text", MAX_TEXT), "editedAt": now()}


async def add_users(context: HookContext) -> None:
    """Add the author to each message of the result."""
    result = context.result
    records = result if isinstance(result, list) else result.get("data", [result])  # page or record
    messages = [record for record in records if "userId" in record]  # $select may have omitted it
    ids = {message["userId"] for message in messages}
    users = await context.app.service("users").find(
        query={"_id": {"$in": [*ids]}, "$select": ["name"]}, paginate=False
    )
    by_id = {user["_id"]: user for user in users}
    for message in messages:
        message["user"] = by_id[message["userId"]]


def now() -> int:
    """Return the time as in JavaScript: milliseconds since 1970, in UTC."""
    return int(datetime.now(UTC).timestamp() * 1000)
