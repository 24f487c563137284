"""Adds to text files that are no Python, line by line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from alula._cli.generator.insertion import NoPlaceError

__all__ = ["add_extra", "add_line", "append_lines", "replace_line"]


def append_lines(text: str, *, lines: Sequence[str], unless: str = "") -> str:
    """Return text with lines at its end, unless the last of them, or ``unless``, is in it."""
    if any(line.startswith(unless or lines[-1]) for line in text.splitlines()):
        return text
    gap = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{gap}{chr(10) * bool(text)}{chr(10).join(lines)}\n"


def add_line(text: str, *, behind: re.Pattern[str], new: str) -> str:
    """Return text with a line behind another, as far to the right as that is.

    Raises:
        NoPlaceError: There is no such line.
    """
    lines = text.splitlines()
    if any(line.strip() == new for line in lines):
        return text
    for at, line in enumerate(lines):
        if behind.fullmatch(line.strip()):
            indent = line[: len(line) - len(line.lstrip())]
            return "\n".join([*lines[: at + 1], f"{indent}{new}", *lines[at + 1 :], ""])
    raise NoPlaceError(f"no line is {behind.pattern!r}")


def replace_line(text: str, *, line: re.Pattern[str], new: str) -> str:
    """Return text with another line in the place of the first that fits.

    Raises:
        NoPlaceError: There is no such line.
    """
    lines = text.splitlines()
    for at, each in enumerate(lines):
        if line.fullmatch(each.strip()):
            return "\n".join([*lines[:at], new, *lines[at + 1 :], ""])
    raise NoPlaceError(f"no line is {line.pattern!r}")


def add_extra(text: str, *, extra: str) -> str:
    """Return a ``pyproject.toml`` whose first requirement of Alula has a further extra.

    Raises:
        NoPlaceError: It requires no Alula.
    """
    found = re.search(r"""(?<=["'])alula(?:\[([^\]]*)\])?(?=[^\w-])""", text)
    if found is None:
        raise NoPlaceError("it requires no alula")
    extras = [each.strip() for each in (found[1] or "").split(",") if each.strip()]
    if extra in extras or "all" in extras:
        return text
    return f"{text[: found.start()]}alula[{','.join([*extras, extra])}]{text[found.end() :]}"
