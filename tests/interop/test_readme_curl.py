"""The example of the README: its application runs, and its curl lines answer what stands there."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conformance.serving import environment
from tests.requirements import absent

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
APPLICATION = re.search(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)[1]
CONSOLE = re.search(r"^```console\n(\$ curl.*?)^```", README, re.MULTILINE | re.DOTALL)[1]
EXCHANGES = re.findall(r"^\$ (.+)\n((?:(?!\$ ).+\n)*)", CONSOLE, re.MULTILINE)
PORT = "3030"

SECONDS_TO_ANSWER = 30


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """The application of the README on a free port: the port and the process."""
    script = tmp_path_factory.mktemp("readme") / "app.py"
    script.write_text(APPLICATION.replace(f"app.run({PORT})", "app.run(0)"), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-u", script.name],
        cwd=script.parent,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        listening = process.stdout.readline()
        port = re.search(r":(\d+)$", listening)
        assert port, f"{listening!r} {process.stderr.read() if not listening else ''}"
        yield port[1], process
    finally:
        process.kill()
        process.communicate()


def run_in_a_shell(line: str, port: str) -> str:
    """Run a line as somebody would who copies it, but for the port."""
    if shutil.which("curl") is None or shutil.which("bash") is None:
        absent("no curl or bash on the PATH: the test of the README's curl lines is left out")
    line = line.replace(f"localhost:{PORT}", f"127.0.0.1:{port}").replace("curl ", "curl -sS ", 1)
    command = ["bash", "-c", line]
    ended = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=SECONDS_TO_ANSWER
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_readme_starts_the_application_and_calls_it():
    assert f"app.run({PORT})" in APPLICATION
    assert len(EXCHANGES) == 3
    assert all(f"localhost:{PORT}/" in line and answer for line, answer in EXCHANGES)


def test_the_curl_lines_answer_what_stands_there(running):
    """In one test: the second shows what the first has created."""
    port, _ = running
    for line, answer in EXCHANGES:
        assert run_in_a_shell(line, port) == answer.rstrip("\n"), line


def test_the_application_ends_on_a_signal(running):
    _, process = running
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=SECONDS_TO_ANSWER)
    assert process.returncode == 0
    assert "Traceback" not in errors
