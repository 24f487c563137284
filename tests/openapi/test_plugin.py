"""The two addresses of a description."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
from pydantic import BaseModel
from tests.conformance.serving import environment
from tests.express.asgi_client import call
from tests.openapi.described import make_app

from alula import App
from alula._cli.commands.openapi import describe_as_json
from alula.adapters.memory import MemoryService
from alula.express import express, rest
from alula.openapi import describe, openapi, typescript


async def test_answers_the_description_of_now():
    app = make_app()
    answer = await call(app, "GET", "/openapi.json")
    assert answer.status == 200
    about = {"title": "Everything", "version": "2.1", "description": "All kinds."}
    events = {"description": "The events, in AsyncAPI", "url": "asyncapi.json"}
    assert answer.json == {**describe(app, **about, server="."), "externalDocs": events}
    assert answer.json["servers"] == [{"url": "."}]
    app.use("late", MemoryService())
    assert "/late" in (await call(app, "GET", "/openapi.json")).json["paths"]


class TestItIsMadeOnce:
    @pytest.fixture
    def made(self, monkeypatch):
        """The descriptions that were made."""
        made = []

        def describing(*arguments, **options):
            made.append(describe(*arguments, **options))
            return made[-1]

        monkeypatch.setattr("alula.openapi._document.describe", describing)
        return made

    async def test_for_any_number_of_requests(self, made):
        app = make_app()
        first, second = [await call(app, "GET", "/openapi.json") for _ in range(2)]
        assert first.body == second.body
        assert first.get("etag") == second.get("etag")
        assert len(made) == 1

    async def test_until_services_or_hooks_change(self, made):
        app = make_app()
        inner = App()
        inner.use("in", MemoryService())
        changes = (
            lambda: app.use("late", MemoryService()),
            lambda: app.service("late").hooks(before=[lambda context: None]),
            lambda: app.hooks(before=[lambda context: None]),
            lambda: app.use("mounted", inner),
            lambda: inner.service("in").hooks(before=[lambda context: None]),
            lambda: inner.hooks(before=[lambda context: None]),
        )
        await call(app, "GET", "/openapi.json")
        for number, change in enumerate(changes, 2):
            change()
            for _ in range(2):
                answer = await call(app, "GET", "/openapi.json")
            assert len(made) == number
            assert answer.json == made[-1]  # with the link to the description of events
        await app.unuse("late")
        assert "/late" not in (await call(app, "GET", "/openapi.json")).json["paths"]

    async def test_and_not_sent_to_those_who_have_it(self):
        app = make_app()
        answer = await call(app, "GET", "/openapi.json")
        tag = answer.get("etag")
        for known in (tag, f"W/{tag}", f'"x", {tag}'):
            again = await call(app, "GET", "/openapi.json", headers={"if-none-match": known})
            assert (again.status, again.body, again.get("etag")) == (304, b"", tag)
        for unknown in ('"x"', tag[:-2], ""):
            again = await call(app, "GET", "/openapi.json", headers={"if-none-match": unknown})
            assert (again.status, again.body) == (200, answer.body)


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
    script = (await call(app, "GET", "/docs/page.js")).text
    found += [f"docs/{name}" for name in re.findall(r'from "\./(\w+\.js)"', script)]
    assert found[2:] == ["docs/calls.js", "docs/schemas.js"]
    for path in found:
        part = await call(app, "GET", f"/{path}")
        assert part.status == 200
        kind = "text/css" if path.endswith(".css") else "text/javascript"
        assert part.get("content-type").startswith(kind)
        assert part.get("x-content-type-options") == "nosniff"
        assert set(re.findall(r"://[\w.]+", part.text)) <= {"://example.com"}  # as a value
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


def test_the_error_names_what_it_cannot_configure():
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


class TestTypeScript:
    @pytest.mark.parametrize("name", ["client.ts", "client.d.ts"])
    async def test_developers_get_the_client(self, name):
        app = make_app()
        answer = await call(app, "GET", f"/docs/{name}")
        assert answer.status == 200
        assert answer.get("content-type") == "text/plain; charset=utf-8"
        assert answer.get("x-content-type-options") == "nosniff"
        declarations = name == "client.d.ts"
        assert answer.text == typescript(app, title="Everything", declarations=declarations)
        app.use("late", MemoryService())
        tag = {"if-none-match": answer.get("etag")}
        again = await call(app, "GET", f"/docs/{name}", headers=tag)
        assert "LateClientService" in again.text
        tag = {"if-none-match": again.get("etag")}
        assert (await call(app, "GET", f"/docs/{name}", headers=tag)).status == 304

    @pytest.mark.parametrize("name", ["client.ts", "client.d.ts"])
    async def test_others_do_not(self, name):
        app = make_app()
        app.debug = False
        assert (await call(app, "GET", f"/docs/{name}")).status == 404

    async def test_it_is_beside_the_page(self):
        app = express(App(debug=True))
        app.configure(openapi(docs="/api/about/"))
        assert (await call(app, "GET", "/api/about/client.ts")).status == 200
        app = express(App(debug=True))
        app.configure(openapi(docs=None))
        assert (await call(app, "GET", "/docs/client.ts")).status == 404


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "."),
        ({"path": "/api/v1.json"}, ".."),
        ({"path": "/a/b/c.json"}, "../.."),
        ({"server": "https://example.com/shop"}, "https://example.com/shop"),
    ],
)
async def test_it_names_the_address_of_the_application(options, expected):
    app = express(App()).configure(openapi(**options))
    described = (await call(app, "GET", options.get("path", "/openapi.json"))).json
    assert described["servers"] == [{"url": expected}]


class Problem(BaseModel):
    text: str


class Problems(BaseModel):
    errors: dict[str, list[Problem]]


class TestErrorsOfTheApplication:
    async def test_their_type_is_the_schema_of_all_errors(self):
        app = express(App()).configure(rest()).configure(openapi(error=Problems))
        app.use("notes", MemoryService())
        document = (await call(app, "GET", "/openapi.json")).json
        schemas = document["components"]["schemas"]
        assert list(schemas["Error"]["properties"]) == ["errors"]
        assert list(schemas["Error.Problem"]["properties"]) == ["text"]
        assert json.loads(describe_as_json(app))["components"] == document["components"]

    @pytest.mark.parametrize("type_", [object(), Callable[[], int]])
    def test_a_type_without_a_schema_is_refused(self, type_):
        with pytest.raises(TypeError, match=r"openapi\(error=.*\)"):
            openapi(error=type_)
