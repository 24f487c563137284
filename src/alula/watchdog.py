"""Logs code that blocks the event loop, found by a look at its stack.

asyncio's debug mode times every callback, which slows down all of them, and names only the task.
Here, the loop notes the time some forty times per second, and a thread checks it. If the time is
old, the thread looks at the stack of the loop's thread. Calls cost nothing.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any, Final, Self
from weakref import WeakSet

from alula._user_code import Place, callback_frames, name_of, place_of

__all__ = ["LoopWatchdog", "watch_loop"]

_log = logging.getLogger("alula.watchdog")

HELD_SECONDS: Final = 0.2
"""The default of how many seconds of blocking are logged."""

_LONG_SECONDS: Final = 5.0
"""After so many seconds, blocking that goes on is logged as well: it may never end."""

_BEATS: Final = 8
"""How often the loop notes the time within the logged seconds; the error is an eighth."""

_LOOKS: Final = 3
"""How often the thread looks within them: at least once while the loop is blocked."""

_watched: Final[WeakSet[Any]] = WeakSet()  # loops; a second watchdog would log the same again


class LoopWatchdog:
    """Logs code that blocks an event loop: ``with LoopWatchdog():`` inside a coroutine.

    The logger is ``alula.watchdog``, the level ``WARNING``. Time in which the whole process was
    stopped does not count, nor time in which the loop itself did not run.

    Args:
        seconds: The shortest blocking that is logged.

    Raises:
        ValueError: ``seconds`` is not above zero.

    Examples:
        >>> async def main():
        ...     with LoopWatchdog(0.05):
        ...         time.sleep(0.1)  # logs where the event loop was held
        >>> asyncio.run(main())
    """

    def __init__(self, seconds: float = HELD_SECONDS) -> None:
        if not seconds > 0:
            raise ValueError(f"LoopWatchdog({seconds!r}): give seconds above zero, such as 0.2")
        self._seconds = seconds
        self._interval = seconds / _BEATS
        self._tick = seconds / _LOOKS
        # Appending to a deque and taking from it are atomic: loop and thread share it without a
        # lock, for which the loop would have to wait.
        self._late: deque[tuple[float, float]] = deque()
        self._pauses: list[tuple[float, float]] = []
        self._places: Counter[Place] = Counter()
        self._callback: FrameType | None = None
        self._is_single = True
        self._is_logged = False
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start to watch the running loop, unless it is watched already.

        Raises:
            RuntimeError: No event loop is running.
        """
        self._loop = asyncio.get_running_loop()
        if self._loop in _watched:
            return
        _watched.add(self._loop)
        self._stopped.clear()
        self._last = time.monotonic()
        self._beat()
        # A daemon: a process whose main thread has ended must not live on for the sake of its log.
        self._thread = threading.Thread(target=self._watch, name="alula watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop to watch."""
        if self._thread is None:
            return
        _watched.discard(self._loop)
        self._stopped.set()
        self._timer.cancel()
        self._thread.join()
        self._thread = None

    def _beat(self) -> None:
        """Note the time; if that comes late, the thread decides whether the loop was blocked."""
        now = time.monotonic()
        if now - self._last > self._seconds:
            self._late.append((self._last, now))
        self._last = now
        self._loop_thread = threading.get_ident()
        self._timer = self._loop.call_later(self._interval, self._beat)

    def _watch(self) -> None:
        at, cpu = time.monotonic(), time.process_time()
        while not self._stopped.wait(self._tick):
            now, cpu_now = time.monotonic(), time.process_time()
            late = now - at - self._tick
            # This thread could not run either: the process was stopped, or code held the GIL. The
            # latter takes CPU time, even on a busy machine.
            is_stopped = late > self._tick and cpu_now - cpu < late / 10
            if is_stopped or not self._loop.is_running():
                self._pauses.append((at, now))
            while self._late:
                self._judge(*self._late.popleft())
            if now - self._last < self._seconds / 2:
                if not self._late:  # the loop may have noted it just now: the pauses belong to it
                    self._forget()
            else:
                frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001  # the one way to the stack of another thread
                frames = callback_frames(frame)
                if frames:
                    # Keeping the frame keeps its address from being reused by another frame.
                    self._is_single = self._is_single and self._callback in {None, frames[-1]}
                    self._callback = frames[-1]
                self._places[place_of(frames)] += 1
                held = self._without_pauses(self._last, now)
                if held >= _LONG_SECONDS and not self._is_logged:
                    self._is_logged = True
                    self._log_blocking(
                        "the event loop has been held for %.1f s so far by %s, at %s", held
                    )
            at, cpu = now, cpu_now

    def _judge(self, begin: float, end: float) -> None:
        """Log blocking that is over, if it was long enough."""
        held = (
            self._without_pauses(begin, end) - self._interval
        )  # it may have started so much later
        if held >= self._seconds:
            self._log_blocking("the event loop was held for %.2f s by %s, at %s", held)
        self._forget()

    def _without_pauses(self, begin: float, end: float) -> float:
        paused = sum(max(0, min(end, until) - max(begin, since)) for since, until in self._pauses)
        return end - begin - paused

    def _forget(self) -> None:
        self._places.clear()
        self._pauses.clear()
        self._callback, self._is_single = None, True
        self._is_logged = False

    def _log_blocking(self, message: str, held: float) -> None:
        unseen = Place("code that was not seen", "an unknown place")
        ((place, _),) = self._places.most_common(1) or [(unseen, 0)]
        what, where = place
        by = what if self._is_single else f"many callbacks in a row, among them {what}"
        extra = {"held_seconds": round(held, 3), "held_by": what}
        _log.warning(message, held, by, where, extra=extra)


def watch_loop(seconds: float = HELD_SECONDS) -> Callable[[Any], None]:
    """Return a plugin that logs code that blocks the event loop: ``app.configure(watch_loop())``.

    It watches from setup to teardown of the application. The log names hooks, services and
    middleware, the place in the user's code, and the duration.

    Args:
        seconds: The shortest blocking that is logged.

    Raises:
        ValueError: ``seconds`` is not above zero.
        TypeError: By the plugin: the application has no `setup` hooks, as one without services.
    """
    watchdog = LoopWatchdog(seconds)

    async def start(_context: object, next: Callable[[], Awaitable[Any]]) -> None:
        watchdog.start()
        try:
            await next()
        except BaseException:
            watchdog.stop()
            raise

    async def stop(_context: object, next: Callable[[], Awaitable[Any]]) -> None:
        try:
            await next()
        finally:
            watchdog.stop()

    def configure(app: Any) -> None:
        if not callable(getattr(app, "hooks", None)):
            raise TypeError(
                f"watch_loop() configures an application with services, not {app!r};"
                f" for others, run `with {name_of(LoopWatchdog)}():` around what serves them"
            )
        app.hooks(setup=[start], teardown=[stop])

    return configure
