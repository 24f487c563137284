"""Two more ways to sign in: by a sign-up, and by a link in a mail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from alula._context import Params
from alula.accounts._browsers import is_in_browser
from alula.accounts._proofs import StoredProof
from alula.authentication import Attempt, AuthenticationStrategy, Extension
from alula.authentication._attempt import current_attempt
from alula.authentication._entities import Entities
from alula.errors import Conflict, NotAuthenticated
from alula.types import Id, is_mapping

__all__ = [
    "LinkStrategy",
    "ProvedAddresses",
    "RegisterStrategy",
    "same_password",
    "skip_second_step",
    "skips_second_step",
]

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

        def is_here(proof: StoredProof) -> bool:
            return not self._is_bound or is_in_browser(proof, params)

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
