"""The player sends what is written, and keeps what later steps need."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from tests.conformance.replay import Bases, Case, bases_of, load, play, substitute, values_of
from tests.conformance.serving import ROOT, environment
from tests.conformance.wire import Reply, body_of, send


@contextmanager
def listener(*answers):
    """Answer requests with the given bytes, and yield an address and what was received."""
    received = []
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(30)

    def serve():
        for answer in answers:
            connection, _ = server.accept()
            with connection:
                data = connection.recv(100_000)
                while b"\r\n\r\n" not in data:
                    data += connection.recv(100_000)
                received.append(data)
                connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}", received
    finally:
        thread.join(30)
        server.close()


OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
RESET = b"HTTP/1.1 204 No Content\r\n\r\n"


def answer(value):
    body = json.dumps(value).encode()
    return OK % (len(body), body)


@pytest.mark.parametrize("path", ["/a/../b", "//a", "/%7e%2F", "/a?[b]=\xfc", "http://x/a", "*"])
def test_sends_the_target_as_it_is(path):
    with listener(answer(1)) as (base, received):
        assert send(base, "GET", path).json() == 1
    assert received[0].startswith(f"GET {path} HTTP/1.1\r\n".encode("latin-1"))


def test_sends_a_length_where_a_body_is_usual():
    with listener(answer(1), answer(1), answer(1)) as (base, received):
        send(base, "GET", "/")
        send(base, "POST", "/")
        send(base, "DELETE", "/", {}, b"ab")
    assert b"content-length" not in received[0].lower()
    assert b"Content-Length: 0\r\n" in received[1]
    assert b"Content-Length: 2\r\n" in received[2]
    assert received[2].endswith(b"\r\n\r\nab")


def test_sends_chunks_where_the_headers_say_so():
    with listener(answer(1)) as (base, received):
        send(base, "POST", "/", {"transfer-encoding": "chunked"}, b"abc")
    assert received[0].endswith(b"\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    assert b"content-length" not in received[0].lower()


def test_joins_headers_of_one_name():
    reply = b"HTTP/1.1 200 OK\r\nVary: A\r\nvary: B\r\nContent-Length: 0\r\n\r\n"
    with listener(reply) as (base, _):
        assert send(base, "GET", "/").headers["vary"] == "A, B"


@pytest.mark.parametrize(
    ("request_", "body"),
    [
        ({}, None),
        ({"body": {"a": "ü"}}, '{"a":"ü"}'.encode()),
        ({"body": None}, b"null"),
        ({"rawBody": "ü"}, "ü".encode()),
        ({"rawBody": ""}, b""),
        ({"rawBody": {"$repeat": ["<", "ab", 2, ">"]}}, b"<abab>"),
        ({"rawBody": {"$base64": "AP8="}}, b"\x00\xff"),
    ],
)
def test_reads_bodies(request_, body):
    assert body_of(request_) == body


def test_replaces_saved_values():
    saved = {"id": 5, "name": "x"}
    value = {"a": "{{id}}", "{{name}}": ["/people/{{id}}/{{name}}"], "b": "{{other}}!"}
    assert substitute(value, saved) == {"a": 5, "x": ["/people/5/x"], "b": "{{other}}!"}


def test_saves_parts_of_an_answer():
    reply = Reply(201, {"etag": "t"}, '{"a":[{"b":7}]}')
    wanted = {"b": "body.a.0.b", "tag": "headers.etag", "code": "status", "no": "body.x.y"}
    assert values_of(wanted, reply) == {"b": 7, "tag": "t", "code": 201, "no": None}
    assert values_of({"b": "body.a"}, Reply(200, {}, "<html>")) == {"b": None}


STEP = {"request": {"method": "GET", "path": "/"}, "response": {"status": 200, "body": {"id": 5}}}
NEXT = {"request": {"method": "GET", "path": "/{{id}}"}, "response": {"status": 200, "body": 5}}


def test_plays_the_steps_of_a_case_in_order():
    case = Case("area", "name", [{**STEP, "save": {"id": "body.id"}}, NEXT])
    with listener(RESET, answer({"id": 5}), answer(5)) as (base, received):
        assert play(case, bases_of(base)) == []
    starts = [data.split(b" HTTP")[0] for data in received]
    assert starts == [b"POST /__reset", b"GET /", b"GET /5"]


def test_stops_at_the_first_step_that_differs():
    case = Case("area", "name", [STEP, NEXT])
    with listener(RESET, answer({"id": 6})) as (base, _):
        assert play(case, bases_of(base)) == ["step 1: GET /", "body.id: expected 5, got 6"]


def test_a_server_that_cannot_be_reset_differs():
    with listener(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n") as (base, _):
        assert play(Case("area", "name", [STEP]), bases_of(base)) == ["POST /__reset answered 404"]


def test_sends_steps_of_the_second_app_to_it():
    step = {"request": {**STEP["request"], "app": 2}, "response": {"status": 200}}
    with listener(RESET) as (main, _), listener(answer(1)) as (second, received):
        assert play(Case("area", "name", [step]), Bases(main, second)) == []
    assert len(received) == 1


def test_the_second_app_has_the_next_port():
    assert bases_of("http://localhost:3030").second == "http://localhost:3031"
    assert bases_of("http://localhost:3030", "http://x").second == "http://x"


def test_loads_cases(tmp_path):
    cases = [{"name": "one", "steps": [STEP]}, {"name": "two", "steps": [], "quirk": "why"}]
    (tmp_path / "b.json").write_text(json.dumps({"area": "b", "cases": cases}))
    assert list(load([tmp_path])) == [
        Case("b", "one", [STEP], None),
        Case("b", "two", [], "why"),
    ]


def run(*arguments):
    command = [sys.executable, "-m", "tests.conformance.replay", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )


def test_the_command_prints_what_differs(reference, tmp_path):
    step = {"request": {"method": "GET", "path": "/echo"}, "response": {"status": 200}}
    wrong = {**step, "response": {"status": 418}}
    cases = [
        {"name": "right", "steps": [step]},
        {"name": "wrong", "steps": [wrong]},
        {"name": "odd", "steps": [wrong], "quirk": "why"},
    ]
    (tmp_path / "b.json").write_text(json.dumps({"area": "b", "cases": cases}))
    folder = ["--folder", str(tmp_path)]
    done = run(reference.main, *folder)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "b > wrong",
        "    step 1: GET /echo",
        "    status: expected 418, got 200",
        "1 cases as recorded, 1 cases that differ, 1 quirks that differ",
    ]
    assert run(reference.main, *folder, "--case", "right").returncode == 0
    assert run(reference.main, *folder, "--only", "other").stdout == "\n"
    assert run(reference.main, *folder, "--case", "odd", "--quirks").returncode == 1
    assert "no answer" in run("http://127.0.0.1:1", *folder).stdout
