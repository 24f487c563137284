"""The real-time part of the reference app: transport, channels, publishers and services.

`GROUPS` and `SECOND_GROUPS` say in which order the services of the two apps are registered.
"""

from __future__ import annotations

from tests.conformance.services.realtime import (
    channels,
    control,
    custom_events,
    feeds,
    guarded,
    membership,
    published,
    text,
    values,
    whoami,
)

__all__ = ["GROUPS", "RECORDS", "SECOND_GROUPS"]

GROUPS = (
    channels.channels,
    feeds.feeds,
    published.published,
    guarded.guarded,
    custom_events.custom_events,
    whoami.callers,
    values.slow,
    values.values,
    membership.membership,
    control.control,
)

SECOND_GROUPS = (text.text,)

RECORDS = {**feeds.RECORDS, **guarded.RECORDS}
