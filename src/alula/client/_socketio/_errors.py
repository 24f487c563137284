"""The errors of a connection that stays open."""

from __future__ import annotations

from alula.client._codec import Sendable, with_request_error
from alula.errors import FrameworkError, GeneralError, PayloadTooLarge, Unavailable

__all__ = [
    "EventsLost",
    "NotConnected",
    "connection_lost",
    "not_connected",
    "refused",
    "too_large_to_send",
]


class NotConnected(Unavailable):
    """There is no connection, so the call was not sent, and the server has not seen it."""


class EventsLost(GeneralError):
    """Events are missing at this place of a stream. Fetch the records again, and go on reading."""

    name, code, class_name = "EventsLost", 500, "events-lost"


# As everywhere in the client, the messages name no address: servers may pass them on to strangers.


def not_connected(request: Sendable, what: str) -> FrameworkError:
    """Return the error for a call that found no connection.

    Args:
        request: The call.
        what: What was tried, as the end of a sentence.
    """
    error = NotConnected("there is no connection to the called server; the call was not sent")
    return with_request_error(error, request, f"was not sent: {what}")


def connection_lost(request: Sendable, reason: str) -> FrameworkError:
    """Return the error for a call that was sent, and whose connection broke before the response."""
    error = Unavailable(
        "the connection to the called server broke before its response; the call may have been"
        " carried out or not"
    )
    return with_request_error(error, request, f"got no response: {reason}")


def refused(request: Sendable, refusal: FrameworkError) -> FrameworkError:
    """Return a copy of the error that refused the connection, for one of the calls that waited."""
    error = type(refusal)(
        refusal.message,
        errors=refusal.errors,
        name=refusal.name,
        code=refusal.code,
        class_name=refusal.class_name,
    )
    error.data = refusal.data
    return with_request_error(error, request, f"was not sent: {refusal}")


def too_large_to_send(request: Sendable, limit: int) -> FrameworkError:
    """Return the error for a call that is larger than what the server takes."""
    error = PayloadTooLarge("the call is larger than the called server takes", {"limit": limit})
    return with_request_error(error, request, f"was not sent: the server takes {limit} bytes")
