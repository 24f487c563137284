"""One-time links and codes, by which people prove that they read the mails to an address.

What holds in this file:

- The store has only hashes. Nobody who reads it gets a link or a code.
- A user has one record for each purpose, so a new link replaces the one before.
- The call that removes the record has used up the link. Every adapter lets only one call remove a
  record.
- A link has 256 random bits and cannot be guessed. A code has six digits: each guess is counted
  before it is compared, and after a few guesses the code stops working. The link still works.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from secrets import randbelow, token_urlsafe
from typing import Any, Final, Literal, TypeAlias, get_args

from alula._identity import Application, private_service
from alula._service import ServiceHandle
from alula.authentication._entities import id_name, remove_before
from alula.errors import BadRequest, Conflict, NotFound

__all__ = [
    "CODE_DIGITS",
    "PURPOSES",
    "TOKEN_LENGTH",
    "Proof",
    "Proofs",
    "Purpose",
    "StoredProof",
    "cannot_store",
]

Purpose: TypeAlias = Literal["verify", "reset", "change", "undo", "link", "link_identity"]
PURPOSES: Final[tuple[Purpose, ...]] = get_args(Purpose)

CODE_DIGITS: Final = 6
TOKEN_LENGTH: Final = 59
_HANDLE_LENGTH: Final = 16

_MINUTE_MS: Final = 60_000
_DAY_MS: Final = 1440 * _MINUTE_MS
_LIFETIMES_MS: Final[Mapping[Purpose, int]] = {
    "verify": 5 * _DAY_MS,
    "reset": 60 * _MINUTE_MS,
    "change": _DAY_MS,
    "undo": 7 * _DAY_MS,
    "link": 10 * _MINUTE_MS,
    "link_identity": 10 * _MINUTE_MS,
}
_WITH_CODE: Final = frozenset({"verify", "reset", "change"})
_CODE_LIFETIME_MS: Final = 10 * _MINUTE_MS
_SWEEP_INTERVAL_MS: Final = 60 * _MINUTE_MS
_MOST_WRITES: Final = 20  # of one proof, while others write and remove the same one


@dataclass(frozen=True, repr=False)  # its text would be a secret
class Proof:
    """A new link and its code, which only the mail has.

    Attributes:
        token: What the link contains.
        code: The code, None where the purpose has none.
        expires_at: When the link expires, in milliseconds since 1970.
    """

    token: str
    code: str | None
    expires_at: int


@dataclass(frozen=True, repr=False)
class StoredProof:
    """What the store has of a link and its code.

    Attributes:
        id: The id of the record.
        purpose: What it proves or allows.
        user_id: The id of the user, as text.
        data: What the purpose needs, such as the address it was sent to.
        secret: The hash of the link.
        tries: How many codes were tried.
        expires_at: When the link expires, in milliseconds since 1970.
    """

    id: str
    purpose: Purpose
    user_id: str
    data: Mapping[str, Any]
    secret: str
    tries: int
    expires_at: int


class Proofs:
    """Issues, finds and redeems links and codes.

    Args:
        store: The path of the closed service that stores them.
        codes: Whether there are codes besides the links.
        tries: How many codes may be tried for one mail.
    """

    def __init__(self, store: str, *, codes: bool, tries: int) -> None:
        self._path = store
        self._has_codes = codes
        self._tries = tries
        self._handle: Any = None
        self._id = "id"
        self._key = b""
        self._sweep_at = 0

    def setup(self, app: Application, authentication: Any) -> None:
        """Find the service, and derive the key.

        Raises:
            ValueError: The service is not registered, or clients can call it.
        """
        handle: ServiceHandle = private_service(app, self._path, "Accounts(store=...)")
        self._handle = handle
        self._id = id_name(handle)
        self._key = authentication.derived_key(b"accounts: links and codes")

    # -- new ones ------------------------------------------------------------------------------

    async def issue(self, purpose: Purpose, user_id: object, data: Mapping[str, Any]) -> Proof:
        """Make a link, and a code if there are codes; the ones before are not valid any more.

        Args:
            purpose: What it proves or allows.
            user_id: The id of the user.
            data: What the purpose needs. An ``undo`` has its ``address``, which has one at a time.

        Raises:
            RuntimeError: The store refuses the record; the message says why.
        """
        now = _milliseconds()
        if now >= self._sweep_at:
            self._sweep_at = now + _SWEEP_INTERVAL_MS
            await remove_before(self._handle, "expiresAt", now)
        owner = data["address"] if purpose == "undo" else str(user_id)
        handle = self._handle_of(purpose, owner)
        token = handle + token_urlsafe(32)
        secret = hashlib.sha256(token.encode()).hexdigest()
        code, stored = None, dict(data)
        if self._has_codes and purpose in _WITH_CODE:
            code = f"{randbelow(10**CODE_DIGITS):0{CODE_DIGITS}}"
            stored["code"] = self._code_tag(secret, code)
            stored["codeExpiresAt"] = now + _CODE_LIFETIME_MS
        expires_at = now + _LIFETIMES_MS[purpose]
        record = {
            self._id: f"token:{handle}",
            "kind": purpose,
            "userId": str(user_id),
            "secret": secret,
            "data": json.dumps(stored),
            "count": 0,
            "createdAt": now,
            "expiresAt": expires_at,
        }
        await self._put(record)
        return Proof(token, code, expires_at)

    async def _put(self, record: dict[str, Any]) -> None:
        """Store a record in place of the one that has its id."""
        changes = {name: value for name, value in record.items() if name != self._id}
        for _ in range(_MOST_WRITES):
            try:
                with suppress(Conflict):
                    await self._handle.create(record)
                    return
                with suppress(NotFound):  # it was used up just now
                    await self._handle.patch(record[self._id], changes)
                    return
            except BadRequest as error:  # not the client's mistake: the record is ours
                raise cannot_store(self._path, record, error) from None
        raise RuntimeError(f"{self._path!r} finds a record neither missing nor present")

    # -- used ones -----------------------------------------------------------------------------

    async def find(self, purposes: Iterable[Purpose], token: str) -> StoredProof | None:
        """Return the proof of a link that is still valid; this does not use it up.

        Args:
            purposes: The purposes that count.
            token: Any text that a client has sent.
        """
        if len(token) != TOKEN_LENGTH or not token.isascii():
            return None
        proof = await self._get(f"token:{token[:_HANDLE_LENGTH]}")
        secret = hashlib.sha256(token.encode()).hexdigest()
        if proof is None or proof.purpose not in purposes:
            return None
        return proof if hmac.compare_digest(proof.secret, secret) else None

    async def find_by_code(
        self, purposes: Iterable[Purpose], user_id: object, code: str
    ) -> StoredProof | None:
        """Return the proof of a code that is still valid, after paying one try for it.

        Args:
            purposes: The purposes that count, in the order in which they are tried.
            user_id: The id of the user; None for nobody, which costs the same reads.
            code: Any text that a client has sent.
        """
        for purpose in purposes:
            proof = await self._get(f"token:{self._handle_of(purpose, str(user_id or ''))}")
            while proof is not None and proof.tries < self._tries and "code" in proof.data:
                paid = await self._pay(proof)
                if paid is None:  # another call has paid at the same time
                    proof = await self._get(proof.id)
                    continue
                tag = self._code_tag(paid.secret, code)
                is_right = hmac.compare_digest(str(paid.data["code"]), tag)
                if is_right and paid.data["codeExpiresAt"] > _milliseconds():
                    return paid
                break
        return None

    async def redeem(self, proof: StoredProof) -> bool:
        """Use a proof up, and return whether this call was the first one."""
        query = {"secret": proof.secret, "expiresAt": {"$gt": _milliseconds()}}
        try:
            await self._handle.remove(proof.id, query=query)
        except NotFound:
            return False
        return True

    async def reserved_for(self, address: str) -> str | None:
        """Return the id of the user who may still take an address back, None without one."""
        proof = await self._get(f"token:{self._handle_of('undo', address)}")
        return None if proof is None else proof.user_id

    async def forget(self, user_id: object, *kinds: str) -> None:
        """Remove what the store has of a user.

        Args:
            user_id: The id of the user.
            kinds: Of which kinds: purposes of links and codes, ``"key"``, ``"identity"`` or
                ``"passkey"``. None for all, also those of other features.
        """
        query: dict[str, Any] = {"userId": str(user_id)}
        if kinds:
            query["kind"] = {"$in": [*kinds]}
        await self._handle.remove(None, query=query, adapter={"multi": ["remove"]}, paginate=False)

    async def _get(self, id: str) -> StoredProof | None:
        try:
            record = await self._handle.get(id)
        except NotFound:
            return None
        return self._read(record) if record["expiresAt"] > _milliseconds() else None

    async def _pay(self, proof: StoredProof) -> StoredProof | None:
        """Count one try of a code, None if another call was faster."""
        query = {"count": proof.tries, "secret": proof.secret}
        try:
            return self._read(
                await self._handle.patch(proof.id, {"count": proof.tries + 1}, query=query)
            )
        except NotFound:
            return None

    def _read(self, record: Mapping[str, Any]) -> StoredProof:
        return StoredProof(
            record[self._id],
            record["kind"],
            record["userId"],
            json.loads(record["data"]),
            record["secret"],
            record["count"],
            record["expiresAt"],
        )

    def _handle_of(self, purpose: Purpose, owner: str) -> str:
        """Return the part of a link by which its record is found; it does not tell whose it is."""
        digest = hmac.digest(self._key, f"{purpose}\0{owner}".encode(), hashlib.sha256)
        return urlsafe_b64encode(digest[:12]).decode()

    def _code_tag(self, secret: str, code: str) -> str:
        # With the hash of the link, so that equal codes have different tags.
        text = f"code\0{secret}\0{code}".encode("utf-8", "surrogatepass")
        return hmac.new(self._key, text, hashlib.sha256).hexdigest()


def cannot_store(path: str, record: Mapping[str, Any], error: BadRequest) -> RuntimeError:
    """Return the error for a store that does not take a record of ours."""
    return RuntimeError(
        f"{path!r} cannot store credentials: {error.message}. It needs the properties"
        f" {', '.join(record)}: texts, and 64-bit integers for count and the times"
    )


def _milliseconds() -> int:
    return int(time.time() * 1000)
