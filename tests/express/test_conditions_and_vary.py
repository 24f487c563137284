"""Conditions of requests for files, types of packed files, one Vary, and Allow of refused calls."""

from __future__ import annotations

import gzip

import pytest
from starlette.responses import PlainTextResponse
from tests.express.asgi_client import call

from alula import App
from alula.adapters.memory import MemoryService
from alula.express import compression, cors, error_handler, express, json, rest, serve_static

GZIP = {"accept-encoding": "gzip"}
OLD, NEW = "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT"


@pytest.fixture
def web(tmp_path):
    (tmp_path / "a.txt").write_text("content")
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b"{}"))
    (tmp_path / "a.tar.xz").write_bytes(b"x")
    (tmp_path / "a.txt.Z").write_bytes(b"x")
    (tmp_path / "large.txt").write_text("content" * 1000)
    return express().use(compression(), serve_static(tmp_path))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"if-match": "{}"}, 200),
        ({"if-match": '"x", {}'}, 200),
        ({"if-match": "*"}, 200),
        ({"if-match": '"x"'}, 412),
        ({"if-match": "W/{}"}, 412),
        ({"if-match": "{}", "if-unmodified-since": OLD}, 200),  # If-Match takes precedence
        ({"if-unmodified-since": NEW}, 200),
        ({"if-unmodified-since": OLD}, 412),
        ({"if-unmodified-since": "some day"}, 200),
        ({"if-unmodified-since": "Thu, 01 Jan 1970 00:00:00"}, 200),
        ({"if-match": '"x"', "if-none-match": "{}"}, 412),
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_conditions_that_do_not_hold_are_a_412(web, method, headers, status):
    etag = (await call(web, url="/a.txt")).get("etag")
    headers = {name: value.format(etag) for name, value in headers.items()}
    answer = await call(web, method, "/a.txt", headers=headers)
    assert answer.status == status
    if status == 412:
        assert answer.get("cache-control") == "no-store"
        assert method == "HEAD" or answer.json["className"] == "precondition-failed"


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("a.json.gz", "application/gzip"),
        ("a.tar.xz", "application/x-xz"),
        ("a.txt.Z", "application/octet-stream"),
        ("a.txt", "text/plain; charset=utf-8"),
    ],
)
async def test_packed_files_have_the_type_of_what_packs_them(web, name, content_type):
    answer = await call(web, url=f"/{name}", headers=GZIP)
    assert answer.get("content-type") == content_type
    assert answer.get("content-encoding") is None


async def test_vary_has_each_name_once(web):
    async def varied(scope, receive, send):
        headers = {"vary": "accept-encoding, X-One"}
        await PlainTextResponse("a" * 5000, headers=headers)(scope, receive, send)

    web.use("/app", varied)
    for url in ("/large.txt", "/app"):
        answer = await call(web, url=url, headers=GZIP)
        assert answer.get("content-encoding") == "gzip"
        names = [name.strip().lower() for name in answer.get("vary").split(",")]
        assert sorted(names) == sorted(set(names))
    assert answer.vary >= {"X-One"}


@pytest.mark.parametrize("wraps", [False, True])
@pytest.mark.parametrize("size", [10, 5_000, 200_000])
async def test_head_behind_compression_has_the_length_of_what_a_get_sends_or_none(size, wraps):
    web = express().use(compression())
    if wraps:
        web.use(cors(origins=["http://front.example"]))
    web.get("/", lambda req, res: res.set("etag", '"x"').send("a" * size))
    plain, head = await call(web, headers=GZIP), await call(web, "HEAD", headers=GZIP)
    length = head.get("content-length")
    assert length in {None, plain.get("content-length")}
    assert wraps or length is not None
    assert head.body == b""
    assert plain.get("etag") == head.get("etag") == 'W/"x"'


@pytest.mark.parametrize("name", ["large.txt", "a.json.gz"])
async def test_head_of_a_file_behind_compression(web, name):
    head, plain = [await call(web, method, f"/{name}", headers=GZIP) for method in ("HEAD", "GET")]
    assert head.get("content-length") == (None if name == "large.txt" else str(len(plain.body)))


async def test_a_refused_call_for_many_records_says_what_is_allowed():
    web = express(App()).use(json()).configure(rest()).use("notes", MemoryService())
    web.use(error_handler(logger=False))
    for method, body in (("PATCH", b"{}"), ("DELETE", b""), ("POST", b"[{}]")):
        headers = {"content-type": "application/json"} if body else {}
        answer = await call(web, method, "/notes", body, headers)
        assert answer.status == 405
        allowed = {verb.strip() for verb in answer.get("allow").split(",")}
        assert {"GET", "HEAD", "POST"} <= allowed
        assert (method in allowed) == (method == "POST")
