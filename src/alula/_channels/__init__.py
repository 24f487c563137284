"""Channels: which connections get which events. They know no transport and no service.

Publishers, functions of the application, return the channels for an event. A service without a
publisher sends nothing.
"""

from alula._channels._channels import (
    GAP_OF_LISTS,
    Channel,
    Channels,
    ListFigures,
    Targets,
)
from alula._channels._publishers import (
    Publisher,
    PublisherTable,
    Publishing,
    PublishingService,
    unlisted_event,
)
from alula._connection import Connection, Event, EventServer, Link

__all__ = [
    "GAP_OF_LISTS",
    "Channel",
    "Channels",
    "Connection",
    "Event",
    "EventServer",
    "Link",
    "ListFigures",
    "Publisher",
    "PublisherTable",
    "Publishing",
    "PublishingService",
    "Targets",
    "unlisted_event",
]
