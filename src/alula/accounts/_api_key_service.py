"""The service `account/api-keys`: people create, list, renew and end their own keys.

Keys are no way to more keys: `authenticate` of this service names the strategy of access tokens
alone, so a key gets a 403 here.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from alula._context import Params
from alula._identity import ALL_SCOPES, Application
from alula.accounts._api_keys import ApiKeys
from alula.accounts._client_data import fields_of, one_id
from alula.accounts._events import Events
from alula.accounts._session_list import caller_of, offer_to_callers
from alula.authentication._access_tokens import milliseconds_of
from alula.errors import BadRequest, Conflict, NotAuthenticated, NotFound
from alula.types import Id, Record, is_list

__all__ = ["ApiKeyService"]

_PATH: Final = "account/api-keys"
_MOST_KEYS: Final = 20
_LONGEST_DAYS: Final = 366
_LONGEST_OVERLAP_MS: Final = 7 * 86_400_000


class ApiKeyService:
    """The API keys of the caller; those of others do not exist here.

    Args:
        keys: All keys.
        authentication: The authentication service.
        events: Tells own code what has happened.

    Attributes:
        secret_events: True: events of this service may have keys, so they are never published.
    """

    secret_events = True

    def __init__(self, keys: ApiKeys, authentication: Any, events: Events) -> None:
        self.keys = keys
        self._authentication = authentication
        self._events = events

    def offer(self, app: Application, authentication_path: str | None) -> None:
        """Register the service.

        Args:
            app: The application.
            authentication_path: The path of the authentication service, None for the default one.
        """
        methods = ["find", "create", "patch", "remove", "rotate"]
        strategy = self._authentication.token_strategy.name
        recently = ["create", "rotate"]
        offer_to_callers(
            app, _PATH, self, methods, strategy, authentication_path, recently=recently
        )

    async def setup(self, app: Application, path: str) -> None:  # noqa: ARG002  # as applications call it
        """Find the store."""
        self.keys.setup(app, self._authentication)

    async def teardown(self, app: Application, path: str) -> None:  # noqa: ARG002  # as above
        """Wait until the last uses of keys are stored, and for the events."""
        await self.keys.idle()
        await self._events.close()

    async def find(self, params: Params) -> list[Record]:
        """Return the keys of the caller, the newest first; the keys themselves are never shown."""
        return await self.keys.find(caller_of(params)["sub"])

    async def create(self, data: object, params: Params) -> Record:
        """Create a key from ``name``, ``scopes`` and ``expiresIn``. It is shown this once.

        Raises:
            BadRequest: The data is not valid.
            Conflict: The caller has too many keys.
            NotAuthenticated: The caller's session has ended meanwhile.
        """
        caller = caller_of(params)
        user_id = caller["sub"]
        fields = fields_of(data, needed=("name", "scopes"), optional=("expiresIn",))
        scopes = fields["scopes"]
        if not is_list(scopes) or ALL_SCOPES in scopes:
            raise BadRequest("scopes is a list of texts such as 'reports:read'")
        expires_in = fields.get("expiresIn", "90d")
        _check_duration("expiresIn", expires_in, _LONGEST_DAYS * 86_400_000)
        await self._check_number(user_id, _MOST_KEYS - 1)
        try:
            key = await self.keys.create(
                user_id=user_id, name=fields["name"], scopes=scopes, expires_in=expires_in
            )
        except ValueError as error:
            raise BadRequest(str(error)) from None
        try:
            # Once more: other calls may have created some, or a take-over has ended the session.
            await self._check_number(user_id, _MOST_KEYS)
            await self._authentication.sessions.check(caller)
        except (Conflict, NotAuthenticated):
            with suppress(NotFound):
                await self.keys.remove(key["id"])
            raise
        entities = self._authentication.entities
        self._events.emit("key_created", entities.id_of(params[entities.name]))
        return key

    async def _check_number(self, user_id: str, most: int) -> None:
        if len(await self.keys.find(user_id)) > most:
            raise Conflict(f"You have {_MOST_KEYS} keys; remove one before you create another")

    async def patch(self, id: Id, data: object, params: Params) -> Record:
        """Rename a key of the caller. What it may do cannot be changed.

        Raises:
            BadRequest: The data is not valid.
            NotFound: The caller has no such key.
        """
        user_id, fields = caller_of(params)["sub"], fields_of(data, needed=("name",))
        try:
            return await self.keys.rename(one_id(id), fields["name"], user_id=user_id)
        except ValueError as error:
            raise BadRequest(str(error)) from None

    async def remove(self, id: Id, params: Params) -> Record:
        """End a key of the caller at once.

        Raises:
            NotFound: The caller has no such key.
        """
        return await self.keys.remove(one_id(id), user_id=caller_of(params)["sub"])

    async def rotate(self, data: object, params: Params) -> Record:
        """Give the key ``id`` a new secret; the old one is valid for ``overlap``, or a day.

        Raises:
            BadRequest: The data is not valid.
            NotFound: The caller has no such key.
        """
        user_id = caller_of(params)["sub"]
        fields = fields_of(data, needed=("id",), optional=("overlap",))
        overlap = fields.get("overlap", "24h")
        if overlap != 0:
            _check_duration("overlap", overlap, _LONGEST_OVERLAP_MS)
        if not isinstance(fields["id"], str):
            raise BadRequest("id is the id of a key")
        return await self.keys.rotate(fields["id"], overlap=overlap, user_id=user_id)


def _check_duration(name: str, value: object, most: int) -> None:
    """Check a duration that a client has sent.

    Raises:
        BadRequest: It is not one, or too long.
    """
    try:
        is_short = type(value) in {str, int} and milliseconds_of(value, name) <= most  # type: ignore[arg-type]  # as the check before says
    except (ValueError, OverflowError):
        is_short = False
    if not is_short:
        days = most // 86_400_000
        raise BadRequest(f"{name} is a duration such as '{min(days, 90)}d', at most {days} days")
