"""Events of several processes and machines: `Bus`, its engines, and the relay to a bus."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from alula._app import App
from alula._channels import GAP_OF_LISTS
from alula._hub import WorkerPlace, current_worker
from alula.realtime._bus._bus import Bus, BusEvent, RecentEvents
from alula.realtime._bus._hub_bus import HubBus
from alula.realtime._bus._mongodb import MongoBus
from alula.realtime._bus._postgres import PostgresBus
from alula.realtime._bus._redis import RedisBus
from alula.realtime._bus._relay import Relay

if TYPE_CHECKING:
    from alula.realtime._bus._unsent import Left, UnsentMark

__all__ = ["Bus", "BusEvent", "MongoBus", "PostgresBus", "RecentEvents", "RedisBus", "connect_bus"]

_SETTING: Final = "realtime bus"
_HEALTH_NOTES: Final = "health notes"
"""The setting where the readiness probe of `alula.express` finds the state of the bus."""

_GAP: Final = "bus/gap"
"""The signal of a worker that has noticed that a killed worker left unsent events."""

_log: Final = logging.getLogger("alula.realtime.bus")


def connect_bus(app: App[Any], bus: Bus | None = None) -> None:
    """Share the events of an application with other processes, from its setup to its teardown.

    Transports call this when they are configured. All transports of an application share one bus.

    Args:
        app: The application.
        bus: The bus. None for the hub of `alula serve`, if this process is one of its workers.

    Raises:
        TypeError: It is not a bus.
        ValueError: The application already has another bus.
    """
    if bus is not None and not isinstance(bus, Bus):
        raise TypeError(
            f"bus={bus!r} is not a Bus; write RedisBus(url), PostgresBus(url),"
            " MongoBus(collection), or derive from alula.realtime.Bus"
        )
    known: Bus | None = app.settings.get(_SETTING)
    if bus is not None and known is not None and known is not bus:
        raise ValueError(
            f"the application has the bus {known!r} already; give both transports the same bus"
        )
    is_first = _SETTING not in app.settings
    app.settings[_SETTING] = known or bus
    if not is_first:
        return
    relay: Relay | None = None

    async def start(_context: object, next: Callable[[], Awaitable[None]]) -> None:
        nonlocal relay
        await next()  # first, so that nothing has to be undone if another setup fails
        bus, place = app.settings[_SETTING], current_worker()
        if bus is None and place is not None:
            bus = HubBus(place.hub)
        if bus is not None:
            channels = app.channel_registry
            has_lists = any(each.live_options is not None for each in app.services.values())
            mark, left = (None, None) if place is None else _read_marks(place, has_lists)
            relay = Relay(channels, bus, mark=mark)
            notes: dict[str, Callable[[], str]] = app.settings.setdefault(_HEALTH_NOTES, {})
            notes[_SETTING] = relay.state
            relay.start()
            if left is not None and left.events:
                _log.warning("a worker has ended with events that no other process has got")
                channels.signal(_GAP, None)
            elif left is not None and left.writes:
                channels.signal(GAP_OF_LISTS, None)

    async def stop(_context: object, next: Callable[[], Awaitable[None]]) -> None:
        nonlocal relay
        try:
            await next()  # teardowns of services may still publish
        finally:
            stopping, relay = relay, None
            if stopping is not None:
                del app.settings[_HEALTH_NOTES][_SETTING]
                await stopping.stop()

    app.hooks(setup=[start], teardown=[stop])
    app.channel_registry.on_signal(_GAP, lambda _: app.channel_registry.report_gap())


def _read_marks(place: WorkerPlace, has_lists: bool) -> tuple[UnsentMark | None, Left | None]:
    """Return a mark for this worker, and what workers that ended have left untold."""
    # Imported here, because `fcntl` exists only on Unix.
    from alula.realtime._bus._unsent import UnsentMark, take_marks_of_dead_workers  # noqa: PLC0415  # see above

    try:
        left = take_marks_of_dead_workers(place.directory, place.worker_id)
        return UnsentMark(place.directory, place.worker_id, has_lists=has_lists), left
    except OSError as error:  # no disk space, or too many open files
        _log.warning("if this worker is killed, lost events will not be noticed: %s", error)
        return None, None
