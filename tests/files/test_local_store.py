"""Files in a folder: what concerns files and threads; see test_stores for the rest."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import threading
import time
from io import FileIO
from pathlib import Path

import pytest
from tests.files.forms import files_below, pieces_of
from tests.waiting import settle

from alula.errors import Unavailable
from alula.files import LocalFileStore

KEY = "content/" + "a" * 32
OTHER = "content/" + "b" * 32


@pytest.fixture
def store(tmp_path):
    return LocalFileStore(tmp_path / "files")


async def read(store, *args):
    return b"".join([piece async for piece in store.read(*args)])


async def keep(store, content=b"hello", key=KEY):
    await store.write(key, pieces_of(content))


async def test_only_its_owner_reads_it_in_the_folder(store, tmp_path):
    await keep(store)
    (path,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert path.stat().st_mode & 0o777 == 0o600


async def test_large_files_pass_in_blocks(store):
    content = os.urandom(700_000)
    pieces = (content[at : at + 999] for at in range(0, 700_000, 999))
    await store.write(KEY, pieces_of(*pieces))
    pieces = [piece async for piece in store.read(KEY)]
    assert b"".join(pieces) == content
    assert [len(piece) for piece in pieces] == [262_144, 262_144, 175_712]


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_reader_that_stops_early_closes_the_file(store):
    await keep(store)
    before = open_files()
    pieces = store.read(KEY)
    await anext(pieces)
    await pieces.aclose()
    assert open_files() <= before


async def test_who_reads_a_file_gets_all_of_it_though_it_is_removed(store):
    await keep(store, bytes(600_000))
    pieces = store.read(KEY)
    size = len(await anext(pieces))
    await store.delete(KEY)
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
    task = asyncio.create_task(store.write(KEY, pieces_of(b"x" * 300_000)))
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
    task = asyncio.create_task(store.write(KEY, pieces_of(b"x")))
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
    task = asyncio.create_task(store.write(KEY, pieces_of(b"x")))
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
        await store.write(KEY, pieces_of(b"x"))
    assert files_below(tmp_path) == []


async def test_a_disk_that_has_no_space_for_a_name(store, monkeypatch):
    def mkdir(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pytest.raises(Unavailable, match="There is no space"):
        await keep(store)


async def test_no_file_descriptors_are_left(store, tmp_path):
    await keep(store)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)  # no descriptor below this one is free
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        for call in (keep(store, b"x", OTHER), read(store, KEY)):
            with pytest.raises(Unavailable, match="too many open files; try again later"):
                await call
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert await read(store, KEY) == b"hello"


async def test_a_disk_that_takes_less_at_a_time(store, monkeypatch):
    class ShortFile(FileIO):
        def write(self, data):
            return super().write(data[:3])

    monkeypatch.setattr("alula.files._local_store.FileIO", ShortFile)
    await keep(store)
    assert await read(store, KEY) == b"hello"


async def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "files").write_text("not a folder")
    with pytest.raises((NotADirectoryError, FileExistsError)):
        await LocalFileStore(tmp_path / "files").write(KEY, pieces_of(b"x"))


async def test_keys_of_other_files(store, tmp_path):
    await keep(store)
    for name in (".gitkeep", "notes.txt", "a" * 32 + ".png"):
        (tmp_path / "files" / "content" / name).write_bytes(b"he")
    assert list(await store.keys("content", -60)) == [KEY]


async def test_the_age_of_a_key(store, tmp_path):
    await keep(store)
    await keep(store, key=OTHER)
    old = time.time() - 100
    os.utime(tmp_path / "files" / OTHER, (old, old))
    assert list(await store.keys("content", 60)) == [OTHER]


async def test_a_file_may_be_deleted_while_keys_are_listed(store, tmp_path):
    await keep(store)
    (tmp_path / "files" / OTHER).symlink_to(tmp_path / "nowhere")
    assert list(await store.keys("content", 0)) == [KEY]


@pytest.fixture
def flushed(monkeypatch):
    """The paths of what is flushed to the disk, in order."""
    paths = []
    real = os.fsync

    def fsync(descriptor):
        paths.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return paths


async def test_an_upload_flushes_the_file_and_its_name(store, tmp_path, flushed):
    await keep(store)
    flushed.clear()
    await keep(store, key=OTHER)
    folder = tmp_path / "files"
    assert flushed == [str(folder / OTHER), str(folder / "content")]


async def test_each_process_flushes_the_folders_once(store, tmp_path, flushed):
    """Another one may have made them, and not have flushed them yet."""
    await keep(store)
    flushed.clear()
    other = LocalFileStore(tmp_path / "files")
    await keep(other, key=OTHER)
    folder = tmp_path / "files"
    assert flushed[:2] == [str(folder), str(tmp_path)]
    assert len(flushed) == 4


async def test_what_need_not_survive_a_loss_of_power_flushes_nothing(store, flushed):
    await keep(store)
    flushed.clear()
    await store.write(OTHER, pieces_of(b""), flush=False)
    assert flushed == []


async def test_where_folders_cannot_be_flushed(store, monkeypatch):
    monkeypatch.delattr(os, "O_DIRECTORY")
    await keep(store)
    assert await read(store, KEY) == b"hello"


def test_its_repr_names_the_folder(store, tmp_path):
    assert repr(store) == f"LocalFileStore({str(tmp_path / 'files')!r})"
