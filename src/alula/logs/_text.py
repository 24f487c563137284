"""Text that others sent, on its way into a log."""

from __future__ import annotations

from typing import Final

__all__ = ["one_line", "short_line"]

_LONGEST: Final = 2000
_CONTROLS: Final = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
_TURNS: Final = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))  # the direction of writing
_ESCAPES: Final = {code: f"\\x{code:02x}" for code in (*_CONTROLS, *_TURNS)}


def one_line(text: str) -> str:
    """Return text with its control characters written out: a line stays one, whatever was sent.

    Halves of surrogate pairs are written out, too: a stream that can not encode them would lose the
    whole line.
    """
    if text.isprintable():  # nearly all is, and nothing that is written out
        return text
    line = text.translate(_ESCAPES)
    return line if line.isascii() else line.encode("utf-8", "backslashreplace").decode()


def short_line(text: str) -> str:
    """Return the first 2,000 characters of text as one line; dots in the end say that it went on.

    For what may be as long as whoever sent it likes, such as the path of a request.
    """
    return one_line(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")
