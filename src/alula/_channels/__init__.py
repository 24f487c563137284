"""Channels: which connections get which events. They know no transport and no service.

Publishers, functions of the application, return the channels for an event. A service without a
publisher sends nothing.
"""

from alula._channels._channel import Channel, Delivery
from alula._channels._channels import Channels, PublishingService, call_params
from alula._channels._publishers import (
    Publication,
    Publisher,
    PublisherTable,
    Publishing,
    event_records,
)
from alula._connection import Connection, EventMessage, Link

__all__ = [
    "Channel",
    "Channels",
    "Connection",
    "Delivery",
    "EventMessage",
    "Link",
    "Publication",
    "Publisher",
    "PublisherTable",
    "Publishing",
    "PublishingService",
    "call_params",
    "event_records",
]
