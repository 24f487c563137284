"""What keeps the bytes of files: the interface of stores, for stores of your own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from dataclasses import dataclass

__all__ = ["FileStore", "StagedFile"]


@dataclass(frozen=True)
class StagedFile:
    """A whole file that is not among the stored ones yet, or no longer.

    Attributes:
        key: Its name in the store, which no other file ever has.
        sha256: The SHA-256 of its bytes, in lower-case hexadecimal digits; None for the remains of
            an upload that broke off.
        size: How many bytes it has.
    """

    key: str
    sha256: str | None
    size: int


class FileStore(ABC):
    """Keeps bytes under their SHA-256, so that equal files are kept once.

    A file is staged first, under a key of its own. `commit` makes it readable by its SHA-256;
    `withdraw` takes it back. Both are atomic: readers see all of a file or nothing. A staged file
    is a copy that survives a withdrawal by others, so `UploadService` needs no locks.

    Several processes may use one store at the same time.
    """

    @abstractmethod
    async def stage(self, pieces: AsyncIterable[bytes]) -> StagedFile:
        """Keep bytes under a new key. If they break off, or the call is cancelled, nothing stays.

        Raises:
            Unavailable: There is no space.
            Exception: What the iteration raises.
        """

    @abstractmethod
    async def commit(self, file: StagedFile) -> None:
        """Make a staged file readable by its SHA-256; one that is readable already stays.

        Raises:
            Unavailable: The staged file is gone, and there is no other one of its content.
        """

    @abstractmethod
    async def withdraw(self, sha256: str) -> StagedFile | None:
        """Make a file unreadable, and return it as a staged one; None if there is none."""

    @abstractmethod
    async def discard(self, file: StagedFile) -> None:
        """Remove a staged file, if it is still there."""

    @abstractmethod
    async def leftovers(self, min_age: float) -> Iterable[StagedFile]:
        """Return the staged files that nothing has changed for ``min_age`` seconds."""

    @abstractmethod
    async def size(self, sha256: str) -> int:
        """Return the size of a file in bytes.

        Raises:
            NotFound: There is no such file.
        """

    @abstractmethod
    def read(self, sha256: str, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        """Yield the bytes of a file from ``start`` up to, without, ``stop``, in small pieces.

        Raises:
            NotFound: There is no such file.
        """

    async def close(self) -> None:  # noqa: B027  # a store without connections has nothing to do
        """Close what is open, when the application ends; it may be opened again afterwards."""
