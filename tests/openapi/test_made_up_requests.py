"""Requests that schemathesis makes up from descriptions: no answer contradicts its description.

What fails on purpose is left out. Each operation gets 10 requests in this process, see `made_up`,
and 200 before a release; some sequences of requests go over the network. `make fuzz` sends 10,000
over the network.
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
from tests.conformance.reference_app import make_apps, reset
from tests.conformance.serving import environment, reference_server
from tests.express.serving import living
from tests.openapi.described import make_app
from tests.requirements import require_schemathesis

from alula.openapi import describe

ROOT = Path(__file__).parents[2]
FUZZ = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
EXAMPLES = [10, pytest.param(200, marks=pytest.mark.release)]
FUZZ_EXAMPLES = 10_000
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
SECRET = "made up for the requests that are made up"
FAILS_ON_PURPOSE = (
    "/calc",
    "/nothing",
    "/custom-http",
    "/hooked",
    "/after-mw",
    # Those of real time fail with other data than the recorded cases send.
    "/control",
    "/masked",
    "/membership",
    "/published",
    "/quiet",
    "/slow",
    "/ticker",
    "/values",
)

pytestmark = [pytest.mark.slow, pytest.mark.hypothesis, pytest.mark.untraced]


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
    document = _without_failures(describe(make_apps()[0]))
    with reference_server() as bases:
        yield document, bases.main, "t0ken"


def _without_failures(document):
    paths = document["paths"].items()
    kept = {path: item for path, item in paths if not path.startswith(FAILS_ON_PURPOSE)}
    return {**document, "paths": kept}


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


def nothing() -> None:
    """Renew nothing."""


def described_app():
    return (app := make_app()), describe(app), "t0ken", nothing


def reference_app():
    main, second = make_apps()
    document = _without_failures(describe(main))
    return main, document, "t0ken", lambda: reset(main, second)


def chat_app():
    app = make_chat(secret=SECRET)
    token = app.service("authentication").service.create_access_token({}, "1")
    return app, describe(app), token, nothing


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("make", [described_app, reference_app, chat_app])
async def test_no_answer_contradicts_the_description(make, examples):
    require_schemathesis()
    from tests.openapi.made_up import ask, groups  # schemathesis may be missing

    app, document, token, renew = make()
    async with living(app):
        asked = await ask(app, document, examples, CHECKS, token=token, renew=renew)
    assert not asked.failures, "\n\n".join(asked.failures[:10])
    every = {operation.label for each in groups(document) for operation in each}
    assert asked.counts.keys() == every
    assert min(asked.counts.values()) >= examples
    assert asked.statuses[200] >= examples  # it has not only asked for nonsense


@pytest.mark.parametrize("serve", [described, reference, chat] if FUZZ else [described])
def test_no_answer_over_the_network_does(serve, tmp_path):
    command = require_schemathesis()
    with serve() as (document, url, token):
        (tmp_path / "openapi.json").write_text(json.dumps(document))
        arguments = {
            "--url": url,
            "--checks": ",".join(CHECKS),
            "--phases": "fuzzing,stateful",
            "--max-examples": str(FUZZ_EXAMPLES if FUZZ else 5),
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
