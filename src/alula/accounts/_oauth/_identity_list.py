"""The service `account/identities`: people see their identities, and remove them."""

from __future__ import annotations

from typing import Any, Final

from alula._context import Params
from alula._identity import Application
from alula.accounts._events import Events
from alula.accounts._oauth._identities import Identities, Identity
from alula.accounts._session_list import caller_of, offer_to_callers
from alula.accounts._ways_in import WaysIn
from alula.errors import NotFound
from alula.types import Id

__all__ = ["IdentityList"]

_PATH: Final = "account/identities"


class IdentityList:
    """The identities of the caller; those of others do not exist here.

    Args:
        authentication: The authentication service.
        identities: All identities.
        events: Tells own code what has happened.
        ways: All ways in of a user.

    Attributes:
        secret_events: True: nobody else may know with whom somebody signs in, so its events are
            never published.
    """

    secret_events = True

    def __init__(
        self, authentication: Any, identities: Identities, events: Events, ways: WaysIn
    ) -> None:
        self._authentication = authentication
        self._identities = identities
        self._events = events
        self._ways = ways
        ways.add(self._count)

    def offer(self, app: Application, authentication_path: str | None) -> None:
        """Register the service.

        Args:
            app: The application.
            authentication_path: The path of the authentication service, None for the default one.
        """
        strategy = self._authentication.token_strategy.name
        methods, recently = ["find", "remove"], ["remove"]
        offer_to_callers(
            app, _PATH, self, methods, strategy, authentication_path, recently=recently
        )

    async def find(self, params: Params) -> list[dict[str, Any]]:
        """Return the identities of the caller, the newest first."""
        return [_shown(one) for one in await self._identities.of_user(caller_of(params)["sub"])]

    async def remove(self, id: Id, params: Params) -> dict[str, Any]:
        """Remove an identity of the caller, who can no longer sign in with it.

        Raises:
            Conflict: The caller has no other way to sign in.
            NotFound: The caller has no such identity.
        """
        user_id = caller_of(params)["sub"]
        if id not in {identity.id for identity in await self._identities.of_user(user_id)}:
            raise _not_found()

        async def remove() -> Identity:
            removed = await self._identities.remove(str(id), user_id)
            if removed is None:
                raise _not_found()
            return removed

        removed = await self._ways.remove(user_id, remove, self._identities.restore)
        entities = self._authentication.entities
        self._events.emit("unlinked", entities.id_of(params[entities.name]))
        return _shown(removed)

    async def _count(self, user_id: str) -> int:
        return len(await self._identities.of_user(user_id))


def _shown(identity: Identity) -> dict[str, Any]:
    return {
        "id": identity.id,
        "provider": identity.provider,
        "email": identity.email,
        "linkedAt": identity.linked_at,
        "lastUsedAt": identity.last_used_at,
    }


def _not_found() -> NotFound:
    return NotFound("You have no such identity")
