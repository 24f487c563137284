"""The errors of calls that got no response, or only a part of one."""

from __future__ import annotations

from alula.client._abort import Aborted
from alula.client._codec import Sendable, with_request_error
from alula.errors import BadGateway, FrameworkError, Timeout, Unavailable

__all__ = ["aborted_error", "connection_failed", "timed_out", "too_large"]

# The messages of these errors name no address: if one escapes from a hook of a server, that
# server's clients read it. `RequestError`, their cause, has the details.


def timed_out(request: Sendable, seconds: float | None) -> FrameworkError:
    """Return the error for a late response; None means a time limit of the library's own."""
    long = "too long" if seconds is None else f"longer than {seconds} seconds"
    error = Timeout(f"the called server took {long}", {"timeout": seconds})
    return with_request_error(error, request, f"took {long}")


def connection_failed(request: Sendable, reason: BaseException) -> FrameworkError:
    """Return the error for a connection that could not be made, or broke."""
    error = Unavailable("the called server cannot be reached, or the connection broke")
    what = f"failed: {str(reason) or type(reason).__name__}"
    return with_request_error(error, request, what, reason=reason)


def too_large(request: Sendable, limit: int) -> FrameworkError:
    """Return the error for a response over the limit."""
    error = BadGateway("the response of the called server is too large")
    what = (
        f"got a response larger than {limit} bytes; ask for fewer records, or raise the option"
        " `max_response_size`"
    )
    return with_request_error(error, request, what)


def aborted_error(request: Sendable) -> FrameworkError:
    """Return the error for a request that its signal aborted."""
    error = Aborted("the call was aborted by its signal")
    return with_request_error(error, request, "was aborted by its signal")
