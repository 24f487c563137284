"""Files that change while they are served."""

from __future__ import annotations

import os

import anyio
import pytest
from starlette.staticfiles import StaticFiles
from tests.express.asgi_client import Answer, Receiver, Sender, scope_of

from alula.express._middleware import serve_static as module
from alula.express._middleware.serve_static import file_response

BIG = 200_000


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    return path


async def send(file, seen=None, receiver=None, method="GET", **headers) -> Answer:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    receiver = receiver or Receiver(method)
    app = file_response(StaticFiles(directory=file.parent), str(file), seen or file.stat())
    await app(scope_of(method, "/", sent), Sender(), receiver)
    assert receiver.answer.ended
    return receiver.answer


async def test_a_file_that_stays_is_sent(file):
    answer = await send(file)
    assert (answer.status, answer.text) == (200, "old")


def replace(file, text):
    """As deployments do it: another file takes the name."""
    other = file.with_suffix(".new")
    other.write_text(text)
    other.replace(file)


@pytest.mark.parametrize("text", ["new", "newer and longer", ""])
async def test_a_file_that_was_replaced_is_sent_as_it_is_now(file, text):
    seen = file.stat()
    old = await send(file)
    replace(file, text)
    answer = await send(file, seen)
    assert (answer.status, answer.text) == (200, text)
    assert answer.get("content-length") == str(len(text))
    assert answer.get("etag") != old.get("etag")


async def test_a_file_that_was_written_anew_is_sent_as_it_is_now(file):
    seen = file.stat()
    file.write_text("NEW")
    os.utime(file, ns=(seen.st_atime_ns, seen.st_mtime_ns + 5_000_000_000))
    assert (await send(file, seen)).text == "NEW"


@pytest.mark.parametrize("headers", [{"range": "bytes=0-1"}, {"if_none_match": "{etag}"}])
async def test_parts_and_tags_are_those_of_the_file_that_is_there(file, headers):
    seen, tag = file.stat(), (await send(file)).get("etag")
    replace(file, "replaced")
    answer = await send(file, seen, **{name: v.format(etag=tag) for name, v in headers.items()})
    assert answer.text == ("re" if "range" in headers else "replaced")


async def test_head_tells_of_the_file_that_is_there(file):
    seen = file.stat()
    replace(file, "replaced")
    answer = await send(file, seen, method="HEAD")
    assert (answer.get("content-length"), answer.body) == ("8", b"")


async def test_a_file_that_was_removed_is_not_found(file):
    seen = file.stat()
    file.unlink()
    answer = await send(file, seen)
    assert (answer.status, answer.json["className"]) == (404, "not-found")
    assert answer.get("cache-control") == "no-store"


async def test_a_file_that_changes_all_the_time_is_unavailable(file, monkeypatch):
    real, times = os.stat, []

    def stat(path, **options):
        if path == str(file):
            times.append(1)
            replace(file, "x" * len(times))
        return real(path, **options)

    seen = file.stat()
    monkeypatch.setattr("os.stat", stat)
    answer = await send(file, seen)
    assert (answer.status, answer.json["message"]) == (503, "The file is being replaced")
    assert answer.get("cache-control") == "no-store"


class Slow(Receiver):
    """A client during whose first part something happens to the file."""

    def __init__(self, change):
        super().__init__()
        self._change = change

    async def __call__(self, message):
        await super().__call__(message)
        if message["type"] == "http.response.body" and self._change is not None:
            change, self._change = self._change, None
            change()


async def test_what_is_appended_meanwhile_is_not_sent(file):
    def grow():
        with file.open("a") as more:
            more.write("y" * BIG)

    file.write_text("x" * BIG)
    answer = await send(file, receiver=Slow(grow))
    assert answer.body == b"x" * BIG


async def test_a_file_that_is_replaced_meanwhile_is_sent_to_its_end(file):
    file.write_text("x" * BIG)
    answer = await send(file, receiver=Slow(lambda: replace(file, "y" * BIG)))
    assert answer.body == b"x" * BIG


async def test_a_file_that_loses_its_end_meanwhile_is_not_passed_off_as_whole(file):
    file.write_text("x" * BIG)
    receiver = Slow(lambda: os.truncate(file, 10))
    with pytest.raises(AssertionError):  # the receiver notices that the length is wrong
        await send(file, receiver=receiver)
    assert len(receiver.answer.body) < BIG


async def test_an_error_after_the_head_is_not_hidden(file, monkeypatch):
    def gone():
        raise FileNotFoundError("the disk went away")

    file.write_text("x" * BIG)
    with pytest.raises(FileNotFoundError):
        await send(file, receiver=Slow(gone))


async def test_a_server_that_sends_files_itself_gets_the_path(file):
    """The extension ``http.response.pathsend`` of ASGI."""

    async def receive(message):
        messages.append(message)

    messages = []
    scope = scope_of(extensions={"http.response.pathsend": {}})
    app = file_response(StaticFiles(directory=file.parent), str(file), file.stat())
    with anyio.fail_after(60):
        await app(scope, Sender(), receive)
    assert [message["type"] for message in messages] == [
        "http.response.start",
        "http.response.pathsend",
    ]
    assert messages[1]["path"] == str(file)


def test_tries_a_few_times():
    assert 2 <= module._MAX_ATTEMPTS <= 10
