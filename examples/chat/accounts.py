"""Registration, sign-in, and the permissions of signed-in users."""

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
from alula.common_hooks import only_own
from alula.errors import BadRequest, Conflict
from alula.express import ExpressApplication

MAX_NAME_LENGTH = 30
MIN_PASSWORD_LENGTH = 8
NAME_KEY = "nameKey"  # the name without case and Unicode form; unique in the store


def add_accounts(app: ExpressApplication, users: Any, secret: str | None) -> None:
    """Register the services `users` and `authentication`.

    Args:
        app: The chat.
        users: The service that stores the users.
        secret: The key of the access tokens. None takes `ALULA_SECRET`, or else a random key:
            then all tokens are invalid after a restart.
    """
    secret = secret or os.environ.get("ALULA_SECRET") or secrets.token_urlsafe(48)
    authentication = AuthenticationService(app, secret=secret)
    # Users may sign in with any case of their name; it is shown as they registered it.
    local = LocalStrategy(username_field="name", entity_username_field=NAME_KEY, fold_username=True)
    authentication.register("local", local)
    app.use("authentication", authentication)
    app.use("users", users, methods=["find", "get", "create"])
    app.service("users").hooks(
        around={"all": [protect("password", NAME_KEY)], "create": [name_taken_property]},
        before={"create": [check_user, add_name_key, hash_password("password")]},
    )


def guard(messages: Any) -> None:
    """Let only signed-in users write messages, and change only their own."""
    signed_in, own = authenticate("jwt"), only_own("userId", of="_id")
    messages.hooks(
        before={
            "create": [signed_in],
            "react": [signed_in],
            "typing": [signed_in],
            "patch": [signed_in, own],
            "remove": [signed_in, own],
        }
    )


def check_user(context: HookContext) -> None:
    """Validate name and password of a new user, and drop everything else."""
    if context.params.provider is None:
        return
    name = text_of(context.data, "name", MAX_NAME_LENGTH)
    password = context.data.get("password")
    if not isinstance(password, str) or len(password) < MIN_PASSWORD_LENGTH:
        rule = f"must be a text of {MIN_PASSWORD_LENGTH} characters or more"
        raise BadRequest(f"password {rule}", errors={"password": rule})
    context.data = {"name": name, "password": password}


def add_name_key(context: HookContext) -> None:
    """Add the normalized name, by which names are compared."""
    key = fold_username(context.data["name"])
    if not key:  # the name has only characters that nobody sees
        raise BadRequest("name cannot be seen", errors={"name": "cannot be seen"})
    context.data = {**context.data, NAME_KEY: key}


async def name_taken_property(_: HookContext, next) -> None:
    """Name the property in the error if the name is taken."""
    try:
        await next()
    except Conflict:
        taken = {"name": "is taken"}
        raise Conflict("This name is taken", errors=taken) from None
