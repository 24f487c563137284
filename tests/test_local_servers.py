"""Local servers: who owns them, and when they end. The server here is a shell that waits."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.waiting import eventually

from alula._local_process import LocalProcess, ProgramMissing, ServerOwner, owner_of_servers
from alula._local_server import FolderServer

pytestmark = pytest.mark.slow

OWNER = "ALULA_LOCAL_SERVER_OWNER"


class Shell(LocalProcess):
    name, ready, missing = "shell", "ready", ProgramMissing

    def _find(self):
        return Path("/bin/sh")

    def _command(self, program, port):
        return [str(program), "-c", f"echo $$ > {self.folder}/pid; echo ready; exec sleep 1000"]

    def _exit_error(self, status, output):
        raise AssertionError(output)


class ShellServer(FolderServer[Shell]):
    temporary_prefix = "alula_shell_"

    def _process_in(self, folder, port):
        return Shell(folder, port=port)

    async def _find_running(self, folder):
        pid = folder / "pid"
        return 1 if pid.exists() and runs(int(pid.read_text())) else None

    def _url_of(self, address):
        return address


def runs(pid):
    try:
        # A process that has ended stays until its parent has looked.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pid_in(folder):
    return int((folder / "pid").read_text())


@pytest.fixture
def owner(monkeypatch):
    with ServerOwner() as owner:
        for name, value in owner.environment.items():
            monkeypatch.setenv(name, value)
        yield owner


async def test_a_server_ends_with_the_program_that_started_it(tmp_path):
    async with ShellServer(tmp_path, share=True):
        pid = pid_in(tmp_path)
        assert runs(pid)
    assert not runs(pid)


async def test_a_shared_server_runs_on_for_its_owner(tmp_path, owner):
    async with ShellServer(tmp_path, share=True):
        pid = pid_in(tmp_path)
    assert runs(pid)
    async with ShellServer(tmp_path, share=True):  # the next program finds it
        assert pid_in(tmp_path) == pid
    assert runs(pid)
    await owner.stop()
    assert not runs(pid)


async def test_it_ends_though_its_owner_is_killed(tmp_path, owner):
    async with ShellServer(tmp_path, share=True):
        pid = pid_in(tmp_path)
    owner.__exit__()  # as the system does
    await eventually(lambda: not runs(pid))


async def test_a_server_that_is_not_shared_has_no_owner(tmp_path, owner):
    async with ShellServer(tmp_path):
        pid = pid_in(tmp_path)
    assert not runs(pid)


async def test_a_server_that_has_ended_by_itself_is_reaped(tmp_path, owner):
    async with ShellServer(tmp_path, share=True) as server:
        os.kill(pid_in(tmp_path), signal.SIGKILL)
        await eventually(lambda: not server._process.is_running())
    assert server._process is None
    await owner.stop()


async def test_an_owner_without_servers_stops_at_once(owner):
    await owner.stop()


@pytest.mark.parametrize("value", [None, "", "x", "999999", "stdin"])
def test_without_an_owner(monkeypatch, value):
    monkeypatch.delenv(OWNER, raising=False)
    with open(os.devnull, "rb") as file:  # noqa: PTH123  # only its descriptor counts
        if value is not None:
            monkeypatch.setenv(OWNER, str(file.fileno()) if value == "stdin" else value)
        assert owner_of_servers() is None
