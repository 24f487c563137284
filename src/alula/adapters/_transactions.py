"""What is true for a call in a transaction of any database: it may run several times, as it began.

The transaction itself, its commit and what counts as a conflict are those of each adapter.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from alula._context import HookContext, Params
from alula._events import HeldEvents
from alula.adapters._records import copied

__all__ = ["RetriedCall", "pause_before_retry"]

FIRST_PAUSE_SECONDS: Final = 0.005
_MAX_PAUSE_SECONDS: Final = 0.5


class RetriedCall:
    """A call that is retried with the id, the data and the params that it began with.

    Its events, and those of the calls that take part, are held until it has succeeded.

    Args:
        context: The call, as it begins.
        seconds: How long after now it may be retried.
        immutable: Types whose values need no copy.

    Attributes:
        deadline: When no retry begins any more, by the monotonic clock.
    """

    def __init__(self, context: HookContext, seconds: float, immutable: frozenset[type]) -> None:
        self.deadline = time.monotonic() + seconds
        self._context = context
        self._immutable = immutable
        self._params = self._copied_params(context.params)
        self._id = context.id
        self._data = copied(context.data, immutable)
        self._event = context.event
        self._http = dict(context.http)

    async def run(
        self,
        attempt: Callable[[], Awaitable[None]],
        may_retry: Callable[[Exception], bool],
        takes_part: Callable[[HookContext], bool],
    ) -> None:
        """Run the call until an attempt succeeds, and emit its events then.

        Args:
            attempt: Runs the call in a transaction, commit included.
            may_retry: Tells whether an error of an attempt is one that a retry may resolve.
            takes_part: Tells of a call inside whether it takes part in the transaction.

        Raises:
            Exception: What the last attempt raises.
        """
        retries = 0
        task: Any = asyncio.current_task()
        cancelled = task.cancelling()
        with HeldEvents(takes_part) as held:
            while True:
                pause = pause_before_retry(retries)
                try:
                    await attempt()
                    break
                except Exception as error:
                    # A driver that is cancelled may raise an error of its own instead.
                    is_cancelled = task.cancelling() > cancelled
                    is_late = time.monotonic() + pause > self.deadline
                    if is_cancelled or is_late or not may_retry(error):
                        raise
                await asyncio.sleep(pause)
                held.drop()
                retries += 1
                # Everything as it was, but for the result, which `next` resets.
                context = self._context
                context.params = self._copied_params(self._params)
                context.id, context.data = self._id, copied(self._data, self._immutable)
                context.event, context.http = self._event, dict(self._http)
                context.result_events = None
        held.release()

    def _copied_params(self, params: Params) -> Params:
        """Return a copy of params and their query; a query that a schema has checked stays one."""
        copy = params.copy()
        copy.query = copied(copy.query, self._immutable)
        return copy


def pause_before_retry(retries: int) -> float:
    """Return a random number of seconds to wait before the next retry, with growing bounds."""
    bound = min(FIRST_PAUSE_SECONDS * 1.5**retries, _MAX_PAUSE_SECONDS)
    return random.random() * bound  # noqa: S311  # spreads load, and guards nothing
