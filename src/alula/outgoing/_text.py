"""Text that leaves: dates and durations as JSON has them, text for HTML and for lines of a log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = [
    "escape_html",
    "iso_duration",
    "javascript_date",
    "now_as_in_json",
    "one_line",
    "short_line",
]

_HTML_ESCAPES: Final = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"}
)
_LONGEST_LINE: Final = 2000
_CONTROLS: Final = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
_DIRECTIONS: Final = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))  # bidi controls: spoofing
_LINE_ESCAPES: Final = {code: f"\\x{code:02x}" for code in (*_CONTROLS, *_DIRECTIONS)}


def now_as_in_json() -> datetime:
    """Return the current time in UTC with milliseconds, which is what JSON has of a time.

    A client can then find a record by the time that it received. With microseconds in the store, a
    page of records after that time would begin with the last record of the page before.
    """
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1_000 * 1_000)


def javascript_date(moment: datetime) -> str:
    """Return a datetime as ``JSON.stringify`` writes a date: UTC, milliseconds, ``Z``.

    Args:
        moment: Without a time zone, it is UTC. One whose year does not exist in UTC keeps its
            offset.

    Examples:
        >>> javascript_date(datetime(2026, 1, 31, 12))
        '2026-01-31T12:00:00.000Z'
    """
    if moment.tzinfo is UTC:  # as databases return it: half the time of what follows
        return f"{moment.isoformat(timespec='milliseconds')[:-6]}Z"
    if moment.tzinfo is not None:
        try:
            moment = moment.astimezone(UTC)
        except OverflowError:  # before the year 1 or after 9999 in UTC: clients can send such dates
            return moment.isoformat(timespec="milliseconds")
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def iso_duration(duration: timedelta) -> str:
    """Return a duration in ISO 8601, with days as its largest unit.

    Examples:
        >>> iso_duration(timedelta(hours=26, milliseconds=500))
        'P1DT2H0.5S'
        >>> iso_duration(-timedelta(minutes=1))
        '-PT1M'
    """
    sign, rest = ("-", -duration) if duration < timedelta() else ("", duration)
    minutes, seconds = divmod(rest.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{rest.microseconds:06}".rstrip("0") if rest.microseconds else ""
    days = f"{rest.days}D" if rest.days else ""
    parts = (f"{hours}H" * bool(hours), f"{minutes}M" * bool(minutes))
    units = "".join(parts) + (f"{seconds}{fraction}S" if seconds or fraction else "")
    return f"{sign}P{days}T{units}" if units else f"{sign}P{days or 'T0S'}"


def escape_html(text: str) -> str:
    """Return a text for HTML, as content or as the value of an attribute.

    ``html.escape`` of Python does the same. To import it loads the names of 2,231 characters, which
    nothing here needs.

    Examples:
        >>> escape_html("<a & b>")
        '&lt;a &amp; b&gt;'
    """
    return text.translate(_HTML_ESCAPES)


def one_line(text: str) -> str:
    """Return text with control characters escaped, so that it stays one line in a log.

    Surrogates are escaped as well: a stream that cannot encode them would lose the whole line.
    """
    if text.isprintable():  # most text is; then there is nothing to escape
        return text
    line = text.translate(_LINE_ESCAPES)
    return line if line.isascii() else line.encode("utf-8", "backslashreplace").decode()


def short_line(text: str) -> str:
    """Return the first 2,000 characters of text as one line, with dots if there are more.

    For text of any length that a client chose, such as the path of a request.
    """
    return one_line(text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}...")
