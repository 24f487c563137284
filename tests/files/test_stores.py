"""What every store promises: a file is there when its write has returned, or not at all."""

from __future__ import annotations

import asyncio
import os

import pytest
from tests.files.forms import names_in, pieces_of

from alula.errors import NotFound, Unavailable

KEY = "content/" + "a" * 32
OTHER = "content/" + "b" * 32


@pytest.fixture(params=["local", "s3", pytest.param("s3rver", marks=pytest.mark.release)])
def store(request):
    return request.getfixturevalue(request.param)


async def read(store, *args):
    return b"".join([piece async for piece in store.read(*args)])


async def keep(store, content=b"hello", key=KEY):
    await store.write(key, pieces_of(content))


async def test_a_file_is_readable_when_it_is_written(store):
    with pytest.raises(NotFound):
        await store.size(KEY)
    with pytest.raises(NotFound):
        await read(store, KEY)
    await store.write(KEY, pieces_of(b"hel", b"", b"lo"))
    assert (await store.size(KEY), await read(store, KEY)) == (5, b"hello")
    assert await names_in(store) == [KEY]


async def test_a_file_is_gone_when_it_is_deleted(store):
    await keep(store)
    await keep(store, b"other", OTHER)
    await store.delete(KEY)
    await store.delete(KEY)
    with pytest.raises(NotFound):
        await store.size(KEY)
    assert await read(store, OTHER) == b"other"
    assert await names_in(store) == [OTHER]


async def test_a_later_write_replaces_an_earlier_one(store):
    await keep(store, b"a longer text")
    await keep(store, b"short")
    assert await read(store, KEY) == b"short"


async def test_a_write_that_need_not_survive_a_loss_of_power(store):
    await store.write(KEY, pieces_of(b"hello"), flush=False)
    assert await read(store, KEY) == b"hello"


async def test_an_empty_file(store):
    await keep(store, b"")
    assert (await store.size(KEY), await read(store, KEY)) == (0, b"")


async def test_a_part_of_an_empty_file(store, request):
    await keep(store, b"")
    if "s3rver" in request.node.name:  # it announces a byte that it does not have
        with pytest.raises(Unavailable):
            await read(store, KEY, 0, 10)
        return
    assert await read(store, KEY, 0, 10) == b""


async def test_large_files_pass_in_blocks(store):
    content = os.urandom(700_000)
    pieces = (content[at : at + 999] for at in range(0, 700_000, 999))
    await store.write(KEY, pieces_of(*pieces))
    pieces = [piece async for piece in store.read(KEY)]
    assert b"".join(pieces) == content
    assert max(len(piece) for piece in pieces) <= 262_144


@pytest.mark.parametrize(
    ("start", "stop", "content"),
    [(1, 3, b"el"), (0, 0, b""), (4, None, b"o"), (2, 99, b"llo"), (9, None, b""), (0, 2, b"he")],
)
async def test_parts(store, start, stop, content):
    await keep(store)
    assert await read(store, KEY, start, stop) == content


async def test_a_reader_may_stop_early(store):
    await keep(store, bytes(2_000_000))
    for _ in range(3):
        pieces = store.read(KEY)
        await anext(pieces)
        await pieces.aclose()
    assert len(await read(store, KEY)) == 2_000_000


async def test_a_write_that_fails_leaves_nothing(store):
    async def breaks_off():
        yield b"x" * 300_000
        raise RuntimeError("gone")

    with pytest.raises(RuntimeError, match="gone"):
        await store.write(KEY, breaks_off())
    assert await names_in(store) == []


async def test_a_write_that_is_cancelled_leaves_nothing(store):
    entered = asyncio.Event()

    async def stalls():
        yield b"x" * 300_000
        entered.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(store.write(KEY, stalls()))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await names_in(store) == []


async def test_keys_are_found_by_their_word_and_age(store):
    assert list(await store.keys("mark", -60)) == []
    await keep(store)
    mark = "mark/" + "c" * 32
    await keep(store, b"", mark)
    assert list(await store.keys("mark", 60)) == []
    assert list(await store.keys("mark", -60)) == [mark]
    assert list(await store.keys("content", -60)) == [KEY]


@pytest.mark.parametrize(
    "key",
    [
        "",
        "../../../etc/passwd",
        "content/../../etc/passwd",
        "a" * 32,
        "content/" + "a" * 31,
        "content/" + "A" * 32,
        KEY + "\n",
        "/" + "a" * 32,
    ],
)
async def test_what_is_not_a_key_is_never_a_path(store, key):
    for call in (store.size(key), read(store, key), store.delete(key), keep(store, key=key)):
        with pytest.raises(NotFound):
            await call
    assert await names_in(store) == []


async def test_many_at_once(store):
    keys = [f"content/{number:032x}" for number in range(50)]
    await asyncio.gather(*(keep(store, key.encode(), key) for key in keys))
    assert await names_in(store) == keys
    assert await read(store, keys[7]) == keys[7].encode()


async def test_a_store_that_is_closed_opens_again(store):
    await store.close()
    await keep(store)
    await store.close()
    assert await read(store, KEY) == b"hello"
