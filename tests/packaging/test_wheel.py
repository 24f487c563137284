"""What a release uploads, installed where nothing else is."""

from __future__ import annotations

import contextlib
import email
import json
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.packaging.built import OUR_FILES, ROOT
from tests.packaging.clean import run
from tests.requirements import absent

import alula

pytestmark = pytest.mark.slow

USE_THE_CORE = """
import asyncio

from alula import App
from alula.adapters.memory import MemoryService
from alula.query import parse

async def main():
    app = App()
    app.use("messages", MemoryService())
    messages = app.service("messages")
    for text in ("one", "two", "three"):
        await messages.create({"text": text})
    query = parse("$select[]=text&$limit=1&$sort[id]=-1")
    print(await messages.find(query=query))

asyncio.run(main())
"""

SERVE = """
import asyncio

from alula import App
from alula.adapters.memory import MemoryService
from alula.express import express, json, rest

async def main():
    app = express(App())
    app.use(json())
    app.configure(rest())
    app.use("messages", MemoryService())
    server = await app.listen(0)
    print(server.port, flush=True)
    await server.wait_closed()

asyncio.run(main())
"""


def install(folder: Path, *arguments: str | Path) -> Path:
    """Make a virtual environment, install into it and return its Python."""
    python = folder / "venv" / "bin" / "python"
    for command in (
        ["-m", "venv", "--without-pip", folder / "venv"],
        ["-m", "pip", "--python", python, "install", "--quiet", *arguments],
    ):
        done = run(sys.executable, *command, cwd=folder)
        if done.returncode:
            raise OSError(done.stderr.strip())
    return python


@pytest.fixture(scope="module")
def core(wheel, tmp_path_factory) -> Path:
    """The Python of an environment with the wheel and nothing else."""
    return install(tmp_path_factory.mktemp("core"), "--no-index", wheel)


@pytest.fixture(scope="module")
def server(wheel, tmp_path_factory) -> Path:
    """The Python of an environment with the wheel and its extra for the web."""
    constraints = ROOT / "requirements" / "constraints.txt"
    folder = tmp_path_factory.mktemp("server")
    try:
        return install(folder, "--constraint", constraints, f"{wheel}[server]")
    except OSError as error:
        last_line = str(error).splitlines()[-1]
        absent(f"no package index, so the wheel is not tried with its extra: {last_line}")


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = email.message_from_bytes(
            archive.read(f"alula-{alula.__version__}.dist-info/METADATA")
        )
    own = {name for name in names if not name.startswith(f"alula-{alula.__version__}.dist-info/")}
    source = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert own == source
    assert "alula/py.typed" in own
    assert f"alula-{alula.__version__}.dist-info/licenses/LICENSE" in names
    assert metadata["Version"] == alula.__version__
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    assert {"server", "all"} <= set(metadata.get_all("Provides-Extra"))
    assert all("extra ==" in line for line in metadata.get_all("Requires-Dist"))
    assert metadata.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_source_archive_can_be_built_from_and_holds_nothing_private(dist):
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {*OUR_FILES[1:], "src/alula/__init__.py"} <= names
    top = {name.partition("/")[0] for name in names}
    assert top <= {*OUR_FILES, "PKG-INFO", ".gitignore"}


def test_the_core_works_alone(core, tmp_path):
    done = run(core, "-W", "error", "-c", USE_THE_CORE, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("[{'text': 'three', 'id': 2}]\n", "")


def test_the_core_names_the_command_that_brings_the_web_layer(core, tmp_path):
    done = run(core, "-c", "import alula.express", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: ")
    assert "pip install 'alula[server]'" in done.stderr.splitlines()[-1]


@contextlib.contextmanager
def serving(python: Path, folder: Path) -> Iterator[str]:
    """Run the little application in a process of its own and give its address."""
    command = [python, "-W", "error", "-c", SERVE]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def test_the_web_layer_serves_with_its_extra(server, tmp_path):
    with serving(server, tmp_path) as base:
        request = urllib.request.Request(
            f"{base}/messages",
            data=b'{"text": "hello"}',
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            created = (answer.status, json.load(answer))
        with urllib.request.urlopen(f"{base}/messages/0", timeout=60) as answer:
            found = (answer.status, json.load(answer))
    assert created == (201, {"text": "hello", "id": 0})
    assert found == (200, {"text": "hello", "id": 0})
