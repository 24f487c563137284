"""Measurements of real-time connections and live lists: how many there are, what they get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from alula._channels import Channels

__all__ = ["measure_connections"]


def measure_connections(channels: Channels, meter: Meter) -> None:
    """Measure connections, channels and live lists of an application whenever the SDK collects.

    Nothing is counted per connection or channel: their names would be attributes without number,
    and often hold ids.

    Args:
        channels: Those of the application.
        meter: Where the instruments are made.
    """
    _measure_lists(channels, meter)

    def connections(_: CallbackOptions) -> Iterator[Observation]:
        providers = Counter(c.provider for c in channels.connections.values())
        for provider, number in providers.items():
            yield Observation(number, {"alula.provider": provider})

    def queued(_: CallbackOptions) -> Iterator[Observation]:
        waiting: Counter[str] = Counter()
        for connection in channels.connections.values():
            waiting[connection.provider] += connection.queued
        for provider, number in waiting.items():
            yield Observation(number, {"alula.provider": provider})

    meter.create_observable_up_down_counter(
        "alula.realtime.connections", [connections], "{connection}", "Open connections."
    )
    meter.create_observable_up_down_counter(
        "alula.realtime.queued_messages",
        [queued],
        "{message}",
        "Messages that wait until their clients read.",
    )
    meter.create_observable_up_down_counter(
        "alula.realtime.channels",
        [lambda _: [Observation(len(channels.names))]],
        "{channel}",
        "Channels that a connection is in.",
    )
    meter.create_observable_counter(
        "alula.realtime.events",
        [lambda _: [Observation(channels.published)]],
        "{event}",
        "Events that were published to channels of this process.",
    )
    meter.create_observable_counter(
        "alula.realtime.messages",
        [lambda _: [Observation(channels.sent)]],
        "{message}",
        "Messages that connections got: one for each event and connection.",
    )


def _measure_lists(channels: Channels, meter: Meter) -> None:
    def of_lists(name: str) -> Callable[[CallbackOptions], Iterator[Observation]]:
        def observe(_: CallbackOptions) -> Iterator[Observation]:
            if channels.list_figures is not None:
                yield Observation(getattr(channels.list_figures, name))

        return observe

    meter.create_observable_up_down_counter(
        "alula.live.lists", [of_lists("lists")], "{list}", "Open live lists."
    )
    meter.create_observable_up_down_counter(
        "alula.live.groups",
        [of_lists("groups")],
        "{group}",
        "Live lists that differ; equal ones share their reads.",
    )
    meter.create_observable_counter(
        "alula.live.reads", [of_lists("reads")], "{read}", "Calls of `find` for live lists."
    )
    meter.create_observable_counter(
        "alula.live.dismissed",
        [of_lists("dismissed")],
        "{look}",
        "How often a change was found not to concern a live list.",
    )
