"""Worker processes, and the commands that start them, run in this process."""

from __future__ import annotations

import asyncio
import http.client
import logging
import os
import signal
import socket
import threading
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.serving.commands import SOURCE

import alula._cli.serving.listen as listen_module
from alula._cli.serving.reloader import serve_with_reload
from alula._cli.serving.supervisor import serve_with_workers
from alula._cli.serving.worker_process import WorkerProcess, WorkerSettings, describe_exit
from alula._cli.terminal import UsageError
from alula._sockets import listen_on_port

pytestmark = pytest.mark.slow

SECONDS = 60
CODE = """
import os
from alula import App
from alula.express import express, rest
app = express(App())
app.configure(rest())
app.get("/", lambda req, res: res.json(os.environ.get("SAID", "nothing")))
"""
HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _in_a_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", SOURCE)
    (tmp_path / "app.py").write_text(CODE)
    (tmp_path / "json.py").write_text("1 / 0  # in the place of a module that Alula needs")


@pytest.fixture
def sock():
    with listen_on_port("127.0.0.1", 0) as sock:
        yield sock


def ask(sock):
    with closing(http.client.HTTPConnection(*sock.getsockname(), timeout=SECONDS)) as connection:
        connection.request("GET", "/")
        return connection.getresponse().read().decode()


async def test_a_worker_reports_readiness(sock):
    worker = await WorkerProcess.start(WorkerSettings("app:app"), sock, {"SAID": "this"})
    assert not worker.is_ready
    async with asyncio.timeout(SECONDS):
        assert await worker.started()
        assert worker.is_ready
        assert not worker.retiring
        assert await asyncio.to_thread(ask, sock) == '"this"'
        worker.stop()
        assert worker.retiring
        assert await worker.ended == 0
    worker.kill()  # it has ended


async def test_a_worker_that_cannot_be_started_leaves_nothing_open(sock):
    first, second = socket.socketpair()
    pair = first.fileno(), second.fileno()  # which the connection to the worker gets
    first.close()
    second.close()
    with pytest.raises(ValueError, match="null byte"):
        await WorkerProcess.start(WorkerSettings("app:app"), sock, {"SAID": "\0"})
    for descriptor in pair:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
async def test_a_worker_ignores_signals_of_its_parent_from_its_start(sock, number, capfd):
    worker = await WorkerProcess.start(WorkerSettings("app:app"), sock)
    os.kill(worker.pid, number)  # it has not imported anything yet
    async with asyncio.timeout(SECONDS):
        assert await worker.started()
        status = await asyncio.to_thread(Path(f"/proc/{worker.pid}/status").read_text)
        assert "\nSigBlk:\t0000000000000000\n" in status  # for programs that it starts
        worker.stop()
        assert await worker.ended == 0
    assert "Traceback" not in capfd.readouterr().err
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())


async def test_heartbeats_are_expected_of_ready_workers_only(sock):
    worker = await WorkerProcess.start(WorkerSettings("app:app", worker_timeout=600), sock)
    worker.kill()
    async with asyncio.timeout(SECONDS):
        await worker.ended
    assert worker._watching.done()


async def test_a_worker_that_has_ended_cannot_proceed(sock):
    worker = await WorkerProcess.start(WorkerSettings("app:app"), sock)
    worker.kill()
    async with asyncio.timeout(SECONDS):
        await worker.ended
    worker.proceed()


async def test_a_spare_worker_that_ends_before_it_proceeds_is_never_ready(sock):
    """Two changes in a row: the second one comes while the spare worker imports its modules."""
    worker = await WorkerProcess.start(WorkerSettings("app:app", is_spare=True), sock)
    os.kill(worker.pid, signal.SIGSTOP)  # it reads nothing from here on
    worker.proceed()
    worker.kill()
    async with asyncio.timeout(SECONDS):
        assert not await worker.started()
        assert await worker.ended == -signal.SIGKILL
    assert not worker.is_ready


async def test_a_worker_retires(sock):
    worker = await WorkerProcess.start(WorkerSettings("app:app", drain=600), sock)
    async with asyncio.timeout(SECONDS):
        assert await worker.started()
        worker.retire()
        assert worker.retiring
        assert await worker.ended == 0
    worker.retire()  # it has ended


async def test_a_worker_that_does_not_start_is_never_ready(sock, capfd):
    worker = await WorkerProcess.start(WorkerSettings("app:nothing"), sock)
    async with asyncio.timeout(SECONDS):
        assert not await worker.started()
        assert await worker.ended == 2
    assert "has no 'nothing'" in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("how", ["blocked", "stopped"])
async def test_a_worker_that_hangs_is_killed(sock, tmp_path, how, capfd, caplog):
    """Where its event loop is blocked it can still write where; where it is stopped it cannot."""
    (tmp_path / "app.py").write_text(
        CODE + "import time\ndef block(req, res): time.sleep(600)\napp.get('/block', block)\n"
    )
    worker = await WorkerProcess.start(WorkerSettings("app:app", worker_timeout=3), sock)
    async with asyncio.timeout(SECONDS):
        assert await worker.started()
        await asyncio.sleep(4.5)
        assert await asyncio.to_thread(ask, sock) == '"nothing"'  # it gives signs of life
        assert not worker.ended.done()
        if how == "stopped":
            os.kill(worker.pid, signal.SIGSTOP)
        else:
            _, writer = await asyncio.open_connection(*sock.getsockname())
            writer.write(b"GET /block HTTP/1.1\r\nhost: a\r\n\r\n")
        status = await worker.ended
        if how == "blocked":
            writer.close()
    assert not worker.retiring  # so that another one takes its place
    assert f"worker {worker.pid} hangs: its event loop has not run for 3 seconds" in caplog.text
    if how == "blocked":
        assert status == -signal.SIGABRT
        assert " in block" in capfd.readouterr().err
    else:
        assert status == -signal.SIGKILL


async def test_a_worker_that_is_killed(sock):
    worker = await WorkerProcess.start(WorkerSettings("app:app"), sock)
    worker.kill()
    async with asyncio.timeout(SECONDS):
        assert await worker.ended == -signal.SIGKILL
    assert not worker.is_ready


def test_endings_in_words():
    assert describe_exit(3) == "ended with the exit code 3"
    assert describe_exit(-signal.SIGSEGV) == "was ended by SIGSEGV"


# -- the commands ----------------------------------------------------------------------------------


@pytest.fixture
def _signals_as_they_were():
    before = [signal.getsignal(number) for number in HANDLED]
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for number, handler in zip(HANDLED, before, strict=True):
        signal.signal(number, handler)
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture
def bound(monkeypatch):
    """Return the sockets that a command has opened."""
    opened = []

    def listen(host, port):
        opened.append(listen_on_port(host, port))
        return opened[-1]

    monkeypatch.setattr(listen_module, "listen_on_port", listen)
    return opened


def stopping(sockets, number, answers):
    """Begin to ask the server once there is one, and stop it then."""

    def run():
        while not sockets:
            pass
        try:
            answers.append(ask(sockets[0]))
        finally:
            os.kill(os.getpid(), number)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.usefixtures("_signals_as_they_were")
@pytest.mark.parametrize("kind", ["serve", "dev"])
def test_a_command_serves_until_a_signal_comes(bound, kind, tmp_path):
    answers = []
    settings = WorkerSettings("app:app", access_log=False, development=kind == "dev")
    thread = stopping(bound, signal.SIGINT, answers)
    if kind == "serve":
        status = serve_with_workers(settings, host="127.0.0.1", port=0, path=None)
    else:
        status = serve_with_reload(settings, "127.0.0.1", 0, [tmp_path])
    thread.join(SECONDS)
    assert status == 130
    assert answers == ['"nothing"']
    assert bound[0].fileno() == -1


@pytest.mark.usefixtures("_signals_as_they_were")
@pytest.mark.parametrize("environment", ["", "production"])
def test_an_environment_that_is_not_set_is_told(bound, environment, caplog, monkeypatch):
    monkeypatch.setenv("ALULA_ENV", environment)
    thread = stopping(bound, signal.SIGINT, [])
    settings = WorkerSettings("app:app", access_log=False)
    serve_with_workers(settings, host="127.0.0.1", port=0, path=None)
    thread.join(SECONDS)
    told = "ALULA_ENV is not set, so settings of development count" in caplog.text
    assert told == (not environment)


def test_a_port_in_use_is_an_error(sock):
    host, port = sock.getsockname()
    for start in (
        lambda: serve_with_workers(WorkerSettings("app:app"), host=host, port=port, path=None),
        lambda: serve_with_reload(WorkerSettings("app:app"), host, port, []),
    ):
        with pytest.raises(UsageError, match=f"cannot listen on {host}:{port}: .* another port"):
            start()


def test_a_path_in_use_is_an_error(tmp_path):
    (tmp_path / "s").write_text("")
    with pytest.raises(UsageError, match="not a socket; choose another path"):
        serve_with_workers(WorkerSettings("app:app"), host="", port=0, path=str(tmp_path / "s"))


def test_without_uvicorn_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr(listen_module, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'alula\[server\]'"):
        serve_with_reload(WorkerSettings("app:app"), "127.0.0.1", 0, [])


def test_without_unix_processes_the_error_has_advice(monkeypatch):
    monkeypatch.setattr(listen_module, "IS_UNIX", False)
    with pytest.raises(UsageError, match=r"app\.run\(3030\)"):
        serve_with_reload(WorkerSettings("app:app"), "127.0.0.1", 0, [])


@pytest.mark.usefixtures("_signals_as_they_were")
def test_a_unix_socket_is_closed_and_its_path_is_removed(tmp_path, monkeypatch):
    opened = []
    listen = listen_module.listen_on_path
    monkeypatch.setattr(
        listen_module, "listen_on_path", lambda path: opened.append(listen(path)) or opened[-1]
    )
    settings = WorkerSettings("app:nothing")
    assert serve_with_workers(settings, host="", port=0, path=str(tmp_path / "s")) == 2
    assert list(tmp_path.glob("s")) == []
    assert opened[0].fileno() == -1
