"""Sealed values: what clients keep for the server, such as refresh tokens and tickets.

What holds in this file:

- Clients can read a sealed value, but not change it or make one up.
- Each purpose has its own key, derived from the secret. So nothing that was sealed for one purpose
  is accepted for another.
- The signature is checked first. Before that, nothing in a sealed value counts.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from secrets import token_urlsafe
from typing import Any, Final, NamedTuple

from alula._gcra import MemoryTimes, Times

__all__ = ["OneTimeSeal", "Seal", "SealedValue", "UsedValues"]

_MAX_LENGTH: Final = 8192  # of a sealed value: clients choose what they send
_CAPACITY: Final = 50_000  # used values that one process remembers, some 5 MB


class Seal:
    """Signs texts with a keyed hash.

    Args:
        key: The key of one purpose; see `AuthenticationService.derived_key`.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, text: str) -> str:
        """Return a text with its signature."""
        return f"{text}.{self.tag(text)}"

    def unseal(self, sealed: object) -> str | None:
        """Return the text of `seal`, None if the signature is not right.

        Args:
            sealed: Any value that a client has sent.
        """
        if isinstance(sealed, str) and len(sealed) <= _MAX_LENGTH and sealed.isascii():
            text, _, tag = sealed.rpartition(".")
            # `==` would tell by its time how much of a guessed tag is right.
            if hmac.compare_digest(tag, self.tag(text)):
                return text
        return None

    def tag(self, text: str) -> str:
        """Return the signature of a text."""
        tag = hmac.digest(self._key, text.encode(), hashlib.sha256)
        return urlsafe_b64encode(tag).rstrip(b"=").decode()


class SealedValue(NamedTuple):
    """A value whose seal is right and has not expired.

    Attributes:
        value: The value.
        key: Under which its use is remembered.
        until: When it expires, in milliseconds since 1970.
    """

    value: Any
    key: str
    until: int


class UsedValues:
    """Remembers which values of one purpose are used up.

    Each process remembers the used values, and tells the others over the bus. A value that reaches
    two processes within the time of one message could be used twice. That cannot happen if the
    throttle has a service for its budgets, since used values are then remembered there.

    Args:
        purpose: What the values are for.
        seconds: How long a value is valid.
    """

    def __init__(self, purpose: str, seconds: int) -> None:
        self._purpose = purpose
        self._seconds = seconds
        self._times: Times = MemoryTimes(_CAPACITY)
        self._channels: Any = None
        self._topic = ""

    def setup(self, authentication: Any, path: str) -> None:
        """Find out where used values are remembered.

        Args:
            authentication: The authentication service.
            path: Where it is registered.
        """
        throttle = authentication.throttle
        if throttle is not None and throttle.shared_times is not None:
            self._times = throttle.shared_times
        if self._channels is None:  # a second setup must not register this twice
            self._channels = authentication.app.channel_registry
            self._topic = f"used {self._purpose}/{path}"
            self._channels.on_signal(self._topic, self._remember)

    def key_of(self, unique: str) -> str:
        """Return the key under which the use of a value is remembered."""
        # No budget of the throttle, which may be in the same store, has such a key.
        name = f"{self._purpose}\0{unique}".encode()
        return hashlib.blake2b(name, digest_size=16).hexdigest()

    async def use_up(self, key: str, until: int) -> bool:
        """Mark a value as used, and return whether this was its first use.

        Args:
            key: Its key.
            until: When it expires, in milliseconds since 1970.
        """
        await self._times.sweep_once_in(self._seconds * 1000)
        if not await self._times.compare_and_set(key, 0, until):
            return False
        self._channels.signal(self._topic, [key, until])
        return True

    async def take_try(self, key: str, until: int, tries: int) -> bool:
        """Take one of the tries of a value that is not used up; return whether there was one.

        Args:
            key: Its key.
            until: When it expires, in milliseconds since 1970.
            tries: How many it has from the beginning.
        """
        if await self._times.read(key):
            return False
        for number in range(tries):
            if await self.use_up(self.key_of(f"try {number}\0{key}"), until):
                return True
        return False

    def _remember(self, used: Any) -> None:
        """Remember a value that another process has used up."""
        key, until = used
        if isinstance(self._times, MemoryTimes):  # otherwise the processes share a store
            self._times.set(key, until)


class OneTimeSeal:
    """Seals JSON values that are valid for a short time, and can be used up.

    Args:
        purpose: What the values are for; another purpose has another key.
        seconds: How long a value is valid.
    """

    def __init__(self, purpose: str, seconds: int) -> None:
        self._purpose = purpose
        self._seconds = seconds
        self._seal: Seal | None = None
        self._used = UsedValues(purpose, seconds)

    def setup(self, authentication: Any, path: str) -> None:
        """Derive the key, and find out where used values are remembered.

        Args:
            authentication: The authentication service.
            path: Where it is registered.
        """
        self._seal = Seal(authentication.derived_key(self._purpose.encode()))
        self._used.setup(authentication, path)

    def seal(self, value: object) -> str:
        """Return a sealed value.

        Args:
            value: Any JSON.

        Raises:
            RuntimeError: There was no setup.
        """
        if self._seal is None:
            raise RuntimeError(f"{self._purpose!r} can be sealed after the setup")
        until = int((time.time() + self._seconds) * 1000)
        text = json.dumps([value, until, token_urlsafe(12)], separators=(",", ":"))
        return self._seal.seal(urlsafe_b64encode(text.encode()).rstrip(b"=").decode())

    def unseal(self, sealed: object) -> SealedValue | None:
        """Return a value that is still valid; `use_up` tells whether it was used before.

        Args:
            sealed: Any value that a client has sent.
        """
        text = None if self._seal is None else self._seal.unseal(sealed)
        if text is None:
            return None
        value, until, unique = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if until <= time.time() * 1000:
            return None
        return SealedValue(value, self._used.key_of(unique), until)

    async def use_up(self, sealed: SealedValue) -> bool:
        """Mark a value as used, and return whether this was its first use."""
        return await self._used.use_up(sealed.key, sealed.until)

    async def take_try(self, sealed: SealedValue, tries: int) -> bool:
        """Take one of the tries that a value has, and return whether there was one.

        It is for values that come with something that can be guessed, such as a code. A value that
        is used up has no tries.

        Args:
            sealed: The value.
            tries: How many it has from the beginning.
        """
        return await self._used.take_try(sealed.key, sealed.until, tries)
