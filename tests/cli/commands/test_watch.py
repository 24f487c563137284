"""`alula call --watch`: events of a running server."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from http import HTTPStatus

import pytest
from tests.cli.applications import folder_with
from tests.client.socketio_server import ScriptedServer

from alula._cli.commands import _watch
from alula.client import ServiceEvent
from alula.client import _retries as retries_module


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(retries_module, "_FIRST_DELAY", 0.002)
    monkeypatch.setattr(_watch, "_CONNECT_TIMEOUT", 2)


@pytest.fixture
def run(tmp_path):
    with folder_with(tmp_path) as run:
        yield run


@pytest.fixture
def server():
    with ScriptedServer() as server:
        yield server


@pytest.fixture
def play(server):
    """Starts a thread that lets a function play the server; joined at the end."""
    threads = []

    def play(function):
        def run():
            until(lambda: server.joins)
            server.ping()  # so that the client knows that it has joined
            function()

        threads.append(threading.Thread(target=run))
        threads[-1].start()

    yield play
    for thread in threads:
        thread.join()


def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def end(server):
    server.refusal = {"message": "enough"}
    server.cut()


def test_prints_lines_of_json(run, server, play):
    def events():
        server.emit("messages created", {"text": "ä"})
        server.emit("others created", {})
        server.emit("messages archived", {"bytes": b"\0"})
        end(server)

    play(events)
    result = run("call", "messages", "--watch", "--url", server.url)
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"path": "messages", "event": "created", "data": {"text": "ä"}},
        {"path": "messages", "event": "archived", "data": {"bytes": "b'\\x00'"}},
    ]
    assert "ä" in result.stdout
    assert result.exit_code == 1
    assert "Forbidden (403): enough" in result.stderr


def test_prints_one_event(run, server, play):
    def events():
        server.emit("messages created", 1)
        server.emit("messages removed", 2)
        end(server)

    play(events)
    result = run("call", "--watch", "messages", "removed", "--url", server.url)
    assert json.loads(result.stdout)["data"] == 2


def test_says_where_events_may_be_missing(run, server, play):
    def events():
        server.cut()
        until(lambda: len(server.joins) == 2)
        server.ping()
        server.emit("messages created", 1)
        end(server)

    play(events)
    result = run("call", "messages", "--watch", "--url", server.url)
    assert "alula: the connection broke; events may be missing here" in result.stderr
    assert json.loads(result.stdout)["data"] == 1


def test_signs_in(run, server, play):
    server.tokens = {"t1": "ada"}
    play(lambda: end(server))
    run("call", "messages", "--watch", "--url", server.url, "--token", "t1")
    assert server.calls[0][2] == {"strategy": "jwt", "accessToken": "t1"}


def test_a_token_that_is_rejected(run, server):
    result = run("call", "messages", "--watch", "--url", server.url, "--token", "t1")
    assert result.exit_code == 1
    assert "NotAuthenticated (401): the server rejected the access token" in result.stderr


def test_a_server_without_real_time(run, server):
    server.status = HTTPStatus.NOT_FOUND
    result = run("call", "messages", "--watch", "--url", server.url)
    assert result.exit_code == 1
    assert "has no real time; an application has it by app.configure(socketio())" in result.stderr


def test_no_server(run, server, monkeypatch):
    server.stop()
    monkeypatch.setattr(_watch, "DEFAULT_URL", server.url)
    result = run("call", "messages", "--watch")
    assert result.exit_code == 1
    assert "NotConnected (503)" in result.stderr or "Unavailable (503)" in result.stderr
    assert "at last: ConnectionRefusedError" in result.stderr


@pytest.mark.parametrize("url", ["localhost:3030", "http://here/api", "http://user:secret@here"])
def test_the_url_is_that_of_a_server(run, url):
    result = run("call", "messages", "--watch", "--url", url)
    assert result.exit_code == 2
    assert "--url must be the address of a server" in result.stderr
    assert "secret" not in result.stderr


@pytest.mark.parametrize(
    "more", [["find", "1"], ["-d", "{}"], ["-q", "a=1"], ["--all"], ["--provider", "rest"]]
)
def test_takes_no_other_options(run, more):
    result = run("call", "messages", *more, "--watch")
    assert result.exit_code == 2
    assert "--watch takes a service and an event" in result.stderr


def test_without_it_a_method_is_needed(run):
    result = run("call", "messages")
    assert result.exit_code == 2
    assert "which method? alula call SERVICE METHOD" in result.stderr


def test_ctrl_c_ends_it(run, server, monkeypatch):
    def interrupt(coroutine):
        coroutine.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(asyncio, "run", interrupt)
    assert run("call", "messages", "--watch", "--url", server.url).exit_code == 130


def test_on_a_terminal_it_is_for_readers(run, server, play, monkeypatch, capsys):
    monkeypatch.setenv("NO_COLOR", "1")
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    play(lambda: (server.emit("messages created", {"text": "ä"}), end(server)))
    with pytest.raises(Exception, match="enough"):
        _watch.watch(server.url, "messages", None, None)
    printed = capsys.readouterr()
    assert printed.out == 'created {"text": "ä"}\n'
    assert printed.err == f"watching messages on {server.url}; Ctrl+C ends it\n"
    assert _watch._line_of(ServiceEvent("a", "b", 1)) == "b 1"
