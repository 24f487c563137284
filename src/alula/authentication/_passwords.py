"""Passwords: hashed with Argon2id, and checked against Argon2 and bcrypt hashes.

Rules of this file: hashes are computed in a few threads, since each takes memory and a core;
sign-ins do not wait behind registrations, clients take turns, and only few of their passwords wait
at all; all failures take the same time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import bcrypt
from argon2 import PasswordHasher
from argon2.exceptions import VerificationError

from alula._shares import Shares
from alula.errors import Unavailable
from alula.types import CheckedText

__all__ = ["MAX_WAITING", "HashedPassword", "Passwords", "default_passwords"]

T = TypeVar("T")

_log: Final = logging.getLogger("alula.authentication")

MAX_WAITING: Final = 32
"""How many passwords of one client may wait to be checked, and as many to be hashed.

Each takes some hundredths of a second of a core. Further calls get a 503. All clients together may
have twice as many.
"""

_BCRYPT_MAX_BYTES: Final = 72  # bcrypt ignores what is longer; the package refuses it
_BCRYPT: Final = ("$2a$", "$2b$", "$2x$", "$2y$")
_FLOOR_FACTOR: Final = 2  # the floor, in times of the costliest check
_PEAK_FACTOR: Final = 1.2  # and in times of the longest failure lately, on a busy machine
_MAX_STRETCH: Final = 4.0
_PEAK_HALF_LIFE_SECONDS: Final = 60.0


class HashedPassword(CheckedText):
    """A hash, which `hash_password` and `password_hash` leave as it is.

    JSON has no such type, so a client cannot pass a hash instead of a password.

    Examples:
        >>> from alula.authentication import HashedPassword
        >>> data = {"email": "ada@example.com", "password": HashedPassword("$argon2id$...")}
    """

    __slots__ = ()


class Passwords:
    """Hashes passwords and checks them.

    Args:
        time_cost: Rounds of Argon2id.
        memory_cost: Its memory in KiB.
        parallelism: Its lanes.
        least_floor: The shortest time in seconds that a failed check takes.

    Examples:
        >>> from alula.authentication import LocalStrategy, Passwords
        >>> strategy = LocalStrategy(passwords=Passwords(time_cost=2, memory_cost=19456))
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
        self._costs: dict[str, float] = {}  # the shortest check of each scheme and its parameters
        self._decoy = ""
        self._peak = 0.0  # the longest time of a failure lately, without its padding
        self._peak_at = 0.0

    async def hash(
        self, password: str, *, limited: bool = False, client: Hashable = None
    ) -> HashedPassword:
        """Return the Argon2id hash of a new password.

        Args:
            password: The password.
            limited: Whether it is refused if too many wait.
            client: Whose it is: clients take turns. None for the application's own.

        Raises:
            Unavailable: Too many wait.
        """
        work = partial(self._argon2.hash, password)
        return HashedPassword(await _queues().new.run(work, limited=limited, client=client))

    async def renewed(self, password: str) -> HashedPassword:
        """Return a new hash of a password that was checked, without waiting behind new ones."""
        return HashedPassword(await _queues().checks.run(partial(self._argon2.hash, password)))

    async def check(
        self, password: str, hashed: object, *, limited: bool = False, client: Hashable = None
    ) -> bool:
        """Return whether a password has this hash; False for a hash that is not valid.

        Args:
            password: The password.
            hashed: The hash.
            limited: Whether the check is refused if too many wait.
            client: Whose it is, as for `hash`.

        Raises:
            Unavailable: Too many wait.
        """
        if not isinstance(hashed, str) or not hashed.startswith((*_BCRYPT, "$argon2")):
            _log.warning(
                "a stored password is not a hash, so nobody can sign in with it; hash passwords"
                ' with the hook hash_password("password") before create, update and patch of the'
                ' users, or with the data resolver password_hash("local")'
            )
            return False

        def timed_check() -> tuple[bool, float]:
            started = time.perf_counter()
            matches = self._matches(password, hashed)
            return matches, time.perf_counter() - started

        matches, seconds = await _queues().checks.run(timed_check, limited=limited, client=client)
        # What the cost depends on: scheme and parameters.
        is_argon2 = hashed.startswith("$argon2")
        parameters = "$".join(hashed.split("$")[:-2]) if is_argon2 else hashed[:6]
        # The shortest time, so that a busy machine does not raise the floor for good.
        self._costs[parameters] = min(seconds, self._costs.get(parameters, seconds))
        return matches

    async def check_nothing(
        self, password: str, *, limited: bool = False, client: Hashable = None
    ) -> None:
        """Take the time of a check for a user who does not exist, so that nobody can tell."""
        await self.prepare()
        await self.check(password, self._decoy, limited=limited, client=client)

    def is_outdated(self, hashed: str) -> bool:
        """Return whether a valid hash has other parameters than new ones."""
        return hashed.startswith(_BCRYPT) or self._argon2.check_needs_rehash(hashed)

    async def until_floor(self, started: float) -> None:
        """Wait until a failure has taken as long as all failures do.

        The floor is above the costliest check seen so far. On a busy machine, where such a check
        takes longer, the floor rises for all: otherwise cheaper checks could be recognized. What
        takes even longer waits for the next multiple of the floor.

        Args:
            started: The `time.perf_counter` at the start.
        """
        await self.prepare()
        now = time.perf_counter()
        elapsed = now - started
        decay = 0.5 ** ((now - self._peak_at) / _PEAK_HALF_LIFE_SECONDS)
        self._peak = max(elapsed, self._peak * decay)
        self._peak_at = now
        floor = max(self._least_floor, _FLOOR_FACTOR * max(self._costs.values()))
        floor = max(floor, min(self._peak * _PEAK_FACTOR, floor * _MAX_STRETCH))
        await asyncio.sleep(floor - elapsed % floor)

    async def prepare(self) -> None:
        """Hash a random password as a decoy, and measure how long checks take."""
        if not self._decoy:
            self._decoy = await self.renewed(os.urandom(16).hex())
            await self.check("", self._decoy)

    def _matches(self, password: str, hashed: str) -> bool:
        with suppress(VerificationError, ValueError):
            if hashed.startswith(_BCRYPT):
                return bcrypt.checkpw(password.encode()[:_BCRYPT_MAX_BYTES], hashed.encode())
            return self._argon2.verify(hashed, password)
        return False


@cache
def default_passwords() -> Passwords:
    """Return the instance with the default parameters; a process measures their cost once."""
    return Passwords()


_Job: TypeAlias = tuple[Callable[[], Any], "Future[Any]"]


class _Queue:
    """A thread pool in which clients take turns, with a bounded number of their jobs.

    Args:
        name: The name of the threads.
        threads: The number of threads.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"alula-{name}")
        self._idle = threads
        self._waiting: dict[Hashable, deque[_Job]] = {}  # by client, the next one first
        # A client may have half of the places, even if it is alone.
        self._shares = Shares(2 * (threads + MAX_WAITING))
        self._lock = threading.RLock()  # event loops in several threads share the queue

    async def run(
        self, function: Callable[[], T], *, limited: bool = False, client: Hashable = None
    ) -> T:
        """Run a function in a thread when it is the client's turn, and return its result.

        Raises:
            Unavailable: ``limited`` is set, and too many jobs wait.
        """
        future: Future[T] = Future()
        with self._lock:
            if limited and not self._shares.take(client, 1):
                error = Unavailable("Too many passwords wait to be hashed; try again in a moment")
                error.headers = {"Retry-After": "2"}
                raise error
            self._waiting.setdefault(client, deque()).append((function, future))
            self._begin()

        # Not in `_run`: a job that is cancelled while it waits never runs.
        def done(_: Future[T]) -> None:
            with self._lock:
                self._shares.give_back(client, 1)

        if limited:
            future.add_done_callback(done)
        return await asyncio.wrap_future(future)

    def _begin(self) -> None:
        """Begin waiting jobs, as long as there are threads for them."""
        while self._idle and self._waiting:
            client, jobs = next(iter(self._waiting.items()))
            function, future = jobs.popleft()
            del self._waiting[client]
            if jobs:
                self._waiting[client] = jobs  # behind all others
            if future.set_running_or_notify_cancel():
                self._idle -= 1
                self._executor.submit(self._run, function, future)

    def _run(self, function: Callable[[], T], future: Future[T]) -> None:
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001  # it is raised where the result is awaited
            future.set_exception(error)
        else:
            future.set_result(result)
        with self._lock:
            self._idle += 1
            self._begin()


class _Queues(NamedTuple):
    checks: _Queue
    new: _Queue


@cache
def _queues() -> _Queues:
    cores = os.cpu_count() or 1
    # Half of the cores stay free of new passwords: sign-ins are more frequent.
    return _Queues(
        _Queue("passwords-checks", max(2, cores)), _Queue("passwords-new", max(1, cores // 2))
    )
