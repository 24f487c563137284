"""Event ids: what a client has seen, in a form that it can neither forge nor give to others.

An id has two halves, each with a message authentication code:
``<position>.<code>.<beginning>.<code>``. The position says which events the client has seen. It is
the same for all streams, so an event is encoded once. The beginning says since when the client has
been in its channels, and its code also covers the user and the channels. A client that has joined
a channel later cannot resume from the id: it would get earlier events of that channel.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from alula._connection import Connection, user_id_of
from alula._hub import current_worker
from alula._identity import shared_key

if TYPE_CHECKING:
    from alula._app import App
    from alula._service import ServiceHandle

__all__ = ["EventIds", "Position", "event_ids_of", "read_position", "signer_of_list"]

MAX_ORIGINS: Final = 1_000
"""How many processes a position of a client may name, and how many idle ones a log remembers."""

_CODE_BYTES: Final = 12


class Position(NamedTuple):
    """The events that a client has seen.

    Attributes:
        time: When the client got the position, in seconds since 1970.
        sequences: The number of the last event of each process.
    """

    time: float
    sequences: Mapping[str, int]


def read_position(text: str) -> Position | None:
    """Return the position in a text, None if it has another form.

    Examples:
        >>> read_position("3e8~w1:57")
        Position(time=1.0, sequences={'w1': 57})
        >>> read_position("5") is None
        True
    """
    milliseconds, *parts = text.split("~")
    if not parts or len(parts) > MAX_ORIGINS:
        return None
    try:
        named = (part.partition(":") for part in parts if part)
        pairs = [(name, int(number)) for name, _, number in named]
        return Position(int(milliseconds, 16) / 1000, dict(pairs))
    except (ValueError, OverflowError):
        return None


class EventIds:
    """Signs and reads event ids.

    Args:
        shared_key: Returns a key that all processes of the application share. If it returns None,
            a client that comes back to another process gets ``reset``.
    """

    def __init__(self, shared_key: Callable[[], bytes | None]) -> None:
        self._shared_key = shared_key

    @cached_property
    def _key(self) -> bytes:
        # Read late, because settings may come after the plugin.
        return self._shared_key() or secrets.token_bytes(32)

    def sign(self, position: str) -> str:
        """Return a position with its code, the first half of an id."""
        return f"{position}.{self._code(b'position', position)}"

    def raise_position(self, signed: str, seen: Mapping[str, int]) -> str:
        """Return the first half of an id for a client that has seen later events of some processes.

        Args:
            signed: The first half from the event log.
            seen: The number of the last event of each process that the client has.

        Returns:
            The same text if the client has seen no later events.
        """
        position = signed.rpartition(".")[0]
        time, _, _ = position.partition("~")
        stated = read_position(position)
        known = {} if stated is None else {**stated.sequences}
        ahead = {name: n for name, n in seen.items() if n > known.get(name, 0)}
        if not ahead:
            return signed
        numbers = [f"{name}:{n}" for name, n in {**known, **ahead}.items()]
        return self.sign("~".join([time, *numbers]))

    def sign_beginning(
        self, milliseconds: int, user: str, channels: Sequence[tuple[str, int]] = ()
    ) -> str:
        """Return the second half of the ids of a stream.

        Args:
            milliseconds: Since when the client has been in exactly these channels, in milliseconds
                since 1970. A resumed stream continues the one before.
            user: The id of the user, empty for nobody.
            channels: The value of `Connection.membership`.
        """
        beginning = f"{milliseconds:x}"
        return f"{beginning}.{self._code(b'beginning', f'{beginning} {user} {channels!r}')}"

    def sign_list(self, user: str, path: str, query: str, digest: bytes) -> str:
        """Return what a client of a live list shows when it comes back.

        Args:
            user: The id of the user, empty for nobody.
            path: Of the service, with the values of its placeholders.
            query: As the client gave it.
            digest: Of the rows that the client has.
        """
        return f"L.{self._code(b'list', f'{user} {path} {query} {digest.hex()}')}"

    def read(
        self, text: str, user: str, channels: Sequence[tuple[str, int]] = ()
    ) -> tuple[Position, int] | None:
        """Return the position in an id, and since when its client has been in its channels.

        Returns:
            None if it is not an id of a stream of this user in these channels, or if its position
            is older than its beginning.
        """
        signed, _, since = text.rpartition(".")[0].rpartition(".")
        position_text = signed.rpartition(".")[0]
        try:
            milliseconds = int(since, 16)
        except ValueError:
            return None
        beginning = self.sign_beginning(milliseconds, user, channels)
        expected = f"{self.sign(position_text)}.{beginning}"
        if not hmac.compare_digest(expected.encode(), text.encode(errors="replace")):
            return None
        position = read_position(position_text)
        # The client may have such a position from another client, or from before it joined.
        if position is None or position.time < milliseconds / 1000:
            return None
        return position, milliseconds

    def _code(self, purpose: bytes, text: str) -> str:
        content = text.encode(errors="replace")
        # Several times as fast as HMAC, and this runs for each published event.
        digest = blake2b(content, key=self._key, digest_size=_CODE_BYTES, person=purpose).digest()
        return urlsafe_b64encode(digest).decode()


def event_ids_of(app: App) -> EventIds:
    """Return what signs the event ids of an application, with a key that its processes share."""
    return EventIds(partial(_key_of, app))


def _key_of(app: App) -> bytes | None:
    """Return the key of event ids that all processes share, None if there is only this one."""
    key = shared_key(app, b"event ids")
    place = current_worker()
    return place.read_secret() if key is None and place is not None else key


def signer_of_list(
    ids: EventIds,
    connection: Connection,
    handle: ServiceHandle,
    route: Mapping[str, str],
    query: Mapping[str, Any],
) -> Callable[[bytes], str]:
    """Return the function that signs the digests of a live list.

    Args:
        ids: Signs them.
        connection: The caller of the list.
        handle: The service.
        route: The values of the placeholders in its path.
        query: The query of the list, as the client gave it.
    """
    path = f"{handle.path} {sorted(route.items())}"
    what = f"{sorted(query.items(), key=str)!r}"

    def sign(digest: bytes) -> str:
        return ids.sign_list(user_id_of(connection) or "", path, what, digest)

    return sign
