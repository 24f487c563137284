"""Two more ways to sign in: by a sign-up, and by a link in a mail."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping
from secrets import token_urlsafe
from typing import Any, Final, TypeAlias

from alula._context import HookContext, Params
from alula._cookies import format_cookie, parse_cookies
from alula.accounts._proofs import StoredProof
from alula.authentication import Attempt, AuthenticationStrategy, Extension
from alula.authentication._attempt import current_attempt
from alula.authentication._entities import Entities
from alula.errors import Conflict, NotAuthenticated
from alula.hooks import Next
from alula.types import Id, is_mapping

__all__ = [
    "LinkStrategy",
    "ProvedAddresses",
    "RegisterStrategy",
    "bind_browser",
    "browser_of",
    "same_password",
    "skip_second_step",
    "skips_second_step",
]

_COOKIE: Final = "__Host-link"
_COOKIE_SECONDS: Final = 600  # as long as the link is valid
_BROWSER: Final = "browser of accounts"
"""The attribute of params with the secret of the browser that asks for a link."""
_SKIPS: Final = "second step of accounts is skipped"
"""The attribute of params of a check of a password after which no second factor is asked for."""


_Redeem: TypeAlias = Callable[
    [object, Params, Callable[[StoredProof], bool]], Awaitable[StoredProof | None]
]


class RegisterStrategy(AuthenticationStrategy):
    """Creates a user, who is then signed in: ``{"strategy": "register", "email", "password"}``.

    It calls ``create`` of the users' service as the caller, so its hooks and schemas decide.
    """

    can_be_guessed = False
    methods = ("pwd",)

    async def authenticate(
        self, authentication: Mapping[str, Any], params: Params
    ) -> dict[str, Any]:
        """Create a user.

        Raises:
            BadRequest: The data is not valid.
            Conflict: The address is taken.
        """
        entities = self.authentication.entities
        data = {name: value for name, value in authentication.items() if name != "strategy"}
        created = await entities.handle.create(data, params.copy(query={}, authentication=None))
        user_id = entities.id_of(created)
        if user_id is None:  # a hook hides that the address is taken; a missing token tells it
            raise Conflict("This address is taken")
        record = await entities.get(user_id, params)
        return {"authentication": {"strategy": self.name}, entities.name: record}


class LinkStrategy(AuthenticationStrategy):
    """Accepts the token of a link in a mail: ``{"strategy": "link", "token"}``.

    Args:
        redeem: Uses a link up and returns its proof, None if it is not valid.
        prove: Marks the address of a user as confirmed.
        is_bound: Whether a link works only in the browser that asked for it.
    """

    can_be_guessed = False  # 256 random bits
    methods = ("link",)

    def __init__(
        self,
        redeem: _Redeem,
        prove: Callable[[str], Awaitable[None]],
        *,
        is_bound: bool,
    ) -> None:
        self._redeem = redeem
        self._prove = prove
        self._is_bound = is_bound

    async def authenticate(
        self, authentication: Mapping[str, Any], params: Params
    ) -> dict[str, Any]:
        """Use a link up.

        Raises:
            NotAuthenticated: It is not valid here.
        """
        entities = self.authentication.entities
        browser = parse_cookies(params.headers.get("cookie"), _COOKIE).get(_COOKIE, "")

        def is_here(proof: StoredProof) -> bool:
            asked = str(proof.data.get("browser"))
            return not self._is_bound or hmac.compare_digest(asked, browser_tag(browser))

        proof = await self._redeem(authentication.get("token"), params, is_here)
        if proof is None:
            raise NotAuthenticated("Invalid login")
        await self._prove(proof.user_id)
        record = await entities.get(proof.user_id, params)
        attempt = current_attempt(self.authentication)
        if attempt is not None:
            attempt.confirm = same_password(self.authentication, record, params)
        return {"authentication": {"strategy": self.name}, entities.name: record}


class ProvedAddresses(Extension):
    """Refuses sign-ins of users who have not confirmed their address.

    Args:
        entities: The users.
        field: The property that says whether it is proved.
        send: Sends them another mail.
    """

    def __init__(self, entities: Entities, field: str, send: Callable[[Id], None]) -> None:
        self._entities = entities
        self._field = field
        self._send = send

    async def second_step(self, attempt: Attempt) -> None:
        """Refuse a sign-in whose credentials are right.

        Raises:
            NotAuthenticated: The address is not proved. ``data.code`` is ``"not_verified"``.
        """
        entities = self._entities
        user = attempt.result.get(entities.name)
        if not is_mapping(user) or user.get(self._field) is True:
            return
        if not isinstance(attempt.strategy, RegisterStrategy):  # which has just sent one
            self._send(entities.id_of(user))
        raise NotAuthenticated("Confirm your e-mail address first", data={"code": "not_verified"})


async def bind_browser(context: HookContext, next: Next) -> None:
    """Bind the link that this call asks for to this browser: an around hook.

    The browser gets a cookie, which is not in the mail. Otherwise, an attacker could mail somebody
    a link that signs them in to the attacker's account.
    """
    data = context.data
    asks = is_mapping(data) and data.get("action") == "sendMagicLink"
    if not asks or context.params.provider != "rest":
        await next()
        return
    secret = token_urlsafe(16)
    context.params[_BROWSER] = secret
    await next()
    headers: dict[str, Any] = context.http.get("headers") or {}
    cookie = format_cookie(_COOKIE, secret, max_age=_COOKIE_SECONDS, same_site="lax")
    context.http["headers"] = {**headers, "Set-Cookie": cookie}


def same_password(
    authentication: Any, record: Mapping[str, Any], params: Params
) -> Callable[[], Awaitable[None]]:
    """Return what refuses a sign-in if the password has changed meanwhile.

    Args:
        authentication: The authentication service.
        record: The user at the beginning, with the hash of the password.
        params: The params of the sign-in.

    Raises:
        NotAuthenticated: Raised by the returned function: the password has changed.
    """
    entities, user_id = authentication.entities, authentication.entities.id_of(record)

    async def confirm() -> None:
        now = await entities.get(user_id, params)
        if any(now.get(name) != record.get(name) for name in authentication.secret_fields):
            raise NotAuthenticated("Invalid login")

    return confirm


def skip_second_step(params: Params) -> Params:
    """Return params for a check of the password of a caller who has just signed in."""
    skipping = params.copy()
    skipping[_SKIPS] = True
    return skipping


def skips_second_step(params: Params) -> bool:
    """Tell whether params are from `skip_second_step`."""
    return params.get(_SKIPS) is True


def browser_of(params: Params) -> str | None:
    """Return the hash of the secret that `bind_browser` has given to a browser, None without."""
    secret = params.get(_BROWSER)
    return None if secret is None else browser_tag(secret)


def browser_tag(secret: str) -> str:
    """Return the hash of the secret of a browser."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
