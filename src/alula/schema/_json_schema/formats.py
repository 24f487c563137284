"""The formats of strings and numbers that schemas may name, as RFCs define them.

A test says whether a value is of the format; values of other types than the format is about are.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Mapping
from contextlib import suppress
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Any, Final, TypeAlias

from alula.schema._failures import work
from alula.schema._json_schema.json_types import is_number
from alula.schema._json_schema.patterns import python_pattern

__all__ = ["FORMATS"]

Test: TypeAlias = Callable[[Any], bool]

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?(?:[zZ]|([+-])([0-9]{2}):?([0-9]{2}))"
)


def _text(test: Callable[[str], object]) -> Test:
    return lambda value: not isinstance(value, str) or bool(test(value))


def _like(pattern: str, flags: int = 0) -> Test:
    return _text(re.compile(pattern, flags).fullmatch)


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    if found is None:
        return False
    year, month, day = map(int, found.groups())
    # The year 0 has the length of any leap year; the calendar begins later.
    return 1 <= month <= 12 and 1 <= day <= monthrange(year or 2000, month)[1]


def _is_time(text: str) -> bool:
    found = _TIME.fullmatch(text)
    if found is None:
        return False
    hours, minutes, seconds = (int(found[place]) for place in (1, 2, 3))
    away = int(found[5] or 0), int(found[6] or 0)
    if hours > 23 or minutes > 59 or away > (23, 59) or away[1] > 59 or seconds > 60:
        return False
    offset = (away[0] * 60 + away[1]) * (-1 if found[4] == "-" else 1)
    # A leap second is the last of a day in universal time.
    return seconds < 60 or (hours * 60 + minutes - offset) % 1440 == 1439


def _is_date_time(text: str) -> bool:
    return text[10:11] in ("T", "t", " ") and _is_date(text[:10]) and _is_time(text[11:])


_LONGEST_PATTERN: Final = 1000
"""Characters of a text that can be of the format ``regex``. Nobody writes longer ones by hand."""

_PYTHON_GROUP: Final = re.compile(r"(?<!\\)(?:\\\\)*\(\?(?![:=!<])")


def _is_regex(text: str) -> bool:
    # Flags within the pattern are Python's alone, and make it slow to compile.
    if len(text) > _LONGEST_PATTERN or _PYTHON_GROUP.search(text):
        return False
    work.spend(400 + 20 * len(text) + 4000 * text.count("["))  # it is compiled to see
    with suppress(re.error, ValueError, OverflowError, RecursionError):
        return bool(re.compile(python_pattern(text, expand=False)))
    return False


def _is_address(kind: Callable[[str], object]) -> Callable[[str], bool]:
    def test(text: str) -> bool:
        with suppress(AddressValueError):
            return bool(kind(text)) and "%" not in text
        return False

    return test


def _within(bits: int) -> Test:
    top = 2 ** (bits - 1)
    return lambda value: not is_number(value) or (value % 1 == 0 and -top <= value < top)


_UNRESERVED = r"[A-Za-z0-9\-._~!$&'()*+,;=:]|%[0-9A-Fa-f]{2}"
_LITERAL = r"\[(?:[0-9A-Fa-f:.]+|[vV][0-9A-Fa-f]+\.[A-Za-z0-9\-._~!$&'()*+,;=:]+)\]"
_HOST = rf"(?:{_LITERAL}|(?:{_UNRESERVED})*?)"
_AUTHORITY = rf"//(?:(?:{_UNRESERVED})*@)?{_HOST}(?::[0-9]*)?"
_PATH = rf"(?:{_UNRESERVED}|[@/])*"
_TAIL = rf"(?:\?(?:{_UNRESERVED}|[@/?])*)?(?:\#(?:{_UNRESERVED}|[@/?])*)?"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*:"
_URI = rf"{_SCHEME}(?:{_AUTHORITY}(?:/{_PATH})?|(?!//){_PATH}){_TAIL}"
_RELATIVE = rf"(?:{_AUTHORITY}(?:/{_PATH})?|(?!//)(?![^/?#]*:){_PATH}){_TAIL}"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9\-]{0,61}[A-Za-z0-9])?"
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-]+"
_VARIABLE = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+(?::[1-9][0-9]{0,3}|\*)?"
_EXPRESSION = rf"\{{[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*\}}"
_POINTER = r"(?:/(?:[^~/]|~[01])*)*"

FORMATS: Mapping[str, Test] = {
    "date": _text(_is_date),
    "time": _text(_is_time),
    "date-time": _text(_is_date_time),
    "duration": _like(
        r"P(?!\Z)(?:(?:[0-9]+Y)?(?:[0-9]+M)?(?:[0-9]+D)?(?:T(?=[0-9])(?:[0-9]+H)?(?:[0-9]+M)?"
        r"(?:[0-9]+S)?)?|[0-9]+W)"
    ),
    "email": _like(rf"{_ATOM}(?:\.{_ATOM})*@(?:{_LABEL}\.)+{_LABEL}"),
    "hostname": _like(rf"(?=.{{1,253}}\.?\Z){_LABEL}(?:\.{_LABEL})*\.?"),
    "ipv4": _text(_is_address(IPv4Address)),
    "ipv6": _text(_is_address(IPv6Address)),
    "uri": _like(_URI),
    "uri-reference": _like(rf"(?:{_URI}|{_RELATIVE})"),
    "uri-template": _like(rf"(?:[^\x00-\x20\"'<>%\\^`{{|}}]|%[0-9A-Fa-f]{{2}}|{_EXPRESSION})*"),
    "uuid": _like(r"(?:urn:uuid:)?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE),
    "json-pointer": _like(_POINTER, re.DOTALL),
    "relative-json-pointer": _like(rf"(?:0|[1-9][0-9]*)(?:\#|{_POINTER})", re.DOTALL),
    "regex": _text(_is_regex),
    "byte": _like(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"),
    "int32": _within(32),
    "int64": _within(64),
    "float": lambda _value: True,
    "double": lambda _value: True,
    "password": lambda _value: True,
    "binary": lambda _value: True,
}
"""The test of each format."""
