"""Passkeys in the store: the public keys of people's devices.

What holds in this file:

- The primary key of a record is the id of the passkey, so nobody can register one twice.
- The handle of the user is random, and says nothing about them. All passkeys of a user have the
  same one. An authenticator sends it back, and it has to be the one that is stored.
- The counter of signatures only rises: of two sign-ins at once, the later number stays, and neither
  of them fails.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from alula._identity import Application
from alula.accounts._records import Records
from alula.errors import Conflict

__all__ = ["Passkey", "Passkeys"]

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,1364}")  # at most 1023 bytes in base64
_MOST_WRITES: Final = 20  # of one passkey, while others change it


@dataclass(frozen=True)
class Passkey:
    """A passkey of a user.

    Attributes:
        id: The id that its authenticator has given it, in base64.
        user_id: The id of its user, as text.
        name: What the user calls it.
        handle: The handle of the user, in base64.
        public_key: Its public key, in base64.
        sign_count: The highest counter of its signatures, 0 if it does not count.
        is_backup_eligible: Whether it may be copied to other devices of the user.
        is_backed_up: Whether it is.
        created_at: When it was registered, in milliseconds since 1970.
        last_used_at: When somebody last signed in with it, None for never.
    """

    id: str
    user_id: str
    name: str
    handle: str
    public_key: str
    sign_count: int
    is_backup_eligible: bool
    is_backed_up: bool
    created_at: int
    last_used_at: int | None = None


class Passkeys:
    """The passkeys in the store of accounts.

    Args:
        store: The path of the closed service that stores them.
    """

    def __init__(self, store: str) -> None:
        self._records = Records(store, "passkey")

    def setup(self, app: Application) -> None:
        """Find the service (see `Records.setup`)."""
        self._records.setup(app)

    async def find(self, id: object) -> Passkey | None:
        """Return a passkey, None if there is none.

        Args:
            id: Any value that a client has sent.
        """
        record = await self._record(id)
        return None if record is None else self._read(record)

    async def of_user(self, user_id: str) -> list[Passkey]:
        """Return the passkeys of a user, the newest first."""
        return [self._read(record) for record in await self._records.of_user(user_id)]

    async def number_of(self, user_id: object) -> int:
        """Return how many passkeys a user has."""
        return len(await self.of_user(str(user_id)))

    async def add(self, passkey: Passkey) -> bool:
        """Store a passkey, and return whether its id was free.

        Raises:
            RuntimeError: The store refuses the record; the message says why.
        """
        return await self._records.add(
            passkey.id,
            passkey.user_id,
            _data_of(passkey),
            passkey.created_at,
            count=passkey.sign_count,
            usedAt=passkey.last_used_at or 0,
        )

    async def rename(self, id: object, user_id: str, name: str) -> Passkey | None:
        """Give a passkey of a user another name; None if the user does not have it."""
        return await self._change(id, user_id, name=name)

    async def note_use(self, passkey: Passkey, *, sign_count: int, is_backed_up: bool) -> None:
        """Store what a sign-in says about a passkey.

        Args:
            passkey: The passkey, as it was stored before.
            sign_count: The counter of its signatures now.
            is_backed_up: Whether it is backed up now.
        """
        changes = {"usedAt": int(time.time() * 1000), "count": sign_count}
        counts = {"$lt": sign_count} if sign_count else 0
        # A sign-in at the same time may have stored a higher one.
        await self._records.change(passkey.id, passkey.user_id, changes, count=counts)
        if is_backed_up != passkey.is_backed_up:
            with suppress(Conflict):  # the next sign-in stores it
                await self._change(passkey.id, passkey.user_id, is_backed_up=is_backed_up)

    async def remove(self, id: str, user_id: str) -> Passkey | None:
        """Remove a passkey of a user, and return it, None if the user does not have it."""
        removed = await self._records.remove(id, user_id)
        return None if removed is None else self._read(removed)

    async def _change(self, id: object, user_id: str, **changes: Any) -> Passkey | None:
        """Change the data of a passkey, again if somebody else has changed it meanwhile."""
        for _ in range(_MOST_WRITES):
            record = await self._record(id)
            if record is None or record["userId"] != user_id:
                return None
            new = {"data": _data_of(replace(self._read(record), **changes))}
            # The id is a text: `_record` has found it.
            changed = await self._records.change(str(id), user_id, new, data=record["data"])
            if changed is not None:
                return self._read(changed)
        raise Conflict("Others change this passkey all the time; try again")

    async def _record(self, id: object) -> Mapping[str, Any] | None:
        if not isinstance(id, str) or not _ID.fullmatch(id):
            return None
        return await self._records.get(id)

    def _read(self, record: Mapping[str, Any]) -> Passkey:
        data = json.loads(record["data"])
        return Passkey(
            self._records.id_of(record),
            record["userId"],
            data["name"],
            data["handle"],
            data["publicKey"],
            record["count"],
            data["backupEligible"],
            data["backedUp"],
            record["createdAt"],
            record["usedAt"] or None,
        )


def _data_of(passkey: Passkey) -> str:
    return json.dumps(
        {
            "name": passkey.name,
            "handle": passkey.handle,
            "publicKey": passkey.public_key,
            "backupEligible": passkey.is_backup_eligible,
            "backedUp": passkey.is_backed_up,
        }
    )
