"""The thread that calls the listeners of a synchronous client."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from alula.client._socketio._streams import EventBuffer
from alula.errors import FrameworkError

__all__ = ["ListenerThread"]

_log: Final = logging.getLogger("alula.client")


class ListenerThread:
    """Calls listeners one after the other, in a thread that the first event starts.

    Not in the event loop: a listener may call services, and blocks until their response.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._buffer: EventBuffer[Callable[[], object]] = EventBuffer()
        self._is_running = False
        self._is_closed = False

    def call(self, listener: Callable[[], object]) -> None:
        """Call a listener soon. If too many wait, it is not called, and the log says so."""
        with self._changed:
            self._is_closed = False
            self._buffer.put(listener)
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="alula-listeners", daemon=True).start()
            self._changed.notify()

    def close(self) -> None:
        """End the thread after the listeners that wait. Does not wait for it."""
        # Not joined: a listener may be what closes the client.
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._buffer:
                    if self._is_closed:
                        self._is_running = False
                        return
                    self._changed.wait()
                try:
                    listener = self._buffer.take()
                except FrameworkError as error:
                    _log.error("listeners are too slow: %s", error)  # no traceback
                    continue
            try:
                listener()
            except Exception:  # noqa: BLE001  # the next listener must be called all the same
                # Such as a coroutine function, which has no event loop here.
                _log.exception("a listener failed")
