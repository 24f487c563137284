"""Identities: which person at which provider is which user.

What holds in this file:

- An identity is the issuer and the subject. It is never the address, which may get a new owner, and
  never the provider's name here, which the application may change.
- The primary key of its record is the hash of both. So the store links an identity once, however
  many callers want it at the same time.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from alula._identity import Application, private_service
from alula.accounts._proofs import cannot_store
from alula.accounts.providers._provider import Claims
from alula.authentication._entities import id_name
from alula.errors import BadRequest, Conflict, NotFound

__all__ = ["Identities", "Identity", "identity_id"]

_KIND: Final = "identity"
_PREFIX: Final = "identity:"
_NEVER: Final = 253_402_300_799_000  # the end of the year 9999: sweeps remove what has expired
_MOST: Final = 1_000
"""The most identities in a list: nobody has more, and a script may link without end."""


@dataclass(frozen=True)
class Identity:
    """An identity that is linked.

    Attributes:
        id: The hash of issuer and subject.
        user_id: The id of its user, as text.
        provider: The name of the provider when it was linked.
        email: The address that the provider had then, None without one.
        linked_at: When it was linked, in milliseconds since 1970.
        last_used_at: When somebody last signed in with it.
    """

    id: str
    user_id: str
    provider: str
    email: str | None
    linked_at: int
    last_used_at: int


class Identities:
    """The identities in the store of accounts.

    Args:
        store: The path of the closed service that stores them.
    """

    def __init__(self, store: str) -> None:
        self._path = store
        self._handle: Any = None
        self._id = "id"

    def setup(self, app: Application) -> None:
        """Find the service.

        Raises:
            ValueError: The service is not registered, or clients can call it.
        """
        self._handle = private_service(app, self._path, "Accounts(store=...)")
        self._id = id_name(self._handle)

    async def get(self, id: str) -> Identity | None:
        """Return the identity with a hash of issuer and subject, None if it is not linked."""
        try:
            return self._read(await self._handle.get(_PREFIX + id))
        except NotFound:
            return None

    async def of_user(self, user_id: str) -> list[Identity]:
        """Return the identities of a user, the newest first."""
        query = {"userId": user_id, "kind": _KIND, "$sort": {"createdAt": -1}, "$limit": _MOST}
        records = await self._handle.find(query=query, paginate=False)
        return [self._read(record) for record in records]

    async def link(self, claims: Claims, user_id: str) -> Identity | None:
        """Link an identity to a user, and return it, None if it is linked already.

        Raises:
            RuntimeError: The store refuses the record; the message says why.
        """
        return await self.link_by_id(identity_id(claims), user_id, claims.provider, claims.email)

    async def link_by_id(
        self, id: str, user_id: str, provider: str, email: str | None
    ) -> Identity | None:
        """Link an identity by its hash, as `link` does.

        Args:
            id: The hash of issuer and subject.
            user_id: The id of the user.
            provider: The name of the provider.
            email: The address that the provider has.
        """
        now = int(time.time() * 1000)
        identity = Identity(id, user_id, provider, email, linked_at=now, last_used_at=now)
        return identity if await self.restore(identity) else None

    async def restore(self, identity: Identity) -> bool:
        """Store an identity, and return whether it was free.

        Raises:
            RuntimeError: The store refuses the record; the message says why.
        """
        record = {
            self._id: _PREFIX + identity.id,
            "kind": _KIND,
            "userId": identity.user_id,
            "secret": "",
            "data": _data_of(identity),
            "count": 0,
            "createdAt": identity.linked_at,
            "expiresAt": _NEVER,
        }
        try:
            await self._handle.create(record)
        except Conflict:
            return False
        except BadRequest as error:
            raise cannot_store(self._path, record, error) from None
        return True

    async def touch(self, identity: Identity) -> bool:
        """Note that somebody has signed in; return whether the identity is still that user's."""
        data = _data_of(replace(identity, last_used_at=int(time.time() * 1000)))
        try:
            await self._handle.patch(
                _PREFIX + identity.id, {"data": data}, query={"userId": identity.user_id}
            )
        except NotFound:
            return False
        return True

    async def remove(self, id: str, user_id: str) -> Identity | None:
        """Remove an identity of a user, and return it, None if the user does not have it.

        Args:
            id: The hash of issuer and subject; any text.
            user_id: The id of the user.
        """
        query = {"userId": user_id, "kind": _KIND}
        try:
            return self._read(await self._handle.remove(_PREFIX + id, query=query))
        except NotFound:
            return None

    def _read(self, record: Mapping[str, Any]) -> Identity:
        data = json.loads(record["data"])
        return Identity(
            record[self._id].removeprefix(_PREFIX),
            record["userId"],
            data["provider"],
            data["email"],
            record["createdAt"],
            data["lastUsedAt"],
        )


def identity_id(claims: Claims) -> str:
    """Return the hash of issuer and subject."""
    return hashlib.sha256(
        f"{claims.issuer}\0{claims.subject}".encode("utf-8", "surrogatepass")
    ).hexdigest()


def _data_of(identity: Identity) -> str:
    return json.dumps(
        {
            "provider": identity.provider,
            "email": identity.email,
            "lastUsedAt": identity.last_used_at,
        }
    )
