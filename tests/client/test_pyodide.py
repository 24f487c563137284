"""The client in Pyodide: under Node, and in a browser on a page that Alula serves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.client.raw_server import STALL, raw_server
from tests.conformance.serving import environment
from tests.interop.node_script import assert_passed, run_checks
from tests.requirements import require_chromium, require_node_modules

import alula

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
CHECKED = HERE / "pyodide_checks.py"
STALLS = 3
CHECKS = (
    "creates_and_finds",
    "custom_methods",
    "streams",
    "errors_come_back",
    "all_pages",
    "signs_in",
    "a_server_that_is_away",
    "a_signal_gives_up",
    "cancelling_gives_up",
    "a_limit_of_time_holds",
    "nothing_blocks",
)


@pytest.fixture(scope="module")
def page_url():
    pyodide = require_node_modules("pyodide") / "pyodide"
    command = [sys.executable, "-m", "tests.client.page", str(pyodide)]
    with subprocess.Popen(
        command,
        cwd=HERE.parents[1],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process.stdout.readline().strip()
            process.stdin.close()
            assert process.wait(30) == 0
        finally:
            process.kill()


@pytest.fixture(scope="module")
def outcomes_of(page_url):
    found = {}

    def outcomes_of(place):
        if place == "chromium":
            require_chromium()
        if place not in found:
            found[place] = {}  # a script that breaks is not run again for each of its checks
            with raw_server(*[STALL] * STALLS) as stalling:
                found[place] = run_in(place, page_url, stalling.url)
                # All three ended their connections, otherwise the server could not be closed.
                assert len(stalling.requests) == STALLS
        return found[place]

    return outcomes_of


def run_in(place, url, stalling):
    if place == "node":
        script, source = HERE / "pyodide_node.mjs", Path(alula.__file__).parents[1]
        return run_checks(script, ("pyodide",), str(source), str(CHECKED), f"{url}/api", stalling)
    script, packages = HERE / "pyodide_browser.mjs", ("pyodide", "playwright-core")
    return run_checks(script, packages, str(CHECKED), url, stalling, require_chromium())


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("place", ["node", "chromium"])
def test_the_client_works(place, check, outcomes_of):
    assert_passed(outcomes_of(place), check)


@pytest.mark.parametrize("place", ["node", "chromium"])
def test_no_check_runs_that_is_not_listed(place, outcomes_of):
    assert tuple(outcomes_of(place)) == CHECKS
