"""The page of a generated application in Chromium; see ``generated_page.mjs``."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conformance.serving import environment
from tests.interop.node_script import assert_passed, run_checks
from tests.requirements import require_chromium

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("generated_page.mjs")
ALULA = Path(sys.executable).with_name("alula")


@pytest.mark.parametrize("users", ["--no-authentication", "--authentication", "--cookies"])
def test_the_page_of_a_generated_application_is_a_live_list(users, tmp_path):
    new = [ALULA, "new", "shop", "--realtime", "--database=memory", "--no-files", users]
    variables = {**environment(), "PORT": "0", "PYTHONUNBUFFERED": "1"}
    subprocess.run(new, check=True, cwd=tmp_path, env=variables, stdin=subprocess.DEVNULL)
    lines = (tmp_path / "shop" / "public" / "live.html").read_text().splitlines()
    assert len(lines) <= (50 if users == "--no-authentication" else 70)
    serving = subprocess.Popen(
        [ALULA, "dev"],
        cwd=tmp_path / "shop",
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        told = ""
        while not (found := re.search(r"http://127\.0\.0\.1:[1-9]\d*", told)):
            line = serving.stdout.readline()
            assert line, f"the application has ended:\n{told}"
            told += line
        signs_in = "no" if users == "--no-authentication" else "yes"
        given = (require_chromium(), found[0], signs_in)
        outcomes = run_checks(SCRIPT, ("playwright-core",), *given)
    finally:
        serving.terminate()
        serving.communicate()
    assert_passed(outcomes, "a row moves")
