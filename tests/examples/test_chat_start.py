"""``python -m examples.chat``: what it says, what can be copied from there, and how it ends."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from urllib.parse import urlsplit

import pytest
from tests.examples.serving import SECONDS_TO_END, running_chat, start
from tests.requirements import absent

SECONDS_TO_END_PROMPTLY = 5
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


def test_says_where_it_is():
    with running_chat("--port", "0") as chat:
        assert urlsplit(chat.url).port
        assert chat.said.count(chat.url) == 3
        assert "<title>Alula chat</title>" in get(chat.url)
        assert json.loads(get(f"{chat.url}/messages"))["total"] == 1


def test_the_curl_lines_work_when_they_are_copied():
    if shutil.which("curl") is None or shutil.which("bash") is None:
        absent("no curl or bash on the PATH: the test of the chat's curl lines is left out")
    with running_chat("--port", "0") as chat:
        lines = re.search(r"^ +curl (.+\\\n)*.+\n", chat.said, re.MULTILINE)[0]
        command = ["bash", "-c", lines.replace("curl ", "curl -sS ", 1)]
        ended = subprocess.run(command, check=True, capture_output=True, timeout=SECONDS_TO_END)
        assert json.loads(ended.stdout)["text"] == "Hello from curl"
        assert json.loads(get(f"{chat.url}/messages/2")) == json.loads(ended.stdout)
        assert "messages create ok" in chat.stop()


@ENDINGS
def test_a_signal_ends_it_promptly_also_while_a_browser_is_connected(number):
    with running_chat("--port", "0") as chat:
        address = urlsplit(chat.url)
        with socket.create_connection((address.hostname, address.port)) as browser:
            browser.sendall(b"GET /users HTTP/1.1\r\nHost: chat\r\n\r\n")
            assert browser.recv(15) == b"HTTP/1.1 200 OK"
            begun = time.monotonic()
            log = chat.stop(number)
            assert time.monotonic() - begun < SECONDS_TO_END_PROMPTLY
        assert chat.process.returncode == 0
        assert "Traceback" not in log


def test_a_port_that_is_taken_is_told_in_a_line(taken_port):
    status, errors = failure("--port", str(taken_port))
    assert status == 1
    assert errors == [
        f"can not listen on 127.0.0.1:{taken_port}: Address already in use; choose another port:"
        " make demo PORT=3031, or python -m examples.chat --port 3031"
    ]


def test_the_environment_may_name_the_port(taken_port):
    """As `make demo PORT=3031` does."""
    with running_chat(PORT="0") as chat:
        assert urlsplit(chat.url).port not in {0, 3030}
    status, errors = failure(PORT=str(taken_port))
    assert status == 1
    assert f"127.0.0.1:{taken_port}" in errors[0]
    with running_chat("--port", "0", PORT=str(taken_port)) as chat:
        assert urlsplit(chat.url).port != taken_port


@pytest.mark.parametrize("port", ["70000", "-1"])
def test_a_number_that_is_no_port_is_told_in_a_line(port):
    status, errors = failure(f"--port={port}")
    assert status == 1
    assert errors == [f"can not listen on the port {port}; a port is a number up to 65535"]


@pytest.mark.parametrize(
    ("arguments", "variables"), [(["--port", "http"], {}), ([], {"PORT": "http"})]
)
def test_a_word_that_is_no_port_is_told_with_the_usage(arguments, variables):
    status, errors = failure(*arguments, **variables)
    assert status == 2
    assert errors[-1].endswith("argument --port: invalid int value: 'http'")


def test_a_host_that_is_not_here_is_told_in_a_line():
    status, (line,) = failure("--port", "0", "--host", "192.0.2.1")
    assert status == 1
    assert line.startswith("can not listen on 192.0.2.1:0: ")
