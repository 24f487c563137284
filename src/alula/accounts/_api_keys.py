"""API keys: their form, and where they are stored.

A key is ``<prefix>_<id>_<secret>_<checksum>``: ``alu_k7Qm2hT9xZ4a_...``. What holds in this file:

- The store has only the hash of the secret. Nobody who reads the store gets a key. The secret has
  256 random bits, which nobody guesses, so a fast hash is enough.
- The checksum detects a typing error without asking the store.
- Each call reads the record of its key, so a key that is removed stops working at once. Its
  connections close, too, however the record is removed.
- The time of the last use is written at most every five minutes, after the call.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import re
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from functools import lru_cache, partial
from secrets import choice
from string import ascii_letters, digits
from typing import Any, Final

from alula._context import HookContext, Params
from alula._events import emit_unless_held
from alula._identity import Application, is_scope, private_service
from alula._service import owning_handle
from alula.accounts._client_data import checked_name
from alula.accounts._proofs import cannot_store
from alula.authentication._access_tokens import Duration, milliseconds_of
from alula.authentication._entities import id_name, remove_before
from alula.errors import BadRequest, Conflict, NotAuthenticated, NotFound
from alula.hooks import Next
from alula.types import Record, is_list, is_mapping

__all__ = ["STRATEGY", "ApiKeys", "CheckedKey"]

STRATEGY: Final = "apiKey"
"""The name of the strategy that accepts keys."""

_PREFIX: Final = re.compile(r"[a-z][a-z0-9]{1,15}")
_KIND: Final = "key"
_LETTERS: Final = ascii_letters + digits
_ID_LENGTH: Final = 12
_SECRET_LENGTH: Final = 43  # of 62 letters: 256 bits
_CHECKSUM_LENGTH: Final = 6
_PAIRS: Final = [one + other for one in _LETTERS for other in _LETTERS]

_NEVER_MS: Final = 8_640_000_000_000_000
"""When keys without an end expire: the last date that JavaScript knows. The sweep needs a time."""

_USED_INTERVAL_MS: Final = 300_000
_SWEEP_INTERVAL_MS: Final = 3_600_000
_MOST_SHOWN: Final = 1_000
_MOST_SCOPES: Final = 100
_MOST_WRITES: Final = 20  # of one key, while others change it

_log: Final = logging.getLogger("alula.accounts")


@dataclass(frozen=True)
class CheckedKey:
    """A key that is valid now.

    Attributes:
        id: Its id.
        user_id: The id of its user, as text.
        name: What its user calls it.
        scopes: What it may do.
        expires_at: When it expires, in milliseconds since 1970; None for never.
    """

    id: str
    user_id: str
    name: str
    scopes: list[str]
    expires_at: int | None


class ApiKeys:
    """Creates, lists, rotates and removes the API keys of users, for your own code.

    You get it as the attribute ``api_keys`` of ``Accounts(api_keys=True)``. People manage their own
    keys with the service ``account/api-keys``.

    Args:
        store: The path of the closed service that stores them.
        prefix: How keys begin.
        is_on: Whether API keys are turned on.

    Raises:
        ValueError: The prefix is not valid.
    """

    def __init__(self, store: str, prefix: str, *, is_on: bool) -> None:
        if not _PREFIX.fullmatch(prefix):
            raise ValueError(
                f"key_prefix is {prefix!r}; write 2 to 16 lower-case letters and digits,"
                " beginning with a letter"
            )
        self._path = store
        self._prefix = prefix
        self.is_on = is_on
        self._form = re.compile(
            rf"({prefix}_([0-9A-Za-z]{{{_ID_LENGTH}}})_([0-9A-Za-z]{{{_SECRET_LENGTH}}}))"
            rf"_([0-9A-Za-z]{{{_CHECKSUM_LENGTH}}})",
        )
        self._handle: Any = None
        self._id = "id"
        self._entities: Any = None
        self._connections: Any = None
        self._sweep_at = 0
        self._noting: dict[str, asyncio.Task[None]] = {}

    def __repr__(self) -> str:
        return f"ApiKeys(is_on={self.is_on})"

    def setup(self, app: Application, authentication: Any) -> None:
        """Find the service, and follow from then on which keys end.

        Args:
            app: The application.
            authentication: The authentication service.

        Raises:
            ValueError: The service is not registered, or clients can call it.
        """
        handle: Any = private_service(app, self._path, "Accounts(store=...)")
        if self._handle is not handle:  # a second setup must not register the hook twice
            self._handle = handle
            # Innermost: whoever removes a record ends its key, and no hook can hide that.
            owning_handle(handle).add_innermost(self._follow_ends, ["remove"])
        self._id = id_name(handle)
        self._entities = authentication.entities
        self._connections = authentication.connections

    async def idle(self) -> None:
        """Wait until the last uses of keys are stored."""
        while self._noting:
            await asyncio.wait([*self._noting.values()])

    # -- for own code --------------------------------------------------------------------------

    async def create(
        self,
        *,
        user_id: object,
        name: str,
        scopes: Iterable[str],
        expires_in: Duration | None = "90d",
    ) -> Record:
        """Create a key for a user.

        Args:
            user_id: The id of the user. It may be a user who cannot sign in, such as a script.
            name: What the key is for, as lists show it.
            scopes: What the key may do: ``["reports:read"]``. ``"*"`` allows all that its user may
                do.
            expires_in: How long the key is valid, such as ``"90d"``; None means forever.

        Returns:
            ``id``, ``key``, ``prefix``, ``name``, ``scopes``, ``createdAt``, ``expiresAt`` and
            ``lastUsedAt``. Only this response has the ``key``; store it now.

        Raises:
            RuntimeError: There are no keys here, or the application is not set up.
            ValueError: The name, a scope or the time is not valid.
            NotFound: There is no such user.

        Examples:
            >>> from alula.accounts import Accounts
            >>> accounts = Accounts(store="credentials", api_keys=True)
            >>> async def key_for(robot_id: int) -> str:
            ...     key = await accounts.api_keys.create(
            ...         user_id=robot_id, name="CI", scopes=["reports:read"]
            ...     )
            ...     return key["key"]
        """
        handle = self.store
        wanted = _checked_scopes(scopes)
        key_name, lifetime = checked_name(name, "a key"), _lifetime_of(expires_in)
        await self._check_user(user_id)
        now = _milliseconds()
        if now >= self._sweep_at:
            self._sweep_at = now + _SWEEP_INTERVAL_MS
            await remove_before(handle, "expiresAt", now)
        key_id, secret = _random_text(_ID_LENGTH), _random_text(_SECRET_LENGTH)
        data = {"name": key_name, "scopes": wanted, "lifetime": lifetime}
        record = {
            self._id: _record_id(key_id),
            "kind": _KIND,
            "userId": str(user_id),
            "secret": _hash_of(secret),
            "data": json.dumps(data),
            "count": 0,
            "createdAt": now,
            "usedAt": 0,
            "expiresAt": _NEVER_MS if lifetime is None else now + lifetime,
        }
        try:
            await handle.create(record)
        except BadRequest as error:  # not the caller's mistake: the record is ours
            raise cannot_store(self._path, record, error) from None
        try:
            # The user may have been removed meanwhile, and the next one may get the same id.
            await self._check_user(user_id)
        except NotFound:
            with suppress(NotFound):
                await handle.remove(record[self._id])
            raise
        return {**self._shown(record), "key": self._text_of(key_id, secret)}

    async def find(self, user_id: object) -> list[Record]:
        """Return the valid keys of a user, the newest first, without their secrets.

        Args:
            user_id: The id of the user.
        """
        records: list[Record] = await self.store.find(
            query={
                "userId": str(user_id),
                "kind": _KIND,
                "expiresAt": {"$gt": _milliseconds()},
                "$sort": {"createdAt": -1},
                "$limit": _MOST_SHOWN,
            },
            paginate=False,
        )
        return [self._shown(record) for record in records]

    async def rename(self, key_id: str, name: str, *, user_id: object = None) -> Record:
        """Give a key another name.

        Args:
            key_id: Its id.
            name: The name.
            user_id: Whose key it has to be; None for anybody's.

        Raises:
            NotFound: There is no such key.
            ValueError: The name is not valid.
        """
        new_name = checked_name(name, "a key")

        def change(record: Record) -> Record:
            return {"data": json.dumps({**_read(record["data"]), "name": new_name})}

        return self._shown(await self._change(key_id, user_id, change))

    async def rotate(
        self, key_id: str, *, overlap: Duration = "24h", user_id: object = None
    ) -> Record:
        """Give a key a new secret, and start its lifetime again. Its id and its scopes stay.

        Args:
            key_id: Its id.
            overlap: How long the old secret stays valid; 0 ends it at once.
            user_id: Whose key it has to be; None for anybody's.

        Returns:
            As `create`.

        Raises:
            NotFound: There is no such key.
            ValueError: The overlap is not a duration.
        """
        kept_for = milliseconds_of(overlap, "overlap") if overlap else 0
        secret = _random_text(_SECRET_LENGTH)

        def change(record: Record) -> Record:
            now, data = _milliseconds(), _read(record["data"])
            old = {"secret": record["secret"], "until": min(now + kept_for, record["expiresAt"])}
            lifetime = data["lifetime"]
            return {
                "secret": _hash_of(secret),
                "data": json.dumps({**data, "old": old}),
                "expiresAt": _NEVER_MS if lifetime is None else now + lifetime,
            }

        record = await self._change(key_id, user_id, change)
        # Connections are checked again: those by the old secret end with it.
        self._connections.announce("changed", [record["userId"]])
        return {**self._shown(record), "key": self._text_of(key_id, secret)}

    async def remove(self, key_id: str, *, user_id: object = None) -> Record:
        """End a key. Its connections are signed out at once, in all processes.

        Args:
            key_id: Its id.
            user_id: Whose key it has to be; None for anybody's.

        Raises:
            NotFound: There is no such key.
        """
        query = {"kind": _KIND, **({} if user_id is None else {"userId": str(user_id)})}
        return self._shown(await self.store.remove(_record_id(key_id), query=query))

    async def forget(self, user_id: object) -> None:
        """End all keys of a user.

        Args:
            user_id: The id of the user.
        """
        query = {"userId": str(user_id), "kind": _KIND}
        await self.store.remove(None, query=query, adapter={"multi": ["remove"]}, paginate=False)

    # -- for the strategy ----------------------------------------------------------------------

    def is_key(self, text: str) -> bool:
        """Tell whether a text begins as keys do, and access tokens do not."""
        return text.startswith(f"{self._prefix}_")

    async def check(self, key: object) -> CheckedKey | None:
        """Return what a key stands for, None if it is not valid.

        Args:
            key: Any value that a client has sent.

        Raises:
            NotAuthenticated: It is not even in the form of a key.
        """
        match = self._form.fullmatch(key) if isinstance(key, str) else None
        if match is None or not hmac.compare_digest(_checksum(match[1]), match[4]):
            raise NotAuthenticated("Invalid API key")
        try:
            record: Record = await self._handle.get(_record_id(match[2]))
        except NotFound:
            return None
        now, data = _milliseconds(), _read(record["data"])
        expires_at = _valid_until(record, data, _hash_of(match[3]))
        if expires_at <= now:
            return None
        if record["usedAt"] <= now - _USED_INTERVAL_MS and match[2] not in self._noting:
            self._note_use(match[2], now)
        return CheckedKey(
            match[2],
            record["userId"],
            data["name"],
            [*data["scopes"]],
            None if expires_at == _NEVER_MS else expires_at,
        )

    def _note_use(self, key_id: str, now: int) -> None:
        """Store in the background that a key is used; of several processes, one does it."""

        async def note() -> None:
            query = {"usedAt": {"$lte": now - _USED_INTERVAL_MS}}
            try:
                with suppress(NotFound):
                    await self._handle.patch(_record_id(key_id), {"usedAt": now}, query=query)
            except Exception:  # noqa: BLE001  # whatever a store raises: nobody waits for this
                _log.exception("the last use of an API key was not stored")

        # Without the context of the request, whose transaction ends before this does.
        task = asyncio.get_running_loop().create_task(note(), context=Context())
        self._noting[key_id] = task
        task.add_done_callback(lambda _: self._noting.pop(key_id))

    # -- parts ---------------------------------------------------------------------------------

    @property
    def store(self) -> Any:
        """The handle of the service that stores them.

        Raises:
            RuntimeError: There are no keys here, or the application is not set up.
        """
        if not self.is_on:
            raise RuntimeError("API keys are turned off; turn them on: Accounts(api_keys=True)")
        if self._handle is None:
            raise RuntimeError("API keys can be used only after the setup: await app.setup()")
        return self._handle

    async def _check_user(self, user_id: object) -> None:
        try:
            await self._entities.get(user_id, Params())
        except NotAuthenticated:
            raise NotFound(f"There is no user {user_id!r}") from None

    async def _change(
        self, key_id: str, user_id: object, change: Callable[[Record], Record]
    ) -> Record:
        """Change a key, again if somebody else has changed it meanwhile."""
        handle, record_id = self.store, _record_id(key_id)
        for _ in range(_MOST_WRITES):
            record: Record = await handle.get(record_id)
            is_theirs = user_id is None or record["userId"] == str(user_id)
            if record["kind"] != _KIND or not is_theirs or record["expiresAt"] <= _milliseconds():
                raise NotFound(f"There is no key {key_id!r}")
            unchanged = {"data": record["data"], "secret": record["secret"]}
            with suppress(NotFound):
                changed: Record = await handle.patch(record_id, change(record), query=unchanged)
                return changed
        raise Conflict("Others are changing this key; try again")

    async def _follow_ends(self, context: HookContext, next: Next) -> None:
        """Sign out the connections of keys that a call has removed."""
        await next()
        records: list[Any] = context.result if is_list(context.result) else [context.result]
        ids = [
            str(record[self._id]).removeprefix(_record_id(""))
            for record in records
            if is_mapping(record) and record.get("kind") == _KIND
        ]
        emit_unless_held(context, partial(self._connections.announce, STRATEGY, ids))

    def _shown(self, record: Mapping[str, Any]) -> Record:
        data = _read(record["data"])
        key_id = str(record[self._id]).removeprefix(_record_id(""))
        expires_at = record["expiresAt"]
        return {
            "id": key_id,
            "prefix": f"{self._prefix}_{key_id}",
            "name": data["name"],
            "scopes": [*data["scopes"]],
            "createdAt": record["createdAt"],
            "expiresAt": None if expires_at == _NEVER_MS else expires_at,
            "lastUsedAt": record["usedAt"] or None,
        }

    def _text_of(self, key_id: str, secret: str) -> str:
        text = f"{self._prefix}_{key_id}_{secret}"
        return f"{text}_{_checksum(text)}"


def _valid_until(record: Mapping[str, Any], data: Mapping[str, Any], secret: str) -> int:
    """Return until when the hash of a secret is that of a key; 0 if it is not."""
    if hmac.compare_digest(record["secret"], secret):
        expires_at: int = record["expiresAt"]
        return expires_at
    old: Mapping[str, Any] = data.get("old") or {"secret": "", "until": 0}
    until: int = old["until"]
    return until if hmac.compare_digest(old["secret"], secret) else 0


def _checked_scopes(scopes: Iterable[str]) -> list[str]:
    wanted = [] if isinstance(scopes, str) else [*scopes]
    if not 0 < len(wanted) <= _MOST_SCOPES or not all(map(is_scope, wanted)):
        raise ValueError(
            f"scopes is a list of 1 to {_MOST_SCOPES} texts such as 'reports:read', without blanks"
        )
    return [*dict.fromkeys(wanted)]


def _lifetime_of(expires_in: Duration | None) -> int | None:
    """Return for how many milliseconds a key is valid, None for ever."""
    if expires_in is None:
        return None
    lifetime = milliseconds_of(expires_in, "expires_in")
    if _milliseconds() + lifetime >= _NEVER_MS:
        raise ValueError("expires_in is too long; write None for a key that never expires")
    return lifetime


def _record_id(key_id: str) -> str:
    return f"{_KIND}:{key_id}"


def _hash_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _checksum(text: str) -> str:
    """Return the checksum of the other parts of a key, in letters that a key may have."""
    high, low = divmod(zlib.crc32(text.encode()), len(_PAIRS))
    higher, high = divmod(high, len(_PAIRS))
    return _PAIRS[higher] + _PAIRS[high] + _PAIRS[low]


@lru_cache(maxsize=1024)
def _read(data: str) -> Mapping[str, Any]:
    """Return what a record has about a key; nobody may change it. JSON takes as long as a hash."""
    read: dict[str, Any] = json.loads(data)
    return read


def _random_text(length: int) -> str:
    return "".join(choice(_LETTERS) for _ in range(length))


def _milliseconds() -> int:
    return int(time.time() * 1000)
