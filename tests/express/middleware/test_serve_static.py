"""Files of a folder, and never of any other place."""

from __future__ import annotations

import os
import sys
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.express.asgi_client import call

from alula import App
from alula.express import error_handler, express, not_found, rest, serve_static

SECRET = "secret: 42"
posix = pytest.mark.skipif(sys.platform == "win32", reason="names and links of POSIX systems")


@pytest.fixture
def place(tmp_path):
    """A folder that is served, in a folder with secrets."""
    public = tmp_path / "public"
    for path, text in {
        "secret.txt": SECRET,
        "public-private/secret.txt": SECRET,
        "public/.env": SECRET,
        "public/.git/config": SECRET,
        "public/docs/.hidden.txt": SECRET,
        "public/index.html": "<h1>front</h1>",
        "public/a.txt": "plain",
        "public/style.css": "b {}",
        "public/app.js": "1",
        "public/no-type": "bytes",
        "public/two words.txt": "words",
        "public/ü.txt": "umlaut",
        "public/%41.txt": "percent",
        "public/docs/index.html": "<h1>docs</h1>",
        "public/docs/page.html": "page",
        "public/empty/.keep": "",
        "public/file.d/index.html": "folder",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return public


def app_with(folder, **options):
    app = express()
    app.use(serve_static(folder, **options))
    app.use(not_found())
    app.use(error_handler(logger=False))
    return app


@pytest.fixture
def app(place):
    return app_with(place)


async def get(app, url, method="GET", **headers):
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return await call(app, method, url, headers=sent)


FILES = {
    "/a.txt": ("plain", "text/plain; charset=utf-8"),
    "/style.css": ("b {}", "text/css; charset=utf-8"),
    "/app.js": ("1", "text/javascript; charset=utf-8"),
    "/no-type": ("bytes", "application/octet-stream"),
    "/docs/page.html": ("page", "text/html; charset=utf-8"),
    "/two%20words.txt": ("words", "text/plain; charset=utf-8"),
    "/%C3%BC.txt": ("umlaut", "text/plain; charset=utf-8"),
    "/%2541.txt": ("percent", "text/plain; charset=utf-8"),
    "/%61.txt": ("plain", "text/plain; charset=utf-8"),
    "//docs//page.html": ("page", "text/html; charset=utf-8"),
    "/a.txt?v=2": ("plain", "text/plain; charset=utf-8"),
    "/": ("<h1>front</h1>", "text/html; charset=utf-8"),
    "/index.html": ("<h1>front</h1>", "text/html; charset=utf-8"),
    "/docs/": ("<h1>docs</h1>", "text/html; charset=utf-8"),
}


@pytest.mark.parametrize(("url", "file"), FILES.items())
async def test_serves(app, url, file):
    answer = await get(app, url)
    assert answer.status == 200
    assert (answer.text, answer.get("content-type")) == file
    assert answer.get("cache-control") == "public, max-age=0"


@pytest.mark.parametrize("url", FILES)
async def test_head_has_the_headers_of_get(app, url):
    plain, head = await get(app, url), await get(app, url, "HEAD")
    assert (head.status, head.headers, head.body) == (200, plain.headers, b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_other_methods_go_on(app, method):
    assert (await get(app, "/a.txt", method)).status == 404


ABSENT = [
    "/nope.txt",
    "/docs/nope.html",
    "/a.txt/",
    "/a.txt/b",
    "/empty",
    "/empty/",
    "/A.TXT" if sys.platform == "linux" else "/nope",
    "/" + "x" * 5000,
    "/" + "/".join(["x"] * 5000),
    "/%FF",
    "/a.txt%20",
    "/docs%2Fpage.html",
    "/docs%5Cpage.html",
    "/docs\\page.html",
]

TRAVERSALS = [
    "/../secret.txt",
    "/docs/../../secret.txt",
    "/./a.txt",
    "/..",
    "/%2e%2e/secret.txt",
    "/%2E%2E%2Fsecret.txt",
    "/..%2Fsecret.txt",
    "/docs/%2e%2e/a.txt",
    "/%252e%252e/secret.txt",
    "/..%5Csecret.txt",
    "/..\\secret.txt",
    "/docs\\..\\..\\secret.txt",
    "/..;/secret.txt",
    "/.../secret.txt",
    "/..%00/secret.txt",
    "/a.txt%00",
    "/a.txt%00.png",
    "/%00",
    "/../public-private/secret.txt",
    "/%2F{secret}",
    "//{secret}",
    "/{secret}",
    "/..%c0%af../secret.txt",
    "/%uff0e%uff0e/secret.txt",
    "/C:/Windows/win.ini",
    "/file:///{secret}",
    "/.env",
    "/%2eenv",
    "/.git/config",
    "/%2Egit%2Fconfig",
    "/.git/",
    "/docs/.hidden.txt",
]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("url", [*ABSENT, *TRAVERSALS])
async def test_what_is_no_file_of_the_folder_goes_on(app, place, url, method):
    secret = str(place.parent / "secret.txt")
    for each in {url.replace("{secret}", secret), url.replace("{secret}", secret.strip("/"))}:
        answer = await get(app, each, method)
        assert answer.status == 404
        assert SECRET not in answer.text


@given(
    st.lists(
        st.sampled_from(
            [
                "..",
                ".",
                "/",
                "\\",
                "%2e",
                "%2f",
                "%5c",
                "%25",
                "%00",
                "secret.txt",
                "docs",
                "public",
                "~",
                ".env",
            ]
        ),
        max_size=12,
    ).map("".join)
)
async def test_no_path_leads_to_a_secret(tmp_path_factory, tail):
    folder = tmp_path_factory.getbasetemp() / "fuzzed"
    if not folder.exists():
        (folder / "public" / "docs").mkdir(parents=True)
        (folder / "public" / ".env").write_text(SECRET)
        (folder / "secret.txt").write_text(SECRET)
    answer = await get(app_with(folder / "public"), "/" + tail)
    assert answer.status == 404
    assert SECRET not in answer.text


# -- links ----------------------------------------------------------------------------------------


@posix
class TestLinks:
    @pytest.mark.parametrize(
        ("link", "target"),
        {
            "to a file": ("link.txt", "../secret.txt"),
            "to a folder": ("out", ".."),
            "to a folder with a similar name": ("out", "../public-private"),
            "to the whole machine": ("out", "/"),
            "to a dot file": ("link.txt", ".env"),
            "to a dot folder": ("out", ".git"),
            "in two steps": ("link.txt", "docs/second"),
            "to itself": ("link.txt", "link.txt"),
            "to nothing": ("link.txt", "nope"),
            "to the folder above the files": ("secret.txt", "../public/../secret.txt"),
        }.values(),
    )
    async def test_out_of_the_folder_count_as_absent(self, app, place, link, target):
        (place / "docs" / "second").symlink_to("../../secret.txt")
        (place / link).symlink_to(target)
        for url in (f"/{link}", f"/{link}/secret.txt", f"/{link}/config", f"/{link}/etc/passwd"):
            answer = await get(app, url)
            assert (answer.status, SECRET in answer.text) == (404, False)

    async def test_within_the_folder_are_followed(self, app, place):
        (place / "link.txt").symlink_to("a.txt")
        (place / "manual").symlink_to("docs")
        assert (await get(app, "/link.txt")).text == "plain"
        assert (await get(app, "/manual/page.html")).text == "page"
        assert (await get(app, "/manual/")).text == "<h1>docs</h1>"

    async def test_may_stand_for_the_index(self, app, place):
        (place / "docs" / "index.html").unlink()
        (place / "docs" / "index.html").symlink_to("page.html")
        assert (await get(app, "/docs/")).text == "page"

    async def test_may_not_lead_out_as_an_index(self, app, place):
        (place / "docs" / "index.html").unlink()
        (place / "docs" / "index.html").symlink_to("../../secret.txt")
        assert (await get(app, "/docs/")).status == 404

    async def test_to_the_served_folder_itself_are_followed(self, place):
        link = place.parent / "www"
        link.symlink_to(place)
        assert (await get(app_with(link), "/a.txt")).text == "plain"

    async def test_a_dot_folder_above_the_files_does_not_matter(self, place):
        hidden = place.parent / ".cache" / "site"
        hidden.mkdir(parents=True)
        (hidden / "a.txt").write_text("a")
        assert (await get(app_with(hidden), "/a.txt")).text == "a"

    async def test_what_is_neither_file_nor_folder_counts_as_absent(self, app, place):
        os.mkfifo(place / "pipe")
        assert (await get(app, "/pipe")).status == 404

    async def test_a_file_that_may_not_be_read_counts_as_absent(self, app, monkeypatch):
        monkeypatch.setattr("os.access", lambda path, mode: False)
        assert (await get(app, "/a.txt")).status == 404


# -- folders --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("/docs", "/docs/"),
        ("/docs?a=1&b=%20", "/docs/?a=1&b=%20"),
        ("/file.d", "/file.d/"),
        ("//docs", "/docs/"),
        ("///docs", "/docs/"),
    ],
)
async def test_a_folder_is_asked_for_with_a_slash(app, url, location):
    answer = await get(app, url)
    assert (answer.status, answer.get("location")) == (301, location)


@pytest.mark.parametrize(
    ("url", "status", "found"),
    [
        ("/static", 301, "/static/"),
        ("/static/", 200, "<h1>front</h1>"),
        ("/static/a.txt", 200, "plain"),
        ("/static/docs", 301, "/static/docs/"),
        ("/static//docs", 301, "/static/docs/"),
        ("/static/docs/", 200, "<h1>docs</h1>"),
        ("/static/nope", 404, None),
    ],
)
@pytest.mark.parametrize("root", ["", "/api"])
async def test_below_a_path(place, url, status, found, root):
    app = express()
    app.use("/static", serve_static(place))
    answer = await call(app, "GET", root + url, root_path=root)
    assert answer.status == status
    if status == 301:
        assert answer.get("location") == root + found
    elif found:
        assert answer.text == found


async def test_an_index_of_ones_own(place):
    app = app_with(place, index="page.html")
    assert (await get(app, "/docs/")).text == "page"
    assert (await get(app, "/")).status == 404


async def test_no_index(place):
    app = app_with(place, index=None)
    for url in ("/", "/docs", "/docs/"):
        assert (await get(app, url)).status == 404
    assert (await get(app, "/docs/index.html")).text == "<h1>docs</h1>"


async def test_a_folder_named_like_the_index_is_none(place):
    (place / "odd" / "index.html").mkdir(parents=True)
    assert (await get(app_with(place), "/odd/")).status == 404


def test_a_folder_that_is_none_is_refused(place):
    for path in (place / "nope", place / "a.txt"):
        with pytest.raises(FileNotFoundError, match="there is no folder"):
            serve_static(path)


async def test_a_folder_that_goes_away_is_empty(place):
    app = app_with(place / "empty")
    (place / "empty" / ".keep").unlink()
    (place / "empty").rmdir()
    assert (await get(app, "/a.txt")).status == 404


async def test_a_relative_folder_stays_where_it_was(place, monkeypatch):
    monkeypatch.chdir(place.parent)
    app = app_with("public")
    monkeypatch.chdir(place)
    assert (await get(app, "/a.txt")).text == "plain"


# -- caches and parts -----------------------------------------------------------------------------


async def test_an_age(place):
    answer = await get(app_with(place, max_age=3600), "/a.txt")
    assert answer.get("cache-control") == "public, max-age=3600"


async def test_who_has_the_file_gets_no_second_copy(app):
    first = await get(app, "/a.txt")
    tag, date = first.get("etag"), first.get("last-modified")
    for headers in (
        {"if_none_match": tag},
        {"if_none_match": f'"x", {tag}'},
        {"if_none_match": f"W/{tag}"},
        {"if_none_match": "*"},
        {"if_modified_since": date},
    ):
        answer = await get(app, "/a.txt", **headers)
        assert (answer.status, answer.body, answer.get("etag")) == (304, b"", tag)
        assert answer.get("cache-control") == "public, max-age=0"


async def test_who_has_another_gets_it(app, place):
    old = formatdate((place / "a.txt").stat().st_mtime - 60, usegmt=True)
    for headers in (
        {"if_none_match": '"x"'},
        {"if_modified_since": old},
        {"if_modified_since": "yesterday"},
        {"if_none_match": '"x"', "if_modified_since": formatdate(usegmt=True)},
    ):
        assert (await get(app, "/a.txt", **headers)).text == "plain"


RANGES = {
    "bytes=0-1": (206, "pl", "bytes 0-1/5"),
    "bytes=3-": (206, "in", "bytes 3-4/5"),
    "bytes=-2": (206, "in", "bytes 3-4/5"),
    "bytes=1-100": (206, "lain", "bytes 1-4/5"),
    "bytes=5-": (416, None, "bytes */5"),
    "bytes=9-10": (416, None, "bytes */5"),
    "bytes=--1": (416, None, "bytes */5"),
}


@pytest.mark.parametrize(("header", "found"), RANGES.items())
async def test_parts_of_a_file(app, header, found):
    status, text, place = found
    answer = await get(app, "/a.txt", range=header)
    assert (answer.status, answer.get("content-range")) == (status, place)
    if text is not None:
        assert answer.text == text
        assert answer.get("accept-ranges") == "bytes"


async def test_several_parts(app):
    answer = await get(app, "/a.txt", range="bytes=0-0,4-4")
    assert answer.status == 206
    assert answer.get("content-type").startswith("multipart/byteranges; boundary=")
    assert "bytes 0-0/5" in answer.text
    assert "bytes 4-4/5" in answer.text


@pytest.mark.parametrize("header", ["bytes", "lines=1-2", "bytes=x-y", "bytes=2-1", "bytes="])
async def test_a_range_that_is_none_is_ignored(app, header):
    answer = await get(app, "/a.txt", range=header)
    assert (answer.status, answer.text) == (200, "plain")


async def test_who_asks_for_no_part_of_a_file_gets_error_json(app):
    answer = await get(app, "/a.txt", range="bytes=9-10")
    assert answer.json["className"] == "range-not-satisfiable"
    assert answer.get("content-type") == "application/json"
    assert answer.get("content-length") == str(len(answer.text))


async def test_caches_keep_no_error_in_place_of_a_file(place):
    answer = await get(app_with(place, max_age=3600), "/a.txt", range="bytes=9-10")
    assert (answer.status, answer.all("cache-control")) == (416, ["no-store"])


async def test_a_part_of_what_is_another_file_by_now_is_the_whole(app):
    tag = (await get(app, "/a.txt")).get("etag")
    assert (await get(app, "/a.txt", range="bytes=0-1", if_range=tag)).text == "pl"
    assert (await get(app, "/a.txt", range="bytes=0-1", if_range='"old"')).text == "plain"


# -- with others ----------------------------------------------------------------------------------


async def test_services_and_other_folders_come_after(place, tmp_path_factory):
    class Messages:
        async def find(self, params):
            return [1]

    second = tmp_path_factory.mktemp("second")
    (second / "b.txt").write_text("b")
    app = express(App())
    app.configure(rest())
    app.use("messages", Messages())
    app.use([serve_static(place), serve_static(second)])
    assert (await get(app, "/messages")).json == [1]
    assert (await get(app, "/a.txt")).text == "plain"
    assert (await get(app, "/b.txt")).text == "b"
    assert (await get(app, "/c.txt")).status == 404


async def test_headers_of_other_middleware_are_sent_too(place):
    def mark(req, res, next):
        res.set("x-frame-options", "DENY").set("cache-control", "no-store")
        return next()

    app = express()
    app.use([mark, serve_static(place)])
    answer = await get(app, "/a.txt")
    assert answer.get("x-frame-options") == "DENY"
    assert answer.get("cache-control") == "public, max-age=0"
