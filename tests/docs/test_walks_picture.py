"""The pictures of the architecture page show the walks as they really run."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
import xml.etree.ElementTree as ET
from contextlib import contextmanager
from pathlib import Path

import pytest
from scripts import walks
from tests.test_floors import SRC
from websockets.asyncio.client import connect

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService, hash_password
from alula.express import express, json, rest
from alula.realtime import socketio, sse

PAGE = SRC.parent / "docs" / "architecture.md"
SVG = "{http://www.w3.org/2000/svg}"
CREDENTIALS = {"email": "ada@example.com", "password": "a long password"}


@contextmanager
def recorded():
    """Record the functions of Alula that are called meanwhile: their files and names."""
    calls: list[tuple[str, str]] = []
    root = f"{SRC}/alula/"

    def note(frame, what, _argument):
        code = frame.f_code
        if what == "call" and code.co_filename.startswith(root):
            calls.append((code.co_filename.removeprefix(root), code.co_qualname))

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


async def request():
    web = express(App()).use(json()).configure(rest())
    web.use("messages", MemoryService(paginate={"default": 10, "max": 50}))
    async with await web.listen(0) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        with recorded() as calls:
            writer.write(b"GET /messages?$limit=2 HTTP/1.1\r\nhost: a\r\n\r\n")
            assert (await reader.read(65536)).startswith(b"HTTP/1.1 200 ")
        writer.close()
        await writer.wait_closed()
    return calls


async def event():
    web = express(App()).configure(socketio())
    web.use("messages", MemoryService())
    web.on("connection", web.channel("everyone").join)
    web.service("messages").publish(lambda _data, _context: web.channel("everyone"))
    async with await web.listen(0) as server:
        url = f"ws://127.0.0.1:{server.port}/socket.io/?EIO=4&transport=websocket"
        async with connect(url) as one, connect(url) as other:
            for socket in (one, other):
                await socket.recv()
                await socket.send("40")
                await socket.recv()
            with recorded() as calls:
                await one.send('420["create","messages",{"text":"Hello"},{}]')
                assert "messages created" in await other.recv()
                await one.recv()
                await one.recv()
    return calls


async def sign_in():
    app = App()
    app.use("users", MemoryService())
    app.use("authentication", AuthenticationService(app, secret="s" * 32))
    app.service("users").before("create")(hash_password("password"))
    await app.setup()
    await app.service("users").create(CREDENTIALS)
    with recorded() as calls:
        await app.service("authentication").create({"strategy": "local", **CREDENTIALS})
    await app.teardown()
    return calls


async def live_list():
    web = express(App()).configure(rest()).configure(sse())
    web.use("todos", MemoryService([{"id": 1, "done": "no"}]))
    web.service("todos").live(pause=0.001)
    async with await web.listen(0) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        head = b"accept: text/event-stream\r\nhost: a"
        writer.write(b"GET /todos?done=no&$live=true HTTP/1.1\r\n" + head + b"\r\n\r\n")
        await reader.readuntil(b"event: snapshot")
        with recorded() as calls:
            await web.service("todos").patch(1, {"done": "yes"})
            await reader.readuntil(b"event: left")
        writer.close()
        await writer.wait_closed()
    return calls


WALKED = {"request": request, "event": event, "sign-in": sign_in, "live-list": live_list}


@pytest.mark.anyio
@pytest.mark.parametrize("walk", walks.WALKS, ids=lambda walk: walk.name)
async def test_a_walk_passes_its_steps_in_order(walk):
    calls = iter(await WALKED[walk.name]())
    for step in walk.steps:
        assert (step.file, step.function) in calls, f"{step.file} {step.function} does not follow"


@pytest.mark.parametrize("walk", walks.WALKS, ids=lambda walk: walk.name)
def test_the_picture_is_that_of_the_walk(walk):
    hint = f"draw docs/{walk.picture.name} anew: python -m scripts.walks"
    assert walk.picture.read_text(encoding="utf-8") == walks.picture(walk), hint
    assert f"]({walk.picture.name})" in PAGE.read_text()


@pytest.mark.parametrize("walk", walks.WALKS, ids=lambda walk: walk.name)
def test_nothing_is_beside_the_picture(walk):
    drawn = ET.fromstring(walks.picture(walk))
    boxes = [element for element in drawn.iter(f"{SVG}rect") if element.get("x")]
    words = [element for element in drawn.iter(f"{SVG}text") if element.get("class") == "words"]
    assert len(boxes) == len(words) == len(walk.steps)
    ends = [int(each.get("x")) + round(len(each.text) * 7.4) for each in words]
    assert max(ends) <= walks.WIDTH


def test_every_place_of_the_table_exists():
    _, table = PAGE.read_text().split("## Where is what?")
    rows = re.findall(r"^\| ([^|]+) \| (.+) \|$", table.split("\n## ")[0], re.MULTILINE)[1:]
    assert len(rows) > 20
    for behaviour, place in rows:
        names = re.findall(r"`([^`]+)`", place)
        files = [Path(SRC.parent / name) for name in names if name.endswith((".py", "/"))]
        assert files, f"no file: {behaviour}"
        assert all(file.exists() for file in files), f"{behaviour}: {place}"
        text = "".join(file.read_text() for file in files if file.is_file())
        for name in names:
            if not name.endswith((".py", "/")):
                last = name.rpartition(".")[2]
                assert re.search(rf"(def|class) {last}\b|^{last}\b", text, re.MULTILINE), name
