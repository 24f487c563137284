"""What debug mode says where nothing answers: a page at ``/``, and hints in 404s."""

from __future__ import annotations

import asyncio
import html
import json
import re
import time
from asyncio.subprocess import PIPE

import pytest
from tests.express.asgi_client import call

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService, authenticate, hash_password, protect
from alula.express import api, error_handler, express, health, not_found, rest
from alula.openapi import openapi
from alula.realtime import socketio, sse

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8", "host": "localhost:3031"}


class Greeter:
    async def get(self, id, params):
        return {"id": id}

    async def greet(self, data, params):
        return data


def app_with(*, debug=True, ends=True, **options):
    app = express(App(debug=debug))
    app.configure(health())
    app.configure(rest())
    app.configure(openapi(title="Chat & more", **options))
    app.use("messages", MemoryService())
    app.use("teams/:team/rooms", Greeter(), methods=["get", "greet"])
    app.use("closed", MemoryService(), methods=[])
    if ends:
        app.use(not_found(), error_handler(logger=False))
    return app


def guarded(*, is_optional=False, methods=("create",), **options):
    """Return an application whose records only people get who have signed in."""
    app = api(App(debug=True))
    app.use("users", MemoryService(start_id=1), methods=[*methods])
    app.service("users").hooks(
        around=[protect("password")], before={"create": [hash_password("password")]}
    )
    app.use("auth", AuthenticationService(app, secret="s" * 32, **options))
    app.use("notes", MemoryService([{"id": 1, "text": "Hello"}]))
    app.service("notes").hooks(around=[authenticate("jwt", optional=is_optional)])
    return app


async def terminal(app, headers=BROWSER):
    """Return the commands that the page shows."""
    await app.setup()
    page = await call(app, url="/", headers=headers)
    (shown,) = re.findall("<pre>(.*?)</pre>", page.text, re.DOTALL)
    return html.unescape(shown)


class TestTheRoot:
    @pytest.mark.parametrize("ends", [True, False])
    async def test_it_lists_what_there_is(self, ends):
        answer = await call(app_with(ends=ends), url="/", headers=BROWSER)
        assert (answer.status, answer.get("content-type")) == (200, "text/html; charset=utf-8")
        assert "<title>Chat &amp; more</title>" in answer.text
        links = set(re.findall(r'href="(/[^"]*)"', answer.text))
        assert links == {"/messages", "/?live=messages", "/docs", "/health/live", "/health/ready"}
        assert "find, get, create, update, patch, remove" in answer.text
        assert "<code>/teams/:team/rooms</code>" in answer.text
        assert "get, greet" in answer.text
        assert "closed" not in answer.text
        assert "curl http://localhost:3031/messages" in answer.text

    async def test_it_lists_real_time(self):
        assert "Real time" not in (await call(app_with(), url="/", headers=BROWSER)).text
        app = app_with(ends=False).configure(socketio("/live/")).configure(sse())
        text = (await call(app, url="/", headers=BROWSER)).text
        assert re.findall(r"<code>(/live/|/events)</code></span><span[^>]*>([^<;]*)", text) == [
            ("/live/", "socket.io"),
            ("/events", "server-sent events"),
        ]

    async def test_it_loads_nothing_and_runs_nothing(self):
        answer = await call(app_with(), url="/", headers=BROWSER)
        assert answer.get("content-security-policy").startswith("default-src 'none';")
        assert answer.get("cache-control") == "no-store"
        assert not re.search(r"<script|https?://(?!localhost:3031)|@import|url\(", answer.text)

    async def test_what_a_client_sends_is_text(self):
        headers = {**BROWSER, "host": "<script>alert(1)</script>"}
        answer = await call(app_with(), url="/", headers=headers)
        assert "<script" not in answer.text

    async def test_without_services_it_says_how_to_begin(self):
        app = express(App(debug=True))
        answer = await call(app, url="/", headers=BROWSER)
        assert answer.status == 200
        assert "<title>Alula</title>" in answer.text
        assert 'app.use("messages", MemoryService())' in answer.text
        assert "/docs" not in answer.text

    async def test_a_service_without_find_is_an_example_too(self):
        app = express(App(debug=True))
        app.use("greeter", Greeter())
        answer = await call(app, url="/", headers=BROWSER)
        assert "curl http://localhost:3031/greeter" in answer.text
        assert 'href="/greeter"' not in answer.text

    async def test_the_commands_sign_in_where_one_has_to(self):
        app = guarded()
        server = await app.listen(0)
        try:
            shown = await terminal(app, {**BROWSER, "host": server.url.removeprefix("http://")})
            made, token, found = re.split(r"\n(?=TOKEN|curl)", shown)
            assert (made[:4], token[:7], found[:4]) == ("curl", "TOKEN=$", "curl")
            shell = await asyncio.create_subprocess_exec("bash", "-ec", shown, stdout=PIPE)
            printed, _ = await shell.communicate()
        finally:
            server.close()
            await server.wait_closed()
        user, records = printed.decode().replace("}[", "}\n[").splitlines()
        assert json.loads(user) == {"email": "ada@example.com", "id": 1}
        assert json.loads(records) == [{"id": 1, "text": "Hello"}]

    @pytest.mark.parametrize(
        ("make", "shown"),
        [
            (lambda: guarded(methods=[]), r"TOKEN=\$\(curl .*curl -sS \S+/notes -H .*"),
            (lambda: guarded(is_optional=True), r"curl \S+/notes$"),
            (lambda: guarded(strategies=["jwt"]), r"curl \S+/notes$"),
            (lambda: guarded(entity=None, strategies=["jwt"]), r"curl \S+/notes$"),
        ],
        ids=["closed users", "optional", "no password", "no users"],
    )
    async def test_the_commands_are_those_that_can_work(self, make, shown):
        assert re.fullmatch(shown, await terminal(make()), re.DOTALL)

    async def test_a_page_shows_the_records_of_a_service(self):
        app = app_with(ends=False)
        text = (await call(app, url="/?live=messages", headers=BROWSER)).text
        assert "app.configure(sse())" in text
        assert "app.service(&#x27;messages&#x27;).live()" in text
        assert "<script" not in text
        app.configure(sse())
        app.service("messages").live()
        answer = await call(app, url="/?live=messages", headers=BROWSER)
        assert "<h1>/messages</h1>" in answer.text
        assert 'data-path="/messages"' in answer.text
        (nonce,) = re.findall(r'<script nonce="([^"]+)">', answer.text)
        policy = answer.get("content-security-policy")
        assert policy.startswith("default-src 'none';")
        assert policy.endswith(f"script-src 'nonce-{nonce}'; connect-src 'self'")

    @pytest.mark.parametrize("path", ["closed", "teams/:team/rooms", "nothing", ""])
    async def test_what_cannot_be_shown_is_the_list_of_services(self, path):
        answer = await call(app_with(), url=f"/?live={path}", headers=BROWSER)
        assert "<title>Chat &amp; more</title>" in answer.text

    @pytest.mark.parametrize("debug", [True, False])
    async def test_what_the_application_answers_comes_first(self, debug):
        app = express(App(debug=debug))
        app.get("/", lambda req, res: res.send("mine"))
        assert (await call(app, url="/", headers=BROWSER)).text == "mine"

    async def test_outside_of_debug_mode_it_is_a_404(self):
        answer = await call(app_with(debug=False), url="/", headers=BROWSER)
        assert answer.status == 404
        assert "messages" not in answer.text

    async def test_programs_get_a_404_that_names_what_there_is(self):
        answer = await call(app_with(), url="/", headers={"accept": "application/json"})
        assert answer.status == 404
        assert answer.json["message"] == (
            "Page not found; there are /messages, /teams/:team/rooms, /docs, /health/live,"
            " /health/ready"
        )
        nothing = await call(express(App(debug=True)), url="/", headers={"accept": "text/json"})
        assert nothing.json["message"] == "Page not found"

    @pytest.mark.parametrize("method", ["POST", "DELETE"])
    async def test_other_methods_are_a_404(self, method):
        assert (await call(app_with(), method, "/", headers=BROWSER)).status == 404

    async def test_it_has_a_head(self):
        answer = await call(app_with(), "HEAD", "/", headers=BROWSER)
        assert (answer.status, answer.body) == (200, b"")

    async def test_the_root_of_a_mounted_application_is_none(self):
        app, inner = express(App(debug=True)), express(App(debug=True))
        app.use("/inner", inner)
        answer = await call(app, url="/inner/", headers=BROWSER)
        assert answer.status == 404


class TestHints:
    @pytest.mark.parametrize(
        ("url", "meant"),
        [
            ("/message", "/messages"),
            ("/message/5", "/messages/5"),
            ("/Messages", "/messages"),
            ("/mesages/5?x=1", "/messages/5"),
            ("/team/red/rooms", "/teams/red/rooms"),
            ("/teams/red/room/7", "/teams/red/rooms/7"),
            ("/api/messages/5", "/messages/5"),
            ("/doc", "/docs"),
            ("/health/redy", "/health/ready"),
        ],
    )
    async def test_a_near_miss(self, url, meant):
        answer = await call(app_with(), url=url)
        assert answer.status == 404
        assert answer.json["message"] == f"Page not found; did you mean {meant}?"

    @pytest.mark.parametrize(
        "url", ["/nothing/like/it", "/x", "/messages/5/6", "/favicon.ico", "/a//b"]
    )
    async def test_what_is_like_nothing(self, url):
        answer = await call(app_with(), url=url)
        assert answer.json["message"] == "Page not found"

    async def test_outside_of_debug_mode_nothing_is_shown(self):
        answer = await call(app_with(debug=False), url="/message")
        assert answer.json["message"] == "Page not found"

    async def test_closed_services_are_not_named(self):
        answer = await call(app_with(), url="/close")
        assert answer.json["message"] == "Page not found"

    async def test_with_the_url_too(self):
        app = express(App(debug=True))
        app.use("messages", MemoryService())
        app.use(not_found(verbose=True), error_handler(logger=False))
        answer = await call(app, url="/message")
        assert answer.json["message"] == "Page not found: /message; did you mean /messages?"

    async def test_hints_can_be_left_out(self):
        app = express(App(debug=True))
        app.use("messages", MemoryService())
        app.use(not_found(hints=False), error_handler(logger=False))
        for url in ("/message", "/"):
            answer = await call(app, url=url)
            assert (answer.status, answer.json["message"]) == (404, "Page not found")

    async def test_a_long_path_is_compared_with_nothing(self):
        begun = time.process_time()
        answer = await call(app_with(), url=f"/{'message/' * 5000}")
        assert answer.json["message"] == "Page not found"
        assert time.process_time() - begun < 5

    async def test_a_page_has_it_as_text(self):
        answer = await call(app_with(), url="/message/%3Cb%3E", headers=BROWSER)
        assert "did you mean /messages/" in answer.text
        assert "<b>" not in answer.text
