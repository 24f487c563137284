"""Mails: what a mailer gets, mailers for development and tests, and the queue of what is sent.

Mails are sent after the response to a request. So a request takes the same time whether there is an
account or not, and no request fails because a mail server is down.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol, TypeAlias

from alula.errors import Unavailable

__all__ = ["ConsoleMailer", "Mail", "Mailer", "MemoryMailer", "Outbox", "send_patiently"]

_log: Final = logging.getLogger("alula.accounts")

CAPACITY: Final = 1000
"""How many jobs may wait; further requests get a 503."""

_WORKERS: Final = 4
_CLOSE_SECONDS: Final = 10
_WAITS_SECONDS: Final = (1, 10)  # before the second and the third try

Job: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, kw_only=True)
class Mail:
    """One mail. Its ``repr`` shows neither the address, nor the link, nor the code.

    Attributes:
        kind: What the mail is for, such as ``"reset"``; the guide lists all kinds.
        to: The address.
        sender: The sender, as in ``"Example <no-reply@app.example>"``.
        subject: The subject.
        text: The text.
        html: The same as HTML.
        link: The link that the mail is for, None for a notice.
        code: The code that can be typed instead, None without one.
        expires: When the link expires, None for a notice.
        codes_left: How many recovery codes are left, None in mails about something else.
    """

    kind: str
    to: str
    sender: str
    subject: str = ""
    text: str = ""
    html: str = ""
    link: str | None = None
    code: str | None = None
    expires: datetime | None = None
    codes_left: int | None = None

    def __repr__(self) -> str:
        return f"Mail(kind={self.kind!r}, ...)"


class Mailer(Protocol):
    """Sends mails: `SMTP`, or your own class with this method.

    Examples:
        >>> from alula.accounts import Mail
        >>> class Outgoing:
        ...     async def send(self, message: Mail) -> None:
        ...         print(message.kind, message.subject)
    """

    async def send(self, message: Mail) -> None:
        """Send a mail, or raise any exception; it is tried three times."""
        ...


class MemoryMailer:
    """Keeps mails instead of sending them, for tests.

    Attributes:
        sent: The mails in their order.

    Examples:
        >>> from alula.accounts import MemoryMailer
        >>> mailer = MemoryMailer()
        >>> mailer.sent
        []
    """

    def __init__(self) -> None:
        self.sent: list[Mail] = []

    async def send(self, message: Mail) -> None:
        """Keep a mail."""
        self.sent.append(message)


class ConsoleMailer:
    """Prints mails instead of sending them, for development.

    It works in debug mode only, since anybody who reads the links can sign in as the user.

    Args:
        write: Gets the text of each mail.

    Examples:
        >>> import asyncio
        >>> from alula.accounts import ConsoleMailer, Mail
        >>> mail = Mail(kind="reset", to="ada@example.com", sender="App", subject="Hi", text="Ho")
        >>> asyncio.run(ConsoleMailer().send(mail))
        To: ada@example.com
        Subject: Hi
        <BLANKLINE>
        Ho
    """

    def __init__(self, write: Callable[[str], object] = print) -> None:
        self._write = write

    async def send(self, message: Mail) -> None:
        """Print a mail."""
        self._write(f"To: {message.to}\nSubject: {message.subject}\n\n{message.text}")


async def send_patiently(
    mailer: Mailer,
    message: Mail,
    user_id: object,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Send a mail; try again twice, and then log that it is lost.

    Args:
        mailer: Sends it.
        message: The mail.
        user_id: Whose mail it is, for the log.
        sleep: Waits for some seconds.
    """
    for wait in (*_WAITS_SECONDS, None):
        try:
            await mailer.send(message)
        except Exception as error:  # noqa: BLE001  # mailers of users raise anything
            if wait is None:
                # Not the exception: its text may contain the address.
                _log.error(  # as above
                    "a mail of the kind %r to user %s was not sent: %s",
                    message.kind,
                    user_id,
                    _describe(error),
                )
            else:
                await sleep(wait)
        else:
            return


class Outbox:
    """Runs jobs behind the requests that have caused them, a few at a time."""

    def __init__(self) -> None:
        self._waiting: deque[Job] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    def put(self, job: Job) -> None:
        """Run a job soon.

        Raises:
            Unavailable: Too many wait.
        """
        if len(self._waiting) >= CAPACITY:
            _log.error("%d jobs of accounts wait, so requests get a 503", CAPACITY)
            error = Unavailable("Too many mails wait to be sent; try again later")
            error.headers = {"Retry-After": "60"}
            raise error
        self._waiting.append(job)
        if len(self._tasks) < _WORKERS:
            # Without the context of the request, whose transaction ends before the job does.
            task = asyncio.get_running_loop().create_task(self._work(), context=Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def put_if_free(self, job: Job) -> None:
        """Run a job soon, for what has already happened; it is lost if too many wait."""
        with suppress(Unavailable):
            self.put(job)

    async def idle(self) -> None:
        """Wait until all jobs have run."""
        while self._tasks:
            await asyncio.wait([*self._tasks])

    async def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Wait for the jobs, and give up those that take longer."""
        try:
            async with asyncio.timeout(seconds):
                await self.idle()
        except TimeoutError:
            lost = len(self._waiting) + len(self._tasks)
            _log.error("%d mails were not sent before the application ended", lost)
            self._waiting.clear()
            for task in [*self._tasks]:
                task.cancel()
            await self.idle()

    async def _work(self) -> None:
        while self._waiting:
            job = self._waiting.popleft()
            try:
                await job()
            except Exception as error:  # noqa: BLE001  # the next job has to run
                # Not the exception: its text may contain an address.
                _log.error("a job of accounts failed: %s", _describe(error))  # as above


def _describe(error: Exception) -> str:
    """Return the type of an exception and the place it comes from, without its text."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {place.filename}:{place.lineno}"
