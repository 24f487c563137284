"""A postgres as a child process: a real one where it matters, scripts where it fails."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import asyncpg
import pytest
from tests.conformance.serving import environment
from tests.requirements import require_postgresql

from alula import _local_process
from alula._local_process import FolderInUse, LocalServerError
from alula.local_postgresql import _postgres as postgres
from alula.local_postgresql._postgres import Postgres, PostgresMissing, find_postgres

# No package is involved but the server itself.
pytestmark = pytest.mark.slow

# Starts a server, says its process id, and stays. The first argument is the folder.
PARENT = """
import asyncio, sys
from alula.local_postgresql._postgres import Postgres

server = Postgres(sys.argv[1])
asyncio.run(server.start())
print(server._process.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _forget_versions():
    yield
    postgres._version.cache_clear()
    postgres._has_namespaces.cache_clear()


@pytest.fixture
def bin_folder(tmp_path, monkeypatch):
    """A folder for programs in front of all others; no other PostgreSQL is there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(postgres, "_OF_DISTRIBUTIONS", tmp_path / "distributions")
    return folder


@pytest.fixture
def no_extra(monkeypatch):
    def none(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", none)


def script(folder: Path, version: int | str, text: str = "exit 0", name: str = "postgres") -> Path:
    """Write a postgres of one's own."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "postgres (PostgreSQL) {version}"; exit; }}\n'
        f"{text}\n"
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def fails(tmp_path, bin_folder, monkeypatch):
    """Make a server whose program is a script."""
    monkeypatch.setattr(_local_process, "SECONDS_FOR_FOLDER", 0)
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    def make(text: str, initdb: str = 'mkdir "$2"; echo 18 > "$2/PG_VERSION"') -> Postgres:
        script(bin_folder, 18, text)
        script(bin_folder, 18, initdb, "initdb")
        return Postgres(tmp_path / "folder")

    return make


def owner_of(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# -- finding it -----------------------------------------------------------------------------------


def test_a_new_one_on_the_path_comes_first(bin_folder, tmp_path):
    program = script(tmp_path / "elsewhere", 17)
    (bin_folder / "postgres").symlink_to(program)
    script(tmp_path / "distributions" / "18" / "bin", 18)
    assert find_postgres() == program  # beside which initdb is


def test_then_the_newest_of_the_distribution(bin_folder, tmp_path):
    script(bin_folder, "15.3")
    for name in ("9", "17", "18", "common"):
        script(tmp_path / "distributions" / name / "bin", name)
    (tmp_path / "distributions" / "19").mkdir()
    assert find_postgres() == tmp_path / "distributions" / "18" / "bin" / "postgres"


def test_then_that_of_the_extra(bin_folder, tmp_path, monkeypatch):
    folder = tmp_path / "embedded"
    program = script(folder, 18)
    script(folder, 18, name="initdb").chmod(0o644)  # installers may drop the executable bit
    script(bin_folder, 15)

    class Distribution:
        def locate_file(self, path):
            return folder

    monkeypatch.setattr("importlib.metadata.distribution", lambda name: Distribution())
    assert find_postgres() == program
    assert (folder / "initdb").stat().st_mode & 0o777 == 0o755
    program.unlink()
    with pytest.raises(PostgresMissing, match=r"cannot be run: .*; chmod \+x"):
        find_postgres()


@pytest.mark.usefixtures("no_extra")
def test_then_an_old_one(bin_folder):
    program = script(bin_folder, 15)
    assert find_postgres() == program


@pytest.mark.usefixtures("no_extra")
@pytest.mark.parametrize("text", ["#!/nowhere/sh", "#!/bin/sh\nexit 127"])
def test_one_that_does_not_run_is_none(bin_folder, text):
    script(bin_folder, 18).write_text(text)
    with pytest.raises(PostgresMissing, match=r"no postgres .* 'alula\[embedded-postgresql\]'"):
        find_postgres()


# -- why it does not start ------------------------------------------------------------------------

FAILURES = {
    "library": (
        "echo 'postgres: error while loading shared libraries: libpq.so.5: cannot open'; exit 127",
        PostgresMissing,
        r"lacks the library libpq\.so\.5",
    ),
    "folder": (
        "echo 'FATAL:  lock file \"postmaster.pid\" already exists'; exit 1",
        FolderInUse,
        r"another postgres uses \S+/folder; stop it, or choose",
    ),
    "folder that is being left": (
        "echo 'FATAL:  pre-existing shared memory block (key 1) is still in use'; exit 1",
        FolderInUse,
        r"another postgres uses",
    ),
    "other version": (
        "echo 'FATAL:  database files are incompatible with server'; exit 1",
        LocalServerError,
        r"folder has data of PostgreSQL 18, and the installed server is another version; install",
    ),
    "anything else": (
        "echo first; echo 'FATAL:  no'; exit 2",
        LocalServerError,
        r"postgres exited with status 2; see \S+/folder/postgresql\.log: FATAL:  no$",
    ),
}


@pytest.mark.parametrize("kind", FAILURES)
async def test_the_error_has_the_reason_of_a_failed_start(fails, kind):
    text, expected, message = FAILURES[kind]
    server = fails(text)
    with pytest.raises(LocalServerError, match=message) as caught:
        await server.start()
    assert caught.type is expected
    assert not server.is_running()


async def test_a_port_that_is_taken(fails, tmp_path):
    fails("echo 'LOG:  could not bind IPv4 address'; exit 1")
    with pytest.raises(LocalServerError, match=r"its port on 127\.0\.0\.1; choose another port"):
        await Postgres(tmp_path / "folder", port=5432).start()


async def test_a_folder_that_cannot_be_made_ready(fails, tmp_path):
    with pytest.raises(LocalServerError, match=r"exited with status 3; .*: initdb: error: no$"):
        await fails("exit 0", "echo 'initdb: error: no'; exit 3").start()
    assert not (tmp_path / "folder" / "data").exists()
    server = fails("exit 0")
    (tmp_path / "bin" / "initdb").unlink()
    with pytest.raises(PostgresMissing, match=r"bin/initdb cannot be run: No such file"):
        await server.start()
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalServerError, match=r"no data folder: .*: \S+/file/folder"):
        await Postgres(tmp_path / "file" / "folder").start()


# -- a real one -----------------------------------------------------------------------------------


async def rows_after_one_more(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("create table if not exists t (n int)")
        await connection.execute("insert into t values (1)")
        return await connection.fetchval("select count(*) from t")
    finally:
        await connection.close()


async def test_a_real_one_starts_ends_and_keeps_its_port(tmp_path):
    require_postgresql()
    server = Postgres(tmp_path / "new" / "folder", options=["fsync=off", "work_mem=5MB"])
    assert repr(server).startswith("<Postgres 127.0.0.1:0 in /")
    await server.start()
    pid, port = server._process.pid, server.port
    await server.start()
    assert server._process.pid == pid
    with pytest.raises(ConnectionRefusedError):  # of all addresses, it listens on this one only
        socket.create_connection(("127.0.0.2", port))
    assert await rows_after_one_more(server.url) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_local_process, "SECONDS_FOR_FOLDER", 0)
        with pytest.raises(FolderInUse, match="another postgres uses"):
            await Postgres(server.folder).start()
        with pytest.raises(LocalServerError, match=r"its port on 127\.0\.0\.1; choose"):
            await Postgres(tmp_path / "other", port=port).start()
    connected = await asyncpg.connect(server.url)
    server.kill()  # which leaves a lock file, and connections
    await server.start()
    assert server.port == port
    assert await rows_after_one_more(server.url) == 2
    assert connected.is_closed()
    settings = await asyncpg.connect(server.url)
    assert await settings.fetchval("show work_mem") == "5MB"
    begun = time.monotonic()
    await server.stop()  # and it does not wait for that client
    assert time.monotonic() - begun < 15
    settings.terminate()
    assert not (server.data / "postmaster.pid").exists()


async def test_text_is_in_the_order_of_code_points_and_knows_its_case(postgresql_url):
    connection = await asyncpg.connect(postgresql_url)
    if connection.get_server_version().major >= postgres.BUILTIN_LOCALE:
        assert await connection.fetchval("select 'Z' < 'a' and 'Zürich' ilike 'ZÜ%'")
    await connection.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_real_one_ends_with_its_parent(tmp_path, number):
    require_postgresql()
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
    end = time.monotonic() + 60
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    assert not is_alive(pid)
    assert not (tmp_path / "data" / "postmaster.pid").exists()


# -- as root --------------------------------------------------------------------------------------

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")


@needs_root
def test_root_runs_it_in_a_namespace_or_as_nobody(tmp_path, monkeypatch):
    server = Postgres(tmp_path)
    monkeypatch.setattr(postgres, "_IN_NAMESPACE", ("true",))
    server._choose_user()
    assert (server._prefix, server.user) == (("true",), None)
    for forbidden in (("false",), ("/nowhere/unshare",)):
        postgres._has_namespaces.cache_clear()
        monkeypatch.setattr(postgres, "_IN_NAMESPACE", forbidden)
        server._choose_user()
        assert server._prefix == ()
        assert tmp_path.stat().st_uid == server.user != 0


@needs_root
def test_data_belongs_to_the_same_user_as_before(tmp_path, monkeypatch):
    monkeypatch.setattr(postgres, "_IN_NAMESPACE", ("true",))
    server = Postgres(tmp_path)
    server.data.mkdir()
    os.chown(server.data, 12345, -1)
    server._choose_user()
    assert (server._prefix, server.user) == ((), 12345)


@needs_root
async def test_a_real_one_runs_as_nobody(monkeypatch):
    require_postgresql()
    monkeypatch.setattr(postgres, "_has_namespaces", lambda: False)
    from alula.local_postgresql import LocalServer

    server = LocalServer()  # below /tmp, which nobody may enter
    try:
        await server.start()
    except LocalServerError as error:
        if "Permission denied" in str(error):
            pytest.skip("nobody may not enter the folder of the programs")
        raise
    assert owner_of(server._process._process.pid) == 65534
    assert await rows_after_one_more(server.url) == 1
    await server.stop()
