"""What happens around the calls: a log line for each, and checks of what comes in."""

import logging
import time
from datetime import UTC, datetime

from examples.chat.checks import text_of

from alula import HookContext

log = logging.getLogger("chat")

MAX_TEXT = 500


async def log_call(context: HookContext, next) -> None:
    """Log each call with its outcome and duration."""
    begun = time.perf_counter()
    outcome = "ok"
    try:
        await next()
    except Exception as error:
        outcome = type(error).__name__
        raise
    finally:
        took = (time.perf_counter() - begun) * 1000
        log.info("%-8s %-6s %-10s %6.2f ms", context.path, context.method, outcome, took)


def check_message(context: HookContext) -> None:
    """Keep the text of a new message; author and time are the server's."""
    user = context.params.user or {"_id": context.data["userId"]}  # the server itself says hello
    context.data = {
        "text": text_of(context.data, "text", MAX_TEXT),
        "userId": user["_id"],
        "reactions": {},
        "createdAt": now(),
    }


def check_edit(context: HookContext) -> None:
    """Let clients change the text of a message, and nothing else."""
    if context.params.provider is not None:
        context.data = {"text": text_of(context.data, "text", MAX_TEXT), "editedAt": now()}


async def add_users(context: HookContext) -> None:
    """Put its author into each message that goes out."""
    found = context.result
    found = found if isinstance(found, list) else found.get("data", [found])  # a page or a record
    messages = [each for each in found if "userId" in each]  # $select may have left it out
    ids = {message["userId"] for message in messages}
    users = await context.app.service("users").find(
        query={"_id": {"$in": [*ids]}, "$select": ["name"]}, paginate=False
    )
    by_id = {user["_id"]: user for user in users}
    for message in messages:
        message["user"] = by_id[message["userId"]]


def now() -> int:
    """Return the time as JavaScript counts it: milliseconds since 1970, in UTC."""
    return int(datetime.now(UTC).timestamp() * 1000)
