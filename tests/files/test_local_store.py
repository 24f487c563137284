"""Files in a folder: what concerns files and threads; see test_stores for the rest."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import threading
import time
from hashlib import sha256
from io import FileIO
from pathlib import Path

import pytest
from tests.files.forms import files_below, pieces_of
from tests.waiting import settle

from alula.errors import Unavailable
from alula.files import LocalFileStore, StagedFile

HELLO = sha256(b"hello").hexdigest()


@pytest.fixture
def store(tmp_path):
    return LocalFileStore(tmp_path / "files")


async def read(store, *args):
    return b"".join([piece async for piece in store.read(*args)])


async def keep(store, content=b"hello"):
    """Stage, commit and discard; return the staged file."""
    file = await store.stage(pieces_of(content))
    await store.commit(file)
    await store.discard(file)
    return file


async def test_only_its_owner_reads_it_in_the_folder(store, tmp_path):
    await keep(store)
    (path,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert path.stat().st_mode & 0o777 == 0o600


async def test_large_files_pass_in_blocks(store):
    content = os.urandom(700_000)
    file = await store.stage(pieces_of(*(content[at : at + 999] for at in range(0, 700_000, 999))))
    await store.commit(file)
    pieces = [piece async for piece in store.read(file.sha256)]
    assert b"".join(pieces) == content
    assert [len(piece) for piece in pieces] == [262_144, 262_144, 175_712]


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_reader_that_stops_early_closes_the_file(store):
    await keep(store)
    before = open_files()
    pieces = store.read(HELLO)
    await anext(pieces)
    await pieces.aclose()
    assert open_files() <= before


async def test_who_reads_a_file_gets_all_of_it_though_it_is_removed(store):
    file = await keep(store, bytes(600_000))
    pieces = store.read(file.sha256)
    size = len(await anext(pieces))
    await store.discard(await store.withdraw(file.sha256))
    assert size + sum([len(piece) async for piece in pieces]) == 600_000


async def test_an_upload_that_is_cancelled_leaves_nothing(store, tmp_path, monkeypatch):
    entered, go_on = threading.Event(), threading.Event()
    real = FileIO.write

    class SlowFile(FileIO):
        def write(self, data):
            entered.set()
            go_on.wait(60)
            return real(self, data)

    monkeypatch.setattr("alula.files._local_store.FileIO", SlowFile)
    task = asyncio.create_task(store.stage(pieces_of(b"x" * 300_000)))
    await asyncio.to_thread(entered.wait, 60)
    task.cancel()
    await settle()
    task.cancel()  # as impatient servers do
    await settle()
    assert not task.done()  # the thread still writes
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert files_below(tmp_path) == []


async def test_it_may_be_cancelled_before_its_thread_starts(store, tmp_path):
    task = asyncio.create_task(store.stage(pieces_of(b"x")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert files_below(tmp_path) == []


async def test_an_error_after_the_cancellation_is_not_reported_twice(store, monkeypatch):
    entered, go_on = threading.Event(), threading.Event()

    def fail(descriptor):
        entered.set()
        go_on.wait(60)
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "fsync", fail)
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    task = asyncio.create_task(store.stage(pieces_of(b"x")))
    await asyncio.to_thread(entered.wait, 60)
    task.cancel()
    await settle()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    await asyncio.sleep(0)
    assert reported == []


@pytest.mark.parametrize(
    ("number", "error"), [(errno.ENOSPC, Unavailable), (errno.EDQUOT, Unavailable),
                          (errno.EIO, OSError)],
)  # fmt: skip
async def test_a_full_disk(store, tmp_path, monkeypatch, number, error):
    class FullFile(FileIO):
        def write(self, data):
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr("alula.files._local_store.FileIO", FullFile)
    with pytest.raises(error):
        await store.stage(pieces_of(b"x"))
    assert files_below(tmp_path) == []


async def test_a_disk_that_has_no_space_for_a_name(store, tmp_path, monkeypatch):
    def link(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    staged = await store.stage(pieces_of(b"hello"))
    monkeypatch.setattr("os.link", link)
    with pytest.raises(Unavailable, match="There is no space"):
        await store.commit(staged)


async def test_no_file_descriptors_are_left(store, tmp_path):
    await keep(store)
    staged = await store.stage(pieces_of(b"world"))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)  # no descriptor below this one is free
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        for call in (store.stage(pieces_of(b"x")), store.commit(staged), read(store, HELLO)):
            with pytest.raises(Unavailable, match="too many open files; try again later"):
                await call
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    await store.commit(staged)
    assert await read(store, HELLO) == b"hello"


async def test_a_disk_that_takes_less_at_a_time(store, monkeypatch):
    class ShortFile(FileIO):
        def write(self, data):
            return super().write(data[:3])

    monkeypatch.setattr("alula.files._local_store.FileIO", ShortFile)
    await keep(store)
    assert await read(store, HELLO) == b"hello"


async def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "files").write_text("not a folder")
    with pytest.raises(NotADirectoryError):
        await LocalFileStore(tmp_path / "files").stage(pieces_of(b"x"))


async def test_leftovers(store, tmp_path):
    assert await store.leftovers(0) == []
    whole = await store.stage(pieces_of(b"hello"))
    broken = f"upload.{'0' * 32}"
    for name in (broken, ".gitkeep", "notes.txt"):
        (tmp_path / "files" / "staged" / name).write_bytes(b"he")
    assert await store.leftovers(60) == []
    old = time.time() - 100
    for path in (tmp_path / "files" / "staged").iterdir():
        os.utime(path, (old, old))
    files = {file.sha256: file for file in await store.leftovers(60)}
    assert files == {HELLO: whole, None: StagedFile(broken, None, 2)}


async def test_a_withdrawn_file_is_not_a_leftover_at_once(store, tmp_path):
    await keep(store)
    os.utime(tmp_path / "files" / "content" / HELLO[:2] / HELLO, (0, 0))
    await store.withdraw(HELLO)
    assert await store.leftovers(60) == []


async def test_a_leftover_may_vanish_meanwhile(store, tmp_path, monkeypatch):
    await store.stage(pieces_of(b"hello"))
    (tmp_path / "files" / "staged" / f"upload.{'1' * 32}").symlink_to(tmp_path / "nowhere")
    assert len(await store.leftovers(0)) == 1


async def test_each_upload_flushes_the_folders_of_its_content(store, tmp_path, monkeypatch):
    """The first one may not have done so yet when the second one is acknowledged."""
    flushed = []
    real = os.fsync

    def fsync(descriptor):
        flushed.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    content = tmp_path / "files" / "content"
    for _ in range(2):
        flushed.clear()
        await keep(store)
        assert flushed[1:] == [str(content / HELLO[:2]), str(content), str(tmp_path / "files")]


async def test_where_folders_cannot_be_flushed(store, monkeypatch):
    monkeypatch.delattr(os, "O_DIRECTORY")
    await keep(store)
    assert await read(store, HELLO) == b"hello"


def test_its_repr_names_the_folder(store, tmp_path):
    assert repr(store) == f"LocalFileStore({str(tmp_path / 'files')!r})"
