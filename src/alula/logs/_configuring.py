"""`configure_logging`: one handler for all that is logged in a process."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from typing import Any, Final

from alula.logs._fields import RequestFields
from alula.logs._formatters import ConsoleFormatter, JsonFormatter

__all__ = ["configure_logging"]

_QUIET: Final = {
    "pymongo": logging.INFO,  # below it, every command with its documents and hashes of passwords
    **dict.fromkeys(["httpx", "httpx2"], logging.WARNING),  # at INFO, addresses with their queries
    **dict.fromkeys(["httpcore", "httpcore2"], logging.INFO),  # below it, headers with cookies
}


class _Handler(logging.StreamHandler[Any]):
    """The handler that was installed here, to be known again."""


def configure_logging(
    *,
    level: int | str | None = None,
    json: bool | None = None,
    levels: Mapping[str, int | str] | None = None,
    stream: Any = None,
) -> None:
    """Write all that is logged to one stream, each record with the id of its request.

    Called again, it replaces its handler and sets levels anew; the level of a single logger that is
    not named again stays. Handlers of others stay.

    Args:
        level: What is logged, such as ``"DEBUG"``. None reads the environment variable
            ``ALULA_LOG_LEVEL``, and without it takes ``INFO``.
        json: Whether in JSON lines. None means: unless the stream is a terminal.
        levels: Levels of single loggers, by name. MongoDB's driver stays at ``INFO`` and httpx at
            ``WARNING`` unless they are named here, since below that they log documents, and
            addresses with the queries in them.
        stream: Where to write; None for standard error.

    Raises:
        ValueError: A level does not exist.
    """
    stream = sys.stderr if stream is None else stream
    is_terminal = bool(getattr(stream, "isatty", bool)())
    if level is None:
        known = _level(os.environ.get("ALULA_LOG_LEVEL") or "INFO", "ALULA_LOG_LEVEL")
    else:
        known = _level(level, "level")
    single = {name: _level(one, f"levels[{name!r}]") for name, one in (levels or {}).items()}
    handler = _Handler(stream)
    handler.addFilter(RequestFields())
    if (not is_terminal) if json is None else json:
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(ConsoleFormatter(colours=is_terminal and "NO_COLOR" not in os.environ))
    root = logging.getLogger()
    for old in [one for one in root.handlers if isinstance(one, _Handler)]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(known)
    for name, one in {**{n: max(known, low) for n, low in _QUIET.items()}, **single}.items():
        logging.getLogger(name).setLevel(one)


def _level(given: int | str, where: str) -> int:
    level = given if isinstance(given, int) else logging.getLevelName(given.strip().upper())
    if not isinstance(level, int):
        names = ", ".join(name for name in logging.getLevelNamesMapping() if name != "NOTSET")
        raise ValueError(f"{where}: there is no log level {given!r}; the levels are {names}")
    return level
