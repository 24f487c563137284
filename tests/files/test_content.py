"""The bytes of uploads over HTTP: to those who may see the record, whole or in part."""

from __future__ import annotations

from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.express.asgi_client import call, request
from tests.files.forms import PNG, application

from alula import App, Params
from alula.adapters.memory import MemoryService
from alula.errors import Forbidden, FrameworkError, NotAuthenticated
from alula.express import error_handler, express, rest
from alula.files import LocalFileStore, UploadService, UrlSigner, file_content
from alula.files._content import byte_range, content_disposition

ETAG = '"e"'
SIGNER = UrlSigner("thirty-two random bytes at least")


async def upload(app, content=b"hello", name="a.txt", content_type="text/plain", **more):
    data = {"name": name, "type": content_type, "content": content, **more}
    return await app.service("uploads").create(data)


@pytest.fixture
def app(tmp_path):
    return application(tmp_path, signer=SIGNER)


async def test_the_bytes_and_their_headers(app):
    record = await upload(app)
    answer = await call(app, "GET", "/uploads/0/content")
    assert (answer.status, answer.body) == (200, b"hello")
    assert dict(answer.headers) == {
        "content-type": "text/plain",
        "content-length": "5",
        "content-disposition": 'inline; filename="a.txt"',
        "etag": f'"{record["sha256"]}"',
        "accept-ranges": "bytes",
        "cache-control": "private, no-cache, no-transform",
        "x-content-type-options": "nosniff",
        "content-security-policy": "default-src 'none'; sandbox",
    }


async def test_a_head_request(app):
    await upload(app)
    answer = await call(app, "HEAD", "/uploads/0/content")
    assert (answer.status, answer.body, answer.get("content-length")) == (200, b"", "5")


@pytest.mark.parametrize("verb", ["POST", "DELETE", "PUT"])
async def test_other_methods(app, verb):
    await upload(app)
    assert (await call(app, verb, "/uploads/0/content")).status == 404


async def test_an_empty_file(app):
    await upload(app, b"")
    answer = await call(app, "GET", "/uploads/0/content")
    assert (answer.status, answer.body, answer.get("content-length")) == (200, b"", "0")


@pytest.mark.parametrize(
    ("content_type", "disposition"),
    [
        ("image/png", "inline"),
        ("text/html", "attachment"),
        ("image/svg+xml", "attachment"),
        ("application/xml", "attachment"),
        ("application/pdf", "attachment"),
        ("application/octet-stream", "attachment"),
    ],
)
async def test_only_what_runs_no_script_is_shown(app, content_type, disposition):
    await upload(app, PNG, "a.bin", content_type)
    answer = await call(app, "GET", "/uploads/0/content")
    assert answer.get("content-disposition") == f'{disposition}; filename="a.bin"'


async def test_what_is_shown_can_be_chosen(tmp_path):
    app = express(App()).configure(rest())
    app.use("/files/uploads/", UploadService(LocalFileStore(tmp_path), MemoryService()))
    app.configure(file_content("/files/uploads/", inline=["application/pdf"]))
    data = {"name": "a", "type": "application/pdf", "content": b"x"}
    await app.service("files/uploads").create(data)
    answer = await call(app, "GET", "/files/uploads/0/content/")
    assert answer.get("content-disposition") == 'inline; filename="a"'


@pytest.mark.parametrize(
    ("headers", "status", "body"),
    [
        ({"range": "bytes=1-2"}, 206, b"el"),
        ({"range": "bytes=1-2", "if-range": "THE ETAG"}, 206, b"el"),
        ({"range": "bytes=1-2", "if-range": '"other"'}, 200, b"hello"),
        ({"range": "bytes=0-"}, 206, b"hello"),
        ({"if-none-match": "THE ETAG"}, 304, b""),
        ({"if-none-match": 'W/"x", W/THE ETAG', "range": "bytes=99-"}, 304, b""),
        ({"if-none-match": "*"}, 304, b""),
        ({"if-none-match": '"x"'}, 200, b"hello"),
    ],
)
async def test_conditions_and_ranges(app, headers, status, body):
    etag = f'"{(await upload(app))["sha256"]}"'
    headers = {name: value.replace("THE ETAG", etag) for name, value in headers.items()}
    answer = await call(app, "GET", "/uploads/0/content", None, headers)
    assert (answer.status, answer.body, answer.get("etag")) == (status, body, etag)
    first, last = ("1", "2") if body == b"el" else ("0", "4")
    assert answer.get("content-range") == (f"bytes {first}-{last}/5" if status == 206 else None)


async def test_a_range_behind_the_end(app):
    await upload(app)
    answer = await call(app, "GET", "/uploads/0/content", None, {"range": "bytes=5-"})
    assert (answer.status, answer.get("content-range")) == (416, "bytes */5")
    assert answer.json["name"] == "RangeNotSatisfiable"


RANGES = {
    "bytes=0-0": (0, 1),
    "bytes=2-4": (2, 5),
    "bytes=2-99": (2, 10),
    "bytes=0-": (0, 10),
    "bytes=0-9": (0, 10),
    "Bytes= 9- ": (9, 10),
    "bytes=-3": (7, 10),
    "bytes=-99": (0, 10),
    "bytes=10-": None,
    "bytes=-0": None,
    "bytes=99-100": None,
    # not valid, or several: the whole file
    "": "all",
    "bytes=-": "all",
    "bytes=4-2": "all",
    "bytes=0-1,3-4": "all",
    "lines=0-1": "all",
    "bytes=a-b": "all",
    "bytes=1-2x": "all",
    "bytes=٣-4": "all",
    f"bytes=0-{'9' * 30}": "all",
}


@pytest.mark.parametrize("text", RANGES, ids=ascii)
def test_ranges(text):
    req = request(headers={"range": text.encode().decode("latin-1")})
    if RANGES[text] is None:
        with pytest.raises(FrameworkError) as error:
            byte_range(req, ETAG, 10)
        assert (error.value.code, error.value.headers) == (416, {"Content-Range": "bytes */10"})
    else:
        expected = None if RANGES[text] == "all" else RANGES[text]
        assert byte_range(req, ETAG, 10) == expected


def test_a_range_of_nothing():
    with pytest.raises(FrameworkError):
        byte_range(request(headers={"range": "bytes=0-"}), ETAG, 0)
    assert byte_range(request(), ETAG, 0) is None


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_name_fits_into_the_header(name):
    header = content_disposition("attachment", name)
    assert header.isascii()
    assert header.isprintable()
    message = EmailMessage()
    message["content-disposition"] = header
    parameters = message["content-disposition"].params
    assert message["content-disposition"].content_disposition == "attachment"
    assert parameters.keys() <= {"filename"}
    assert header.count('"') == 2


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("a b.txt", 'filename="a b.txt"'),
        ('a".txt', "filename=\"a_.txt\"; filename*=UTF-8''a%22.txt"),
        ("ä €.txt", "filename=\"_ _.txt\"; filename*=UTF-8''%C3%A4%20%E2%82%AC.txt"),
        ("50%.txt", "filename=\"50_.txt\"; filename*=UTF-8''50%25.txt"),
        ("a;b'c*", "filename=\"a;b_c_\"; filename*=UTF-8''a%3Bb%27c%2A"),
        ("\r\nX: y", "filename=\"__X_ y\"; filename*=UTF-8''%0D%0AX%3A%20y"),
    ],
)
def test_names_in_the_header(name, parameters):
    assert content_disposition("inline", name) == f"inline; {parameters}"


async def test_who_may_not_get_the_record_gets_no_bytes(app):
    await upload(app, ownerId=1)

    @app.service("uploads").before("get")
    async def own(context):
        if context.params.provider:
            if not context.params.headers.get("x-user"):
                raise NotAuthenticated("Sign in")
            context.params.query["ownerId"] = int(context.params.headers["x-user"])

    url = "/uploads/0/content"
    assert (await call(app, "GET", url)).status == 401
    assert (await call(app, "HEAD", url)).status == 401
    assert (await call(app, "GET", url, None, {"x-user": "2"})).status == 404
    assert (await call(app, "GET", f"{url}?ownerId=2", None, {"x-user": "1"})).body == b"hello"
    assert (await call(app, "GET", SIGNER.sign(url))).body == b"hello"


async def test_a_hook_may_choose_the_record_and_hide_properties(app):
    await upload(app)

    @app.service("uploads").before("get")
    async def latest(context):
        if context.id == "latest":
            context.id = 0

    @app.service("uploads").after("get")
    async def hide(context):
        context.result = {"id": 0}

    assert (await call(app, "GET", "/uploads/latest/content")).body == b"hello"


async def test_without_get_there_are_no_bytes(tmp_path):
    app = express(App()).configure(rest())
    service = UploadService(LocalFileStore(tmp_path), MemoryService())
    app.use("uploads", service, methods=["create"])
    app.configure(file_content("uploads")).use(error_handler(logger=False))
    await upload(app)
    assert (await call(app, "GET", "/uploads/0/content")).status == 405


@pytest.mark.parametrize(
    "change",
    [lambda url: url.replace("/0/", "/1/"), lambda url: url[:-1], lambda url: url + "&expires=1"],
)
async def test_a_signature_of_something_else(app, change):
    await upload(app)
    await upload(app)
    answer = await call(app, "GET", change(SIGNER.sign("/uploads/0/content")))
    assert (answer.status, answer.json["name"]) == (403, Forbidden.name)


async def test_a_signed_url_serves_head_and_ranges(app):
    await upload(app)
    url = SIGNER.sign("/uploads/0/content")
    assert (await call(app, "HEAD", url)).status == 200
    assert (await call(app, "GET", url, None, {"range": "bytes=-1"})).body == b"o"


async def test_without_a_signer_a_signature_means_nothing(tmp_path):
    app = application(tmp_path)
    await upload(app)
    answer = await call(app, "GET", SIGNER.sign("/uploads/0/content"))
    assert (answer.status, answer.json["message"]) == (403, "There are no signed URLs here")


async def test_middleware_in_front_of_the_service_protects_the_bytes(tmp_path):
    def guard(req, res, next):
        seen.append(req.match.id)
        if req.get("x-key") == "error":
            raise Forbidden("no")
        if req.get("x-key") != "yes":
            res.status(401).json("who?")
            return None
        return next()

    async def timing(req, res, next):
        await next()
        res.set("x-timed", "yes")

    seen = []
    app = express(App()).configure(rest())
    service = UploadService(LocalFileStore(tmp_path), MemoryService())
    app.use("uploads", timing, guard, service).configure(file_content("uploads", signer=SIGNER))
    app.use(error_handler(logger=False))
    await upload(app)
    url = "/uploads/0/content"
    for key, status in (("no", 401), ("error", 403), ("yes", 200)):
        answer = await call(app, "GET", url, None, {"x-key": key})
        assert (answer.status, answer.get("x-timed")) == (status, "yes")
    answer = await call(app, "GET", "/uploads/9/content", None, {"x-key": "yes"})
    assert (answer.status, answer.get("x-timed")) == (404, "yes")
    assert seen == ["0", "0", "0", "9"]
    assert (await call(app, "GET", SIGNER.sign(url))).body == b"hello"
    assert len(seen) == 4
    assert (await call(app, "GET", f"{url}?signature=x")).status == 403


async def test_hooks_that_reduce_a_record_do_not_break_signed_urls(app):
    await upload(app)

    @app.service("uploads").after("get")
    async def reduce(context):
        context.result = {"id": 0}

    assert (await call(app, "GET", SIGNER.sign("/uploads/0/content"))).body == b"hello"


@pytest.mark.parametrize("path", ["/uploads/9/content", "/uploads/0/content/x", "/uploads/content"])
async def test_what_is_not_there(app, path):
    await upload(app)
    assert (await call(app, "GET", path)).status == 404


async def test_bytes_that_are_missing(app, tmp_path):
    record = await upload(app)
    (tmp_path / "content" / record["contentKey"]).unlink()
    answer = await call(app, "GET", "/uploads/0/content")
    assert (answer.status, answer.json["message"]) == (404, "The content of this file is missing")


async def test_a_service_that_was_taken_away(app):
    await app.unuse("uploads")
    assert (await call(app, "GET", "/uploads/0/content")).status == 404


async def test_a_path_with_placeholders(tmp_path):
    app = express(App()).configure(rest())
    app.use("rooms/:room/uploads", UploadService(LocalFileStore(tmp_path), MemoryService()))
    app.configure(file_content("rooms/:room/uploads", signer=SIGNER))
    app.use(error_handler(logger=False))
    rooms = []

    @app.service("rooms/:room/uploads").before("get")
    async def note(context):
        rooms.append(context.params.route["room"])

    data = {"name": "a", "content": b"x"}
    await app.service("rooms/:room/uploads").create(data)
    assert (await call(app, "GET", "/rooms/7/uploads/0/content")).status == 200
    assert (await call(app, "GET", SIGNER.sign("/rooms/8/uploads/0/content"))).status == 200
    assert rooms == ["7", "8"]


async def test_a_service_of_another_application(tmp_path):
    inner = App().use("uploads", UploadService(LocalFileStore(tmp_path), MemoryService()))
    app = express(App()).configure(rest()).use("inner", inner)
    app.configure(file_content("inner/uploads"))
    await inner.service("uploads").create({"name": "a", "content": b"x"})
    assert (await call(app, "GET", "/inner/uploads/0/content")).body == b"x"


async def test_where_the_application_is_mounted(app):
    await upload(app)
    outer = express().use("/api", app)
    assert (await call(outer, "GET", "/api/uploads/0/content")).body == b"hello"
    assert (await call(outer, "GET", f"/api{SIGNER.sign('/uploads/0/content')}")).status == 200


def test_where_it_cannot_be_configured(tmp_path):
    with pytest.raises(TypeError, match="what express"):
        file_content("uploads")(App())
    app = express(App())
    with pytest.raises(RuntimeError, match=r"configure rest\(\) before"):
        app.configure(file_content("uploads"))
    app.configure(rest()).use("notes", MemoryService())
    with pytest.raises(LookupError):
        app.configure(file_content("uploads"))
    with pytest.raises(TypeError, match="'notes' is not an UploadService"):
        app.configure(file_content("notes"))


async def test_params_that_hooks_set_reach_the_second_look(tmp_path):
    class Tenants(MemoryService):
        async def get(self, id, params):
            tenants.append((params.get("tenant"), params.provider))
            return await super().get(id, params)

    tenants = []
    app = application(tmp_path, service=UploadService(LocalFileStore(tmp_path), Tenants()))

    @app.service("uploads").before("get")
    async def tenant(context):
        context.params.tenant = "acme"

    await upload(app)
    assert (await call(app, "GET", "/uploads/0/content")).status == 200
    assert tenants == [("acme", "rest"), ("acme", None)]
    assert Params().get("tenant") is None
