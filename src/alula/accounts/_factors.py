"""Second factors in the store: the secret of an authenticator app, and recovery codes.

What holds in this file:

- The store has only the encrypted secret, which is bound to the id of its record.
- There is one record for a user. A set-up that is not confirmed does not count, and expires.
- A code counts once, and so does any earlier one: its step is stored by a patch that only raises
  it. Every adapter lets one of two such calls win.
- The call that removes the record of a recovery code has used the code up. Only codes of one batch
  count; the record of the app names it. So new codes end the old ones in one write.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from secrets import token_urlsafe
from typing import Any, Final

from alula._identity import Application, private_service
from alula.accounts._encryption import Encryption
from alula.accounts._proofs import cannot_store
from alula.accounts._recovery_codes import (
    RECOVERY_CODES,
    new_recovery_code,
    recovery_code_of,
    recovery_tag,
)
from alula.accounts._totp import matching_step, new_secret
from alula.authentication._entities import id_name
from alula.errors import BadRequest, Conflict, NotFound

__all__ = ["Factors"]

_ON: Final = "totp"
_SETUP: Final = "totp_setup"
_RECOVERY: Final = "recovery"

_SETUP_MS: Final = 3_600_000
_NEVER: Final = 2**53 - 1  # when a factor expires; the store sweeps what has expired


class Factors:
    """Sets up, checks and removes second factors.

    Args:
        store: The path of the closed service that stores them.
        keys: Keys of the owner. The first encrypts; all others, and the secret of the
            authentication service, only decrypt. Without any, that secret encrypts.
    """

    def __init__(self, store: str, keys: Sequence[str]) -> None:
        self._path = store
        self._given_keys = keys
        self._handle: Any = None
        self._id = "id"
        self._encryption = Encryption([])
        self._tag_keys: list[bytes] = []

    def setup(self, app: Application, authentication: Any) -> None:
        """Find the service, and derive the keys.

        Raises:
            ValueError: The service is not registered, or clients can call it.
        """
        self._handle = private_service(app, self._path, "Accounts(store=...)")
        self._id = id_name(self._handle)
        keys = [key.encode() for key in self._given_keys]
        keys.append(authentication.derived_key(b"accounts: second factors"))
        self._encryption = Encryption([_derived(key, b"secrets of apps") for key in keys])
        self._tag_keys = [_derived(key, b"recovery codes") for key in keys]

    async def is_on(self, user_id: object) -> bool:
        """Return whether a user has a second factor that is confirmed."""
        return await self._get(user_id) is not None

    async def begin(self, user_id: object) -> bytes:
        """Begin a set-up, which replaces one that is not confirmed, and return its secret.

        Raises:
            Conflict: The user has a second factor.
            RuntimeError: The store refuses the record; the message says why.
        """
        secret, now, record_id = new_secret(), _milliseconds(), self._id_of(user_id)
        record = {
            self._id: record_id,
            "kind": _SETUP,
            "userId": str(user_id),
            "secret": self._encryption.encrypt(secret, record_id),
            "data": "",
            "count": 0,
            "createdAt": now,
            "expiresAt": now + _SETUP_MS,
        }
        try:
            await self._handle.create(record)
        except BadRequest as error:  # not the client's mistake: the record is ours
            raise cannot_store(self._path, record, error) from None
        except Conflict:
            changes = {name: value for name, value in record.items() if name != self._id}
            try:
                await self._handle.patch(record_id, changes, query={"kind": _SETUP})
            except NotFound:
                raise Conflict("There is a second factor already; remove it first") from None
        return secret

    async def confirm(self, user_id: object, code: object) -> list[str] | None:
        """Turn a set-up on, and return recovery codes; None if the code of the app is wrong.

        Args:
            user_id: The id of the user.
            code: Any value that a client has sent.

        Raises:
            NotFound: There is no set-up that waits for a code.
        """
        missing = NotFound("There is no set-up that waits for a code; begin one")
        record = await self._get(user_id, _SETUP)
        if record is None or record["expiresAt"] <= _milliseconds():
            raise missing
        secret, _ = self._encryption.decrypt(record["secret"], record[self._id])
        step = matching_step(secret, code, time.time())
        if step is None:
            return None
        batch = token_urlsafe(12)
        changes = {"kind": _ON, "count": step, "data": batch, "expiresAt": _NEVER}
        query = {"kind": _SETUP, "secret": record["secret"]}
        try:
            await self._handle.patch(record[self._id], changes, query=query)
        except NotFound:  # another call has confirmed or replaced it
            raise missing from None
        return await self._new_recovery_codes(user_id, batch)

    async def use_code(self, user_id: object, code: object) -> bool:
        """Use a code of the app up, and return whether it was right, and this its first use.

        Args:
            user_id: The id of the user.
            code: Any value that a client has sent.
        """
        record = await self._get(user_id)
        if record is None:
            return False
        record_id = record[self._id]
        secret, is_by_first_key = self._encryption.decrypt(record["secret"], record_id)
        step = matching_step(secret, code, time.time())
        if step is None:
            return False
        changes: dict[str, Any] = {"count": step}
        if not is_by_first_key:
            changes["secret"] = self._encryption.encrypt(secret, record_id)
        query = {"kind": _ON, "secret": record["secret"], "count": {"$lt": step}}
        try:
            await self._handle.patch(record_id, changes, query=query)
        except NotFound:
            return False
        return True

    async def remove(self, user_id: object) -> bool:
        """Remove the second factor of a user, and return whether this call has turned it off."""
        try:
            removed = await self._handle.remove(self._id_of(user_id))
        except NotFound:
            return False
        await self._remove_recovery_codes({"userId": str(user_id)})
        is_on: bool = removed["kind"] == _ON
        return is_on

    # -- recovery codes ------------------------------------------------------------------------

    async def renew_recovery_codes(self, user_id: object) -> list[str]:
        """Return new recovery codes; the old ones end.

        Raises:
            Conflict: Another call does the same at this moment.
            NotFound: The user has no second factor.
        """
        record = await self._get(user_id)
        if record is None:
            raise NotFound("There is no second factor; turn it on first")
        old, batch = record["data"], token_urlsafe(12)
        codes = await self._new_recovery_codes(user_id, batch)
        query = {"kind": _ON, "data": old}
        try:
            await self._handle.patch(record[self._id], {"data": batch}, query=query)
        except NotFound:
            await self._remove_recovery_codes({"userId": str(user_id), "data": batch})
            raise Conflict("The recovery codes have just changed; try again") from None
        await self._remove_recovery_codes({"userId": str(user_id), "data": old})
        return codes

    async def use_recovery_code(self, user_id: object, typed: object) -> int | None:
        """Use a recovery code up, and return how many are left; None if it does not count.

        Args:
            user_id: The id of the user.
            typed: Any value that a client has sent.
        """
        record, code = await self._get(user_id), recovery_code_of(typed)
        if record is None or code is None:
            return None
        query = {"kind": _RECOVERY, "data": record["data"]}
        for key in self._tag_keys:
            try:
                await self._handle.remove(self._recovery_id(key, user_id, code), query=query)
            except NotFound:
                continue
            return await self.recovery_codes_left(user_id)
        return None

    async def recovery_codes_left(self, user_id: object) -> int:
        """Return how many recovery codes of a user are not used."""
        record = await self._get(user_id)
        if record is None:
            return 0
        query = {"userId": str(user_id), "kind": _RECOVERY, "data": record["data"]}
        left: list[object] = await self._handle.find(query=query, paginate=False)
        return len(left)

    async def _new_recovery_codes(self, user_id: object, batch: str) -> list[str]:
        codes, now = [new_recovery_code() for _ in range(RECOVERY_CODES)], _milliseconds()
        records = [
            {
                self._id: self._recovery_id(self._tag_keys[0], user_id, code.replace("-", "")),
                "kind": _RECOVERY,
                "userId": str(user_id),
                "secret": "",  # the hash is the id
                "data": batch,
                "count": 0,
                "createdAt": now,
                "expiresAt": _NEVER,
            }
            for code in codes
        ]
        await self._handle.create(records, adapter={"multi": ["create"]})
        return codes

    async def _remove_recovery_codes(self, query: Mapping[str, Any]) -> None:
        query = {**query, "kind": _RECOVERY}
        await self._handle.remove(None, query=query, adapter={"multi": ["remove"]}, paginate=False)

    def _recovery_id(self, key: bytes, user_id: object, code: str) -> str:
        return f"recovery:{recovery_tag(key, user_id, code)}"

    # -- the record of the app -----------------------------------------------------------------

    async def _get(self, user_id: object, kind: str = _ON) -> Mapping[str, Any] | None:
        try:
            record: Mapping[str, Any] = await self._handle.get(self._id_of(user_id))
        except NotFound:
            return None
        return record if record["kind"] == kind else None

    def _id_of(self, user_id: object) -> str:
        return f"totp:{user_id}"


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hmac.digest(key, b"alula accounts: " + purpose, hashlib.sha256)


def _milliseconds() -> int:
    return int(time.time() * 1000)
