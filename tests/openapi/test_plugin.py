"""The two addresses of a description."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from tests.conformance.serving import environment
from tests.express.asgi_client import call
from tests.openapi.described import make_app

from alula import App
from alula.adapters.memory import MemoryService
from alula.express import express, rest
from alula.openapi import describe, openapi


async def test_answers_the_description_of_now():
    app = make_app()
    answer = await call(app, "GET", "/openapi.json")
    assert answer.status == 200
    about = {"title": "Everything", "version": "2.1", "description": "All kinds."}
    assert answer.json == describe(app, **about)
    app.use("late", MemoryService())
    assert "/late" in (await call(app, "GET", "/openapi.json")).json["paths"]


async def test_the_page_brings_all_that_it_needs():
    app = make_app()
    page = await call(app, "GET", "/docs")
    assert page.get("content-type").startswith("text/html")
    assert page.get("content-security-policy").startswith("default-src 'self';")
    assert 'data-page="/docs" data-description="/openapi.json"' in page.text
    assert "<title>Everything</title>" in page.text
    assert "{" not in page.text
    found = re.findall(r'(?:href|src)="(docs/[^"]+)"', page.text)
    assert found == ["docs/page.css", "docs/page.js"]
    for path, kind in zip(found, ("text/css", "text/javascript"), strict=True):
        part = await call(app, "GET", f"/{path}")
        assert part.status == 200
        assert part.get("content-type").startswith(kind)
        assert part.get("x-content-type-options") == "nosniff"
        assert "://" not in part.text
    assert "://" not in page.text


async def test_may_be_elsewhere():
    app = express(App())
    app.configure(rest())
    app.configure(openapi(title="<b>&", path="/api/v1.json", docs="/api/about/"))
    page = await call(app, "GET", "/api/about")
    assert 'data-page="/api/about" data-description="/api/v1.json"' in page.text
    assert 'src="about/page.js"' in page.text
    assert 'href="../api/v1.json"' in page.text
    assert "<title>&lt;b&gt;&amp;</title>" in page.text
    assert (await call(app, "GET", "/api/about/page.js")).status == 200
    assert (await call(app, "GET", "/api/v1.json")).json["info"]["title"] == "<b>&"


async def test_there_may_be_no_page():
    app = express(App())
    app.configure(openapi(docs=None))
    assert (await call(app, "GET", "/openapi.json")).status == 200
    assert (await call(app, "GET", "/docs")).status == 404


def test_says_what_it_can_not_configure():
    with pytest.raises(TypeError, match=r"openapi\(\) configures what express\(App\(\)\) returns"):
        App().configure(openapi())


def test_descriptions_need_no_web_server():
    code = (
        "import sys; sys.modules['starlette'] = None\n"
        "from alula import App\n"
        "from alula.openapi import describe\n"
        "assert describe(App())['paths'] == {}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())
