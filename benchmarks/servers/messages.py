"""The messages of the servers that create validated records: the model, and a store with an end.

A server that kept all that a benchmark creates would grow by 100 MB in some seconds. So every
server, Alula's as well, forgets all of them when there are a thousand.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from pydantic import BaseModel, Field

MOST = 1_000
MESSAGES: dict[int, dict[str, Any]] = {}
_ids = count()


class Message(BaseModel):
    text: str = Field(min_length=1, max_length=2_000)
    room: str
    read: bool = False


def store(message: Message) -> dict[str, Any]:
    """Store a new message, and return its record."""
    if len(MESSAGES) == MOST:
        MESSAGES.clear()
    message_id = next(_ids)
    record = MESSAGES[message_id] = {**message.model_dump(), "id": message_id}
    return record
