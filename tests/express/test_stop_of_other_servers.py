"""Open streams do not keep another server from stopping: they end when its signal comes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.express.serving import Lifespan

import alula
from alula.express import express
from alula.express._lifespan import told_of_signals

pytestmark = pytest.mark.slow

SECONDS = 30
CODE = """
from starlette.applications import Starlette
from alula import App
from alula.adapters.memory import MemoryService
from alula.express import express, rest
from alula.realtime import socketio, sse

existing = Starlette()
extending = express(App(), existing).configure(rest()).configure(socketio()).configure(sse())
app = express(App()).configure(rest()).configure(socketio()).configure(sse())
for each in (app, extending):
    each.use("notes", MemoryService())
    each.publish(lambda *_, each=each: each.channel("all"))
"""


@pytest.fixture
def start(tmp_path):
    """Start uvicorn's own command; all processes are ended after the test."""
    (tmp_path / "notes_app.py").write_text(CODE)
    processes = []

    def start_uvicorn(name):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", f"notes_app:{name}", "--port", str(port)],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(Path(alula.__file__).parents[1])},
        )
        processes.append(process)
        while "Uvicorn running" not in (line := process.stderr.readline()):
            assert line, "it did not start"
        return process, f"http://127.0.0.1:{port}"

    yield start_uvicorn
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("name", ["app", "extending", "existing"])
def test_uvicorn_stops_although_a_stream_is_open(start, name, number):
    process, url = start(name)
    headers = {"Accept": "text/event-stream"}
    request = urllib.request.Request(f"{url}/notes", headers=headers)
    polled = urllib.request.urlopen(f"{url}/socket.io/?EIO=4&transport=polling").read().decode()
    sid = polled.partition('"sid":"')[2].partition('"')[0]
    poll = f"{url}/socket.io/?EIO=4&transport=polling&sid={sid}"

    def wait_for_packets():
        # If the machine is busy, the signal comes first, and the session is gone.
        with contextlib.suppress(urllib.error.URLError):
            urllib.request.urlopen(poll).read()

    waiting = threading.Thread(target=wait_for_packets)
    with urllib.request.urlopen(request) as stream:
        assert stream.status == 200
        waiting.start()
        waiting.join(0.5)
        process.send_signal(number)
        _, told = process.communicate(timeout=SECONDS)
        stream.read()
    waiting.join()
    assert "Finished server process" in told
    assert "Traceback" not in told
    assert process.returncode in (0, -number)


@pytest.fixture
def handled():
    """The numbers that a handler of the server has got."""
    numbers = []
    before = signal.signal(signal.SIGTERM, lambda number, _: numbers.append(number))
    yield numbers
    signal.signal(signal.SIGTERM, before)


async def test_the_handler_of_the_server_runs_too_and_is_put_back(handled):
    stopped, of_server = [], signal.getsignal(signal.SIGTERM)
    app = express().add_endpoint("/live", lambda *_: None, lambda: stopped.append("closing"))
    lifespan = Lifespan(app)
    await lifespan.ask("startup")
    assert signal.getsignal(signal.SIGTERM) is not of_server
    signal.raise_signal(signal.SIGTERM)
    await asyncio.sleep(0)
    assert (handled, stopped) == ([signal.SIGTERM], ["closing"])
    await lifespan.ask("shutdown")
    await lifespan.task
    assert signal.getsignal(signal.SIGTERM) is of_server


async def test_a_handler_that_the_server_has_put_back_stays(handled):
    later = lambda *_: None  # noqa: E731  # a handler, to be known again
    with told_of_signals(lambda: None):
        signal.signal(signal.SIGTERM, later)
    assert signal.getsignal(signal.SIGTERM) is later


async def test_a_process_without_handlers_keeps_ending_by_the_signal():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with told_of_signals(lambda: None):
        now = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert now == before


def test_a_server_in_a_thread_has_no_handlers(handled):
    seen = []

    async def inside():
        with told_of_signals(lambda: None):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=lambda: asyncio.run(inside()))
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGTERM)]
