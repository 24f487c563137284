"""Files in a folder of this machine.

``staged/`` has what is being uploaded, ``content/`` what is readable, by its SHA-256. Both are in
one file system: a hard link makes a file readable at once and whole. No name that a client sends
becomes part of a path.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import secrets
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from hashlib import sha256 as new_sha256
from io import FileIO
from pathlib import Path
from typing import Final, TypeVar

from alula.errors import NotFound, Unavailable
from alula.files._store import FileStore, StagedFile

__all__ = ["LocalFileStore"]

T = TypeVar("T")

# Bytes that go to the disk, or come from it, at a time: a change of threads costs as much as
# writing 64 kB.
_BLOCK_BYTES: Final = 256 * 1024

_THREADS: Final = 8

_SHA256: Final = re.compile("[0-9a-f]{64}")
_KEY: Final = re.compile(r"([0-9a-f]{64}|upload)\.[0-9a-f]{32}")
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})


class LocalFileStore(FileStore):
    """A `FileStore` in a folder, for one machine or several that share a file system.

    What is written is on the disk before it is readable. The file system needs hard links, as
    all common ones of servers have them.

    Examples:
        >>> import asyncio, tempfile
        >>> async def main():
        ...     async def pieces():
        ...         yield b"Hello, "
        ...         yield b"world"
        ...     with tempfile.TemporaryDirectory() as folder:
        ...         store = LocalFileStore(folder)
        ...         file = await store.stage(pieces())
        ...         await store.commit(file)
        ...         await store.discard(file)
        ...         return b"".join([piece async for piece in store.read(file.sha256, start=7)])
        >>> asyncio.run(main())
        b'world'

    Args:
        folder: Where the files are; it is created where it does not exist. Nothing else should
            write there, and no web server should serve it.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder).resolve()
        self._staged = self._folder / "staged"
        self._content = self._folder / "content"
        # Threads of its own: a slow disk must not keep look-ups of names waiting.
        self._threads = ThreadPoolExecutor(_THREADS, "alula-files")

    def __repr__(self) -> str:
        return f"LocalFileStore({str(self._folder)!r})"

    async def stage(self, pieces: AsyncIterable[bytes]) -> StagedFile:
        """Write a new file, in pieces, and flush it to the disk (see `FileStore.stage`).

        Raises:
            Unavailable: The disk or a quota is full, or too many files are open.
        """
        writer = _Writer(self._staged)
        block = bytearray()
        try:
            await self._in_thread(writer.open)
            async for piece in pieces:
                block += piece
                if len(block) >= _BLOCK_BYTES:
                    full, block = block, bytearray()
                    await self._in_thread(partial(writer.write, full))
            return await self._in_thread(partial(writer.finish, block))
        except BaseException:
            await self._in_thread(writer.abort)
            raise

    async def commit(self, file: StagedFile) -> None:
        """Link a staged file to its SHA-256 (see `FileStore.commit`).

        Raises:
            Unavailable: The staged file is gone, and there is no other one of its content; the disk
                or a quota is full, or too many files are open.
        """

        def link() -> None:
            path = self._path(file.sha256 or "")
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with suppress(FileExistsError):
                    os.link(self._staged / file.key, path)
            except FileNotFoundError:
                if not path.exists():
                    raise Unavailable("The upload took too long; send it again") from None
            # Also if the file was there: another upload of it may not have come this far.
            if hasattr(os, "O_DIRECTORY"):  # where names are flushed by themselves
                for folder in path.parents[:3]:  # which may all be new
                    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
                    try:
                        os.fsync(descriptor)
                    finally:
                        os.close(descriptor)

        await self._in_thread(link)

    async def withdraw(self, sha256: str) -> StagedFile | None:
        """Move a file back to the staged ones (see `FileStore.withdraw`)."""

        def move() -> StagedFile | None:
            path, key = self._path(sha256), f"{sha256}.{secrets.token_hex(16)}"
            self._staged.mkdir(parents=True, exist_ok=True)
            try:
                os.utime(path)  # else a sweep could take it for a leftover at once
                size = path.stat().st_size
                path.rename(self._staged / key)
            except FileNotFoundError:
                return None
            return StagedFile(key, sha256, size)

        return await self._in_thread(move)

    async def discard(self, file: StagedFile) -> None:
        """Delete a staged file (see `FileStore.discard`)."""
        await self._in_thread(partial((self._staged / file.key).unlink, missing_ok=True))

    async def leftovers(self, min_age: float) -> Iterable[StagedFile]:
        """Return old staged files, by when they were last written (see `FileStore.leftovers`)."""

        def search() -> list[StagedFile]:
            self._staged.mkdir(parents=True, exist_ok=True)
            latest = time.time() - min_age
            found: list[StagedFile] = []
            for entry in self._staged.iterdir():
                with suppress(FileNotFoundError):  # its upload has just ended
                    status = entry.stat()
                    if (match := _KEY.fullmatch(entry.name)) and status.st_mtime <= latest:
                        sha256 = None if match[1] == "upload" else match[1]
                        found.append(StagedFile(entry.name, sha256, status.st_size))
            return found

        return await self._in_thread(search)

    async def size(self, sha256: str) -> int:
        """Return the size of a file (see `FileStore.size`)."""
        try:
            return (await self._in_thread(self._path(sha256).stat)).st_size
        except FileNotFoundError:
            raise _missing() from None

    async def read(
        self, sha256: str, start: int = 0, stop: int | None = None
    ) -> AsyncIterator[bytes]:
        """Read a file in pieces of 256 kB (see `FileStore.read`)."""
        path = self._path(sha256)
        opened: list[FileIO] = []

        def read_block(size: int) -> bytes:
            if not opened:
                opened.append(FileIO(path))
                opened[0].seek(start)
            return opened[0].read(size)

        at = start
        try:
            while stop is None or at < stop:
                size = _BLOCK_BYTES if stop is None else min(_BLOCK_BYTES, stop - at)
                block = await self._in_thread(partial(read_block, size))
                if not block:
                    return
                at += len(block)
                yield block
        except FileNotFoundError:
            raise _missing() from None
        finally:
            for file in opened:
                file.close()

    async def _in_thread(self, function: Callable[[], T]) -> T:
        """Run a function in a thread. A cancellation waits for its end: it never runs on alone.

        Raises:
            Unavailable: The disk or a quota is full, or too many files are open.
            OSError: The disk fails otherwise.
        """
        job = asyncio.get_running_loop().run_in_executor(self._threads, function)
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            while not job.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([job])
            job.exception()  # else asyncio reports that nobody looked at it
            raise
        except OSError as error:
            if error.errno in _NO_SPACE:
                raise Unavailable("There is no space for this file") from error
            if error.errno in _NO_DESCRIPTORS:
                raise Unavailable("The server has too many open files; try again later") from error
            raise

    def _path(self, sha256: str) -> Path:
        # Records may come from elsewhere; what is not a hash must never become a path.
        if not _SHA256.fullmatch(sha256):
            raise _missing()
        return self._content / sha256[:2] / sha256


class _Writer:
    """Writes a staged file, in threads that run one after the other."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"upload.{secrets.token_hex(16)}"
        self._file: FileIO | None = None
        self._hash = new_sha256()
        self._size = 0

    def open(self) -> None:
        """Create the file.

        Raises:
            OSError: It cannot be created.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = FileIO(self._path, "x", opener=partial(os.open, mode=0o600))

    def write(self, block: bytearray) -> None:
        """Append bytes.

        Raises:
            OSError: There is no space, or the disk fails.
        """
        assert self._file is not None  # noqa: S101  # for type checkers; `open` was called
        rest = memoryview(block)
        while rest:
            rest = rest[self._file.write(rest) :]
        self._hash.update(block)
        self._size += len(block)

    def finish(self, block: bytearray) -> StagedFile:
        """Append the last bytes, flush the file to the disk, and give it a name by its content.

        Raises:
            OSError: There is no space, or the disk fails.
        """
        self.write(block)
        assert self._file is not None  # noqa: S101  # as above
        os.fsync(self._file.fileno())
        self._file.close()
        sha256 = self._hash.hexdigest()
        path = self._path.with_name(f"{sha256}.{self._path.suffix[1:]}")
        self._path = self._path.rename(path)
        return StagedFile(path.name, sha256, self._size)

    def abort(self) -> None:
        """Delete the file."""
        if self._file is not None:
            self._file.close()
            self._path.unlink(missing_ok=True)


def _missing() -> NotFound:
    return NotFound("The content of this file is missing")
