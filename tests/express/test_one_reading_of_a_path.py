"""What a guard at a path matches is what a mounted application gets: no encoding leads around."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from tests.express.asgi_client import call, scope_of

from alula import App
from alula.errors import Forbidden
from alula.express import Router, api, error_handler, express, not_found, rest, serve_static

GUARDED = [
    "/api/admin/users",
    "/api//admin/users",
    "//api/admin//users",
    "/api/%61dmin/users",
    "/%61pi/admin/users",
    "/api/admin/users/",
    "/api/admin/%75sers",
]
OTHER_READINGS = [
    "/api/admin%2Fusers",
    "/api/admin%2fusers",
    "/api%2Fadmin/users",
    "/api/%2Fadmin/users",
    "/api/%2e/admin/users",
    "/api/./admin/users",
    "/api/x/../admin/users",
    "/api/x/%2E%2e/admin/users",
    "/api/x/.%2e/admin/users",
    "/api/admin%5Cusers",
    "/api/admin\\users",
    "/api/x/%2e%2e%2fadmin/users",
]
NOT_THERE = [
    "/api/admin;x/users",
    "/api/Admin/users",
    "/api/admin./users",
    "/api/admin%20/users",
    "/api/admin%00/users",
    "/api/admin%252Fusers",
    "/api/%c0%afadmin/users",
    "/api/admin%c0%afusers",
    "/api/%e0%80%afadmin/users",
    "/api/.../admin/users",
    "/api/admin%EF%BC%8Fusers",
    "/api/admin%E2%88%95users",
]


def guard(req, res, next):
    raise Forbidden("only for administrators")


def fastapi():
    app = FastAPI()

    @app.get("/admin/users")
    async def users():
        return "secret"

    @app.get("/open/{rest:path}")
    async def open_to_all(rest: str):
        return rest

    return app


def guarded(*mounted):
    return express().use("/api/admin", guard).use(*mounted).use(error_handler(logger=False))


def mounts():
    inner = express().use("/admin", guard).use(fastapi())
    return {
        "in ours": guarded("/api", fastapi()),
        "in a router": guarded("/api", Router().use(fastapi())),
        "in a sub-application": guarded("/api", express().use(fastapi())),
        "an extended one": guarded("/api", express(App(), fastapi())),
        "behind a mount of Starlette": Starlette(routes=[Mount("/api", inner)]),
    }


@pytest.mark.parametrize("where", mounts())
@pytest.mark.parametrize("url", GUARDED)
async def test_every_spelling_of_a_path_meets_its_guard(where, url):
    if where == "behind a mount of Starlette" and url == "//api/admin//users":
        pytest.skip("Starlette itself finds nothing there")
    assert (await call(mounts()[where], url=url)).status == 403


@pytest.mark.parametrize("where", mounts())
@pytest.mark.parametrize("url", OTHER_READINGS)
async def test_a_path_that_can_be_read_in_another_way_reaches_no_mounted_application(where, url):
    answer = await call(mounts()[where], url=url)
    assert answer.status in (400, 403, 404), answer.text
    assert "secret" not in answer.text


@pytest.mark.parametrize("url", NOT_THERE)
async def test_what_only_looks_like_a_guarded_path_is_another_path_for_both(url):
    answer = await call(guarded("/api", fastapi()), url=url)
    assert answer.status == 404, answer.text


async def test_the_error_says_what_to_send():
    answer = await call(guarded("/api", fastapi()), url="/api/open/a%2Fb")
    assert answer.status == 400
    assert "encoded slash" in answer.json["message"]


async def test_other_encoded_characters_arrive_decoded():
    answer = await call(guarded("/api", fastapi()), url="/api/open/a%20b/c%C3%A9")
    assert answer.json == "a b/cé"


async def test_a_mounted_application_gets_the_path_that_was_matched():
    seen = []

    async def inside(scope, receive, send):
        seen.append((scope["root_path"], scope["path"], scope["raw_path"]))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    def rewrite(req, res, next):
        req.path = req.path.replace("/old", "/new%20one", 1)
        return next()

    web = express().use(rewrite).use("/sub", inside)
    await call(web, url="/sub/old")
    await call(web, url="/out/sub/a%C3%A9/b", root_path="/out")
    await call(web, url="/sub/x", root_path="/stripped")  # by a proxy
    assert seen == [
        ("/sub", "/sub/new one", b"/sub/new%20one"),
        ("/out/sub", "/out/sub/aé/b", b"/out/sub/a%C3%A9/b"),
        ("/stripped/sub", "/stripped/sub/x", b"/stripped/sub/x"),
    ]


async def test_a_path_that_middleware_outside_has_changed_counts():
    """Its author changed ``path``, and forgot ``raw_path``."""
    web = guarded("/api", fastapi())

    async def outside(scope, receive, send):
        scope = {**scope, "path": scope["path"].removeprefix("/v1 ")}
        await web(scope, receive, send)

    assert (await call(outside, url="/v1%20/api/admin/users")).status == 403
    assert (await call(outside, url="/v1%20/api/admin%2Fusers")).status == 403
    assert (await call(outside, url="/v1%20/api/open/50%2525")).json == "50%25"


@pytest.mark.parametrize("url", ["/%6Fut/where", "/out%2Fwhere", "/out/where"])
async def test_a_prefix_is_taken_away_however_it_was_sent(url):
    web = express().get("/where", lambda req, res: res.json([req.path, req.base_url]))
    outer = Starlette(routes=[Mount("/out", web)])
    assert (await call(outer, url=url)).json == ["/where", ""]


async def test_a_prefix_ends_where_a_segment_ends():
    web = express().use(lambda req, res: res.json(req.path))
    assert (await call(web, url="/outer/x", root_path="/out")).json == "/outer/x"
    assert (await call(web, url="/out", root_path="/out/")).json == "/"


class Users:
    async def find(self, params):
        return ["secret"]

    async def get(self, id, params):
        return f"secret {id}"


@pytest.mark.parametrize("url", GUARDED + OTHER_READINGS + NOT_THERE)
async def test_no_spelling_leads_around_the_guard_of_a_service(url):
    web = express(App()).configure(rest()).use("api/admin/users", Users())
    guarded = express(App()).use("/api/admin", guard).configure(rest())
    guarded.use("api/admin/users", Users()).use(error_handler(logger=False))
    if "secret" in (await call(web, url=url)).text:
        assert (await call(guarded, url=url)).status == 403
    assert "secret" not in (await call(guarded, url=url)).text


FILES = [
    "/files/private/x.txt",
    "/files//private/x.txt",
    "/files/%70rivate/x.txt",
    "/files/./private/x.txt",
    "/files/%2e/private/x.txt",
    "/files/y/../private/x.txt",
    "/files/y/%2e%2e/private/x.txt",
    "/files/private%2Fx.txt",
    "/files/private%5Cx.txt",
    "/files/.%2Fprivate/x.txt",
    "/./files/private/x.txt",
]


@pytest.mark.parametrize("url", FILES)
@pytest.mark.parametrize("kind", ["Starlette's", "ours"])
async def test_no_spelling_opens_files_behind_a_guard(tmp_path, kind, url):
    (tmp_path / "private").mkdir()
    (tmp_path / "y").mkdir()
    (tmp_path / "private" / "x.txt").write_text("secret")
    (tmp_path / "open.txt").write_text("open")
    files = StaticFiles(directory=tmp_path) if kind == "Starlette's" else serve_static(tmp_path)
    web = express().use("/files/private", guard).use("/files", files)
    web.use(error_handler(logger=False))
    answer = await call(web, url=url)
    assert answer.status in (400, 403, 404)
    assert "secret" not in answer.text
    assert (await call(web, url="/files/open.txt")).text == "open"


@pytest.mark.parametrize("url", [*GUARDED, *OTHER_READINGS])
async def test_no_websocket_reaches_a_mounted_application(url):
    web, sent = guarded("/api", fastapi()), []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message["type"])

    scope = scope_of("GET", url, subprotocols=[]) | {"type": "websocket", "scheme": "ws"}
    await web(scope, receive, send)
    assert sent == ["websocket.close"]


# -- slashes in a row, and needless escapes --------------------------------------------------------

SPELLINGS = [
    "/admin/x.txt",
    "//admin/x.txt",
    "///admin//x.txt",
    "/admin//x.txt",
    "//admin/x.txt/",
    "/%61dmin/x.txt",
    "/%61%64%6D%69%6e/%78.txt",
    "//%61dmin//x%2Etxt",
]


def admin_file(folder):
    (folder / "admin").mkdir()
    (folder / "admin" / "x.txt").write_text("secret")
    return folder


def text_guard(req, res, next):
    """Compare the path as a text, as beginners do."""
    if req.path.startswith("/admin") or req.url.startswith("/admin"):
        raise Forbidden("only for administrators")
    return next()


def behind_a_text_guard(folder):
    other = Starlette(routes=[Mount("/", StaticFiles(directory=folder))])
    service = express(App()).use(text_guard).configure(rest())
    return {
        "files": express().use(text_guard, serve_static(folder)),
        "a route": express().use(text_guard).get("/admin/*", lambda req, res: res.send("secret")),
        "an ASGI application": express().use(text_guard).use(other),
        "a router": express().use(text_guard).use(Router().use("/admin", serve_static(folder))),
        "a sub-application": express().use(text_guard).use(express().use(serve_static(folder))),
        "services": service.use("admin/:of", Secrets()),
        "an existing application": express(App(), _guarded_outside(other)),
        "api": api().use(serve_static(folder)).use(text_guard),
    }


class Secrets:
    async def find(self, params):
        return "secret"


def _guarded_outside(app):
    class Guard:
        def __init__(self, app):
            self.app = app

        async def __call__(self, scope, receive, send):
            if scope["type"] == "http" and scope["path"].startswith("/admin"):
                await PlainTextResponse("only for administrators", 403)(scope, receive, send)
            else:
                await self.app(scope, receive, send)

    app.add_middleware(Guard)
    return app


@pytest.mark.parametrize("url", SPELLINGS)
async def test_a_guard_that_compares_texts_sees_one_spelling(url, tmp_path):
    for place, app in behind_a_text_guard(admin_file(tmp_path)).items():
        answer = await call(app, url=url)
        assert answer.status == 403, (place, answer.status)


@pytest.mark.parametrize(
    "url", ["/%2e/admin/x.txt", "/%2E%2e/admin/x.txt", "/x/%2e./admin/x.txt", "/.%2Fadmin/x.txt"]
)
async def test_segments_of_dots_lead_nowhere(url, tmp_path):
    applications = behind_a_text_guard(admin_file(tmp_path))
    del applications["an existing application"]  # Starlette reads its own paths
    for place, app in applications.items():
        answer = await call(app, url=url)
        assert answer.status in (400, 403, 404), (place, answer.status)
        assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("/a-b_c~d.e%2D%5f%7E%2e%30%39%41%5a%61%7A", "/a-b_c~d.e-_~.09AZaz"),
        ("/50%/%C3%A9%2F%20", "/50%/%C3%A9%2F%20"),
        ("/50%/%61", "/50%25/a"),
        ("/%2561", "/%2561"),  # decoded once, it is /%61
        ("/%%361", "/%2561"),
    ],
)
async def test_only_escapes_that_mean_the_same_are_decoded(url, path):
    web = express().use(lambda req, res: res.json([req.path, req.scope["path"]]))
    decoded = (await call(express().use("/", web), url=url)).json[1]
    assert (await call(web, url=url)).json == [path, decoded]
    assert decoded == unquote(url)


@pytest.mark.parametrize(
    ("url", "status"),
    [("//notes/1", 200), ("/notes//", 200), ("/notes//1", 404), ("//notes//1?x=1", 404)],
)
async def test_services_have_no_empty_segment_between_two_others(url, status):
    class Notes:
        async def find(self, params):
            return []

        async def get(self, id, params):
            return id

    app = express(App()).configure(rest()).use("notes", Notes())
    app.use(not_found(verbose=True), error_handler(logger=False))
    answer = await call(app, url=url)
    assert answer.status == status
    if status == 404:
        assert answer.json["message"] == f"Page not found: {url}"


async def test_below_a_mount_the_message_has_the_path_there():
    inner = express().use(not_found(verbose=True), error_handler(logger=False))
    answer = await call(express().use("/v1", inner), url="/v1/a//b")
    assert answer.json["message"] == "Page not found: /a/b"


async def test_a_scope_without_a_raw_path_is_read_too():
    app = express().use(text_guard).get("/admin/*", lambda req, res: res.send("secret"))
    app.use(error_handler(logger=False))
    assert (await call(app, url="//admin/x", raw_path=None)).status == 403
