"""Packed answers."""

from __future__ import annotations

import gzip
import zlib

import pytest
from tests.express.asgi_client import call

from alula import App
from alula.errors import Conflict
from alula.express import compression, cors, error_handler, express, rest, serve_static

LONG = "Alula " * 1000
GZIP = {"accept-encoding": "gzip"}


async def parts():
    for _ in range(10):
        yield LONG.encode()


def app_with(*middleware, answer=None):
    app = express()
    app.use(list(middleware or [compression()]))
    app.all("*", answer or (lambda req, res: res.type("text").send(LONG)))
    return app


async def get(app, accept="gzip", method="GET", url="/", **headers):
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if accept is not None:
        sent["accept-encoding"] = accept
    return await call(app, method, url, headers=sent)


@pytest.mark.parametrize("accept", ["gzip", "gzip, deflate, br", "br;q=1, gzip;q=0.1", "x-gzip"])
async def test_packs_where_the_client_takes_it(accept):
    answer = await get(app_with(), accept)
    assert answer.get("content-encoding") == "gzip"
    assert gzip.decompress(answer.body).decode() == LONG
    assert len(answer.body) < len(LONG) / 10
    assert answer.vary == {"Accept-Encoding"}


@pytest.mark.parametrize(
    "accept", [None, "", "identity", "br", "gzip;q=0", "gzip;q=0.0, br", "*", "deflate"]
)
async def test_does_not_where_it_does_not(accept):
    answer = await get(app_with(), accept)
    assert answer.get("content-encoding") is None
    assert answer.text == LONG
    assert answer.vary == {"Accept-Encoding"}


@pytest.mark.parametrize(("length", "packed"), [(1023, False), (1024, True)])
async def test_a_minimum_size_by_default(length, packed):
    answer = await get(app_with(answer=lambda req, res: res.send("x" * length)))
    assert (answer.get("content-encoding") == "gzip") is packed
    assert "Accept-Encoding" in answer.vary


async def test_a_minimum_size_of_ones_own():
    for size, packed in {10: True, 11: False}.items():
        app = app_with(compression(minimum_size=size), answer=lambda req, res: res.send("x" * 10))
        assert ((await get(app)).get("content-encoding") == "gzip") is packed


@pytest.mark.parametrize("level", [1, 6, 9])
async def test_levels(level):
    text = "".join(str(n * n) for n in range(5000))
    app = app_with(compression(level=level), answer=lambda req, res: res.send(text))
    packer = zlib.compressobj(level, zlib.DEFLATED, 31)
    assert (await get(app)).body == packer.compress(text.encode()) + packer.flush()


@pytest.mark.parametrize(
    "options", [{"level": 0}, {"level": 10}, {"level": "9"}, {"minimum_size": -1}]
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match="level is 1 to 9, the size 0"):
        compression(**options)


async def test_streams_are_packed_part_by_part():
    answer = await get(app_with(answer=lambda req, res: res.send(parts())))
    assert answer.get("content-length") is None
    assert len(answer.parts) > 10
    unpacker = zlib.decompressobj(31)
    assert unpacker.decompress(answer.parts[0]).decode() == LONG, "a part waits for the next"
    assert gzip.decompress(answer.body).decode() == LONG * 10


@pytest.mark.parametrize(
    "prepare",
    {
        "packed already": lambda res: res.set("content-encoding", "br"),
        "image": lambda res: res.type("image/png"),
        "events": lambda res: res.type("text/event-stream"),
        "not to be changed": lambda res: res.set("cache-control", "public, no-transform"),
        "part of a file": lambda res: res.status(206),
    }.values(),
)
async def test_some_answers_stay_as_they_are(prepare):
    def answer(req, res):
        prepare(res)
        res.send(LONG.encode())

    found = await get(app_with(answer=answer))
    assert found.body == LONG.encode()
    assert found.get("content-encoding") in {None, "br"}


@pytest.mark.parametrize(
    "headers", [{"cache-control": "no-transform"}, {"content-encoding": "br", "etag": '"1"'}]
)
async def test_some_streams_stay_as_they_are(headers):
    def answer(req, res):
        for name, value in headers.items():
            res.set(name, value)
        res.send(parts())

    found = await get(app_with(answer=answer))
    assert found.text == LONG * 10
    assert found.get("content-encoding") == headers.get("content-encoding")
    assert found.get("etag") == headers.get("etag")


async def test_twice_packs_once():
    answer = await get(app_with(compression(), compression()))
    assert answer.get("content-encoding") == "gzip"
    assert gzip.decompress(answer.body).decode() == LONG
    assert answer.get("content-length") == str(len(answer.body))


async def test_head_has_the_headers_of_get():
    plain, head = await get(app_with()), await get(app_with(), method="HEAD")
    assert head.body == b""
    assert head.headers == plain.headers


@pytest.mark.parametrize("status", [204, 304])
async def test_no_body_stays_none(status):
    answer = await get(app_with(answer=lambda req, res: res.status(status).send(LONG)))
    assert (answer.status, answer.get("content-encoding")) == (status, None)


async def test_errors_are_packed_too():
    def fail(req, res):
        raise Conflict(LONG)

    app = app_with(answer=fail)
    app.use(error_handler(logger=False))
    answer = await get(app)
    assert (answer.status, answer.get("content-encoding")) == (409, "gzip")


async def test_services_are_packed_too():
    class Messages:
        async def find(self, params):
            return [{"text": LONG}]

    app = express(App())
    app.use(compression())
    app.configure(rest())
    app.use("messages", Messages())
    answer = await get(app, url="/messages")
    assert answer.get("content-encoding") == "gzip"
    assert answer.vary == {"Accept", "Accept-Encoding"}


async def test_together_with_cors():
    for order in ([cors(), compression()], [compression(), cors()]):
        answer = await get(app_with(*order), origin="https://app.example")
        assert answer.get("content-encoding") == "gzip"
        assert answer.get("access-control-allow-origin") == "*"
        assert {"Origin", "Accept-Encoding"} <= answer.vary


class TestFiles:
    @pytest.fixture
    def app(self, tmp_path):
        (tmp_path / "a.txt").write_text(LONG)
        (tmp_path / "a.png").write_bytes(LONG.encode())
        app = express()
        app.use(compression())
        app.use(serve_static(tmp_path))
        return app

    async def test_are_packed_under_a_weak_tag(self, app):
        plain, packed = await get(app, None, url="/a.txt"), await get(app, url="/a.txt")
        assert gzip.decompress(packed.body) == plain.body == LONG.encode()
        assert packed.get("etag") == "W/" + plain.get("etag")
        assert plain.get("etag").startswith('"')

    async def test_that_are_packed_already_stay_as_they_are(self, app):
        assert (await get(app, url="/a.png")).body == LONG.encode()

    async def test_are_not_sent_again_to_who_has_them(self, app):
        tag = (await get(app, url="/a.txt")).get("etag")
        answer = await get(app, url="/a.txt", if_none_match=tag)
        assert (answer.status, answer.body) == (304, b"")

    async def test_are_not_joined_from_packed_and_plain_parts(self, app):
        tag = (await get(app, url="/a.txt")).get("etag")
        answer = await get(app, url="/a.txt", range="bytes=10-19", if_range=tag)
        assert answer.status == 200
        assert gzip.decompress(answer.body) == LONG.encode()

    async def test_have_plain_parts_with_a_strong_tag(self, app):
        answer = await get(app, url="/a.txt", range="bytes=10-19")
        assert (answer.status, answer.body) == (206, LONG.encode()[10:20])
        assert answer.get("etag").startswith('"')


async def test_a_tag_that_is_weak_already_stays_so():
    def answer(req, res):
        res.set("etag", 'W/"1"').send(LONG)

    assert (await get(app_with(answer=answer))).get("etag") == 'W/"1"'


async def test_a_long_body_is_compressed_in_a_thread():
    app = express().use(compression())
    app.get("/", lambda req, res: res.set("etag", '"1"').type("text").send("x" * 200_000))
    answer = await call(app, headers={"accept-encoding": "gzip"})
    sent = dict(answer.headers)
    assert (sent["content-encoding"], sent["etag"]) == ("gzip", 'W/"1"')
    assert gzip.decompress(b"".join(answer.parts)) == b"x" * 200_000
