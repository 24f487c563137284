"""What stands in logs: records with the id of their request, as JSON lines or for people."""

from alula.logs.configuring import configure_logging
from alula.logs.fields import RequestFields, add_log_fields
from alula.logs.formatters import ConsoleFormatter, JsonFormatter
from alula.request_ids import current_request_id, request_scope

__all__ = [
    "ConsoleFormatter",
    "JsonFormatter",
    "RequestFields",
    "add_log_fields",
    "configure_logging",
    "current_request_id",
    "request_scope",
]
