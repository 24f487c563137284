"""What can be added to an authentication service without deriving from it."""
# ruff: noqa: ARG002  # what is here is to be overridden

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from alula._context import Params
from alula.types import Id

__all__ = ["Extension"]


class Extension:
    """An object that an authentication service tells of each attempt, answer and token.

    Every method may raise, which ends the call: `NotAuthenticated`, `TooManyRequests`. Those that
    are not overridden do nothing.
    """

    async def setup(self, authentication: Any) -> None:
        """Prepare for the authentication service that it belongs to; called at its set-up."""

    async def before_attempt(self, data: Any, params: Params) -> None:
        """Look at an attempt to sign in before any strategy sees it; ``data`` may be anything."""

    async def account_found(self, id: Id, params: Params) -> None:
        """Look at whose account an attempt is for, before its password is checked.

        Args:
            id: The id of the record that the strategy has found, None where there is none.
            params: The params of the attempt.
        """

    async def after_failure(self, data: Any, params: Params, error: Exception) -> None:
        """Take note of an attempt that failed; ``error`` is `NotAuthenticated`, or unexpected."""

    async def after_success(self, data: Any, params: Params, result: Mapping[str, Any]) -> None:
        """Take note of an attempt that succeeded; ``result`` is what the strategy found."""

    async def claims(self, result: Mapping[str, Any], params: Params) -> Mapping[str, Any]:
        """Return claims for the token that is made for a sign-in; ``exp`` replaces the usual."""
        return {}

    async def answer(self, answer: dict[str, Any], params: Params) -> dict[str, Any]:
        """Return what a client gets for a sign-in, with what is to be added to it."""
        return answer

    async def use_of_token(self, payload: Mapping[str, Any], entity: Any, params: Params) -> None:
        """Refuse a token that is in order by itself, such as one of a session that was ended.

        Args:
            payload: The claims of the token.
            entity: The record that it stands for, passwords included; None where there are none.
            params: The params of the call.
        """

    async def before_new_password(self, params: Params) -> None:
        """Look at a call that sets a password, before `hash_password` or `password_hash` does."""

    async def after_sign_out(self, answer: Mapping[str, Any], params: Params) -> None:
        """Take note of a sign-out; ``answer`` is what the client gets."""
