"""`app.run`: scripts that serve until a signal comes, in this process and as one of their own."""

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

import alula
from alula import App
from alula.express import express, rest

SECONDS_TO_END = 30

SCRIPT = """
import asyncio, sys
from alula import App
from alula.express import express, rest

class Slow:
    async def get(self, id, params):
        print("called", flush=True)
        await asyncio.sleep(float(id))
        print("answered", flush=True)
        return id

    async def setup(self, app, path):
        await asyncio.sleep(float(sys.argv[1]))
        print("setup", flush=True)

    async def teardown(self, app, path):
        print("teardown", flush=True)

app = express(App())
app.configure(rest())
app.use("slow", Slow())
"""
RUN = "app.run(0)\nprint('done', flush=True)\n"
OWN_LOOP = """
async def main():
    server = await app.listen(0)
    print("listening on", server.url, flush=True)

asyncio.run(main())
"""


class Script:
    """A running script, and its lines."""

    def __init__(self, text, *arguments):
        source = str(Path(alula.__file__).parents[1])
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT + text, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": source},
        )

    def line(self):
        return self.process.stdout.readline().strip()

    def url(self):
        assert self.line() == "setup"
        line = self.line()
        assert line.startswith("listening on http://127.0.0.1:")
        return line.removeprefix("listening on ")

    def send(self, number):
        self.process.send_signal(number)

    def end(self):
        """Wait for the end; return the status, the remaining lines, and what it complained."""
        # Not communicate(), which passes by what readline() has read ahead.
        out, err = self.process.stdout.read(), self.process.stderr.read()
        return self.process.wait(SECONDS_TO_END), out.split(), err


@pytest.fixture
def script():
    with contextlib.ExitStack() as stack:

        def start(text, *arguments):
            script = Script(text, *arguments)
            stack.enter_context(script.process)
            stack.callback(script.process.kill)
            return script

        yield start


def get(url):
    """Start a request, and return a function that waits for its answer."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(fetch(url)))
    thread.start()

    def answer():
        thread.join(SECONDS_TO_END)
        return answers[0]

    return answer


def fetch(url):
    """Return the body of an answer, or the status of an error."""
    try:
        with urllib.request.urlopen(url, timeout=SECONDS_TO_END) as response:
            return response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def refuses(url):
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.socket() as sock:
        return sock.connect_ex((host, int(port))) != 0


# -- as a process ----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_script_once_its_requests_have_ended(script, number):
    script = script(RUN, "0")
    answer = get(f"{script.url()}/slow/0.5")
    assert script.line() == "called"
    script.send(number)
    assert answer() == b'"0.5"'
    assert script.end() == (0, ["answered", "teardown", "done"], "")


FROZEN = """
import gc

class Counts:
    async def get(self, id, params):
        return gc.get_freeze_count()

app.use("counts", Counts())
app.run(0)
"""


def test_collections_of_garbage_leave_out_what_is_loaded(script):
    script = script(FROZEN, "0")
    assert int(fetch(f"{script.url()}/counts/1")) > 10_000


def test_a_second_ctrl_c_does_not_wait_for_requests_but_for_the_teardown(script):
    script = script(RUN, "0")
    url = script.url()
    answer = get(f"{url}/slow/60")
    assert script.line() == "called"
    script.send(signal.SIGINT)
    while not refuses(url):
        pass
    script.send(signal.SIGINT)
    status, lines, complaint = script.end()
    assert lines == ["teardown"]
    assert status != 0
    assert "KeyboardInterrupt" in complaint
    assert answer() == 500


def test_ctrl_c_ends_a_set_up_that_takes_long(script):
    script = script(RUN, "60")
    with contextlib.suppress(subprocess.TimeoutExpired):
        script.process.wait(1.5)
    script.send(signal.SIGINT)
    status, lines, _ = script.end()
    assert status != 0
    assert lines == []


def test_a_loop_that_ends_takes_the_server_along_in_good_order(script):
    script = script(OWN_LOOP, "0")
    script.url()
    assert script.end() == (0, ["teardown"], "")


# -- in this process -------------------------------------------------------------------------------


@pytest.fixture
def app():
    log = []

    class Service:
        async def get(self, id, params):
            return {"id": id, "loop": type(asyncio.get_running_loop()).__module__}

        async def teardown(self, app, path):
            log.append("teardown")

    app = express(App())
    app.configure(rest())
    app.use("service", Service())
    app.log = log
    return app


def while_running(app, function):
    """Call ``function`` with the server's URL in a thread, then send SIGTERM."""
    results = []

    def work(url):
        try:
            results.append(function(url))
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    async def begin(context, next):
        await next()
        # The server is there, and signals are waited for in the next turn of the loop.
        loop = asyncio.get_running_loop()
        url = context.server.url
        loop.call_later(0.05, threading.Thread(target=work, args=[url]).start)

    app.hooks(setup=[begin])
    app.run(0)
    return results[0]


def test_run_serves_and_returns_after_a_signal(app, capsys):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert b'"id":"5"' in while_running(app, lambda url: fetch(f"{url}/service/5"))
    assert app.log == ["teardown"]
    assert capsys.readouterr().out.startswith("listening on http://127.0.0.1:")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_run_uses_uvloop_where_it_is_there(app):
    pytest.importorskip("uvloop")  # there is none for every platform
    assert b'"loop":"uvloop"' in while_running(app, lambda url: fetch(f"{url}/service/5"))


def test_run_does_without_uvloop(app, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert b'"loop":"asyncio.' in while_running(app, lambda url: fetch(f"{url}/service/5"))


def test_run_raises_what_listen_raises(app):
    with pytest.raises(ValueError, match="a port is a number"):
        app.run("3030")


def test_run_takes_the_options_of_listen(app):
    assert while_running(app, lambda url: url).startswith("http://127.0.0.1:")
    app.hooks(setup=[_fail])
    with pytest.raises(LookupError, match=r"on 127\.0\.0\.2"):
        app.run(0, "127.0.0.2", timeout_keep_alive=1)


async def _fail(context, next):
    raise LookupError(f"on {context.server.host}")


async def test_run_where_a_loop_is_running_says_what_to_write(app):
    with pytest.raises(RuntimeError, match=r"await app\.listen"):
        app.run(0)


def test_a_port_that_is_taken_ends_a_script_with_a_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit) as end:
            express(App()).run(port)
    assert end.value.code == (
        f"cannot listen on 127.0.0.1:{port}: Address already in use; choose another port"
    )


def test_other_failures_of_the_system_are_no_taken_port():
    app = App()

    async def fail(context, next):
        raise ConnectionRefusedError("no database")

    app.hooks(setup=[fail])
    with pytest.raises(ConnectionRefusedError):
        express(app).run(0)
