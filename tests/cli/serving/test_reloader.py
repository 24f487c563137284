"""`alula dev` starts a new worker for every change, whatever the files contain."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import typer
from tests.cli.serving.commands import SOURCE, running
from tests.waiting import eventually

import alula._cli.serving.reloader as reloader_module
from alula._cli.serving.reloader import Reloader
from alula._cli.serving.worker_process import WorkerSettings
from alula._sockets import listen_on_port

SECONDS = 60
CODE = """
import os
from alula import App
from alula.express import express, rest

class Notes:
    async def get(self, id, params):
        if id == "die":
            os._exit(7)
        hints = os.environ.get("ALULA_HINTS")
        return {"version": 1, "debug": core.debug, "hints": hints, "written": os.listdir()}

core = App()
app = express(core)
app.configure(rest())
app.use("notes", Notes())
"""


def ask(port, path="/notes/5"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


async def answered(port, text):
    """Send requests until the response contains a text."""
    async with asyncio.timeout(SECONDS):
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                _, body = await asyncio.to_thread(ask, port)
                if text in body:
                    return body


def save(file, text):
    """Write a file at once, as editors do: half of it would be one change more."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", SOURCE)
    monkeypatch.delenv("ALULA_DEBUG", raising=False)
    monkeypatch.setattr(reloader_module, "SCAN_SECONDS", 0.02)
    path = tmp_path / "app.py"
    path.write_text(CODE)
    return path


@asynccontextmanager
async def reloading(file):
    """Yield a reloader that is running, and its port; its exit code is in the end ``status``."""
    with listen_on_port("127.0.0.1", 0) as sock:
        settings = WorkerSettings("app:app", development=True, access_log=False)
        reloader = Reloader(settings, sock, [file.parent])
        running_task = asyncio.create_task(reloader.run())
        try:
            yield reloader, sock.getsockname()[1]
        finally:
            reloader.stop()
            assert await asyncio.wait_for(running_task, SECONDS) == reloader._status


@pytest.mark.slow
async def test_a_change_a_mistake_and_its_end(file, capfd):
    async with reloading(file) as (_, port):
        first = await answered(port, '"version":1')
        assert '"debug":true,"hints":"1"' in first
        assert "__pycache__" not in first
        save(file, CODE.replace("version", "new version"))
        await answered(port, '"new version":1')
        save(file, CODE + "def broken(:")
        status, body = 0, await answered(port, "SyntaxError")
        assert "app.py" in body
        save(file, CODE)
        await answered(port, '"version":1')
        status, _ = await asyncio.to_thread(ask, port, "/notes/5")
        assert status == 200
    told = capfd.readouterr()
    assert told.out.count("changed: app.py") == 3
    assert "def broken(:" in told.err


@pytest.mark.slow
async def test_a_worker_that_dies_comes_back_with_the_next_change(file, capfd):
    async with reloading(file) as (_, port):
        await answered(port, '"version":1')
        with pytest.raises((OSError, http.client.HTTPException)):
            await asyncio.to_thread(ask, port, "/notes/die")
        await eventually(lambda: "exit code 7; waiting for a file" in capfd.readouterr().err)
        waiting = asyncio.create_task(asyncio.to_thread(ask, port))
        file.write_text(CODE + "\n")
        assert (await waiting)[0] == 200  # it came while nobody was there


async def test_it_ends_while_it_waits_for_a_change(file):
    file.write_text("import os; os._exit(3)")
    async with reloading(file) as (reloader, _):
        await eventually(lambda: reloader._worker and reloader._worker.ended.done())
        reloader.stop(130)
    assert reloader._status == 130  # what was said first counts


@pytest.mark.slow
async def test_the_spare_worker_runs_the_code_that_was_saved(file):
    async with reloading(file) as (reloader, port):
        await answered(port, '"version":1')
        await eventually(lambda: reloader._spare is not None)
        spare = reloader._spare
        save(file, CODE.replace("version", "new version"))
        await answered(port, '"new version":1')
        assert reloader._worker is spare
        await eventually(lambda: reloader._spare is not None)
        last = reloader._spare
        assert last is not spare
    assert last.ended.result() == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("reason", ["it has ended", "another package", "another Alula"])
async def test_a_spare_worker_that_is_out_of_date_is_not_used(file, monkeypatch, reason):
    async with reloading(file) as (reloader, port):
        await answered(port, '"version":1')
        await eventually(lambda: reloader._spare is not None)
        spare = reloader._spare
        if reason == "it has ended":
            spare.kill()
            await spare.ended
        elif reason == "another package":
            monkeypatch.setattr(reloader_module, "_time_of_packages", lambda: 0)
        else:
            monkeypatch.setattr(reloader_module, "_ALULA", file.parent)
        save(file, CODE.replace("version", "new version"))
        await answered(port, '"new version":1')
        assert spare.ended.done()
        assert reloader._worker is not spare


def test_the_time_of_packages_is_that_of_their_folder():
    folder = Path(typer.__file__).parents[1]
    assert (folder / "uvicorn").is_dir()
    assert reloader_module._time_of_packages() == folder.stat().st_mtime_ns


STUBBORN = """
import signal, time
from pathlib import Path
signal.signal(signal.SIGTERM, signal.SIG_IGN)
Path("mark.txt").touch()
time.sleep(600)
"""


@pytest.mark.parametrize("stops", [1, 2])
async def test_a_worker_that_does_not_end_is_killed(file, monkeypatch, stops):
    monkeypatch.setattr(reloader_module, "STOP_TIMEOUT_SECONDS", 600 if stops == 2 else 0.05)
    mark = file.with_name("mark.txt")
    file.write_text(STUBBORN)
    async with reloading(file) as (reloader, _):
        await eventually(mark.exists)
        worker = reloader._worker
        if stops == 2:  # the other one is at the end of the block
            reloader.stop()
    assert worker.ended.result() == -signal.SIGKILL


@pytest.mark.slow
async def test_a_spare_worker_needs_no_file_with_a_name(file, monkeypatch, tmp_path):
    """What cleans temporary folders after days must not end it."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    async with reloading(file) as (reloader, port):
        await answered(port, '"version":1')
        assert list(folder.iterdir()) == []
        folder.rmdir()
        await eventually(lambda: reloader._spare is not None)
        for version in ("second", "third"):
            save(file, CODE.replace("version", version))
            await answered(port, f'"{version}":1')
            await eventually(lambda: reloader._spare is not None)
        spare = reloader._spare
        modules = os.pread(reloader._settings.modules, 100_000, 0).split()
    assert b"alula.express" in modules
    assert spare.ended.result() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGHUP, 0)]
)
async def test_signals(file, number, status):
    file.write_text("import time; time.sleep(600)")
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run below nohup
    with listen_on_port("127.0.0.1", 0) as sock:
        reloader = Reloader(WorkerSettings("app:app"), sock, [file.parent])
        running_task = asyncio.create_task(reloader.run())
        reloader.listen_to_signals()
        try:
            os.kill(os.getpid(), number)
            assert await asyncio.wait_for(running_task, SECONDS) == status
        finally:
            for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                asyncio.get_running_loop().remove_signal_handler(each)
            signal.signal(signal.SIGHUP, before)


async def test_a_signal_that_nohup_ignores_stays_ignored(file):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    loop = asyncio.get_running_loop()
    try:
        with listen_on_port("127.0.0.1", 0) as sock:
            Reloader(WorkerSettings("app:app"), sock, [file.parent]).listen_to_signals()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        assert not loop.remove_signal_handler(signal.SIGHUP)
    finally:
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)
        signal.signal(signal.SIGHUP, before)


def test_names_of_files_are_short(file):
    shown = reloader_module.shorten
    names = [str(file.parent / name) for name in ("a.py", "b.py")]
    assert shown(names) == "a.py, b.py"
    assert shown(["/else/where.py", *names, "c", "d"]) == "/else/where.py, a.py, b.py and 2 more"


@pytest.mark.slow
def test_as_the_command(file):
    with running(file.parent, "dev", "--port", "0") as command:
        port = command.port()
        assert ask(port)[0] == 200
        assert command.end(signal.SIGINT) == 130
        assert "    /notes  get" in command.text
        assert "GET /notes/5 200" in command.text


async def test_stopped_before_the_first_worker(file):
    with listen_on_port("127.0.0.1", 0) as sock:
        reloader = Reloader(WorkerSettings("app:app"), sock, [file.parent])
        reloader.stop(3)
        reloader.stop()
        assert await reloader.run() == 3
    assert reloader._worker is None


SERVER = """
import os
from pathlib import Path
from alula._local_process import LocalProcess, ProgramMissing
from alula._local_server import FolderServer

class Shell(LocalProcess):
    name, ready, missing = "shell", "ready", ProgramMissing

    def _find(self):
        return Path("/bin/sh")

    def _command(self, program, port):
        return [str(program), "-c", "echo $$ > data/pid; echo ready; exec sleep 1000"]

    def _exit_error(self, status, output):
        return RuntimeError(output)

class Server(FolderServer):
    def _process_in(self, folder, port):
        return Shell(folder, port=port)

    async def _find_running(self, folder):
        return 1 if (folder / "pid").exists() else None

    def _url_of(self, address):
        return address

server = Server("data", share=True)

class Data:
    async def setup(self, app, path):
        await server.start()

    async def teardown(self, app, path):
        await server.stop()

    async def get(self, id, params):
        return {"pid": int(Path("data/pid").read_text())}

app.use("data", Data())
"""


@pytest.mark.slow
async def test_a_local_server_outlives_restarts_and_ends_with_the_command(file):
    file.write_text(CODE + SERVER)
    async with reloading(file) as (_, port):
        await answered(port, '"version":1')
        _, first = await asyncio.to_thread(ask, port, "/data/1")
        process = Path("/proc") / str(json.loads(first)["pid"])
        save(file, CODE.replace("version", "new version") + SERVER)
        await answered(port, '"new version":1')
        assert (await asyncio.to_thread(ask, port, "/data/1"))[1] == first
        assert process.exists()
    await eventually(lambda: not process.exists())
