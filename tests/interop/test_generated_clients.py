"""Clients that others' generators make of the description: they compile, and their calls arrive.

The application is the one that `alula new` writes, as it is and below the prefix of a proxy.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urljoin
from urllib.request import urlopen

import pytest
from tests.requirements import GENERATED_CLIENTS, require_client_generators, require_node

pytestmark = [pytest.mark.slow, pytest.mark.untraced]

COMPILER_OPTIONS = {
    "strict": True,
    "target": "es2022",
    "module": "esnext",
    "moduleResolution": "bundler",
    "outDir": "out",
    "skipLibCheck": True,
    "types": ["node"],
}


@pytest.fixture(scope="module", params=["", "/shop"], ids=["at the root", "below a prefix"])
def server(request, tmp_path_factory):
    """The URL of the description of a running application."""
    require_client_generators()
    folder = tmp_path_factory.mktemp("application")
    alula = "from alula._cli import main; main()"
    options = ["--database", "sqlite", "--authentication", "--files", "--no-realtime", "--yes"]
    run([sys.executable, "-c", alula, "new", "shop", *options], folder)
    command = [sys.executable, GENERATED_CLIENTS / "serve.py", request.param]
    environment = {**os.environ, "PYTHONPATH": str(folder / "shop")}
    process = subprocess.Popen(
        command, cwd=folder / "shop", env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        port = int(process.stdout.readline())
        yield f"http://127.0.0.1:{port}{request.param}/openapi.json"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def base(server, tmp_path):
    """The URL that the description names; the description is in the file openapi.json."""
    with urlopen(server) as response:
        description = json.load(response)
    (tmp_path / "openapi.json").write_text(json.dumps(description))
    (entry,) = description["servers"]
    return urljoin(server, entry["url"]).rstrip("/")  # as the standard has it


def run(command, folder):
    done = subprocess.run(
        command,
        check=False,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def compile_and_run(name, folder, base):
    node, (programs, _) = require_node(), require_client_generators()
    shutil.copy(GENERATED_CLIENTS / name, folder)
    (folder / "node_modules").symlink_to(GENERATED_CLIENTS / "node_modules")
    (folder / "package.json").write_text('{"type": "module"}')
    configuration = {"compilerOptions": COMPILER_OPTIONS, "include": [name]}
    (folder / "tsconfig.json").write_text(json.dumps(configuration))
    run([programs / "tsc"], folder)
    loader = f"--import={GENERATED_CLIENTS / 'resolve.mjs'}"
    run([node, loader, Path("out") / f"{Path(name).stem}.js", base], folder)


def test_openapi_typescript(base, tmp_path):
    programs, _ = require_client_generators()
    run([programs / "openapi-typescript", "openapi.json", "-o", "schema.d.ts"], tmp_path)
    compile_and_run("fetch_client.ts", tmp_path, base)


def test_hey_api(base, tmp_path):
    programs, _ = require_client_generators()
    run([programs / "openapi-ts", "-i", "openapi.json", "-o", "hey"], tmp_path)
    compile_and_run("hey_client.ts", tmp_path, base)


def test_openapi_python_client(base, tmp_path):
    _, programs = require_client_generators()
    command = [programs / "openapi-python-client", "generate", "--meta", "none"]
    output = run([*command, "--path", "openapi.json", "--output-path", "generated"], tmp_path)
    assert "Unable to parse" not in output  # such a part is left out
    shutil.copy(GENERATED_CLIENTS / "python_client.py", tmp_path)
    # The program alone: of what the generator writes, mypy finds mistakes of the generator.
    run([programs / "mypy", "--follow-imports=silent", "python_client.py"], tmp_path)
    run([programs / "python", "python_client.py", base], tmp_path)
