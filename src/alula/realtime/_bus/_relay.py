"""The relay between the channels of one process and a bus.

Local connections get their events without it. The relay queues events for the bus, drops events
that come back or arrive twice, and continues with the next event when a bus that was away is back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from alula._channels import Channels, Event
from alula._user_code import is_cancelled
from alula.realtime._bus._bus import Bus
from alula.realtime._bus._codec import decode_event, encode_event, read_header

if TYPE_CHECKING:
    from alula.realtime._bus._unsent import UnsentMark

__all__ = ["Relay", "RelaySettings"]

_EVENTS_AT_ONCE: Final = 256
_BYTES_AT_ONCE: Final = 1024 * 1024
"""How many events and bytes are published together. A bus must accept them within
`RelaySettings.publish_timeout`; until then they are sent again and again, before all others."""

_EVENTS_PER_TURN: Final = 64
"""How many events are received before calls and connections have their turn."""

_MAX_ORIGINS: Final = 10_000
"""How many processes are remembered with their latest number; each restart makes a new one."""

_log: Final = logging.getLogger("alula.realtime.bus")


@dataclass(frozen=True)
class RelaySettings:
    """Limits and pauses of a relay.

    Attributes:
        max_pending: How many events wait for a bus that is away. Then the oldest are dropped.
        max_pending_bytes: How many bytes these events may have.
        first_pause: Seconds between a failure and the next try.
        longest_pause: Seconds between two tries after many failures.
        publish_timeout: Seconds in which a bus must accept several events.
        recall_timeout: Seconds in which a bus must return its earlier events.
        flush_timeout: Seconds for publishing the waiting events when the application stops.
    """

    max_pending: int = 10_000
    max_pending_bytes: int = 64 * 1024 * 1024
    first_pause: float = 0.1
    longest_pause: float = 5.0
    publish_timeout: float = 10.0
    recall_timeout: float = 10.0
    flush_timeout: float = 2.0


class Relay:
    """Carries the events of one process to a bus, and those of other processes to its channels.

    Args:
        channels: The channels of the application.
        bus: The bus.
        settings: Limits and pauses.
        mark: Tells the next worker if this process is killed while events wait.

    Attributes:
        dropped: How many events were not published: too many waited, or they had no JSON form.
        missed: How many events of other processes did not arrive.
    """

    def __init__(
        self,
        channels: Channels,
        bus: Bus,
        settings: RelaySettings | None = None,
        mark: UnsentMark | None = None,
    ) -> None:
        self.dropped = 0
        self.missed = 0
        self._channels = channels
        self._bus = bus
        self._settings = settings or RelaySettings()
        self._mark = mark
        self._pending: deque[bytes] = deque()
        self._pending_bytes = 0
        self._in_flight: list[bytes] = []
        self._added = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._position: str | None = None
        self._is_listening = False
        self._sequences: OrderedDict[str, int] = OrderedDict()
        # Since when publishing or receiving has failed, by the monotonic clock.
        self._failing_since: dict[str, float] = {}
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def pending(self) -> int:
        """How many events wait for the bus."""
        return len(self._pending) + len(self._in_flight)

    @property
    def is_listening(self) -> bool:
        """Whether events of other processes arrive."""
        return self._is_listening

    def state(self) -> str:
        """Return ``"ok"``, or ``"away"`` while the bus cannot be reached."""
        return "away" if self._failing_since else "ok"

    def start(self) -> None:
        """Begin to publish and to receive, without waiting for the bus."""
        # A new name, because forked workers have the same one from before the fork.
        self._channels.origin = secrets.token_urlsafe(9)
        self._channels.forward = self.forward
        if self._channels.log is not None:
            self._channels.log.begin_recall()
        self._tasks = [
            asyncio.create_task(self._keep_trying("publish", self._publish), name="bus: publish"),
            asyncio.create_task(
                self._keep_trying("receive", self._receive_all), name="bus: events"
            ),
        ]

    async def stop(self) -> None:
        """Publish the waiting events, for a few seconds at most, and close the bus."""
        self._channels.forward = None
        publishing, receiving = self._tasks
        receiving.cancel()
        if self.pending and "publish" not in self._failing_since:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.flush_timeout):
                    await self._idle.wait()
        publishing.cancel()
        await asyncio.wait(self._tasks)
        if self.pending:
            _log.warning("%d events were not published: %r was away", self.pending, self._bus)
        try:
            async with asyncio.timeout(self._settings.flush_timeout):
                await self._bus.close()
        except Exception as error:  # noqa: BLE001  # of any engine; its failures were logged before
            _log.debug("closing %r failed: %r", self._bus, error)
        if self._mark is not None:
            self._mark.close()

    # -- to the bus ----------------------------------------------------------------------------

    def forward(self, event: Event) -> None:
        """Queue an event of this process; never waits and never raises."""
        try:
            # Encoded now, because the application may change the record before it is sent.
            encoded = encode_event(event)
        except Exception:  # noqa: BLE001  # of the user's types
            _log.exception(
                "the event %r of %r is not published to other processes: it cannot be encoded",
                event.name,
                event.path,
            )
            self.dropped += 1
            return
        if len(encoded) > self._bus.max_event_bytes:
            _log.error(
                "the event %r of %r is not published to other processes: its %d bytes are over"
                " the limit of %d",
                event.name,
                event.path,
                len(encoded),
                self._bus.max_event_bytes,
            )
            self.dropped += 1
            return
        if self._mark is not None and self._idle.is_set():
            self._mark.set(has_unsent=True)  # before the client gets its answer
        self._pending.append(encoded)
        self._pending_bytes += len(encoded)
        settings = self._settings
        while (
            len(self._pending) > settings.max_pending
            or self._pending_bytes > settings.max_pending_bytes
        ):
            self._pending_bytes -= len(self._pending.popleft())
            self.dropped += 1
        self._idle.clear()
        self._added.set()

    async def _publish(self) -> None:
        while True:
            if not self._in_flight:
                self._added.clear()
                size = 0
                while self._pending and len(self._in_flight) < _EVENTS_AT_ONCE:
                    event = self._pending.popleft()
                    size += len(event)
                    self._in_flight.append(event)
                    if size >= _BYTES_AT_ONCE:
                        break
                self._pending_bytes -= size
            if not self._in_flight:
                self._idle.set()
                if self._mark is not None:
                    self._mark.set(has_unsent=False)
                await self._added.wait()
                continue
            async with asyncio.timeout(self._settings.publish_timeout):
                # If this fails, all are published again, and receivers drop duplicates.
                await self._bus.publish_many(self._in_flight)
            self._in_flight = []
            self._succeeded("publish")

    # -- from the bus --------------------------------------------------------------------------

    async def _receive_all(self) -> None:
        count = 0
        self._is_listening = False
        async with contextlib.aclosing(self._bus.events(self._position)) as events:
            async for position, event, is_behind_gap in events:
                self._succeeded("receive")
                if self._position is None:
                    await self._recall(position)
                self._is_listening = True
                self._position = position
                if is_behind_gap:
                    _log.warning("%r no longer has events that did not arrive here", self._bus)
                    self._channels.report_gap()
                if not event:
                    continue
                with self._unreadable_left_out():
                    header = read_header(event)
                    if header.origin != self._channels.origin and self._is_next(
                        header.origin, header.sequence
                    ):
                        self._channels.receive(decode_event(header))
                count += 1
                if count % _EVENTS_PER_TURN == 0:
                    await asyncio.sleep(0)
        raise ConnectionError("it yields no more events")

    @contextlib.contextmanager
    def _unreadable_left_out(self) -> Generator[None]:
        try:
            yield
        except Exception:  # noqa: BLE001  # whatever decoding raises
            # It must not stop the events after it.
            _log.exception("an event of %r is left out: it cannot be read", self._bus)

    async def _recall(self, position: str) -> None:
        """Add the events to the log that were published before this process listened.

        Args:
            position: The position where it began to listen.
        """
        log = self._channels.log
        if log is None:
            return
        complete_since = time.time()
        try:
            async with asyncio.timeout(self._settings.recall_timeout):
                recent = await self._bus.recent_events(position)
                for count, event in enumerate(recent.events):
                    with self._unreadable_left_out():
                        header = read_header(event)
                        if header.sequence <= self._sequences.get(header.origin, 0):
                            continue
                        if not self._sequences:
                            complete_since = min(complete_since, header.time)
                        self._sequences[header.origin] = header.sequence
                        if header.time < log.oldest:  # only its number is needed
                            log.advance(header.origin, header.sequence, header.time)
                        else:
                            await self._channels.recall(decode_event(header), header.time)
                    if count % _EVENTS_PER_TURN == 0:
                        await asyncio.sleep(0)
                since = recent.complete_since
                complete_since = complete_since if since is None else since
        except (Exception, asyncio.CancelledError) as error:  # of any engine
            if is_cancelled():
                raise
            complete_since = time.time()
            _log.warning(
                "events from before are unknown: reading those of %r failed: %r", self._bus, error
            )
        log.end_recall(complete_since)

    def _is_next(self, origin: str, sequence: int) -> bool:
        """Tell whether an event is new, and count missing events of its process."""
        last = self._sequences.get(origin)
        if last is not None:
            if sequence <= last:
                return False
            if missing := sequence - last - 1:
                self.missed += missing
                _log.warning(
                    "%d events of another process did not arrive by %r", missing, self._bus
                )
                self._channels.report_gap()
        self._sequences[origin] = sequence
        self._sequences.move_to_end(origin)
        if len(self._sequences) > _MAX_ORIGINS:
            self._sequences.popitem(last=False)
        return True

    # -- a bus that is away --------------------------------------------------------------------

    async def _keep_trying(self, direction: str, run: Callable[[], Awaitable[None]]) -> None:
        pause = self._settings.first_pause
        while True:
            try:
                await run()
            except (Exception, asyncio.CancelledError) as error:  # of any engine
                if is_cancelled():
                    raise
                if direction not in self._failing_since:
                    pause = self._settings.first_pause
                    if not self._failing_since:
                        _log.warning(
                            "%r is away (%s); connections of other processes get no events until"
                            " it is back, and it is tried again",
                            self._bus,
                            str(error) or type(error).__name__,
                        )
                    self._failing_since[direction] = time.monotonic()
            await asyncio.sleep(pause)
            pause = min(pause * 2, self._settings.longest_pause)

    def _succeeded(self, direction: str) -> None:
        since = self._failing_since.pop(direction, None)
        if since is not None and not self._failing_since:
            _log.info(
                "%r is back after %.1f seconds; %d events wait, %d were dropped so far",
                self._bus,
                time.monotonic() - since,
                self.pending,
                self.dropped,
            )
