"""What an agent gets of a stream: the progress that each item means, and all items as one text.

The protocol has no partial results. So a tool whose method streams collects the items.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeGuard

from alula._json_encoding import dumps, loads
from alula.errors import PayloadTooLarge
from alula.types import is_mapping

__all__ = ["CollectedItems", "Progress"]

_MAX_ITEMS: Final = 10_000
_MEMBERS: Final = frozenset({"progress", "total", "message"})


class Progress(NamedTuple):
    """How far a call has come.

    Attributes:
        progress: A number that grows.
        total: What it will be at the end, None if nobody knows.
        message: What a person may read.
    """

    progress: float
    total: float | None
    message: str | None

    def members(self) -> dict[str, Any]:
        """Return the members of the notification."""
        return {name: value for name, value in self._asdict().items() if value is not None}


class CollectedItems:
    """The items of a stream so far.

    Args:
        max_characters: How long the text may become.
    """

    def __init__(self, max_characters: int) -> None:
        self._max_characters = max_characters
        self._lines: list[str] = []
        self._characters = 2  # the brackets of the list
        self._texts: list[str] | None = []  # while no item is anything else
        self._characters_of_texts = 0

    def add(self, item: object) -> Progress:
        """Keep an item, and return the progress that it means.

        Raises:
            PayloadTooLarge: The items are too many, or too long together.
            TypeError: The item has no JSON form.
        """
        raw = dumps(item)
        value = loads(raw)  # as clients get it, whatever its type was
        line = raw.decode()
        self._lines.append(line)
        self._characters += len(line) + 1
        text = _text_of(value)
        if text is None:
            self._texts = None
        elif self._texts is not None:
            self._texts.append(text)
            self._characters_of_texts += len(text)
        self._check_size()
        shown = value if isinstance(value, str) else line if text is None else text
        return _progress_of(value) or Progress(len(self._lines), None, shown)

    def _check_size(self) -> None:
        if len(self._lines) > _MAX_ITEMS:
            raise PayloadTooLarge(
                f"The result has more than {_MAX_ITEMS} items, which is the limit. Ask for less"
            )
        length = self._characters if self._texts is None else self._characters_of_texts
        if length > self._max_characters:
            raise PayloadTooLarge(
                f"The result has more than {self._max_characters} characters, which is the limit."
                " Ask for less"
            )

    def text(self) -> str:
        """Return the result: the joined texts if each item has a text alone, else a JSON list."""
        return "".join(self._texts) if self._texts else f"[{','.join(self._lines)}]"


def _text_of(value: Any) -> str | None:
    """Return the text of an item that has nothing else."""
    if is_mapping(value) and len(value) == 1:
        text = value.get("text")
        return text if isinstance(text, str) else None
    return None


def _progress_of(value: Any) -> Progress | None:
    """Return the progress that an item is itself, such as ``{"progress": 1, "total": 3}``."""
    if not is_mapping(value) or not value.keys() <= _MEMBERS:
        return None
    progress, total, message = (value.get(name) for name in ("progress", "total", "message"))
    if not _is_number(progress) or not (total is None or _is_number(total)):
        return None
    return Progress(progress, total, message) if isinstance(message, str | None) else None


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
