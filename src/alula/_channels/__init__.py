"""Channels: which connections get which events. They know no transport and no service.

Publishers, functions of the application, return the channels for an event. A service without a
publisher sends nothing.
"""

from alula._channels._channel import Channel
from alula._channels._channels import Channels, call_params
from alula._channels._deliveries import Delivery
from alula._channels._publishers import (
    Publication,
    Publisher,
    PublisherTable,
    Publishing,
    PublishingService,
    event_records,
    unlisted_event,
)
from alula._connection import Connection, EventMessage, EventServer, Link

__all__ = [
    "Channel",
    "Channels",
    "Connection",
    "Delivery",
    "EventMessage",
    "EventServer",
    "Link",
    "Publication",
    "Publisher",
    "PublisherTable",
    "Publishing",
    "PublishingService",
    "call_params",
    "event_records",
    "unlisted_event",
]
