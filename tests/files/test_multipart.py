"""Forms are read part by part, within limits, and what is not valid is refused."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.express.asgi_client import Sender, call, request
from tests.files.forms import BOUNDARY, FORM, PNG, field_part, file_part, form, part, post_form

from alula import UNSET, App
from alula.adapters.memory import MemoryService
from alula.errors import BadRequest, FrameworkError
from alula.express import error_handler, express, rest
from alula.files import multipart
from alula.files._form import Form
from alula.files._upload import UploadLimits, check_file_name

LIMITS = UploadLimits(10, 1_000_000, 5_000_000, 10, 1000, None)


def upload_of(*pieces: bytes, limits: UploadLimits = LIMITS, leaves: bool = False) -> Form:
    return Form(request("POST", headers=FORM, sender=Sender(pieces, leaves=leaves)), limits)


async def read(upload: Form) -> list[tuple[str, str | None, str, bytes]]:
    """Return name, name of the file, type and content of each part."""
    return [
        (part.name, part.file_name, part.type, b"".join([piece async for piece in part]))
        async for part in upload
    ]


def echo(**limits):
    """Return an application that tells what a form has."""

    async def respond(req, res):
        parts = await read(req.body["upload"])
        res.json([[name, file, type_, len(content)] for name, file, type_, content in parts])

    app = express().use(multipart(**limits)).post("/uploads", respond)
    return app.use(error_handler(logger=False))


async def test_files_and_fields_in_their_order():
    upload = upload_of(
        form(
            field_part("title", "Größe"),
            file_part(PNG, "ä.png", "image/png; x=1", "photo"),
            file_part(b"", "empty"),
        )
    )
    assert await read(upload) == [
        ("title", None, "", "Größe".encode()),
        ("photo", "ä.png", "image/png", PNG),
        ("file", "empty", "application/octet-stream", b""),
    ]
    assert await read(upload) == []  # it is read once


@given(st.lists(st.integers(1, 200), min_size=1, max_size=30), st.binary(max_size=300))
def test_it_does_not_matter_where_the_network_cuts(cuts, content):
    body = form(
        field_part("a", "b"), file_part(content + b"\r\n--" + BOUNDARY[:5].encode() + content)
    )
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(body[at : at + cut])
        at += cut
    pieces.append(body[at:])
    parts = asyncio.run(read(upload_of(*pieces)))
    assert parts == asyncio.run(read(upload_of(body)))
    assert parts[1][3] == content + b"\r\n--" + BOUNDARY[:5].encode() + content


async def test_a_large_piece_is_parsed_in_steps():
    content = bytes(500_000)
    upload = upload_of(form(file_part(content)))
    file = await anext(upload)
    sizes = [len(piece) async for piece in file]
    assert sum(sizes) == file.size == 500_000
    assert max(sizes) <= 16 * 1024 + 512


async def test_an_empty_piece_is_not_the_end():
    upload = upload_of(form(file_part(b"x" * 1000)))
    file = await anext(upload)
    upload._events.appendleft(("data", b""))
    assert len(b"".join([piece async for piece in file])) == 1000


async def test_what_nobody_reads_is_skipped():
    upload = upload_of(form(file_part(b"x" * 1000), field_part("a", "b")))
    assert [part.name async for part in upload] == ["file", "a"]


async def test_a_preamble_of_blank_lines_and_an_epilogue_mean_nothing():
    assert len(await read(upload_of(b"\r\n" + form(field_part("a", "b")), b"epi", b"logue"))) == 1


async def test_a_file_input_without_a_file():
    empty = file_part(b"", "", "application/octet-stream")
    app = echo(types=["image/png"])
    answer = await post_form(app, empty, field_part("a", "b"))
    assert answer.json == [["a", None, "", 1]]
    answer = await post_form(app, file_part(b"x", ""))
    assert (answer.status, answer.json["message"]) == (
        400,
        "The part 'file' has content, but no name of a file",
    )


async def test_a_field_as_text():
    upload = upload_of(form(field_part("a", "ü"), field_part("b", b"\xff"), file_part(b"x")))
    assert await (await anext(upload)).text() == "ü"
    with pytest.raises(BadRequest, match="'b' is not valid UTF-8"):
        await (await anext(upload)).text()
    with pytest.raises(TypeError, match=r"the file 'a\.txt', is not a field"):
        await (await anext(upload)).text()


DISPOSITION = 'Content-Disposition: form-data; name="a"'
NOT_VALID = {
    "ends in a part": (file_part(b"x"), "ends before its last boundary"),
    "ends in a head": (file_part(b"x")[:20], "ends before its last boundary"),
    "empty": (b"", "ends before its last boundary"),
    "other boundary": (b"--other--\r\n", "not valid multipart/form-data"),
    "no disposition": (form(part(b"x", "Content-Type: text/plain")), "no name"),
    "no name": (form(part(b"x", "Content-Disposition: form-data")), "no name"),
    "attachment": (form(part(b"x", 'Content-Disposition: attachment; name="a"')), "no name"),
    "not UTF-8": (
        form(part(b"x", DISPOSITION).replace(b'"a"', b'"\xff"')),
        "name in the form is not valid UTF-8",
    ),
    "header twice": (form(part(b"x", DISPOSITION, DISPOSITION)), "content-disposition twice"),
    "bad type": (form(file_part(b"x", "a", "text")), "'text' as its content type"),
}


@pytest.mark.parametrize("kind", NOT_VALID)
async def test_what_is_not_valid_is_a_400(kind):
    body, message = NOT_VALID[kind]
    answer = await call(echo(), "POST", "/uploads", body, FORM)
    assert (answer.status, answer.json["name"]) == (400, "BadRequest")
    assert message in answer.json["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"\r\n" * 50_000 + form(field_part("a", "b")),
        form(field_part("a", "b")) + b"x" * 100_000,
        form(file_part(b"a")).replace(b"--\r\n", b" " * 100_000),
    ],
    ids=["preamble", "epilogue", "behind a boundary"],
)
async def test_bytes_that_mean_nothing_keep_the_parser_busy_for_a_moment(body):
    answer = await call(echo(), "POST", "/uploads", body, FORM)
    # older versions of the parser take spaces behind a boundary for content
    assert answer.status == 400
    assert "too many bytes" in answer.json["message"] or "last boundary" in answer.json["message"]


async def test_a_head_with_many_headers_or_a_long_one():
    for lines in ([f"X-{n}: y" for n in range(40)], ["X-A: " + "y" * 20_000]):
        answer = await post_form(echo(), part(b"x", *lines))
        assert answer.status == 400
    # also where the parser has no such limits of its own
    upload = upload_of()
    upload._events.extend([("field", b"x" * 5000), ("value", b"y" * 5000)])
    with pytest.raises(BadRequest, match="over 8192 bytes"):
        await upload._read_headers()
    for number in range(17):
        upload._events.extend([("field", b"x%d" % number), ("header", b"")])
    with pytest.raises(BadRequest, match="over 16 headers"):
        await upload._read_headers()


@pytest.mark.parametrize("boundary", ["", "; boundary=", "; boundary=" + "b" * 71])
async def test_a_boundary_that_is_not_valid(boundary):
    answer = await call(
        echo(), "POST", "/uploads", b"x", {"content-type": f"multipart/form-data{boundary}"}
    )
    assert (answer.status, "no valid boundary" in answer.text) == (400, True)


async def test_headers_with_many_options_are_not_parsed():
    answer = await call(
        echo(), "POST", "/uploads", b"x", {"content-type": f"{FORM['content-type']}{';' * 2048}"}
    )
    assert (answer.status, "Content-Type of an upload has over" in answer.text) == (400, True)
    answer = await post_form(echo(), part(b"x", f"{DISPOSITION}{';' * 2048}"))
    assert (answer.status, "Content-Disposition of an upload has" in answer.text) == (400, True)


async def test_a_client_that_goes_away():
    with pytest.raises(BadRequest, match="closed before"):
        await read(upload_of(form(file_part(b"x"))[:-20], leaves=True))


NAMES = [
    "../a",
    "..",
    ".",
    "/etc/passwd",
    "a/b",
    "..\\a",
    "a\x00.png",
    "a\nb",
    "a\x7f",
    " ",
    "\u202egnp.exe",
    "a\u2066",
    "x" * 256,
    "ä" * 128,
    "\ud800",
    None,
    5,
    b"a",
    "",
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_what_is_not_the_name_of_a_file(name):
    with pytest.raises(BadRequest, match="is not the name of a file"):
        check_file_name(name)


@pytest.mark.parametrize(
    "name", ["a", "a b.txt", "ä" * 127, "日本.png", "..a", "a..", "%2e%2e", "~"]
)
def test_the_name_of_a_file(name):
    check_file_name(name)


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ("dir/a.txt", "a.txt"),
        ("../../etc/passwd", "passwd"),
        ("/a.txt", "a.txt"),
        ("C:\\\\fakepath\\\\a.txt", "a.txt"),
        ("a\\\\b", "b"),
    ],
)
async def test_of_a_path_the_last_part_is_the_name(sent, name):
    answer = await post_form(echo(), file_part(b"x", sent))
    assert (answer.status, answer.json[0][1]) == (200, name)


EXTENDED = {
    "alone": ("filename*=UTF-8''%e2%82%ac%20rates.txt", "€ rates.txt"),
    "behind": ("filename=\"=?utf-8?B?4oKs?=\"; filename*=utf-8''%E2%82%AC.txt", "€.txt"),
    "in front": ("FILENAME*=utf-8''%E2%82%AC.txt; filename=\"a.txt\"", "€.txt"),
    "language": ("filename*=utf-8'de'Gr%C3%B6%C3%9Fe.txt", "Größe.txt"),
    "latin-1": ("filename*=iso-8859-1''na%EFve.txt", "naïve.txt"),
    "apostrophe": ("filename*=UTF-8''it's.txt", "it's.txt"),
    "path": ("filename*=UTF-8''..%2F..%2Fpasswd", "passwd"),
    "in quotes": ("filename=\"a; filename*=utf-8''b.txt\"", "a; filename*=utf-8''b.txt"),
    "behind quotes": ('filename="a\\"b"; filename*=utf-8\'\'c.txt', "c.txt"),
}


@pytest.mark.parametrize("kind", EXTENDED)
async def test_an_extended_file_name(kind):
    parameters, name = EXTENDED[kind]
    sent = part(b"x", f'Content-Disposition: form-data; name="file"; {parameters}')
    answer = await post_form(echo(), sent)
    assert (answer.status, answer.json[0][:2]) == (200, ["file", name])


@pytest.mark.parametrize(
    "parameters",
    [
        "filename*=a.txt",
        "filename*=",
        "filename*=utf-8''%FF.txt",
        "filename*=utf-8''%zz.txt",
        "filename*=shift-jis''a.txt",
        "filename*=utf-8''a.txt; filename*=utf-8''b.txt",
    ],
)
async def test_an_extended_file_name_that_is_not_valid(parameters):
    sent = part(b"x", f'Content-Disposition: form-data; name="file"; {parameters}')
    answer = await post_form(echo(), sent)
    assert (answer.status, "filename* that is not valid" in answer.json["message"]) == (400, True)


@pytest.mark.parametrize("content_type", ["image/png", "application/pdf", "text/plain"])
async def test_an_empty_file_may_be_of_any_type(content_type):
    answer = await post_form(echo(), file_part(b"", "a", content_type))
    assert (answer.status, answer.json) == (200, [["file", "a", content_type, 0]])


@pytest.mark.parametrize("name", ["..", "a/..", "a/", "a\\\\", "a/\u202ea", " / "])
async def test_what_is_no_name_is_refused(name):
    answer = await post_form(echo(), file_part(b"x", name))
    assert (answer.status, "is not the name of a file" in answer.json["message"]) == (400, True)


LIMITED = {
    "files": ({"max_files": 1}, [file_part(b"x")] * 2, "more than 1 files"),
    "fields": ({"max_fields": 1}, [field_part("a", "x")] * 2, "more than 1 fields"),
    "file": ({"max_file_size": 99}, [file_part(b"x" * 100)], "'a.txt', is too large"),
    "field": ({"max_field_size": "99b"}, [field_part("a", "x" * 100)], "'a' is too large"),
    "request": ({"max_request_size": 99}, [field_part("a", "x" * 100)], "the limit is 99 bytes"),
}


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("kind", LIMITED)
async def test_limits(kind, chunked):
    limits, parts, message = LIMITED[kind]
    body = form(*parts)
    answer = await call(echo(**limits), "POST", "/uploads", [body] if chunked else body, FORM)
    assert (answer.status, answer.json["name"]) == (413, "PayloadTooLarge")
    assert message in answer.json["message"]


async def test_just_within_limits():
    parts = [file_part(b"x" * 100), field_part("a", "x" * 100)]
    body = form(*parts)
    answer = await post_form(
        echo(max_files=1, max_fields=1, max_file_size=100, max_field_size=100,
             max_request_size=len(body)),
        *parts,
    )  # fmt: skip
    assert answer.status == 200


async def test_a_length_over_the_limit_is_refused_before_anything_is_read():
    async def receive():
        raise AssertionError

    req = request("POST", headers={**FORM, "content-length": "9" * 30}, sender=receive)
    with pytest.raises(FrameworkError, match="too large"):
        await read(Form(req, LIMITS))


@pytest.mark.parametrize(("outer", "inner"), [("1kb", "10kb"), ("10kb", "1kb")])
async def test_the_limits_of_the_last_middleware_count(outer, inner):
    async def respond(req, res):
        res.json(len(await read(req.body["upload"])))

    app = express().use(multipart(max_file_size=outer, max_request_size=outer))
    app.post("/uploads", multipart(max_file_size=inner), respond).use(error_handler(logger=False))
    answer = await post_form(app, file_part(b"x" * 5000))
    assert answer.status == (200 if inner == "10kb" else 413)


async def test_a_form_that_was_read_stays():
    async def first(req, res, next):
        part = await anext(req.body["upload"])
        req.first = part.name
        await next()

    async def respond(req, res):
        res.json([req.first, *[part.name async for part in req.body["upload"]]])

    app = express().use(multipart(), first, multipart()).post("/uploads", respond)
    answer = await post_form(app, field_part("a", "x"), field_part("b", "x"))
    assert answer.json == ["a", "b"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"content_encoding": "gzip"}, 415), ({"content_encoding": " Identity "}, 200)],
)
async def test_nothing_is_unpacked(headers, status):
    answer = await post_form(echo(), file_part(b"x"), **headers)
    assert answer.status == status


@pytest.mark.parametrize(("encoding", "status"), [("base64", 415), ("Binary", 200), ("8bit", 200)])
async def test_transfer_encodings(encoding, status):
    coded = part(b"x", DISPOSITION, f"Content-Transfer-Encoding: {encoding}")
    assert (await post_form(echo(), coded)).status == status


@pytest.mark.parametrize(
    ("types", "declared", "status"),
    [
        (["image/png"], "image/png", 200),
        (["image/*"], "IMAGE/PNG", 200),
        (["image/jpeg", "text/*"], "image/png", 415),
        ([], "image/png", 415),
        (None, None, 200),
        (["image/png"], None, 415),
        (None, "text/plain", 415),  # its content is a picture
        (None, "image/jpeg", 415),
    ],
)
async def test_types(types, declared, status):
    answer = await post_form(echo(types=types), file_part(PNG, "a.png", declared))
    assert answer.status == status
    if status == 415:
        assert "The part 'file', the file 'a.png', is" in answer.json["message"]


async def test_the_signature_may_arrive_in_pieces():
    body = form(file_part(b"%PDF-1.7", "a.txt", "text/plain"))
    with pytest.raises(FrameworkError, match="its content is of another type"):
        await read(upload_of(*(body[at : at + 1] for at in range(len(body)))))


async def test_only_services_that_take_uploads_get_forms():
    class Files:
        takes_uploads = True

        async def create(self, data, params):
            return [part.name async for part in data["upload"]]

    inner = App().use("files", Files())
    app = express(App()).use(multipart()).configure(rest())
    app.use("notes", MemoryService()).use("files", Files(), methods=["create"])
    app.use("inner", inner)
    app.use("own", multipart(), Files()).use("closed", multipart(), MemoryService())
    app.post("/route", lambda req, res: res.json(len(req.body)))
    app.use(error_handler(logger=False))
    for path, status in (
        ("/notes", 415),
        ("/files", 201),
        ("/inner/files", 201),
        ("/own", 201),
        ("/closed", 415),
        ("/route", 200),
    ):
        answer = await post_form(app, file_part(b"x"), url=path)
        assert (path, answer.status) == (path, status)


async def test_what_is_not_a_form_goes_on():
    app = express().use(multipart()).post("/uploads", lambda req, res: res.json(req.body is UNSET))
    answer = await call(app, "POST", "/uploads", b"{}", {"content-type": "application/json"})
    assert answer.json is True

    def parsed(req, res, next):
        req.body = {}
        return next()

    app = express().use(parsed, multipart()).post("/uploads", lambda req, res: res.json(req.body))
    assert (await post_form(app, file_part(b"x"))).json == {}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"types": "image/png"}, TypeError, "give a list"),
        ({"types": ["png"]}, ValueError, "'png' is not a content type"),
        ({"types": ["Image/png"]}, ValueError, "in lower case"),
        ({"max_files": -1}, ValueError, "max_files is -1"),
        ({"max_fields": True}, ValueError, "max_fields is True"),
        ({"max_file_size": "x"}, ValueError, "not a size"),
    ],
)
def test_arguments_that_are_not_valid(arguments, error, message):
    with pytest.raises(error, match=message):
        multipart(**arguments)
