"""The set-up of what was registered when the application was running already."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, TypeAlias

__all__ = ["LateStart"]

Work: TypeAlias = Coroutine[Any, Any, None]

_log = logging.getLogger("alula")

# What is being set up here: the calls that it makes to itself must not wait for its own end.
_inside: ContextVar[tuple[LateStart, ...]] = ContextVar("inside", default=())


class LateStart:
    """A set-up that every call waits for. Where it fails, the next call tries again.

    Args:
        name: Whose set-up it is, for the log.
        start: Does it.
        run_beside: Begins a task with a name.
    """

    def __init__(
        self,
        name: str,
        start: Callable[[], Work],
        run_beside: Callable[[Work, str], asyncio.Task[None]],
    ) -> None:
        self._name = name
        self._start = start
        self._run_beside = run_beside
        self._task: asyncio.Task[None] | None = None
        self._succeeded = False

    def begin(self) -> asyncio.Task[None]:
        """Return the task that does it, a new one where there is none or it failed."""
        if self._task is None or (self._task.done() and not self._succeeded):
            self._task = self._run_beside(self._run(), f"the set-up of {self._name}")
            self._task.add_done_callback(_mark_as_seen)
        return self._task

    async def wait(self) -> None:
        """Wait until it has succeeded. A caller that is cancelled does not stop it.

        Raises:
            Exception: Whatever the set-up raises.
            RuntimeError: It was cancelled; the caller was not.
        """
        if self in _inside.get():
            return
        task = self.begin()
        await asyncio.wait([task])
        if task.cancelled():  # its CancelledError would look as if the caller were cancelled
            raise RuntimeError(f"the set-up of {self._name} was cancelled; a call tries again")
        task.result()

    async def _run(self) -> None:
        _inside.set((*_inside.get(), self))
        try:
            await self._start()
        except Exception:
            _log.exception("%s, registered late, failed to set up; a call tries again", self._name)
            raise
        self._succeeded = True


def _mark_as_seen(task: asyncio.Task[None]) -> None:
    """Keep asyncio from reporting a failure that is in the log already."""
    if not task.cancelled():
        task.exception()
