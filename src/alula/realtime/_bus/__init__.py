"""Events of several processes and machines: `Bus` and what carries it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from alula._app import App
from alula._hub import current_worker
from alula.realtime._bus._bus import Bus, BusEvent
from alula.realtime._bus._hub_bus import HubBus
from alula.realtime._bus._mongodb import MongoBus
from alula.realtime._bus._redis import RedisBus
from alula.realtime._bus._relay import Relay

__all__ = ["Bus", "BusEvent", "MongoBus", "RedisBus", "connect_bus"]

_SETTING: Final = "realtime bus"
_HEALTH_NOTES: Final = "health notes"
"""The setting by which the readiness probe of `alula.express` gets the state of the bus."""


def connect_bus(app: Any, bus: Bus | None = None) -> None:
    """Share the events of an application with other processes while it is set up.

    Transports call this when they are configured; several of one application share one bus.

    Args:
        app: The `App`, or what `express` made of it.
        bus: The bus; None for the hub of `alula serve`, if this process is one of its workers.

    Raises:
        TypeError: It is not a bus.
        ValueError: The application has another bus already.
    """
    if bus is not None and not isinstance(bus, Bus):
        raise TypeError(
            f"bus={bus!r} is not a Bus; write RedisBus(url), MongoBus(collection), or derive from"
            " alula.realtime.Bus"
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
    core: App = getattr(app, "app", app)
    relay: Relay | None = None

    async def start(_context: object, next: Callable[[], Awaitable[None]]) -> None:
        nonlocal relay
        await next()  # a setup that fails leaves nothing behind
        bus, place = app.settings[_SETTING], current_worker()
        if bus is None and place is not None:
            bus = HubBus(place.hub)
        if bus is not None:
            relay = Relay(core.channel_registry, bus)
            notes: dict[str, Callable[[], str]] = app.settings.setdefault(_HEALTH_NOTES, {})
            notes[_SETTING] = relay.state
            relay.start()

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
