"""Records as text: JSON lines for programs, lines for people.

Both keep what a client sent from making lines of its own.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from functools import lru_cache
from traceback import TracebackException
from typing import Any, Final

from alula._stacks import keep_user_frames
from alula.logs._fields import extras_of, stamp
from alula.logs._text import one_line

__all__ = ["ConsoleFormatter", "JsonFormatter"]

_PLAIN: Final = (str, int, float, bool)
_COLOURS: Final = {"DEBUG": "2", "WARNING": "33", "ERROR": "31", "CRITICAL": "31;1"}


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``time``, ``level``, ``logger``, ``message``, and what else there is.

    That is the ``request_id``, what was given as ``extra``, and for errors an ``exception`` with
    ``type``, ``message`` and ``stack``.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record; what has no JSON form is written as text."""
        stamp(record)
        entry: dict[str, Any] = {
            "time": _utc(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[1] is not None:
            kind, error, _ = record.exc_info
            entry["exception"] = {
                "type": getattr(kind, "__name__", str(kind)),
                "message": _text(error),
                "stack": self.formatException(record.exc_info),
            }
        if record.stack_info:
            entry["stack"] = self.formatStack(record.stack_info)
        extras = extras_of(record)
        for name, value in extras.items():
            entry[f"{name}_" if name in entry else name] = value
        try:
            return _dumps(entry)
        except (TypeError, ValueError, RecursionError):
            return _dumps({name: _storable(value) for name, value in entry.items()})


class ConsoleFormatter(logging.Formatter):
    """A line for people: time, level, logger, message, and as ``name=value`` what else there is.

    What the message says already is not said again. Stacks follow on lines that are indented, from
    the user's first frame on; frames of packages between those of the user are left out.

    Args:
        colours: Whether levels have colours, for terminals.
    """

    def __init__(self, *, colours: bool = False) -> None:
        super().__init__()
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        stamp(record)
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S.%f")[:-3]
        said = record.args if isinstance(record.args, tuple) else ()
        parts = [
            f"{time} {self._level(record.levelname)} {record.name}:",
            one_line(record.getMessage()),
        ]
        for name, value in extras_of(record).items():
            if not any(value is known for known in said):
                parts.append(f"{name}={_shown(value)}")
        lines = [" ".join(parts)]
        if record.exc_info and record.exc_info[1] is not None:
            lines += self.formatException(record.exc_info).splitlines()
        if record.stack_info:
            lines += self.formatStack(record.stack_info).splitlines()
        return "\n    ".join([lines[0], *map(one_line, lines[1:])])

    def formatException(self, ei: Any) -> str:  # noqa: N802  # the name of logging
        """Return an error with the frames of the user first."""
        error = ei[1]
        shown = TracebackException.from_exception(error)
        removed = keep_user_frames(shown, inner=True)
        text = "".join(shown.format())
        return f"{text}(left out: {removed} frames of packages)" if removed else text

    def _level(self, name: str) -> str:
        colour = _COLOURS.get(name) if self._colours else None
        return f"\x1b[{colour}m{name:<7}\x1b[0m" if colour else f"{name:<7}"


def _utc(seconds: float) -> str:
    whole, thousandths = divmod(int(seconds * 1000), 1000)
    return f"{_second(whole)}.{thousandths:03}Z"


@lru_cache(maxsize=1)  # many lines are of the same second
def _second(whole: int) -> str:
    return datetime.fromtimestamp(whole, UTC).isoformat()[:19]


def _storable(value: Any) -> Any:
    """Return a value that JSON can hold: itself, or text."""
    try:
        _dumps({"": value})
    except (TypeError, ValueError, RecursionError):
        return _text(value)
    return value


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # a value that can not be shown must not cost the line
        return f"<{type(value).__name__}>"


# In ASCII, so that no character can be taken for the end of a line, whoever reads it.
_dumps: Final = json.JSONEncoder(default=_text, allow_nan=False).encode


def _shown(value: Any) -> str:
    text = one_line(_text(value))
    return json.dumps(text, ensure_ascii=False) if not text or set(text) & set(' "=') else text
