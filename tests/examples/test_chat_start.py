"""``python -m examples.chat``: what it says, what can be copied from there, and how it ends."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from urllib.parse import urlsplit

import jwt
import pytest
from examples.chat.__main__ import DATA
from pymongo import MongoClient
from tests.conformance.serving import ROOT, environment
from tests.examples.serving import SECONDS_TO_END, running_chat, start
from tests.requirements import absent, require_mongod

pytestmark = pytest.mark.slow

SECONDS_TO_END_PROMPTLY = 20
ENDINGS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)


def failure(*arguments, **variables):
    """Start a chat that can not start; return its status and its error lines."""
    process = start(*arguments, **variables)
    said, errors = process.communicate(timeout=SECONDS_TO_END)
    assert said == ""
    assert "Traceback" not in errors
    return process.returncode, errors.splitlines()


@pytest.fixture
def taken_port():
    """A port on which somebody else listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url) as answer:
        return answer.read().decode()


def test_prints_its_address():
    with running_chat("--memory", "--port", "0") as chat:
        assert urlsplit(chat.url).port
        assert chat.said.count(chat.url) == 5
        assert "<title>Alula chat</title>" in get(chat.url)
        assert json.loads(get(f"{chat.url}/messages"))["total"] == 1


@pytest.mark.parametrize("place", ["memory", "mongodb"])
def test_the_curl_lines_work_when_they_are_copied(place, tmp_path):
    if shutil.which("curl") is None or shutil.which("bash") is None:
        absent("no curl or bash on the PATH: the test of the chat's curl lines is left out")
    if place == "mongodb":
        require_mongod()
    kept = ["--memory"] if place == "memory" else ["--data", str(tmp_path)]
    with running_chat(*kept, "--port", "0") as chat:
        lines = re.search(r"^ +curl .+?\n\n", chat.said, re.MULTILINE | re.DOTALL)[0]
        command = ["bash", "-c", lines.replace("curl ", "curl -sS -w '\\n' ")]
        ended = subprocess.run(command, check=True, capture_output=True, timeout=SECONDS_TO_END)
        user, said = map(json.loads, ended.stdout.splitlines())
        assert (said["text"], said["user"]) == ("Hello from curl", user)
        assert json.loads(get(f"{chat.url}/messages/{said['_id']}")) == said
        assert "messages create ok" in chat.stop()


@ENDINGS
def test_a_signal_ends_it_promptly_also_while_a_browser_is_connected(number):
    with running_chat("--memory", "--port", "0") as chat:
        address = urlsplit(chat.url)
        with socket.create_connection((address.hostname, address.port)) as browser:
            browser.sendall(b"GET /users HTTP/1.1\r\nHost: chat\r\n\r\n")
            assert browser.recv(15) == b"HTTP/1.1 200 OK"
            begun = time.monotonic()
            log = chat.stop(number)
            assert time.monotonic() - begun < SECONDS_TO_END_PROMPTLY
        assert chat.process.returncode == 0
        assert "Traceback" not in log


def test_a_port_in_use_is_an_error_of_one_line(taken_port):
    status, errors = failure("--memory", "--port", str(taken_port))
    assert status == 1
    assert errors == [
        f"cannot listen on 127.0.0.1:{taken_port}: Address already in use; choose another port:"
        " make demo PORT=3031, or python -m examples.chat --port 3031"
    ]


def test_the_environment_may_name_the_port(taken_port):
    """As `make demo PORT=3031` does."""
    with running_chat("--memory", PORT="0") as chat:
        assert urlsplit(chat.url).port not in {0, 3030}
    status, errors = failure("--memory", PORT=str(taken_port))
    assert status == 1
    assert f"127.0.0.1:{taken_port}" in errors[0]
    with running_chat("--memory", "--port", "0", PORT=str(taken_port)) as chat:
        assert urlsplit(chat.url).port != taken_port


@pytest.mark.parametrize("port", ["70000", "-1"])
def test_an_invalid_port_is_an_error_of_one_line(port):
    status, errors = failure("--memory", f"--port={port}")
    assert status == 1
    assert errors == [f"cannot listen on the port {port}; a port is a number up to 65535"]


@pytest.mark.parametrize(
    ("arguments", "variables"), [(["--port", "http"], {}), ([], {"PORT": "http"})]
)
def test_a_port_that_is_not_a_number_shows_the_usage(arguments, variables):
    status, errors = failure(*arguments, **variables)
    assert status == 2
    assert errors[-1].endswith("argument --port: invalid int value: 'http'")


def test_an_unknown_host_is_an_error_of_one_line():
    status, (line,) = failure("--port", "0", "--host", "192.0.2.1")
    assert status == 1
    assert line.startswith("cannot listen on 192.0.2.1:0: ")


# -- where it keeps what is said ------------------------------------------------------------------


def texts(chat):
    page = json.loads(get(f"{chat.url}/messages?$sort[createdAt]=1"))
    return [message["text"] for message in page["data"]]


def post(chat, path, data, token=None):
    headers = {"Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(f"{chat.url}/{path}", json.dumps(data).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201
        return json.loads(answer.read())


def say(chat, text, token=None):
    """Say something, as somebody who registers for that; return the token."""
    if token is None:
        account = {"name": f"Somebody who says {text}"[:30], "password": "correct horse"}
        if all(
            user["name"] != account["name"] for user in json.loads(get(f"{chat.url}/users"))["data"]
        ):
            post(chat, "users", account)
        token = post(chat, "authentication", {"strategy": "local", **account})["accessToken"]
    post(chat, "messages", {"text": text}, token)
    return token


def test_in_memory_it_forgets_everything():
    with running_chat("--memory", "--port", "0") as chat:
        assert "\n  It forgets everything when it ends.\n" in chat.said
        say(chat, "Hello")
        chat.stop()
    with running_chat("--memory", "--port", "0") as chat:
        assert len(texts(chat)) == 1


def test_in_a_folder_it_keeps_everything_and_leaves_no_server_behind(tmp_path):
    require_mongod()
    folder = tmp_path / "chat"
    with running_chat("--data", str(folder), "--port", "0") as chat:
        found = re.search(r"\n  It keeps everything in (\S+) \(MongoDB at (\S+)\)\.\n", chat.said)
        assert found[1] == str(folder)
        server = urlsplit(found[2])
        assert server.hostname == "127.0.0.1"
        token = say(chat, "Hello")
        status, errors = failure("--data", str(folder), "--port", "0")
        assert status == 1
        assert errors[-1].startswith(f"another mongod uses {folder} (process ")
        assert "Traceback" not in chat.stop(signal.SIGINT)
        assert chat.process.returncode == 0
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((server.hostname, server.port))
    with running_chat("--data", str(folder), "--port", "0") as chat:
        first, *more = texts(chat)
        assert first.startswith("Welcome")
        assert more == ["Hello"]
        say(chat, "I am signed in still", token)
        assert (tmp_path / "chat.secret").stat().st_mode & 0o077 == 0


def test_the_environment_may_name_the_secret(tmp_path):
    require_mongod()
    folder = tmp_path / "chat"
    secret = "a secret that somebody keeps elsewhere"
    with running_chat("--data", str(folder), "--port", "0", ALULA_SECRET=secret) as chat:
        token = say(chat, "Hello")
    assert not (tmp_path / "chat.secret").exists()
    assert jwt.decode(token, secret, ["HS256"], audience="https://yourdomain.com")["sub"]


def test_in_a_mongodb_of_ones_own_it_keeps_everything(mongodb_url):
    url = urlsplit(mongodb_url)
    with MongoClient(mongodb_url) as client:
        try:
            for expected in (1, 2):
                given = ["--mongodb", url._replace(path="/chat_start").geturl()]
                with running_chat(*given, "--port", "0", ALULA_SECRET="x" * 32) as chat:
                    assert "\n  It keeps everything in the database of --mongodb.\n" in chat.said
                    assert len(texts(chat)) == expected
                    say(chat, "Hello")
                    chat.stop()
            assert client.chat_start.messages.count_documents({}) == 3
        finally:
            client.drop_database("chat_start")


def test_without_a_mongod_it_warns_and_uses_memory(tmp_path):
    program = tmp_path / "mongod"
    program.write_text(
        "#!/bin/sh\necho error while loading shared libraries: libcurl.so.4:\nexit 127\n"
    )
    program.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    with running_chat("--data", str(tmp_path), "--port", "0", PATH=path) as chat:
        line = next(line for line in chat.said.splitlines() if "forgets" in line)
        assert line.startswith("  It forgets everything when it ends: mongod lacks the library")
        assert len(texts(chat)) == 1


def test_without_a_driver_it_warns_and_uses_memory(tmp_path):
    (tmp_path / "pymongo.py").write_text("raise ImportError('none')")
    with running_chat("--port", "0", PYTHONPATH=python_path(tmp_path)) as chat:
        line = next(line for line in chat.said.splitlines() if "forgets" in line)
        assert line.endswith(
            "pymongo, which is not installed; install it with: pip install 'alula[mongodb]'."
        )
        assert len(texts(chat)) == 1


def python_path(folder):
    """Return a PYTHONPATH that begins with a folder."""
    return f"{folder}{os.pathsep}{environment()['PYTHONPATH']}"


def test_only_one_place_can_be_named():
    status, errors = failure("--memory", "--mongodb", "mongodb://db.example")
    assert status == 2
    assert errors[-1].endswith("argument --mongodb: not allowed with argument --memory")


def test_the_folder_of_the_demo_is_no_part_of_the_project():
    assert DATA == ROOT / ".data" / "chat"
    assert ".data/" in (ROOT / ".gitignore").read_text().splitlines()
