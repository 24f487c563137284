"""Passwords: Argon2id for new ones, bcrypt as other applications have stored it.

What holds in this file: hashes are made and checked in threads, of which there are few, since each
takes memory; sign-ins do not wait behind registrations, and few of either wait at all; what fails
takes as long as everything else that fails.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Any, Final, NamedTuple, TypeGuard, TypeVar

import bcrypt
from argon2 import PasswordHasher
from argon2.exceptions import VerificationError

from alula.errors import Unavailable

__all__ = ["MAX_WAITING", "HashedPassword", "Passwords", "default_passwords", "is_credential"]

T = TypeVar("T")

_log: Final = logging.getLogger("alula.authentication")

MAX_WAITING: Final = 32
"""How many passwords of calls from outside may wait to be checked, and as many to be hashed.

Each takes some hundredths of a second of a core. The next one gets a 503.
"""

LONGEST: Final = 4096  # bytes of a password or user name
_BCRYPT_BYTES: Final = 72  # bcrypt looks at no more of a password
_BCRYPT: Final = ("$2a$", "$2b$", "$2x$", "$2y$")
_MARGIN: Final = 2  # of the floor over the costliest check
_MARGIN_OF_PEAK: Final = 1.2  # and over what such a check took lately, on a busy machine
_MOST_STRETCH: Final = 4.0
_HALF_LIFE: Final = 60.0  # seconds until a peak counts half


class HashedPassword(str):
    """A hash, which the hooks that hash passwords leave as it is.

    No JSON makes one, so a client can not pass its text off as a hash.
    """

    __slots__ = ()


class Passwords:
    """Makes and checks the hashes of passwords.

    Args:
        time_cost: Rounds of Argon2id.
        memory_cost: Its memory in KiB.
        parallelism: Its lanes.
        least_floor: The least time in seconds that a failed check takes.
    """

    def __init__(
        self,
        *,
        time_cost: int = 3,
        memory_cost: int = 65536,
        parallelism: int = 4,
        least_floor: float = 0.1,
    ) -> None:
        self._argon2 = PasswordHasher(time_cost, memory_cost, parallelism)
        self._least_floor = least_floor
        self._costs: dict[str, float] = {}  # the shortest time of a check, by kind of hash
        self._decoy = ""
        self._peak = 0.0  # the longest that a failure took lately, before it was padded
        self._peak_at = 0.0

    async def hash(self, password: str, *, limited: bool = False) -> HashedPassword:
        """Return the Argon2id hash of a new password.

        Args:
            password: The password.
            limited: Whether it is refused where `MAX_WAITING` others wait.

        Raises:
            Unavailable: Too many wait.
        """
        return HashedPassword(await _queues().new.run(self._argon2.hash, password, limited=limited))

    async def renewed(self, password: str) -> HashedPassword:
        """Return another hash of a password that was checked, without waiting behind new ones."""
        return HashedPassword(await _queues().checks.run(self._argon2.hash, password))

    async def check(self, password: str, hashed: object, *, limited: bool = False) -> bool:
        """Tell whether a password has this hash; what is no hash fits none.

        Args:
            password: The password.
            hashed: The hash.
            limited: Whether the check is refused where `MAX_WAITING` others wait.

        Raises:
            Unavailable: Too many wait.
        """
        if not isinstance(hashed, str) or not hashed.startswith((*_BCRYPT, "$argon2")):
            _log.warning(
                "a stored password is not a hash, so it lets nobody sign in; let one be stored:"
                ' hash_password("password") before create, update and patch of the users, or the'
                ' data resolver password_hash("local")'
            )
            return False
        check = self._check_bcrypt if hashed.startswith(_BCRYPT) else self._check_argon2
        return await self._measured(_kind_of(hashed), check, password, hashed, limited=limited)

    async def check_nothing(self, password: str, *, limited: bool = False) -> None:
        """Take the time of a check where there is no hash, so that nobody can tell."""
        await self.prepare()
        await self.check(password, self._decoy, limited=limited)

    def is_outdated(self, hashed: str) -> bool:
        """Tell whether a hash that fits should be made anew."""
        return hashed.startswith(_BCRYPT) or self._argon2.check_needs_rehash(hashed)

    async def until_floor(self, started: float) -> None:
        """Wait until the time has passed that every failure takes.

        The floor lies above the costliest kind of hash that was met. On a busy machine, where
        that kind takes longer, the floor rises for all, since otherwise the cheap ones could be
        told apart; what takes longer still waits for the next multiple of it.

        Args:
            started: The `time.perf_counter` at the beginning.
        """
        await self.prepare()
        now = time.perf_counter()
        took = now - started
        self._peak = max(took, self._peak * 0.5 ** ((now - self._peak_at) / _HALF_LIFE))
        self._peak_at = now
        floor = max(self._least_floor, _MARGIN * max(self._costs.values()))
        floor = max(floor, min(self._peak * _MARGIN_OF_PEAK, floor * _MOST_STRETCH))
        await asyncio.sleep(floor - took % floor)

    async def prepare(self) -> None:
        """Make the hash of a password that nobody knows, and measure how long checks take."""
        if not self._decoy:
            self._decoy = await self.renewed(os.urandom(16).hex())
            await self.check("", self._decoy)

    async def _measured(
        self, kind: str, check: Callable[..., T], *args: Any, limited: bool = False
    ) -> T:
        def timed() -> tuple[T, float]:
            started = time.perf_counter()
            return check(*args), time.perf_counter() - started

        result, seconds = await _queues().checks.run(timed, limited=limited)
        # The shortest, so that a busy machine does not raise the floor for good.
        self._costs[kind] = min(seconds, self._costs.get(kind, seconds))
        return result

    def _check_argon2(self, password: str, hashed: str) -> bool:
        with suppress(VerificationError, ValueError):
            return self._argon2.verify(hashed, password)
        return False

    def _check_bcrypt(self, password: str, hashed: str) -> bool:
        with suppress(ValueError):
            return bcrypt.checkpw(password.encode()[:_BCRYPT_BYTES], hashed.encode())
        return False


@cache
def default_passwords() -> Passwords:
    """Return the one with the usual parameters, so that a process measures them once."""
    return Passwords()


def is_credential(value: object) -> TypeGuard[str]:
    """Tell whether something can be a user name or a password: a text, not empty, not too long."""
    if not isinstance(value, str) or not value or len(value) > LONGEST:
        return False
    with suppress(UnicodeEncodeError):
        return len(value.encode()) <= LONGEST
    return False


def _kind_of(hashed: str) -> str:
    """Return what the cost of checking a hash depends on: scheme and parameters."""
    return "$".join(hashed.split("$")[:-2]) if hashed.startswith("$argon2") else hashed[:6]


class _Queue:
    """Threads of their own, and what waits for them.

    Args:
        name: What the threads are called.
        threads: How many there are.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"alula-{name}")
        self._most = threads + MAX_WAITING
        self._begun = 0  # and not done
        self._lock = threading.Lock()  # event loops of several threads share it

    async def run(self, function: Callable[..., T], *args: Any, limited: bool = False) -> T:
        """Return what a function returns.

        Raises:
            Unavailable: It is limited, and too many wait.
        """
        with self._lock:
            if limited and self._begun >= self._most:
                error = Unavailable("Too many passwords wait to be hashed; try again in a moment")
                error.headers = {"Retry-After": "2"}
                raise error
            self._begun += 1
        future = self._executor.submit(function, *args)
        future.add_done_callback(self._done)
        return await asyncio.wrap_future(future)

    def _done(self, _: Future[Any]) -> None:
        with self._lock:
            self._begun -= 1


class _Queues(NamedTuple):
    checks: _Queue
    new: _Queue


@cache
def _queues() -> _Queues:
    cores = os.cpu_count() or 1
    # New passwords leave cores to sign-ins, which people wait for more often.
    return _Queues(
        _Queue("passwords-checks", max(2, cores)), _Queue("passwords-new", max(1, cores // 2))
    )
