"""Log records as text: JSON lines for programs, readable lines for people.

What a client sent never starts a line of its own: control characters are escaped.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from traceback import TracebackException
from typing import Any, Final

from alula._user_code import keep_user_frames
from alula.logs._fields import add_request_fields, extra_fields
from alula.outgoing import public_part
from alula.outgoing._text import one_line

# Logs work without orjson, which only the web layer needs.
_quick_dumps: Callable[[object], bytes] | None
try:
    from orjson import dumps as _quick_dumps
except ImportError:
    _quick_dumps = None

__all__ = ["ConsoleFormatter", "JsonFormatter"]

_COLOURS: Final = {"DEBUG": "2", "WARNING": "33", "ERROR": "31", "CRITICAL": "31;1"}


class JsonFormatter(logging.Formatter):
    """Formats each record as a JSON object: ``time``, ``level``, ``logger``, ``message``, fields.

    Fields are the ``request_id`` and what was passed as ``extra``. Errors have an ``exception``
    with ``type``, ``message`` and ``stack``.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record; values without a JSON form are written as text."""
        add_request_fields(record)
        milliseconds = int(record.created * 1000)
        entry: dict[str, Any] = {
            "time": f"{_second(milliseconds // 1000)}.{milliseconds % 1000:03}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[1] is not None:
            type_, error, _ = record.exc_info
            entry["exception"] = {
                "type": getattr(type_, "__name__", str(type_)),
                "message": _text(error),
                "stack": self.formatException(record.exc_info),
            }
        if record.stack_info:
            entry["stack"] = self.formatStack(record.stack_info)
        has_scalars_only = "exception" not in entry
        for name, value in extra_fields(record).items():
            is_scalar = type(value) in _SCALARS
            has_scalars_only &= is_scalar
            # A field with the name `time` or `level` must not replace that of the record.
            entry[f"{name}_" if name in entry else name] = value if is_scalar else _shown(value)
        if has_scalars_only and _quick_dumps is not None:
            line = _quick_line(entry, _quick_dumps)
            if line is not None:
                return line
        try:
            return _dumps(entry)
        except (TypeError, ValueError, RecursionError):
            # One bad value must not cost the others: each that JSON cannot hold becomes text.
            for name, value in entry.items():
                try:
                    _dumps({"": value})
                except (TypeError, ValueError, RecursionError):
                    entry[name] = _text(value)
            return _dumps(entry)


class ConsoleFormatter(logging.Formatter):
    """Formats records for people: time, level, logger, message, and fields as ``name=value``.

    A value that the message contains is not repeated. Stacks are indented and start at the user's
    first frame; frames of packages between the user's frames are left out.

    Args:
        colours: Whether levels have colours, for terminals.
    """

    def __init__(self, *, colours: bool = False) -> None:
        super().__init__()
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        add_request_fields(record)
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S.%f")[:-3]
        level = f"{record.levelname:<7}"
        if self._colours and (colour := _COLOURS.get(record.levelname)):
            level = f"\x1b[{colour}m{level}\x1b[0m"
        parts = [f"{time} {level} {record.name}:", one_line(record.getMessage())]
        in_message = record.args if isinstance(record.args, tuple) else ()
        for name, value in extra_fields(record).items():
            if not any(value is argument for argument in in_message):
                text = one_line(_text(value))
                if not text or set(text) & set(' "='):
                    text = json.dumps(text, ensure_ascii=False)
                parts.append(f"{name}={text}")
        lines = [" ".join(parts)]
        if record.exc_info and record.exc_info[1] is not None:
            lines += self.formatException(record.exc_info).splitlines()
        if record.stack_info:
            lines += self.formatStack(record.stack_info).splitlines()
        return "\n    ".join([lines[0], *map(one_line, lines[1:])])

    def formatException(self, ei: Any) -> str:  # noqa: N802  # the name that logging calls
        """Return an error with the user's frames only."""
        trace = TracebackException.from_exception(ei[1])
        removed = keep_user_frames(trace, inner=True)
        text = "".join(trace.format())
        return f"{text}(left out: {removed} frames of packages)" if removed else text


@lru_cache(maxsize=1)  # many records are of the same second
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]


def _shown(value: object) -> object:
    """Return what a log may know of a value: nothing hidden."""
    try:
        return public_part(value, of_hidden=repr)
    except RecursionError:  # it holds itself
        return _text(value)


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # a broken __str__ must not cost the line
        return f"<{type(value).__name__}>"


# ASCII only: readers disagree on which Unicode characters end a line.
_dumps: Final = json.JSONEncoder(default=_text, allow_nan=False, separators=(",", ":")).encode
_SCALARS: Final = frozenset({str, int, float, bool})


def _quick_line(entry: dict[str, Any], dumps: Callable[[object], bytes]) -> str | None:
    """Return the line of an entry of scalars; None if only the standard library writes it right.

    A line of the access log takes a quarter of the time.
    """
    try:
        line = dumps(entry)
    except TypeError:  # an integer beyond 64 bits, or a lone surrogate
        return None
    # NaN would be null, and text that is not ASCII has to be escaped.
    return line.decode() if line.isascii() and b":null" not in line else None
