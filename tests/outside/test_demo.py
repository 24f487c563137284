"""`make demo`, as the README says it: in a fresh clone, with an environment of its own.

It runs on a PATH without the programs that only some tests need (`scripts/bare`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from tests.outside.environments import ROOT, variables
from tests.requirements import absent, require_mongod

pytestmark = pytest.mark.slow

SECONDS_TO_INSTALL = 280
SECONDS_TO_END = 30
ACCOUNT = {"name": "Ada", "password": "correct horse"}


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """A clone of the last commit."""
    folder = tmp_path_factory.mktemp("clone") / "alula"
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        absent("no clone of the project: what a fresh clone does is left out")
    command = ["git", "clone", "--quiet", str(ROOT), str(folder)]
    subprocess.run(command, check=True, timeout=SECONDS_TO_INSTALL)
    return folder


@contextmanager
def demo(clone: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `make demo` in a group of its own, as a terminal does, and yield the chat's address."""
    log = clone / "demo.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [ROOT / "scripts" / "bare", "make", "demo"],
            cwd=clone,
            env=variables(PORT="0"),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
    try:
        yield address(process, log), process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def address(process: subprocess.Popen[str], log: Path) -> str:
    """Wait until the chat says where it is."""
    for _ in range(SECONDS_TO_INSTALL * 10):
        found = re.search(r"The chat is at +(http://\S+)", said := log.read_text())
        if found and "Ctrl+C stops it" in said:
            return found[1]
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
        break
    raise AssertionError(f"the demo did not start:\n{log.read_text()}")


def stop(process: subprocess.Popen[str], number: int) -> None:
    """Send a signal to all of the group, as Ctrl+C does, and wait until all have ended."""
    os.killpg(process.pid, number)
    process.wait(SECONDS_TO_END)
    end = time.monotonic() + SECONDS_TO_END
    while time.monotonic() < end:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError(f"something of the demo still runs {SECONDS_TO_END} s after the signal")


def send(url: str, data: Any = None, token: str | None = None) -> tuple[int, Any]:
    """Send a request as a front end does; return its status, and its JSON or its text."""
    headers = {"Content-Type": "application/json"} if data is not None else {}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    body = None if data is None else json.dumps(data).encode()
    with urlopen(Request(url, body, headers), timeout=SECONDS_TO_END) as answer:
        text = answer.read().decode()
        kind = answer.headers.get_content_type()
        return answer.status, json.loads(text) if kind == "application/json" else text


def test_a_stranger_registers_signs_in_and_writes(clone):
    with demo(clone) as (url, process):
        status, page = send(url)
        assert status == 200
        assert "<title>" in page
        assert send(f"{url}/users", ACCOUNT)[0] == 201
        status, signed_in = send(f"{url}/authentication", {"strategy": "local", **ACCOUNT})
        assert status == 201
        token = signed_in["accessToken"]
        status, message = send(f"{url}/messages", {"text": "Hello"}, token)
        assert (status, message["text"], message["user"]["name"]) == (201, "Hello", "Ada")
        stop(process, signal.SIGINT)

    require_mongod()  # without it the chat forgets
    with demo(clone) as (url, process):
        status, page = send(f"{url}/messages?$sort[createdAt]=-1&$limit=1")
        assert (status, page["data"]) == (200, [message])
        stop(process, signal.SIGTERM)
