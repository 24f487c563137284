"""`configure_logging`: one handler for all log output of a process."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from typing import Final, TextIO

from alula.logs._fields import RequestFields
from alula.logs._formatters import ConsoleFormatter, JsonFormatter

__all__ = ["configure_logging"]

# Below these levels, libraries log what must not be in a log.
_SAFE_LEVELS: Final = {
    "pymongo": logging.INFO,  # DEBUG: each command, with its documents and password hashes
    **dict.fromkeys(["httpx", "httpx2"], logging.WARNING),  # INFO: URLs with their queries
    **dict.fromkeys(["httpcore", "httpcore2"], logging.INFO),  # DEBUG: headers with cookies
    "botocore": logging.INFO,  # DEBUG: headers with signatures and session tokens, bodies with keys
    # WARNING: what is wrong with headers and forms of clients, 180 lines for one request
    **dict.fromkeys(["opentelemetry.baggage", "python_multipart"], logging.ERROR),
}


class _Handler(logging.StreamHandler[TextIO]):
    """The handler of `configure_logging`; a type of its own, so that a second call finds it."""


def configure_logging(
    *,
    level: int | str | None = None,
    json: bool | None = None,
    levels: Mapping[str, int | str] | None = None,
    stream: TextIO | None = None,
) -> None:
    """Write all log records to one stream, each with the id of its request.

    A second call replaces the handler and the levels of the first. Loggers in ``levels`` of an
    earlier call keep their level unless a later call names them. Other handlers stay.

    ``configure_logging(level="INFO", levels={"shop.orders": "DEBUG"})``

    Args:
        level: The lowest level to write, such as ``"DEBUG"``. None reads the environment variable
            ``ALULA_LOG_LEVEL``, which defaults to ``INFO``.
        json: Whether to write JSON lines. None means: unless the stream is a terminal.
        levels: Levels of single loggers, by name. Unless they are named here, the MongoDB driver
            and botocore log from ``INFO`` and httpx from ``WARNING``: below, they log documents,
            credentials and URLs with their queries. ``opentelemetry.baggage`` and
            ``python_multipart`` log from ``ERROR``, since clients cause their warnings.
        stream: Where to write; None for standard error.

    Raises:
        ValueError: A level does not exist.
    """
    stream = sys.stderr if stream is None else stream
    is_terminal = bool(getattr(stream, "isatty", bool)())
    if level is None:
        lowest = _level(os.environ.get("ALULA_LOG_LEVEL") or "INFO", "ALULA_LOG_LEVEL")
    else:
        lowest = _level(level, "level")
    named = {name: _level(value, f"levels[{name!r}]") for name, value in (levels or {}).items()}
    handler = _Handler(stream)
    handler.addFilter(RequestFields())
    if (not is_terminal) if json is None else json:
        handler.setFormatter(JsonFormatter())
    else:
        colours = is_terminal and "NO_COLOR" not in os.environ
        handler.setFormatter(ConsoleFormatter(colours=colours))
    root = logging.getLogger()
    for previous in [handler for handler in root.handlers if isinstance(handler, _Handler)]:
        root.removeHandler(previous)
        previous.close()
    root.addHandler(handler)
    root.setLevel(lowest)
    safe = {name: max(lowest, safe_level) for name, safe_level in _SAFE_LEVELS.items()}
    for name, value in {**safe, **named}.items():
        logging.getLogger(name).setLevel(value)


def _level(given: int | str, where: str) -> int:
    levels = logging.getLevelNamesMapping()
    level = given if isinstance(given, int) else levels.get(given.strip().upper())
    if level is None:
        names = ", ".join(name for name in levels if name != "NOTSET")
        raise ValueError(f"{where}: unknown log level {given!r}; the levels are {names}")
    return level
