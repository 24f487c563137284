"""A body that is the file itself: read in pieces, within limits, and only where it is asked for."""

from __future__ import annotations

import pytest
from tests.express.asgi_client import call
from tests.files.forms import PNG, file_part, post_form
from tests.files.test_multipart import read

from alula import App
from alula.adapters.memory import MemoryService
from alula.errors import Forbidden
from alula.express import error_handler, express, json, rest
from alula.files import LocalFileStore, UploadService, file_body, file_content, multipart
from alula.files._content_types import UNKNOWN_TYPE

AS_JSON = {"content-type": "application/json"}
AS_PNG = {"content-type": "image/png", "content-disposition": 'attachment; filename="a.png"'}
AS_TEXT = {"content-type": "text/plain"}


class Files:
    """Tells what it gets."""

    takes_uploads = True

    async def create(self, data, params):
        upload = data.pop("upload", None)
        parts = [] if upload is None else await read(upload)
        return data | {"parts": [[*part[:3], len(part[3])] for part in parts]}

    async def patch(self, id, data, params):
        return {"id": id, **await self.create(data, params)}


def application(service=None, **options):
    app = express(App()).use(multipart(), json(), file_body(**options)).configure(rest())
    app.use("files", service or Files()).use("notes", MemoryService())
    app.post("/route", lambda req, res: res.json(str(req.body["upload"].kind)))
    return app.use(error_handler(logger=False))


@pytest.mark.parametrize(
    ("headers", "file_name", "type_"),
    [
        ({}, "", UNKNOWN_TYPE),
        ({"content-type": "Text/Plain; charset=utf-8"}, "", "text/plain"),
        (AS_PNG, "a.png", "image/png"),
        ({"content-disposition": "attachment; filename=x/b.c"}, "b.c", UNKNOWN_TYPE),
        ({"content-disposition": "inline; filename*=UTF-8''%C3%A4"}, "ä", UNKNOWN_TYPE),
    ],
)
async def test_one_part_with_the_type_and_the_name_of_the_headers(headers, file_name, type_):
    body = b"text" if type_ == "text/plain" else PNG
    for sent in (body, [body[:3], b"", body[3:]]):
        answer = await call(application(), "POST", "/files", sent, headers)
        assert answer.json == {"parts": [["", file_name, type_, len(body)]]}


async def test_any_method_takes_it_and_hooks_run_before_it_is_read():
    app, seen = application(), []

    @app.service("files").before("patch")
    async def check(context):
        seen.append(context.data["upload"])
        context.data["owner"] = 7
        if context.id == "2":
            raise Forbidden("not yours")

    answer = await call(app, "PATCH", "/files/1", PNG, AS_PNG)
    assert answer.json == {"id": "1", "owner": 7, "parts": [["", "a.png", "image/png", len(PNG)]]}
    assert (await call(app, "PATCH", "/files/2", PNG, AS_PNG)).status == 403
    assert [upload.is_begun for upload in seen] == [True, False]


async def test_it_can_be_read_once_and_what_is_left_is_skipped():
    class Counting(Files):
        async def create(self, data, params):
            return [[part.size async for part in data["upload"]] for _ in range(2)]

    answer = await call(application(Counting()), "POST", "/files", [PNG, PNG], AS_PNG)
    assert answer.json == [[0], []]


async def test_parsers_and_forms_come_first():
    app = application()
    answer = await call(app, "POST", "/files", b'{"a": 1}', AS_JSON)
    assert answer.json == {"a": 1, "parts": []}
    answer = await post_form(app, file_part(b"x"), url="/files")
    assert answer.json["parts"] == [["file", "a.txt", UNKNOWN_TYPE, 1]]
    assert (await call(app, "POST", "/files")).json == {"parts": []}
    alone = express(App()).use(file_body()).configure(rest()).use("files", Files())
    answer = await post_form(alone.use(error_handler(logger=False)), file_part(b"x"), url="/files")
    assert (answer.status, "register multipart()" in answer.json["message"]) == (415, True)


async def test_only_services_that_take_uploads_and_routes_get_one():
    app = application()
    assert (await call(app, "POST", "/route", PNG, AS_PNG)).json == "body"
    answer = await call(app, "POST", "/notes", PNG, AS_PNG)
    assert (answer.status, "send application/json" in answer.json["message"]) == (415, True)


@pytest.mark.parametrize(
    ("headers", "body", "status", "message"),
    [
        (AS_TEXT, b"x" * 101, 413, "The body is too large; the limit is 100 bytes"),
        (AS_TEXT, [b"x" * 60, b"x" * 60], 413, "The body is too large; the limit is 100 bytes"),
        (AS_TEXT, PNG[:90], 415, "The body is sent as text/plain, but its content is of another"),
        ({"content-type": "image/gif"}, b"GIF89a", 415, "The body is of the type image/gif; send"),
        ({"content-type": "text"}, b"x", 400, "The body has 'text' as its content type"),
        (AS_TEXT | {"content-encoding": "gzip"}, b"x", 415, "cannot have the content encoding"),
        (AS_TEXT | {"content-disposition": "a; filename=.."}, b"x", 400, "is not the name of a"),
        (AS_TEXT | {"content-disposition": "a; filename=\xff"}, b"x", 400, "is not valid UTF-8"),
        (AS_TEXT | {"content-disposition": "a; filename*=x"}, b"x", 400, "filename* that is not"),
    ],
)
async def test_what_is_refused(headers, body, status, message):
    app = application(max_size=100, types=["text/*", "image/png"])
    answer = await call(app, "POST", "/files", body, headers)
    assert (answer.status, message in answer.json["message"]) == (status, True), answer.json


async def test_the_last_limits_count():
    app = express(App()).use(file_body(max_size=1)).configure(rest())
    app.use("files", file_body(types=["text/plain"]), Files()).use(error_handler(logger=False))
    assert (await call(app, "POST", "/files", b"text", AS_TEXT)).status == 201
    assert (await call(app, "POST", "/files", PNG, AS_PNG)).status == 415


def test_arguments_that_are_not_valid():
    with pytest.raises(TypeError, match="give a list"):
        file_body(types="image/png")
    with pytest.raises(ValueError, match="'png' is not a content type"):
        file_body(types=["png"])
    with pytest.raises(ValueError, match="not a size"):
        file_body(max_size="x")


async def test_a_service_of_uploads_keeps_it(tmp_path):
    app = application(UploadService(LocalFileStore(tmp_path), MemoryService(start_id=1)))
    app.configure(file_content("files"))
    record = (await call(app, "POST", "/files", [PNG[:5], PNG[5:]], AS_PNG)).json
    assert (record["name"], record["type"], record["size"]) == ("a.png", "image/png", len(PNG))
    assert (await call(app, "GET", "/files/1/content")).body == PNG
    await call(app, "DELETE", "/files/1")

    answer = await call(app, "POST", "/files", b"text", AS_TEXT)
    assert (answer.status, "The file has no name" in answer.json["message"]) == (400, True)
    answer = await call(app, "POST", "/files", [PNG], AS_PNG, leaves=True)
    assert answer.status == 400
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
