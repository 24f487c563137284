"""Text that others sent, on its way into a log."""

from __future__ import annotations

from typing import Final

__all__ = ["one_line"]

_ESCAPES: Final = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
}


def one_line(text: str) -> str:
    """Return text with its control characters written out: a line stays one, whatever was sent."""
    return text.translate(_ESCAPES)
