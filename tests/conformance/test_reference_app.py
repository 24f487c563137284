"""The reference app as a command, and its control endpoints."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys

import pytest
from pymongo import MongoClient
from tests.conformance.serving import ROOT, environment, free_ports, unexpected_errors
from tests.conformance.wire import send

JSON = {"content-type": "application/json"}


def start(*arguments):
    command = [sys.executable, "-m", "tests.conformance.reference_app", *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment(), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.parametrize("signal_", [signal.SIGTERM, signal.SIGINT])
def test_prints_when_it_is_ready_and_ends_on_a_signal(signal_):
    port = free_ports()
    with start("--port", str(port)) as process:
        line = process.stdout.readline()
        assert send(f"http://127.0.0.1:{port}", "GET", "/echo").status == 200
        assert send(f"http://127.0.0.1:{port + 1}", "GET", "/echo").status == 200
        process.send_signal(signal_)
        rest, errors = process.communicate(timeout=60)
    assert f":{port}" in line
    assert f":{port + 1}" in line
    assert (rest, errors, process.returncode) == ("", "", 0)


def test_fills_a_database_of_its_own_and_drops_it(mongodb_url):
    port = free_ports()
    with MongoClient(mongodb_url) as client:
        with start("--port", str(port), "--mongodb", mongodb_url) as process:
            assert process.stdout.readline()
            base = f"http://127.0.0.1:{port}"
            assert send(base, "GET", "/pages?$limit=0").json()["total"] == 15
            assert send(base, "DELETE", "/pages/64b00000000000000000f001").status == 200
            assert send(base, "GET", "/pages?$limit=0").json()["total"] == 14
            assert send(base, "POST", "/__reset").status == 204
            assert send(base, "GET", "/pages?$limit=0").json()["total"] == 15
            process.terminate()
            _, errors = process.communicate(timeout=60)
        assert (errors, process.returncode) == ("", 0)
        assert f"alula_conformance_{port}" not in client.list_database_names()


def test_an_unreachable_database_is_an_error():
    url = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100"
    with start("--port", str(free_ports()), "--mongodb", url) as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "127.0.0.1:1" in errors


def test_a_taken_port_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with start("--port", str(port)) as process:
            _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert str(port) in errors


def post(base, path, value):
    return send(base, "POST", path, JSON, json.dumps(value).encode())


def test_a_reset_puts_both_apps_back(reference):
    send(reference.main, "DELETE", "/messages")
    send(reference.second, "DELETE", "/items/1")
    post(reference.main, "/at-memory", {"name": "A"})
    assert send(reference.main, "POST", "/__reset").status == 204
    assert send(reference.main, "GET", "/messages").json()["total"] == 55
    assert len(send(reference.second, "GET", "/items").json()["wrapped"]) == 2
    assert send(reference.main, "GET", "/at-memory").json() == []
    assert post(reference.main, "/at-memory", {"name": "A"}).json()["id"] == 1


def test_options_hold_until_the_reset(reference):
    send(reference.main, "POST", "/__reset")
    base = reference.main
    paginate = {"default": 1, "max": 2}
    assert post(base, "/__options", {"path": "at-memory", "multi": True}).status == 204
    assert post(base, "/__options", {"path": "at-memory", "paginate": paginate}).status == 204
    assert len(post(base, "/at-memory", [{"name": "A"}, {"name": "B"}]).json()) == 2
    page = send(base, "GET", "/at-memory").json()
    assert (page["total"], page["limit"], len(page["data"])) == (2, 1, 1)
    assert post(base, "/__options", {"path": "at-memory", "paginate": False}).status == 204
    assert len(send(base, "GET", "/at-memory").json()) == 2
    send(base, "POST", "/__reset")
    assert post(base, "/at-memory", [{"name": "A"}]).status == 405


def test_queries_get_the_types_of_the_fields(reference):
    base = reference.main
    send(base, "POST", "/__reset")
    post(base, "/at-memory", {"name": "A", "age": 9, "created": True})
    post(base, "/at-memory", {"name": "B", "age": 10})

    def names(query):
        return [record["name"] for record in send(base, "GET", f"/at-memory?{query}").json()]

    assert names("age=9") == ["A"]
    assert names("age[$gt]=9") == ["B"]
    assert names("created=true") == ["A"]
    assert names("id[$in][]=2") == ["B"]
    assert names("$or[0][age]=10&$or[1][name]=A") == ["A", "B"]
    assert names("$and[0][$or][0][age]=9") == ["A"]
    assert send(base, "GET", "/at-memory?age=old").status == 400
    assert send(base, "GET", "/at-memory?created=yes").status == 400


def test_errors_that_are_not_raised_on_purpose_are_found_in_a_log():
    stack = 'Traceback (most recent call last):\n  File "x.py", line 1, in y\n    z()\n'
    log = f"started\n{stack}RuntimeError: Plain failure\n{stack}KeyError: 'a'\nended\n"
    assert unexpected_errors(log) == ["KeyError: 'a'"]
