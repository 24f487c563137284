"""How a request is sent: its limits, and what aborts it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from alula.client._abort import AbortSignal

__all__ = ["SILENCE", "SendOptions"]

SILENCE: Final = 60.0
"""Seconds without a byte after which a stream is dead; servers send comments more often."""


@dataclass(frozen=True, slots=True)
class SendOptions:
    """How one request is sent.

    Attributes:
        timeout: Seconds for the whole exchange, None for no limit. Of a stream, seconds until it
            begins; see `silence`.
        max_size: The largest body that a response may have, in bytes; of a stream, each event.
        signal: Aborts the request.
        extra: Options that go to the HTTP library unchanged.
    """

    timeout: float | None = None
    max_size: int = 0
    signal: AbortSignal | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def silence(self) -> float | None:
        """How many seconds a stream may be silent, None for no limit; its length has none."""
        return None if self.timeout is None else max(self.timeout, SILENCE)
