"""Log output with the id of each request, as JSON lines or for people."""

from typing import TYPE_CHECKING

from alula._late_imports import late_names
from alula.logs._fields import RequestFields, add_log_fields
from alula.logs._request_ids import current_request_id, request_scope

if TYPE_CHECKING:
    from alula.logs._configure_logging import configure_logging
    from alula.logs._formatters import ConsoleFormatter, JsonFormatter

__all__ = [
    "ConsoleFormatter",
    "JsonFormatter",
    "RequestFields",
    "add_log_fields",
    "configure_logging",
    "current_request_id",
    "request_scope",
]

if not TYPE_CHECKING:  # otherwise, checkers would accept every name
    # These load orjson where it is installed. The client needs the request id alone.
    __getattr__, __dir__ = late_names(
        globals(),
        {
            "ConsoleFormatter": "_formatters",
            "JsonFormatter": "_formatters",
            "configure_logging": "_configure_logging",
        },
    )
