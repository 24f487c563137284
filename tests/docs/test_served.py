"""`make docs-serve`: the search reads files, which no page from the disk may."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from urllib.request import urlopen

from tests.requirements import absent

ROOT = Path(__file__).parents[2]


def test_make_docs_names_the_command_that_serves_the_pages():
    done = subprocess.run(
        ["make", "--dry-run", "docs"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "make docs-serve" in done.stdout
    assert "index.html" not in done.stdout


def test_the_pages_are_served_with_what_the_search_reads(site, tmp_path):
    if shutil.which("make") is None:
        absent("no make: the command that serves the pages is left out")
    # The pages are built already: a copy is served, so that nothing is built anew below others.
    shutil.copytree(site, tmp_path / "site")
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    process = subprocess.Popen(
        ["make", "docs-serve", "MAKE=:", "port=0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output = ""
        while not (address := re.search(r"Serving HTTP on 127\.0\.0\.1 port (\d+)", output)):
            line = process.stdout.readline()
            assert line, output
            output += line
        url = f"http://127.0.0.1:{address[1]}"
        with urlopen(f"{url}/", timeout=60) as page:
            assert "<title>" in page.read().decode()
        with urlopen(f"{url}/search.json", timeout=60) as index:
            assert json.load(index)["items"]
    finally:
        subprocess.run(["kill", "--", f"-{process.pid}"], check=True)
        process.communicate()
