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
from typing import Any

from alula._identity import Application
from alula.accounts._records import Records
from alula.accounts.providers._provider import Claims

__all__ = ["Identities", "Identity", "identity_id"]


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
        self._records = Records(store, "identity")

    def setup(self, app: Application) -> None:
        """Find the service (see `Records.setup`)."""
        self._records.setup(app)

    async def get(self, id: str) -> Identity | None:
        """Return the identity with a hash of issuer and subject, None if it is not linked."""
        record = await self._records.get(id)
        return None if record is None else self._read(record)

    async def of_user(self, user_id: str) -> list[Identity]:
        """Return the identities of a user, the newest first."""
        return [self._read(record) for record in await self._records.of_user(user_id)]

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
        data, linked_at = _data_of(identity), identity.linked_at
        return await self._records.add(identity.id, identity.user_id, data, linked_at)

    async def touch(self, identity: Identity) -> bool:
        """Note that somebody has signed in; return whether the identity is still that user's."""
        data = _data_of(replace(identity, last_used_at=int(time.time() * 1000)))
        changed = await self._records.change(identity.id, identity.user_id, {"data": data})
        return changed is not None

    async def remove(self, id: str, user_id: str) -> Identity | None:
        """Remove an identity of a user, and return it, None if the user does not have it.

        Args:
            id: The hash of issuer and subject; any text.
            user_id: The id of the user.
        """
        removed = await self._records.remove(id, user_id)
        return None if removed is None else self._read(removed)

    def _read(self, record: Mapping[str, Any]) -> Identity:
        data = json.loads(record["data"])
        return Identity(
            self._records.id_of(record),
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
