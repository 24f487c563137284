"""The records of one kind in the store of accounts, such as identities or passkeys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from alula._identity import Application, private_service
from alula.accounts._proofs import cannot_store
from alula.authentication._entities import id_name
from alula.errors import BadRequest, Conflict, NotFound

__all__ = ["Records"]

_NEVER: Final = 253_402_300_799_000  # the end of the year 9999: sweeps remove what has expired
_MOST: Final = 1_000
"""The most records of a user in a list: nobody has more, and a script may add without end."""


class Records:
    """The records of one kind. Their primary key is the kind and an id, so an id is stored once.

    Args:
        store: The path of the closed service that stores them.
        kind: The kind.
    """

    def __init__(self, store: str, kind: str) -> None:
        self._path = store
        self._kind = kind
        self._prefix = f"{kind}:"
        self._handle: Any = None
        self._id = "id"

    def setup(self, app: Application) -> None:
        """Find the service.

        Raises:
            ValueError: The service is not registered, or clients can call it.
        """
        self._handle = private_service(app, self._path, "Accounts(store=...)")
        self._id = id_name(self._handle)

    def id_of(self, record: Mapping[str, Any]) -> str:
        """Return the id of a record, without its kind."""
        key: str = record[self._id]
        return key.removeprefix(self._prefix)

    async def get(self, id: str) -> Mapping[str, Any] | None:
        """Return a record, None if there is none."""
        try:
            record: Mapping[str, Any] = await self._handle.get(self._prefix + id)
        except NotFound:
            return None
        return record

    async def of_user(self, user_id: str) -> list[Mapping[str, Any]]:
        """Return the records of a user, the newest first."""
        query = {
            "userId": user_id,
            "kind": self._kind,
            "$sort": {"createdAt": -1},
            "$limit": _MOST,
        }
        records: list[Mapping[str, Any]] = await self._handle.find(query=query, paginate=False)
        return records

    async def add(self, id: str, user_id: str, data: str, created_at: int, **more: Any) -> bool:
        """Store a record, and return whether its id was free.

        Args:
            id: Its id.
            user_id: The id of its user, as text.
            data: What it has, as JSON.
            created_at: When it was made, in milliseconds since 1970.
            more: Further columns.

        Raises:
            RuntimeError: The store refuses the record; the message says why.
        """
        record = {
            self._id: self._prefix + id,
            "kind": self._kind,
            "userId": user_id,
            "secret": "",
            "data": data,
            "count": 0,
            "createdAt": created_at,
            "expiresAt": _NEVER,
            **more,
        }
        try:
            await self._handle.create(record)
        except Conflict:
            return False
        except BadRequest as error:
            raise cannot_store(self._path, record, error) from None
        return True

    async def change(
        self, id: str, user_id: str, changes: Mapping[str, Any], **query: Any
    ) -> Mapping[str, Any] | None:
        """Change a record of a user, and return it, None if no such record meets the query."""
        try:
            changed: Mapping[str, Any] = await self._handle.patch(
                self._prefix + id, {**changes}, query={"userId": user_id, **query}
            )
        except NotFound:
            return None
        return changed

    async def remove(self, id: str, user_id: str) -> Mapping[str, Any] | None:
        """Remove a record of a user, and return it, None if the user does not have it."""
        query = {"userId": user_id, "kind": self._kind}
        try:
            removed: Mapping[str, Any] = await self._handle.remove(self._prefix + id, query=query)
        except NotFound:
            return None
        return removed
