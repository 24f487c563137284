"""One attempt to sign in, and extensions, which take part in its steps."""
# ruff: noqa: ARG002  # the methods of Extension are there to be overridden

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from alula._context import Params
from alula.authentication._base_strategy import AuthenticationStrategy
from alula.errors import NotAuthenticated
from alula.types import Id

__all__ = ["Attempt", "CheckedUser", "Extension", "Session", "current_attempt", "session_ended"]


class Session(NamedTuple):
    """A session that has not ended.

    Attributes:
        id: The claim ``sid`` of its access tokens.
        user_id: The id of its user, as text.
        rotation: How often its refresh token was rotated.
        began_at: When the user signed in, in milliseconds since 1970.
        expires_at: When it ends if nobody renews it, in milliseconds since 1970.
        methods: How the user has signed in; see `Attempt`.
    """

    id: str
    user_id: str
    rotation: int
    began_at: int
    expires_at: int
    methods: tuple[str, ...]


@dataclass(eq=False)
class Attempt:
    """One attempt to sign in or out. Each step of `AuthenticationService` fills in its part.

    Attributes:
        credentials: What the client sent: any JSON, not checked.
        params: The params of the call.
        strategy: The strategy that checks the credentials; None where they name none that clients
            can sign in with, as in `AuthenticationService.sign_in`.
        result: What the strategy returned for the credentials; empty until they are checked.
        methods: How the user has signed in, as in RFC 8176: ``("pwd",)``. Those of the
            strategy, unless it sets others.
        user_id: The id of the user's record, None until the user is known.
        response: What the client gets; empty until the user is known.
        session: The session that began or was renewed, None where there is none.
        confirm: Set by a strategy whose credentials may be revoked while it checks them. It is
            called once the session is stored, and raises `NotAuthenticated` if they are.
    """

    credentials: Any
    params: Params
    strategy: AuthenticationStrategy | None = None
    result: Mapping[str, Any] = field(default_factory=dict[str, Any])
    methods: tuple[str, ...] = ()
    user_id: Id = None
    response: dict[str, Any] = field(default_factory=dict[str, Any])
    session: Session | None = None
    confirm: Callable[[], Awaitable[None]] | None = None

    @contextmanager
    def as_current_at(self, authentication: object) -> Generator[None]:
        """Let the strategies of an authentication service see this attempt, as the current one."""
        token = _current.set((authentication, self))
        try:
            yield
        finally:
            _current.reset(token)


class CheckedUser(dict[str, Any]):
    """Credentials of a user whom the application has checked itself, for `sign_in`.

    Clients send JSON, which is never of this type. A hook that copies them makes plain credentials
    of a strategy that does not exist, which are refused.

    Attributes:
        user_id: The id of the user's record.
        methods: How the user has signed in.
        session_id: A session that goes on, None to begin one.
    """

    def __init__(
        self, user_id: Id, methods: tuple[str, ...], strategy: str, session_id: str | None
    ) -> None:
        super().__init__(strategy=strategy)
        self.user_id = user_id
        self.methods = methods
        self.session_id = session_id


# Strategies get only credentials and params, as in FeathersJS. The attempt is not in the params,
# because hooks pass these on to other calls.
_current: Final[ContextVar[tuple[object, Attempt] | None]] = ContextVar(
    "alula_attempt", default=None
)


def current_attempt(authentication: object) -> Attempt | None:
    """Return the attempt under way at an authentication service.

    Args:
        authentication: The service.

    Returns:
        None where credentials came with a call of another service.
    """
    current = _current.get()
    # Hooks of the users' service may sign in at another service, which must not change this one.
    return current[1] if current is not None and current[0] is authentication else None


def session_ended() -> NotAuthenticated:
    """Return the error for a token whose session has ended."""
    return NotAuthenticated("The session has ended; sign in again")


class Extension:
    """Base class for objects that take part in sign-ins and in checks of tokens and passwords.

    Each method does nothing unless it is overridden. Each may raise, which ends the call:
    `NotAuthenticated`, `TooManyRequests`.

    Examples:
        >>> from alula.authentication import Attempt, Extension
        >>> class CountFailures(Extension):
        ...     failures = 0
        ...
        ...     async def after_failure(self, attempt: Attempt, error: Exception) -> None:
        ...         self.failures += 1
    """

    async def setup(self, authentication: Any) -> None:
        """Prepare; called when the authentication service is set up.

        Args:
            authentication: The service.
        """

    async def before_attempt(self, attempt: Attempt) -> None:
        """Handle a sign-in before a strategy checks its credentials."""

    async def account_found(self, attempt: Attempt, id: Id) -> None:
        """Handle the account that a sign-in is for, before its password is checked.

        Args:
            attempt: The sign-in.
            id: The id of the record of the account, None where there is none.
        """

    async def second_step(self, attempt: Attempt) -> None:
        """Handle a sign-in whose credentials are right, before it counts as a success.

        Raise `NotAuthenticated` to ask for a second factor. The attempt has then failed: the
        throttle gives no tries back. It runs for every strategy and for `sign_in`; see
        ``attempt.strategy`` and ``attempt.result``.
        """

    async def after_failure(self, attempt: Attempt, error: Exception) -> None:
        """Handle a sign-in that failed; the error is `NotAuthenticated`, or unexpected."""

    async def after_success(self, attempt: Attempt) -> None:
        """Handle a sign-in that has passed all steps; see ``attempt.result``."""

    async def claims(self, attempt: Attempt) -> Mapping[str, Any]:
        """Return claims for the new access token; ``exp`` replaces the usual one."""
        return {}

    async def response(self, attempt: Attempt) -> dict[str, Any]:
        """Return what the client gets for a sign-in."""
        return attempt.response

    async def check_token(self, payload: Mapping[str, Any], entity: object, params: Params) -> None:
        """Refuse an access token that is valid by itself, such as that of a session that ended.

        Args:
            payload: The claims of the token.
            entity: The record of its user, including the password; None where there are no users.
            params: The params of the call.
        """

    async def before_new_password(self, params: Params) -> None:
        """Handle a call that sets a password, before it is hashed."""

    async def after_sign_out(self, attempt: Attempt) -> None:
        """Handle a sign-out; the client gets ``attempt.response``."""
