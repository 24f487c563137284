"""How sign-in names are compared: without case, width, and what nobody sees."""

from __future__ import annotations

import unicodedata

__all__ = ["fold_username"]


def fold_username(name: str) -> str:
    """Return the form of a sign-in name in which names that look the same are the same.

    Case and Unicode compatibility forms are folded (NFKC and case folding, to a fixed point),
    characters that are not visible (category Cf, such as the soft hyphen) and blanks at the ends
    are left out. The throttle counts guesses by this form. Store it in a property of its own with
    a unique index, and two people cannot register names that differ only in such ways.

    Args:
        name: The name as somebody typed it.

    Example:
        >>> fold_username("  \uff21da@Example.COM ")
        'ada@example.com'
    """
    if name.isascii():
        return name.strip().lower()
    folded = name
    while True:
        visible = "".join(each for each in folded if unicodedata.category(each) != "Cf")
        again = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", visible).casefold())
        again = again.strip()
        if again == folded:
            return folded
        folded = again
