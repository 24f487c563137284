"""Files in a folder of this machine.

Each key is the path of a file below it. A file is complete when its write has returned; until then,
no record refers to its key. No name that a client sends becomes part of a path.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Final, TypeVar

from alula.errors import NotFound, Unavailable
from alula.files._store import FileStore

__all__ = ["LocalFileStore"]

T = TypeVar("T")

# Bytes that go to the disk, or come from it, at a time: a change of threads costs as much as
# writing 64 kB.
_BLOCK_BYTES: Final = 256 * 1024

_THREADS: Final = 8

_KEY: Final = re.compile("[a-z]+/[0-9a-f]{32}")
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})


class LocalFileStore(FileStore):
    """A `FileStore` in a folder, for one machine or several that share a file system.

    Examples:
        >>> import asyncio, tempfile
        >>> async def main():
        ...     async def pieces():
        ...         yield b"Hello, "
        ...         yield b"world"
        ...     key = "content/" + "0" * 32
        ...     with tempfile.TemporaryDirectory() as folder:
        ...         store = LocalFileStore(folder)
        ...         await store.write(key, pieces())
        ...         return b"".join([piece async for piece in store.read(key, start=7)])
        >>> asyncio.run(main())
        b'world'

    Args:
        folder: Where the files are; it is created where it does not exist. Nothing else should
            write there, and no web server should serve it.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder).resolve()
        # Threads of its own: a slow disk must not keep look-ups of names waiting.
        self._threads = ThreadPoolExecutor(_THREADS, "alula-files")
        # The folders that this process has made or found, and flushed to the disk.
        self._flushed: set[Path] = set()

    def __repr__(self) -> str:
        return f"LocalFileStore({str(self._folder)!r})"

    async def write(self, key: str, pieces: AsyncIterable[bytes], *, flush: bool = True) -> None:
        """Write a file in pieces (see `FileStore.write`).

        Raises:
            Unavailable: The disk or a quota is full, or too many files are open.
        """
        writer = _Writer(self._path(key), self._make_folder)
        block = bytearray()
        try:
            async for piece in pieces:
                block += piece
                if len(block) >= _BLOCK_BYTES:
                    full, block = block, bytearray()
                    await self._in_thread(partial(writer.write, full))
            await self._in_thread(partial(writer.finish, block, flush=flush))
        except BaseException:
            await self._in_thread(writer.abort)
            raise

    async def read(self, key: str, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        """Read a file in pieces of 256 kB (see `FileStore.read`)."""
        path = self._path(key)
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

    async def size(self, key: str) -> int:
        """Return the size of a file (see `FileStore.size`)."""
        try:
            return (await self._in_thread(self._path(key).stat)).st_size
        except FileNotFoundError:
            raise _missing() from None

    async def delete(self, key: str) -> None:
        """Delete a file (see `FileStore.delete`)."""
        await self._in_thread(partial(self._path(key).unlink, missing_ok=True))

    async def keys(self, word: str, min_age: float) -> Iterable[str]:
        """Return keys by the time at which their files were last written (see `FileStore.keys`)."""

        def search() -> list[str]:
            latest = time.time() - min_age
            found: list[str] = []
            with suppress(FileNotFoundError), os.scandir(self._folder / word) as entries:
                for entry in entries:
                    key = f"{word}/{entry.name}"
                    with suppress(FileNotFoundError):  # it has just been deleted
                        if _KEY.fullmatch(key) and entry.stat().st_mtime <= latest:
                            found.append(key)
            return found

        return await self._in_thread(search)

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

    def _path(self, key: str) -> Path:
        # Records may come from elsewhere; what is not a key must never become a path.
        if not _KEY.fullmatch(key):
            raise _missing()
        return self._folder / key

    def _make_folder(self, folder: Path) -> None:
        """Make a folder below that of the store; both are on the disk then."""
        if folder in self._flushed:
            return
        folder.mkdir(parents=True, exist_ok=True)
        # Another process may have made them, without having flushed them yet.
        _flush_folder(self._folder)
        _flush_folder(self._folder.parent)
        self._flushed.add(folder)


class _Writer:
    """Writes a file, in threads that run one after the other."""

    def __init__(self, path: Path, make_folder: Callable[[Path], None]) -> None:
        self._path = path
        self._make_folder = make_folder
        self._file: FileIO | None = None

    def write(self, block: bytearray) -> None:
        """Append bytes.

        Raises:
            OSError: There is no space, or the disk fails.
        """
        if self._file is None:
            self._make_folder(self._path.parent)
            self._file = FileIO(self._path, "w", opener=partial(os.open, mode=0o600))
        rest = memoryview(block)
        while rest:
            rest = rest[self._file.write(rest) :]

    def finish(self, block: bytearray, *, flush: bool) -> None:
        """Append the last bytes, and flush the file and its name to the disk if that is wanted.

        Raises:
            OSError: There is no space, or the disk fails.
        """
        self.write(block)
        assert self._file is not None  # noqa: S101  # for type checkers; `write` has opened it
        if flush:
            os.fsync(self._file.fileno())
            _flush_folder(self._path.parent)
        self._file.close()

    def abort(self) -> None:
        """Delete the file."""
        if self._file is not None:
            self._file.close()
            self._path.unlink(missing_ok=True)


def _flush_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk."""
    if hasattr(os, "O_DIRECTORY"):  # elsewhere, the system does this by itself
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _missing() -> NotFound:
    return NotFound("The content of this file is missing")
