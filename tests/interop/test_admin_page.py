"""The admin site of ``docs/admin.md``, built by its commands and used in Chromium.

react-admin and its packages are 370 MB, so only a release installs them.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conformance.serving import environment
from tests.interop.node_script import assert_passed, run_checks
from tests.requirements import require_chromium, require_node

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "admin.md"
SCRIPT = HERE / "admin_page.mjs"
PACKAGES = HERE / "admin_page" / "package.json"
FILE = re.compile(r"ave (?:it|this) as `([\w./]+)`:\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_versions_are_those_of_the_packages_that_the_page_installs():
    named = re.search(r"\$ npm install (.*)", PAGE.read_text())
    assert set(named[1].split()) == json.loads(PACKAGES.read_text())["dependencies"].keys()


@pytest.mark.release
def test_the_admin_site_of_the_page(tmp_path):
    for name, code in FILE.findall(PAGE.read_text()):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(code.replace("port=3030", "port=0"))
    (tmp_path / "package.json").write_text(PACKAGES.read_text())
    path = f"{Path(require_node()).parent}:{environment()['PATH']}"
    variables = {**environment(), "PATH": path, "PYTHONUNBUFFERED": "1"}
    for command in ("npm install --silent --no-audit", "npx vite build --base ./"):
        subprocess.run(command.split(), check=True, cwd=tmp_path, env=variables)
    serving = subprocess.Popen(
        [sys.executable, "server.py"],
        cwd=tmp_path,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        address = re.search(r"http://127\.0\.0\.1:\d+", serving.stdout.readline())
        given = (require_chromium(), address[0], str(tmp_path / "admin.png"))
        outcomes = run_checks(SCRIPT, ("playwright-core",), *given)
    finally:
        serving.terminate()
        serving.communicate()
    assert_passed(outcomes, "a book lives in the admin site")
