"""Every part of the tutorial, followed to the letter: its files, its commands, its page."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from tests.conformance.serving import environment
from tests.docs.test_code_blocks import ROOT
from tests.requirements import absent

PARTS = sorted((ROOT / "docs").glob("tutorial*.md"), key=lambda path: path.stem)
SERVED = [part for part in PARTS if "app.run(3030)" in part.read_text(encoding="utf-8")]
NAMED = re.compile(r"^`([\w/]+\.\w+)`:\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(\$ .*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.+)\n((?:(?!\$ ).+\n)*)", re.MULTILINE)
SECONDS = 60
END = "--- end of a command ---"


def files_of(text: str) -> dict[str, str]:
    """Return the files that a part shows, by their names."""
    return dict(NAMED.findall(text))


def commands_of(text: str) -> list[tuple[str, str]]:
    """Return the commands that a part shows with a prompt, and what they print."""
    return [found for block in CONSOLE.findall(text) for found in COMMAND.findall(block)]


@pytest.fixture(params=SERVED, ids=lambda part: part.stem)
def part(request: pytest.FixtureRequest) -> str:
    return request.param.read_text(encoding="utf-8")


@pytest.fixture
def port(part: str, tmp_path: Path) -> Iterator[str]:
    """Where the program of a part runs, which this starts."""
    for name, code in files_of(part).items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(code.replace("app.run(3030)", "app.run(0)"), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-u", "app.py"],
        cwd=tmp_path,
        env={**environment(), "ALULA_SECRET": "a secret for this test, and 32 bytes"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        listening = process.stdout.readline()
        found = re.search(r":(\d+)$", listening)
        assert found, f"{listening!r} {process.stderr.read() if not listening else ''}"
        yield found[1]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=SECONDS)
        assert "Traceback" not in errors
    finally:
        process.kill()
        process.communicate()


def test_the_commands_print_what_the_part_shows(part: str, port: str) -> None:
    """In one shell, since later commands use variables and records of earlier ones."""
    if shutil.which("curl") is None or shutil.which("bash") is None:
        absent("no curl or bash on the PATH: the commands of the tutorial are left out")
    commands = commands_of(part)
    assert commands
    lines = [f"{command}\necho; echo '{END}'" for command, _ in commands]
    script = "\n".join(lines).replace("localhost:3030", f"127.0.0.1:{port}")
    ended = subprocess.run(
        ["bash", "-eu", "-c", script.replace("curl ", "curl -sS ")],
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert ended.returncode == 0, ended.stderr
    printed = [text.strip() for text in ended.stdout.split(END)[:-1]]
    assert printed == [output.strip() for _, output in commands]


def test_the_tests_of_the_last_part_pass(tmp_path: Path) -> None:
    text = PARTS[-1].read_text(encoding="utf-8")
    for name, code in files_of(text).items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "anyio"],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"```text\n(\d passed)\n", text)[1] in done.stdout


def test_each_part_leads_to_the_next() -> None:
    for part, following in pairwise(PARTS):
        assert f"]({following.name})" in part.read_text(encoding="utf-8")
