"""`alula serve` as real processes, under load."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import http.client
import os
import signal
import socket
import threading
import time

import pytest
from tests.cli.serving.commands import running
from tests.cli.serving.loading import Load
from tests.waiting import eventually

pytestmark = pytest.mark.slow

SECONDS = 60
CODE = """
import asyncio, os
from alula import App
from alula.express import express, json, rest

class Notes:
    async def get(self, id, params):
        if float(id) > 0.5:
            print("called for", id, flush=True)
        await asyncio.sleep(float(id))
        return {"pid": os.getpid(), "version": VERSION}

VERSION = 1
app = express(App())
app.use(json())
app.configure(rest())
app.use("notes", Notes())
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "app.py").write_text(CODE)
    return tmp_path


@contextlib.contextmanager
def serving(folder, *options):
    options = ("--port", "0", "--no-access-log", *options)
    with running(folder, "serve", *options) as command:
        yield command


def test_several_workers_warn_once_of_records_in_memory(folder):
    with (folder / "app.py").open("a") as file:
        file.write("from alula.adapters.memory import MemoryService\n")
        file.write("app.use('kept', MemoryService())\n")
    with serving(folder, "--workers", "2") as command:
        command.wait_for("Each worker")
        assert_answers(command.port())
        assert command.end(signal.SIGTERM) == 0
        told = [each for each in command.records() if each["level"] == "WARNING"]
        assert [each["message"].partition(".")[0] for each in told] == [
            "2 workers serve services whose records are in the memory of one process: kept"
        ]


@pytest.mark.parametrize("environment", ["", "production"])
def test_it_says_when_it_accepts_requests_and_if_the_environment_is_not_set(folder, environment):
    text = CODE.replace("VERSION = 1", "import sys; print('imported', file=sys.stderr, flush=True)")
    (folder / "app.py").write_text(text.replace("VERSION}", "1}"))
    with running(folder, "serve", "--port", "0", ALULA_ENV=environment) as command:
        command.wait_for("listening on http")
        assert command.end(signal.SIGTERM) == 0
    positions = [command.text.index(part) for part in ("starting app:app", "imported", "listening")]
    assert positions == sorted(positions)
    assert ("ALULA_ENV is not set" in command.text) is (not environment)


def test_collections_of_garbage_leave_out_what_is_loaded(folder):
    with (folder / "app.py").open("a") as file:
        file.write("import gc\n")
        file.write("app.get('/frozen', lambda req, res: res.json(gc.get_freeze_count()))\n")
    with serving(folder) as command:
        port, until = command.port(), time.monotonic() + SECONDS
        while int(ask(port, "/frozen")[1]) < 10_000:  # once it has looked for migrations
            assert time.monotonic() < until


def assert_answers(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", "/notes/0")
        assert connection.getresponse().status == 200


@contextlib.asynccontextmanager
async def loaded(command, path="/notes/0.002", **options):
    """Yield clients that keep the two workers of a command busy."""
    load = Load(await asyncio.to_thread(command.port), path, **options)
    try:
        await eventually(lambda: len(pids_of(load)) == 2)
        yield load
    finally:
        await load.end()


def pids_of(load):
    return {int(body.partition(b'"pid":')[2].split(b",")[0]) for body in load.bodies}


def ask(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()


def wait_until_refused(port):
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED:
                return
        time.sleep(0.01)
    pytest.fail("it still takes connections")


async def test_a_stop_under_load_loses_no_request(folder):
    with serving(folder, "--workers", "2") as command:
        async with loaded(command, kept=8, new=12) as load:
            await load.reach(1500)
            assert await asyncio.to_thread(command.end, signal.SIGTERM) == 0
        assert load.refused > 0
        assert load.lost == {}
        assert set(load.answers) == {200}
        assert [record for record in command.records() if record["level"] != "INFO"] == []


async def test_a_restart_under_load_loses_no_request_and_brings_the_new_code(folder):
    with serving(folder, "--workers", "2") as command:
        async with loaded(command, kept=8, new=12) as load:
            old = pids_of(load)
            (folder / "app.py").write_text(CODE.replace("VERSION = 1", "VERSION = 20"))
            command.process.send_signal(signal.SIGHUP)
            await asyncio.to_thread(command.wait_for, "all workers are new")
            load.bodies.clear()
            await load.reach(1000)
            assert not old & pids_of(load)
            assert all(b'"version":20' in body for body in load.bodies)
        assert load.lost == {}
        assert load.refused == 0
        assert set(load.answers) == {200}
        assert command.end(signal.SIGTERM) == 0


async def test_a_worker_that_is_killed_is_replaced_and_the_others_go_on(folder):
    with serving(folder, "--workers", "2") as command:
        async with loaded(command, kept=4, new=4) as load:
            before = pids_of(load)
            os.kill(min(before), signal.SIGKILL)
            await asyncio.to_thread(command.wait_for, "was ended by SIGKILL; another one replaces")
            load.bodies.clear()
            await eventually(lambda: len(pids_of(load)) == 2)
            await load.reach(300)
            # What the killed one was doing is lost, at most a request for each client.
            assert load.lost.total() <= 8
            assert load.refused == 0
            assert set(load.answers) == {200}
            assert min(before) not in pids_of(load)
        assert command.end(signal.SIGTERM) == 0


def test_a_stop_waits_for_requests_but_not_for_ever(folder):
    with serving(folder, "--graceful-timeout", "3") as command:
        port, answers = command.port(), {}

        def get(seconds):
            try:
                answers[seconds] = ask(port, f"/notes/{seconds}")[0]
            except (OSError, http.client.HTTPException) as error:
                answers[seconds] = error

        assert ask(port, "/notes/0")[0] == 200
        threads = [threading.Thread(target=get, args=[seconds]) for seconds in (0.6, 600)]
        for thread in threads:
            thread.start()
        command.wait_for("called for", 2)
        assert command.end(signal.SIGTERM) == 0
        for thread in threads:
            thread.join(SECONDS)
        assert answers[0.6] == 200
        assert answers[600] != 200
        with socket.socket() as sock:
            assert sock.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED


def test_a_second_ctrl_c_kills(folder):
    with serving(folder) as command:
        port = command.port()
        with socket.create_connection(("127.0.0.1", port), SECONDS) as sock:
            sock.sendall(b"GET /notes/600 HTTP/1.1\r\nHost: here\r\n\r\n")
            command.wait_for("called for 600")
            command.process.send_signal(signal.SIGINT)
            wait_until_refused(port)
            assert command.end(signal.SIGINT) == 130, command.text


def test_workers_end_with_the_one_that_looks_after_them(folder):
    with serving(folder) as command:
        port = command.port()
        assert ask(port, "/notes/0")[0] == 200
        command.process.kill()
        wait_until_refused(port)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (CODE + "import nothing_of_this_name", "No module named 'nothing_of_this_name'"),
        (
            CODE.replace("async def get", "async def setup(self, *_): 1 / 0\n    async def get"),
            "Zero",
        ),
    ],
)
def test_a_failed_start_is_reported_once(folder, code, said):
    (folder / "app.py").write_text(code)
    with serving(folder, "--workers", "3") as command:
        assert command.end() == 1
        assert command.text.count("Traceback") == 1
        assert said in command.text
        last = command.records()[-1]["message"]
        assert "ended with the exit code 1 before it could accept requests" in last


def test_a_unix_socket(folder):
    path = folder / "s"
    with serving(folder, "--uds", str(path)) as command:
        command.wait_for(f"listening on unix:{path}")
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(SECONDS)
            client.connect(str(path))
            client.sendall(b"GET /notes/0 HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
            answer = b""
            while part := client.recv(65536):
                answer += part
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert command.end(signal.SIGTERM) == 0
        assert not path.exists()
