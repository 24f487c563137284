r"""Regular expressions of JSON Schema, which are JavaScript's, as Python's.

The two differ in little that schemas use: ``$`` is the very end, ``\d`` and ``\w`` mean ASCII, and
some escapes and groups are spelled in other ways.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache

from alula.schema._json_schema.location import Spot

__all__ = ["pattern_of", "python_pattern"]

_PART = re.compile(
    r"\\u\{(?P<code>[0-9a-fA-F]+)\}|\\c(?P<control>[A-Za-z])|\\k<(?P<again>\w+)>|\\(?P<not>[pP])\{(?P<category>\w+)\}|\\(?P<escape>.)"
    r"|(?P<any>\[\^\])|(?P<none>\[\])|(?P<open>\[\^?)|(?P<close>\])"
    r"|(?P<end>\$)|(?P<named>\(\?<(?![=!]))",
    re.DOTALL,
)
_CLASSES = {"d": "0-9", "w": "A-Za-z0-9_"}
_LONG_NAMES = {
    "Letter": "L",
    "Lowercase_Letter": "Ll",
    "Uppercase_Letter": "Lu",
    "Mark": "M",
    "Number": "N",
    "Decimal_Number": "Nd",
    "digit": "Nd",
    "Punctuation": "P",
    "Symbol": "S",
    "Separator": "Z",
    "Space_Separator": "Zs",
    "Other": "C",
    "Control": "Cc",
}
_PYTHON_ONLY = frozenset("AZaN")
"""Escapes that mean something in Python alone; in JavaScript they are the letter."""


def python_pattern(pattern: str, *, expand: bool = True) -> str:
    r"""Return the pattern as Python spells it.

    Args:
        pattern: The pattern.
        expand: Whether ``\p{...}`` becomes its ranges, which are long; else it becomes any letter,
            so that it can be told whether this is a pattern.

    Raises:
        ValueError: It has ``\p{...}`` with something else than a general category.
    """
    inside = False

    def spell(found: re.Match[str]) -> str:
        nonlocal inside
        name, text = found.lastgroup or "", found[0]
        if name == "category":
            category = _general(found["category"])
            ranges = _characters(category, found["not"] == "p") if expand else "a"
            return ranges if inside else f"[{ranges}]"
        if name == "code":
            return re.escape(chr(int(found["code"], 16)))
        if name == "control":
            return re.escape(chr(ord(found["control"]) % 32))
        if name == "again":
            return f"(?P={found['again']})"
        if name == "escape":
            return _escape(found["escape"], inside)
        if inside:
            inside = name != "close"
            return "\\[" if name == "open" else text
        inside = name == "open"
        return {"any": r"[\s\S]", "none": "(?!)", "end": r"\Z", "named": "(?P<"}.get(name, text)

    return _PART.sub(spell, pattern)


def _escape(letter: str, inside: bool) -> str:
    if letter.lower() in _CLASSES:
        digits = _CLASSES[letter.lower()]
        if letter.islower():
            return digits if inside else f"[{digits}]"
        return f"\\{letter}" if inside else f"[^{digits}]"
    return letter if letter in _PYTHON_ONLY else f"\\{letter}"


def _general(category: str) -> str:
    """Return the short name of a general category of Unicode."""
    short = _LONG_NAMES.get(category, category)
    if re.fullmatch("[CLMNPSZ][a-z]?", short) is None:
        raise ValueError(f"{category!r} is no general category of Unicode")
    return short


@cache
def _characters(category: str, positive: bool) -> str:
    """Return the ranges of the characters that are in a general category of Unicode, or are not."""
    codes = range(sys.maxunicode + 1)
    inside = [unicodedata.category(chr(code)).startswith(category) == positive for code in codes]
    edges = [code for code in codes if inside[code] != (code > 0 and inside[code - 1])]
    ends = [*edges[1:], sys.maxunicode + 1]
    pairs = zip(edges[::2], ends[::2], strict=False)
    return "".join(f"\\U{first:08x}-\\U{end - 1:08x}" for first, end in pairs)


def pattern_of(spot: Spot, pattern: str, *names: object) -> re.Pattern[str]:
    """Return the compiled pattern that stands at these names below a spot.

    Raises:
        SchemaError: It is none.
    """
    try:
        return re.compile(python_pattern(pattern))
    except (re.error, ValueError, OverflowError) as error:
        raise spot.error(f"{pattern!r} is no regular expression: {error}", *names) from error
