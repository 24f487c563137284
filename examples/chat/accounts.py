"""Who is who: registration, sign-in, and what only those may do who are signed in."""

import os
import secrets
from typing import Any

from examples.chat.checks import text_of

from alula import HookContext
from alula.authentication import (
    AuthenticationService,
    LocalStrategy,
    authenticate,
    fold_username,
    hash_password,
    protect,
)
from alula.errors import BadRequest, Conflict, Forbidden
from alula.express import ExpressApplication

MAX_NAME = 30
LEAST_PASSWORD = 8
NAME_KEY = "nameKey"  # the name without case and Unicode form; the store lets one user have it


def add_accounts(app: ExpressApplication, users: Any, secret: str | None) -> None:
    """Register the services of the users and of their sign-ins.

    Args:
        app: The chat.
        users: The service that keeps the users.
        secret: The key of the access tokens. None takes that of the environment, or a new one,
            with which all tokens end with the process.
    """
    secret = secret or os.environ.get("ALULA_SECRET") or secrets.token_urlsafe(48)
    authentication = AuthenticationService(app, secret=secret)
    # People sign in however they write their name; it is shown as they have chosen it.
    local = LocalStrategy(username_field="name", entity_username_field=NAME_KEY, fold_username=True)
    authentication.register("local", local)
    app.use("authentication", authentication)
    app.use("users", users, methods=["find", "get", "create"])
    app.service("users").hooks(
        around={"all": [protect("password", NAME_KEY)], "create": [tell_of_taken_name]},
        before={"create": [check_user, add_name_key, hash_password("password")]},
    )


def guard(messages: Any) -> None:
    """Let only those write messages who are signed in, and everybody their own alone."""
    signed_in = authenticate("jwt")
    messages.hooks(
        before={
            "create": [signed_in],
            "react": [signed_in],
            "patch": [signed_in, only_own],
            "remove": [signed_in, only_own],
        }
    )


def check_user(context: HookContext) -> None:
    """Keep name and password of a new user, and nothing else that was sent."""
    if context.params.provider is None:
        return
    name = text_of(context.data, "name", MAX_NAME)
    password = context.data.get("password")
    if not isinstance(password, str) or len(password) < LEAST_PASSWORD:
        rule = f"must be a text of {LEAST_PASSWORD} characters or more"
        raise BadRequest(f"password {rule}", errors={"password": rule})
    context.data = {"name": name, "password": password}


def add_name_key(context: HookContext) -> None:
    """Add what names are compared by."""
    context.data = {**context.data, NAME_KEY: fold_username(context.data["name"])}


async def tell_of_taken_name(_: HookContext, next) -> None:
    """Say which property it is that somebody else has."""
    try:
        await next()
    except Conflict:
        taken = {"name": "is taken"}
        raise Conflict("There is somebody of that name already", errors=taken) from None


async def only_own(context: HookContext) -> None:
    """Refuse to change what somebody else has said."""
    if context.params.provider is None or context.id is None:
        return  # the server itself; and many at a time are refused anyway
    message = await context.service.get(context.id)
    if message["userId"] != context.params.user["_id"]:
        raise Forbidden("You can change your own messages alone")
