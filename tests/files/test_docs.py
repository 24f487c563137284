"""The first examples of the page: their application runs, and does what the page says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conformance.serving import environment
from tests.express.asgi_client import call
from tests.files.forms import PNG, file_part, post_form
from tests.interop.test_readme_curl import run_in_a_shell

pytestmark = [pytest.mark.slow, pytest.mark.untraced]

PAGE = (Path(__file__).parents[2] / "docs" / "files.md").read_text(encoding="utf-8")
APPLICATION, OWNERS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[:2]
LINES = re.search(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1].splitlines()
RECORD = json.loads(re.search(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1])


@pytest.fixture
def port(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(APPLICATION.replace("app.run(3030)", "app.run(0)"))
    command = [sys.executable, "-u", "app.py"]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
    try:
        yield re.search(r":(\d+)$", process.stdout.readline())[1]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_the_curl_lines(port, tmp_path):
    (tmp_path / "photo.png").write_bytes(PNG)
    created, got, copied = (run_in_a_shell(line, port) for line in LINES)
    record = json.loads(created)
    assert (json.loads(got), copied) == (record, "")
    assert record.keys() == RECORD.keys()
    assert {key: record[key] for key in ("id", "name", "type")} == {
        key: RECORD[key] for key in ("id", "name", "type")
    }
    assert (tmp_path / "copy.png").read_bytes() == PNG


def test_curl_shows_why_a_file_is_too_large(port, tmp_path):
    (tmp_path / "photo.png").write_bytes(PNG + bytes(60_000_000))
    error = json.loads(run_in_a_shell(LINES[0], port))
    assert (error["code"], "'photo.png', is too large" in error["message"]) == (413, True)
    assert not any(path.is_file() for path in (tmp_path / "files").rglob("*"))


async def test_nobody_gives_files_to_somebody_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    exec(APPLICATION + OWNERS, names)
    app = names["app"]
    await app.setup()
    token_of = app.service("authentication").service.create_access_token
    people = [await app.service("users").create({"name": name}) for name in ("ann", "bob")]
    ann, bob = ({"authorization": f"Bearer {token_of({}, str(who['id']))}"} for who in people)
    assert (await post_form(app, file_part(b"hi"), x_user="ann")).status == 401
    assert (await post_form(app, file_part(b"hi"), **ann)).status == 201
    kind = {"content-type": "application/json"}
    patch = b'{"ownerId":1,"name":"b.txt"}'
    answer = await call(app, "PATCH", "/uploads/1", patch, {**kind, **ann})
    assert (answer.json["ownerId"], answer.json["name"]) == (0, "b.txt")
    assert (await call(app, "GET", "/uploads", b"", bob)).json == []
    for method, url in (("GET", "/uploads/1"), ("GET", "/uploads/1/content")):
        assert (await call(app, method, url, None, bob)).status == 404
        assert (await call(app, method, url, None, {"x-user": "0"})).status == 401
    assert (await call(app, "DELETE", "/uploads/1", None, bob)).status == 404
    assert (await call(app, "PATCH", "/uploads/1", patch, {**kind, **bob})).status == 404
    assert (await call(app, "PATCH", "/uploads/1", patch, kind)).status == 401
    assert (await call(app, "GET", "/uploads/1/content", None, ann)).body == b"hi"
    await app.teardown()
