"""The servers that the client is tried on, and clients of every kind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.client.kinds import KINDS, Kind
from tests.client.realtime_app import realtime_app, serve_in_thread
from tests.conformance.serving import reference_server
from tests.requirements import require_node, require_node_modules

HERE = Path(__file__).parent
SEED = HERE.parent / "conformance" / "seed.json"
PACKAGES = (
    "@feathersjs/authentication",
    "@feathersjs/authentication-local",
    "@feathersjs/errors",
    "@feathersjs/express",
    "@feathersjs/feathers",
    "@feathersjs/memory",
)
SECONDS_TO_END = 30


@pytest.fixture(scope="session")
def alula_url():
    """The address of Alula's reference app."""
    with reference_server() as bases:
        yield bases.main


@pytest.fixture(scope="session")
def feathers_url():
    """The address of an application of FeathersJS itself."""
    packages = require_node_modules(*PACKAGES)
    command = [require_node(), str(HERE / "feathers.mjs"), str(packages), str(SEED)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process.stdout.readline().strip()
            process.stdin.close()
            process.wait(SECONDS_TO_END)
        finally:
            process.kill()


@pytest.fixture(scope="session")
def feathers_realtime_url(feathers_url):
    """The same, where it has real time."""
    require_node_modules("@feathersjs/socketio")
    return feathers_url


@pytest.fixture(scope="session")
def alula_realtime_url():
    """The address of the same services in Alula, with real time."""
    with serve_in_thread(realtime_app(SEED)) as url:
        yield url


@pytest.fixture(scope="session")
def faulty_url():
    """The address of a server whose paths say what goes wrong."""
    command = [sys.executable, "-m", "tests.client.faulty_server"]
    with subprocess.Popen(
        command, cwd=HERE.parents[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process.stdout.readline().strip()


@pytest.fixture(params=["alula", "feathers"])
def url(request):
    """The address of each server in turn."""
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture(params=KINDS, ids=str)
def kind(request) -> Kind:
    """Each kind of client in turn."""
    return request.param


@pytest.fixture
async def client(url, kind):
    """A client of each kind for each server."""
    async with kind.client(url) as client:
        yield client
