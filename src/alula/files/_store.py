"""What keeps the bytes of files: the interface of stores, for stores of your own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Iterable

__all__ = ["FileStore"]


class FileStore(ABC):
    """Keeps bytes under keys that `UploadService` chooses, such as ``content/3f2a...``.

    A key is a word in lower case, a slash, and 32 hexadecimal digits. A key that looks different
    belongs to no file. Several processes may use one store at the same time.
    """

    @abstractmethod
    async def write(self, key: str, pieces: AsyncIterable[bytes], *, flush: bool = True) -> None:
        """Keep bytes under a key; earlier bytes under this key are replaced.

        If the pieces break off, or the call is cancelled, nothing stays. If the process is killed,
        a part may stay, which `delete` removes.

        Args:
            key: The key.
            pieces: The bytes.
            flush: Whether they must survive a loss of power when this returns. Without it, they
                survive the end of the process.

        Raises:
            Unavailable: There is no space.
            Exception: What the iteration raises.
        """

    @abstractmethod
    def read(self, key: str, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        """Yield the bytes of a key from ``start`` up to, without, ``stop``, in small pieces.

        Raises:
            NotFound: There is no such file.
        """

    @abstractmethod
    async def size(self, key: str) -> int:
        """Return the number of bytes of a key.

        Raises:
            NotFound: There is no such file.
        """

    @abstractmethod
    async def delete(self, key: str) -> None:
        """Remove the bytes of a key, if there are any; also those of a write that broke off."""

    @abstractmethod
    async def keys(self, word: str, min_age: float) -> Iterable[str]:
        """Return the keys that begin with a word and were written ``min_age`` seconds ago.

        Args:
            word: The text in front of the slash.
            min_age: Seconds since the key was written; it may have been longer ago.
        """

    async def close(self) -> None:  # noqa: B027  # a store without connections has nothing to do
        """Close what is open, when the application ends; it may be opened again afterwards."""
