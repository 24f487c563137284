"""A worker in this process: what it serves and prints, and when it ends."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import logging
import os
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

import alula._cli.serving.worker as worker_module
from alula import App
from alula._cli.serving.worker import announce, main, serve_as_worker
from alula._cli.serving.worker_process import PROCEED, READY, WorkerSettings
from alula._sockets import listen_on_port
from alula.adapters.memory import MemoryService
from alula.authentication._passwords import default_passwords
from alula.express import express, rest
from alula.realtime import sse

pytestmark = pytest.mark.slow

SECONDS = 60
HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
CODE = """
import asyncio
from alula import App
from alula.express import express, health, json, rest
from alula.openapi import openapi

class Notes:
    async def setup(self, app, path):
        events.append("setup")
        await asyncio.sleep(PAUSE)
        if FAILS: raise LookupError("no database")

    async def teardown(self, app, path):
        events.append("teardown")
        if FAILS_LATE: raise LookupError("no end")

    async def get(self, id, params):
        return {"id": id, "debug": app.debug}

PAUSE = 0
FAILS = 0
FAILS_LATE = 0
events = []
core = App()
app = express(App())
app.configure(health())
app.configure(rest())
app.configure(openapi())
app.use("notes", Notes())
"""


class Parent:
    """What looks after a worker: its end of the control connection, and the socket."""

    def __init__(self, settings):
        self.sock = listen_on_port("127.0.0.1", 0)
        self.port = self.sock.getsockname()[1]
        self.here, there = socket.socketpair()
        self.here.settimeout(SECONDS)
        own = socket.fromfd(self.sock.fileno(), self.sock.family, self.sock.type)
        self.settings = dataclasses.replace(settings, socket=own.detach(), control=there.detach())

    def ask(self, path="/notes/5"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def close(self):
        self.sock.close()
        self.here.close()


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch, tmp_path):
    """Work in a folder with an application; put back what a process has for itself."""
    (tmp_path / "shop.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("ALULA_LOG_LEVEL", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", sys.dont_write_bytecode)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "")
    before = [signal.getsignal(number) for number in HANDLED]
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for name in [name for name, each in sys.modules.items() if _is_below(each, tmp_path)]:
        del sys.modules[name]
    for number, handler in zip(HANDLED, before, strict=True):
        signal.signal(number, handler)
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
    root.setLevel(level)
    for name in ("uvicorn", "alula.access"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def _is_below(module, folder):
    return str(getattr(module, "__file__", None)).startswith(str(folder))


def run(function, settings=None, **changes):
    """Run a worker; call a function in another thread once it is ready, and stop the worker then.

    Returns:
        The exit code of the worker, and what the function returned.
    """
    parent = Parent(settings or WorkerSettings("shop:app", **changes))

    def use():
        try:
            assert parent.here.recv(1) == READY
            return function(parent)
        finally:
            parent.here.close()

    with contextlib.closing(parent), ThreadPoolExecutor(1) as thread:
        result = thread.submit(use)
        return serve_as_worker(parent.settings), result.result(SECONDS)


def test_it_serves_until_its_parent_ends():
    status, answer = run(lambda parent: parent.ask())
    assert status == 0
    assert answer == (200, '{"id":"5","debug":false}')
    assert sys.modules["shop"].events == ["setup", "teardown"]


HELD = f"""
{CODE}
import time

class Slow:
    async def get(self, id, params):
        time.sleep(0.5)
        return {{}}

app.use("slow", Slow())
"""


@pytest.mark.parametrize("seconds", [0.2, 0])
def test_code_that_blocks_the_loop_is_logged_if_enabled(caplog, seconds):
    Path("held.py").write_text(HELD)

    def held():
        """Return who held the loop; a slow machine holds it, too."""
        return [each.getMessage() for each in caplog.records if each.name == "alula.watchdog"]

    def is_told():
        return any("by `get` of service 'slow', at " in line for line in held())

    def ask(parent):
        assert parent.ask("/slow/1")[0] == 200
        until = time.monotonic() + (SECONDS if seconds else 0.3)
        while not is_told() and time.monotonic() < until:
            time.sleep(0.01)

    run(ask, WorkerSettings("held:app", watch_loop=seconds))
    assert is_told() if seconds else held() == []


IN_MEMORY = f"""
{CODE}
from alula.adapters.memory import MemoryService
from alula.schema import with_schema
from pydantic import BaseModel

class Note(BaseModel):
    text: str

class Own:
    process_local = True

    async def get(self, id, params):
        return {{}}

class Shared(MemoryService):
    process_local = False  # another process keeps it in step

inner = App()
inner.use("deep", MemoryService())
app.use("plain", MemoryService())
app.use("checked", with_schema(MemoryService(), Note))
app.use("own", Own())
app.use("shared", Shared())
app.use("inner", inner)
"""


@pytest.mark.parametrize(
    ("changes", "is_told"),
    [
        ({"workers": 2, "accept_during_setup": True}, True),
        ({"workers": 2}, False),  # the first worker has said it
        ({"workers": 1, "accept_during_setup": True}, False),
    ],
)
def test_several_workers_warn_of_records_in_memory(caplog, changes, is_told):
    Path("kept.py").write_text(IN_MEMORY)
    run(lambda parent: parent.ask(), WorkerSettings("kept:app", **changes))
    said = [each.getMessage() for each in caplog.records if each.name == "alula.serve"]
    assert said == is_told * [
        "2 workers serve services whose records are in the memory of one process: plain, checked,"
        " own, inner/deep. Each worker has its own records; keep them in a database, or use"
        " --workers 1"
    ]


def test_other_services_need_no_warning(caplog):
    run(lambda parent: parent.ask(), workers=2, accept_during_setup=True)
    Path("plain.py").write_text("from alula.express import express\nweb = express()")
    run(
        lambda parent: parent.ask("/"),
        WorkerSettings("plain:web", workers=2, accept_during_setup=True),
    )
    assert [each for each in caplog.records if each.name == "alula.serve"] == []


def test_it_serves_applications_without_services():
    code = "from alula.express import express\nweb = express().get('/', lambda q, s: s.send('hi'))"
    Path("plain.py").write_text(code)
    assert run(lambda parent: parent.ask("/"), WorkerSettings("plain:web", announce=True)) == (
        0,
        (200, "hi"),
    )


def test_only_sigterm_ends_it():
    def stop(parent):
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            os.kill(os.getpid(), number)
        assert parent.here.recv(1) == b""

    assert run(stop) == (0, None)


def test_it_sends_heartbeats_if_enabled():
    def listen(parent):
        parent.here.settimeout(SECONDS)
        return [parent.here.recv(1) for _ in range(3)]

    assert run(listen, worker_timeout=5) == (0, [b".", b".", b"."])


def test_the_settings_limit_stalled_clients():
    def stall(parent):
        with socket.create_connection(("127.0.0.1", parent.port), SECONDS) as client:
            client.sendall(b"GET / HTT")
            return client.recv(65536).split(b"\r\n")[0]

    settings = {"read_timeout": 0.2, "write_timeout": 0.2, "min_rate": 1000, "keep_alive": 1}
    assert run(stall, **settings) == (0, b"HTTP/1.1 408 Request Timeout")


def test_it_denies_readiness_while_it_drains():
    def stop(parent):
        before = parent.ask("/health/ready")[0]
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(500):
            after = parent.ask("/health/ready")[0]
            if after != before:
                break
        return before, after, parent.ask()[0]

    assert run(stop, drain=3) == (0, (200, 503, 200))


def test_it_does_not_drain_if_other_workers_go_on():
    began = time.monotonic()
    assert run(lambda parent: parent.ask()[0], drain=600) == (0, 200)
    assert time.monotonic() - began < 300


def test_health_probes_work_during_the_setup(tmp_path):
    (tmp_path / "shop.py").write_text(CODE.replace("PAUSE = 0", "PAUSE = 2"))
    parent = Parent(WorkerSettings("shop:app", accept_during_setup=True))

    def use():
        early = parent.ask("/health/ready")[0], parent.ask("/health/live")[0]
        assert parent.here.recv(1) == READY
        late = parent.ask("/health/ready")[0]
        parent.here.close()
        return early, late

    with contextlib.closing(parent), ThreadPoolExecutor(1) as thread:
        result = thread.submit(use)
        assert serve_as_worker(parent.settings) == 0
        assert result.result(SECONDS) == ((503, 200), 200)


@pytest.mark.parametrize("early", [True, False])
def test_it_ends_while_the_application_is_set_up(tmp_path, early):
    (tmp_path / "shop.py").write_text(CODE.replace("PAUSE = 0", "PAUSE = 60"))
    parent = Parent(WorkerSettings("shop:app", accept_during_setup=early))

    def end_during_the_setup():
        until = time.monotonic() + SECONDS
        while not getattr(sys.modules.get("shop"), "events", ()) and time.monotonic() < until:
            time.sleep(0.01)
        parent.here.close()

    with contextlib.closing(parent):
        thread = threading.Thread(target=end_during_the_setup)
        thread.start()
        assert serve_as_worker(parent.settings) == 0
        thread.join()
    assert sys.modules["shop"].events == ["setup"]


@pytest.mark.parametrize(
    ("target", "code", "status", "said"),
    [
        ("shop:nothing", CODE, 2, "the module 'shop' has no 'nothing'"),
        ("nosuch:app", CODE, 2, "cannot find the module 'nosuch' in"),
        ("shop:core", CODE, 2, "not a web application; serve the result of express()"),
        ("shop:app", CODE + "1 / 0", 1, "ZeroDivisionError"),
        ("shop:app", CODE.replace("FAILS = 0", "FAILS = 1"), 1, "LookupError: no database"),
    ],
)
def test_an_application_that_does_not_start_prints_the_reason(
    tmp_path, capfd, target, code, status, said
):
    (tmp_path / "shop.py").write_text(code)
    parent = Parent(WorkerSettings(target))
    with contextlib.closing(parent):
        assert serve_as_worker(parent.settings) == status
        assert parent.here.recv(1) == b""
    error = capfd.readouterr().err
    assert said in error
    assert error.count("Traceback") <= 1
    assert "alula/_cli" not in error


def test_a_teardown_that_fails_prints_the_reason(tmp_path, capfd):
    (tmp_path / "shop.py").write_text(CODE.replace("FAILS_LATE = 0", "FAILS_LATE = 1"))
    assert run(lambda parent: parent.ask()[0]) == (1, 200)
    assert "LookupError: no end" in capfd.readouterr().err


class TestDevelopment:
    @pytest.mark.parametrize(
        ("code", "said"),
        [
            (CODE + "def (", "SyntaxError"),
            (CODE.replace("FAILS = 0", "FAILS = 1"), "LookupError: no database"),
        ],
    )
    def test_the_error_of_a_failed_start_is_served(self, tmp_path, capfd, code, said):
        (tmp_path / "shop.py").write_text(code)
        ended = run(lambda parent: parent.ask("/notes"), development=True, announce=True)
        status, (code, body) = ended
        assert (status, code) == (0, 500)
        assert said in body
        told = capfd.readouterr()
        assert said in told.err
        assert "it starts again when a file changes" in told.err
        assert "/notes" not in told.out

    def test_it_prints_the_services(self, capfd):
        _, url = run(lambda parent: f"http://127.0.0.1:{parent.port}", announce=True)
        out = capfd.readouterr().out
        assert f"  {url}\n\n    /notes  get\n" in out
        assert f"  Documentation: {url}/docs\n" in out

    def test_it_prints_which_services_have_no_publisher(self, capfd):
        class Notes:
            async def find(self, params): ...

            async def create(self, data, params): ...

        class Secrets(Notes):
            secret_events = True

        app = express(App()).use("notes", Notes()).use("read", Notes(), methods=["find"])
        app.use("secrets", Secrets()).use("tasks", Notes()).configure(rest())
        server = SimpleNamespace(url="http://127.0.0.1:3030")
        announce(app, server)
        assert "publisher" not in capfd.readouterr().out
        app.configure(sse())
        announce(app, server)
        assert "publisher" not in capfd.readouterr().out  # the log says that there is none
        app.service("tasks").publish(lambda data, context: None)
        announce(app, server)
        out = capfd.readouterr().out
        assert "without a publisher, so nobody gets their events: notes\n" in out
        assert "    /events   server-sent events; each service has a stream, too\n" in out

    def test_it_leaves_closed_services_out(self, capfd):
        app = express(App()).use("notes", MemoryService(), methods=["find"]).configure(rest())
        app.use("sessions", MemoryService(), methods=[])
        announce(app, SimpleNamespace(url="http://127.0.0.1:3030"))
        out = capfd.readouterr().out
        assert "/notes  find\n" in out
        assert "sessions" not in out

    def test_it_prints_no_services_if_all_are_closed(self, capfd):
        app = express(App()).use("sessions", MemoryService(), methods=[]).configure(rest())
        announce(app, SimpleNamespace(url="http://127.0.0.1:3030"))
        assert capfd.readouterr().out.split() == ["http://127.0.0.1:3030"]

    def test_it_prints_the_services_without_documentation(self, tmp_path, capfd):
        (tmp_path / "shop.py").write_text(CODE.replace("app.configure(openapi())", ""))
        run(lambda _: None, announce=True)
        out = capfd.readouterr().out
        assert "/notes" in out
        assert "Documentation" not in out


class TestTheAccessLog:
    def test_is_a_line_for_each_request(self, capfd):
        run(lambda parent: parent.ask())
        assert capfd.readouterr().err.count("GET /notes/5 200") == 1

    def test_can_be_turned_off(self, capfd):
        run(lambda parent: parent.ask(), access_log=False)
        assert "GET" not in capfd.readouterr().err

    def test_of_the_application_stays_the_only_one(self, tmp_path, capfd):
        own = CODE.replace("health, json", "access_log, health, json").replace(
            "app.configure(health())", "app.use(access_log(ip=True))"
        )
        (tmp_path / "shop.py").write_text(own)
        run(lambda parent: parent.ask())
        error = capfd.readouterr().err
        assert error.count("GET /notes/5 200") == 1
        assert '"ip":"127.0.0.1"' in error
        assert '"request_id"' in error


def test_main_reads_the_command_line(monkeypatch):
    settings = WorkerSettings("shop:app", socket=5, forwarded_allow_ips="*", drain=1.5)
    seen = []
    monkeypatch.setattr(worker_module, "serve_as_worker", lambda given: seen.append(given) or 3)
    monkeypatch.setattr(sys, "argv", ["-c", settings.to_text()])
    with pytest.raises(SystemExit) as raised:
        main()
    assert raised.value.code == 3
    assert seen == [settings]


# -- a spare worker --------------------------------------------------------------------------------


@pytest.fixture
def modules(tmp_path):
    """A file that names modules, of which one does not exist."""
    with (tmp_path / "modules").open("w+") as file:
        file.write("alula.nothing_like_it\nalula.watchdog\nalula.authentication" + "\n" * 100_000)
        file.flush()
        yield file


def test_a_spare_worker_waits_before_it_imports_the_application(modules, monkeypatch):
    default_passwords.cache_clear()
    monkeypatch.delitem(sys.modules, "alula.watchdog")
    parent = Parent(WorkerSettings("shop:app", modules=modules.fileno(), is_spare=True))

    def use():
        eventually = time.monotonic() + SECONDS
        while not default_passwords()._costs and time.monotonic() < eventually:
            time.sleep(0.01)
        loaded = "alula.watchdog" in sys.modules, "shop" in sys.modules
        parent.here.send(PROCEED)
        assert parent.here.recv(1) == READY
        answer = parent.ask()
        parent.here.close()
        return loaded, answer

    with contextlib.closing(parent), ThreadPoolExecutor(1) as thread:
        result = thread.submit(use)
        assert serve_as_worker(parent.settings) == 0
        loaded, (status, _) = result.result(SECONDS)
    assert loaded == (True, False)
    assert status == 200
    modules.seek(0)
    names = modules.read().split("\n")  # nothing of the longer text before is left
    assert {"alula.express", "alula.openapi"} < set(names)
    assert all(name.startswith("alula") for name in names)


def test_a_spare_worker_ends_with_its_parent(modules, monkeypatch):
    monkeypatch.delitem(sys.modules, "alula.authentication")
    modules.truncate(0)
    parent = Parent(WorkerSettings("shop:app", modules=modules.fileno(), is_spare=True))
    parent.close()
    assert serve_as_worker(parent.settings) == 0
    assert "shop" not in sys.modules


@pytest.mark.parametrize("is_spare", [True, False])
def test_without_the_list_of_modules_the_application_starts(tmp_path, is_spare):
    (tmp_path / "modules").touch()
    mode = os.O_WRONLY if is_spare else os.O_RDONLY
    descriptor = os.open(tmp_path / "modules", mode)
    parent = Parent(WorkerSettings("shop:app", modules=descriptor, is_spare=is_spare))

    def use():
        parent.here.send(PROCEED * is_spare)
        assert parent.here.recv(1) == READY
        status, _ = parent.ask()
        parent.here.close()
        return status

    with contextlib.closing(parent), ThreadPoolExecutor(1) as thread:
        result = thread.submit(use)
        assert serve_as_worker(parent.settings) == 0
        assert result.result(SECONDS) == 200
    os.close(descriptor)


def test_an_application_in_development_is_not_compiled_to_files(tmp_path):
    run(lambda parent: None, development=True)
    assert not (tmp_path / "__pycache__").exists()
    assert (sys.dont_write_bytecode, os.environ["PYTHONDONTWRITEBYTECODE"]) == (True, "1")
