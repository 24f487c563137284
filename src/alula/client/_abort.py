"""Aborting a call from elsewhere: a controller, and the signal that calls listen to."""

from __future__ import annotations

import threading
from collections.abc import Callable

from alula.errors import GeneralError

__all__ = ["AbortController", "AbortSignal", "Aborted"]


class Aborted(GeneralError):
    """The caller aborted the call; the server may have carried it out or not."""

    name, code, class_name = "AbortError", 499, "abort-error"


class AbortSignal:
    """Tells calls that their `AbortController` has aborted them.

    Attributes:
        aborted: Whether they are aborted.
    """

    def __init__(self) -> None:
        self.aborted = False
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` on abort, at once if that is over; return a function that removes it.

        Args:
            listener: Called at most once, in the thread that aborts.
        """
        with self._lock:
            if not self.aborted:
                self._listeners.append(listener)
                return lambda: self._forget(listener)
        listener()
        return lambda: None

    def _forget(self, listener: Callable[[], None]) -> None:
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)

    def _abort(self) -> None:
        # Listeners run outside the lock: they may listen or abort themselves.
        with self._lock:
            self.aborted = True
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()


class AbortController:
    """Aborts every call that has its signal: ``connection={"signal": controller.signal}``.

    Attributes:
        signal: The signal for calls.
    """

    def __init__(self) -> None:
        self.signal = AbortSignal()

    def abort(self) -> None:
        """Abort all calls that have the signal, also those that begin later; from any thread."""
        self.signal._abort()  # noqa: SLF001  # the two are one thing in two hands
