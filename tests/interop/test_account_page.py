"""The page of accounts of a generated application in Chromium; see ``account_page.mjs``."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.conformance.serving import environment
from tests.interop.node_script import run_checks
from tests.requirements import require_chromium

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("account_page.mjs")
ALULA = Path(sys.executable).with_name("alula")
SECONDS = 60


def test_people_sign_up_and_set_a_new_password(tmp_path):
    variables = {**environment(), "PORT": "0", "PYTHONUNBUFFERED": "1"}
    for folder, command in (
        (tmp_path, "new shop --authentication --database=sqlite --no-files --cookies"),
        (tmp_path / "shop", "generate accounts --totp"),
    ):
        arguments = [ALULA, *command.split()]
        subprocess.run(arguments, check=True, cwd=folder, env=variables, stdin=subprocess.DEVNULL)
    log = tmp_path / "dev.log"
    with log.open("w") as output:
        serving = subprocess.Popen(
            [ALULA, "dev"],
            cwd=tmp_path / "shop",
            env=variables,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        end = time.monotonic() + SECONDS
        while not (found := re.search(r"http://127\.0\.0\.1:[1-9]\d*", log.read_text())):
            assert serving.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        url = found[0].replace("127.0.0.1", "localhost")
        outcomes = run_checks(SCRIPT, ("playwright-core",), require_chromium(), url, str(log))
    finally:
        serving.terminate()
        serving.wait()
    assert {name: outcome.error for name, outcome in outcomes.items()} == dict.fromkeys(
        (
            "somebody signs up and confirms the address",
            "a wrong password is refused",
            "somebody has forgotten the password",
            "a link works once",
            "it fits on a phone, and no other page shows it",
        )
    )
