"""Requests that schemathesis makes up from descriptions: no answer contradicts its description.

What fails on purpose is left out. `make fuzz` asks 10,000 times for each operation.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from examples.chat.app import make_app as make_chat
from tests.conformance.reference_app import make_apps
from tests.conformance.serving import environment, reference_server
from tests.openapi.described import make_app
from tests.requirements import require_schemathesis

from alula.openapi import describe

ROOT = Path(__file__).parents[2]
FUZZ = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
EXAMPLES = 10_000
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
SECRET = "made up for the requests that are made up"
FAILS_ON_PURPOSE = ("/calc", "/nothing", "/custom-http", "/hooked", "/after-mw")

pytestmark = [pytest.mark.slow, pytest.mark.hypothesis]


@contextmanager
def described():
    """Serve an application with a service of every kind; yield it as all of these do.

    That is its description, its address, and a token.
    """
    command = [sys.executable, "-m", "tests.openapi.described"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield describe(make_app()), process.stdout.readline().strip(), "t0ken"
        finally:
            process.kill()


@contextmanager
def reference():
    """Serve the reference application."""
    document = describe(make_apps()[0])
    paths = document["paths"].items()
    document["paths"] = {
        path: item for path, item in paths if not path.startswith(FAILS_ON_PURPOSE)
    }
    with reference_server() as bases:
        yield document, bases.main, "t0ken"


@contextmanager
def chat():
    """Serve the example chat, where the guide, its first user, is signed in."""
    app = make_chat(secret=SECRET)
    token = app.service("authentication").service.create_access_token({}, "1")
    command = [sys.executable, "-m", "examples.chat", "--memory", "--port", "0"]
    variables = {**environment(), "ALULA_SECRET": SECRET}
    quiet = subprocess.DEVNULL  # it logs each call
    with subprocess.Popen(
        command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, stderr=quiet, text=True
    ) as process:
        try:
            ready = next(line for line in process.stdout if "chat is at" in line)
            yield describe(app), ready.split()[-1], token
        finally:
            process.kill()


@pytest.mark.parametrize(("serve", "examples"), [(described, 20), (reference, 5), (chat, 20)])
def test_no_answer_contradicts_the_description(serve, examples, tmp_path):
    command = require_schemathesis()
    with serve() as (document, url, token):
        (tmp_path / "openapi.json").write_text(json.dumps(document))
        arguments = {
            "--url": url,
            "--checks": ",".join(CHECKS),
            "--phases": "fuzzing,stateful",
            "--max-examples": str(EXAMPLES if FUZZ else examples),
            "--header": f"Authorization: Bearer {token}",
        }
        given = [part for pair in arguments.items() for part in pair]
        given += ["--generation-database", ":memory:"] if FUZZ else ["--generation-deterministic"]
        ended = subprocess.run(
            [command, "run", "openapi.json", *given, "--no-color"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert " generated, " in ended.stdout  # it has asked at all
