"""What happens around the calls: a log line for each, and checks of what comes in."""

import logging
import time
from datetime import UTC, datetime

from alula import HookContext
from alula.errors import BadRequest, NotFound

log = logging.getLogger("chat")

MAX_TEXT = 500
MAX_NAME = 30


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


def text_of(data: object, name: str, longest: int) -> str:
    """Return one text of the data, without blanks at its ends; 400 if it is none."""
    value = data.get(name) if isinstance(data, dict) else None
    if not isinstance(value, str) or not value.strip() or len(value) > longest:
        rule = f"must be a text of 1 to {longest} characters"
        raise BadRequest(f"{name} {rule}", errors={name: rule})
    return value.strip()


def check_user(context: HookContext) -> None:
    """Keep the name of a new user, and nothing else that was sent."""
    context.data = {"name": text_of(context.data, "name", MAX_NAME)}


async def check_message(context: HookContext) -> None:
    """Keep text and author of a new message; the time is the server's."""
    text = text_of(context.data, "text", MAX_TEXT)
    try:
        user = await context.app.service("users").get(context.data.get("userId"))
    except (NotFound, BadRequest):
        raise BadRequest("userId names no user", errors={"userId": "is unknown"}) from None
    context.data = {
        "text": text,
        "userId": user["id"],
        "reactions": {},
        "createdAt": now(),
    }


def check_edit(context: HookContext) -> None:
    """Let clients change the text of a message, and nothing else.

    Any client may change any message: who calls is a matter of authentication, which this chat
    does without.
    """
    if context.params.provider is not None:
        context.data = {"text": text_of(context.data, "text", MAX_TEXT), "editedAt": now()}


async def add_users(context: HookContext) -> None:
    """Put its author into each message that goes out."""
    found = context.result
    found = found if isinstance(found, list) else found.get("data", [found])  # a page or a record
    messages = [each for each in found if "userId" in each]  # $select may have left it out
    ids = {message["userId"] for message in messages}
    users = await context.app.service("users").find(query={"id": {"$in": [*ids]}}, paginate=False)
    by_id = {user["id"]: user for user in users}
    for message in messages:
        message["user"] = by_id[message["userId"]]


def now() -> int:
    """Return the time as JavaScript counts it: milliseconds since 1970, in UTC."""
    return int(datetime.now(UTC).timestamp() * 1000)
