"""Hooks that ask more of a signed-in caller: a proved address, or a recent sign-in."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from alula._context import HookContext, Params
from alula.errors import Forbidden, NotAuthenticated
from alula.hooks import Hook, Next, annotate_hook, hook_factory
from alula.types import is_mapping

__all__ = ["RECENT_SECONDS", "check_recent", "recent", "signed_in_within", "verified"]

RECENT_SECONDS: Final = 300
"""How recent a sign-in must be for what could lock somebody out, or let somebody in."""


@hook_factory("verified()")
def verified(field: str = "isVerified", *, entity: str = "user") -> Hook:
    """Return a hook that admits only users who have confirmed their address.

    Register it after `authenticate`. Calls of the application itself pass.

    Args:
        field: The property of the user that says whether the address is confirmed, as the
            ``verified_field`` of `Accounts`.
        entity: The name of the user in params.

    Raises:
        NotAuthenticated: By the hook: nobody is signed in.
        Forbidden: By the hook: the address is not confirmed. ``data.code`` is ``"not_verified"``.

    Examples:
        >>> from alula import App
        >>> from alula.accounts import verified
        >>> from alula.adapters.memory import MemoryService
        >>> from alula.authentication import authenticate
        >>> app = App().use("orders", MemoryService())
        >>> orders = app.service("orders").hooks(before=[authenticate("jwt"), verified()])
    """

    async def check(context: HookContext, next: Next | None = None) -> None:
        params = context.params
        if params.provider is not None:
            user = params.get(entity)
            if user is None:
                raise NotAuthenticated("Not authenticated")
            if not is_mapping(user) or user.get(field) is not True:
                raise Forbidden("Confirm your e-mail address first", data={"code": "not_verified"})
        if next is not None:
            await next()

    return annotate_hook(check, kinds=("before", "around"), needs_user="verified")


@hook_factory("recent(300)")
def recent(seconds: int) -> Hook:
    """Return a hook that admits only callers who have signed in a short time ago.

    Renewing a token by its refresh token does not count. Register the hook after `authenticate`. It
    needs an authentication service with sessions, whose tokens have the claim ``auth_time``. Calls
    of the application itself pass.

    Args:
        seconds: How long ago at most.

    Raises:
        ValueError: ``seconds`` is not a whole number above 0.
        NotAuthenticated: By the hook: the sign-in is older, or nobody is signed in. ``data.code``
            is then ``"not_recent"``, and the header ``WWW-Authenticate`` is that of RFC 9470.
        Forbidden: By the hook: the caller has an API key, which never signs in.

    Examples:
        >>> from alula import App
        >>> from alula.accounts import recent
        >>> from alula.adapters.memory import MemoryService
        >>> from alula.authentication import authenticate
        >>> app = App().use("payments", MemoryService())
        >>> payments = app.service("payments")
        >>> payments = payments.hooks(before={"create": [authenticate("jwt"), recent(300)]})
    """
    if type(seconds) is not int or seconds < 1:
        raise ValueError(f"recent({seconds!r}): give whole seconds, as in recent(300)")

    async def check(context: HookContext, next: Next | None = None) -> None:
        params = context.params
        if params.provider is not None:
            if "scopes" in (params.authentication or {}):  # an API key, which cannot sign in again
                raise Forbidden("This needs a person who is signed in, and accepts no key")
            check_recent(seconds, _payload_of(params))
        if next is not None:
            await next()

    return annotate_hook(check, kinds=("before", "around"), needs_user="recent")


def check_recent(seconds: int, payload: Mapping[str, Any]) -> None:
    """Refuse the claims of a token whose sign-in is longer ago.

    Raises:
        NotAuthenticated: It is; ``data.code`` is ``"not_recent"``.
    """
    if not _is_recent(seconds, payload):
        raise _not_recent(seconds)


def signed_in_within(seconds: int, params: Params) -> bool:
    """Tell whether the caller, whose token was checked, has signed in that short a time ago."""
    return _is_recent(seconds, _payload_of(params))


def _payload_of(params: Params) -> Mapping[str, Any]:
    authentication: Mapping[str, Any] = params.authentication or {}
    return authentication.get("payload") or {}


def _is_recent(seconds: int, payload: Mapping[str, Any]) -> bool:
    signed_in_at = payload.get("auth_time")
    return type(signed_in_at) is int and signed_in_at >= time.time() - seconds


def _not_recent(seconds: int) -> NotAuthenticated:
    error = NotAuthenticated("Sign in again", data={"code": "not_recent", "maxAge": seconds})
    error.headers = {
        "WWW-Authenticate": f'Bearer error="insufficient_user_authentication", max_age="{seconds}"'
    }
    return error
