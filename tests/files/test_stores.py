"""What every store promises: files are whole or not there at all, once for each content."""

from __future__ import annotations

import asyncio
import os
from hashlib import sha256

import pytest
from tests.files.forms import names_in, pieces_of

from alula.errors import NotFound, Unavailable
from alula.files import StagedFile

HELLO = sha256(b"hello").hexdigest()


@pytest.fixture(params=["local", "s3", pytest.param("s3rver", marks=pytest.mark.release)])
def store(request):
    return request.getfixturevalue(request.param)


async def read(store, *args):
    return b"".join([piece async for piece in store.read(*args)])


async def keep(store, content=b"hello"):
    """Stage, commit and discard; return the staged file."""
    file = await store.stage(pieces_of(content))
    await store.commit(file)
    await store.discard(file)
    return file


async def test_a_file_is_readable_when_it_is_committed(store):
    file = await store.stage(pieces_of(b"hel", b"", b"lo"))
    assert (file.sha256, file.size) == (HELLO, 5)
    with pytest.raises(NotFound):
        await store.size(HELLO)
    with pytest.raises(NotFound):
        await read(store, HELLO)
    await store.commit(file)
    assert (await store.size(HELLO), await read(store, HELLO)) == (5, b"hello")
    await store.discard(file)
    await store.discard(file)
    assert await names_in(store) == [f"content/{HELLO}"]
    assert await read(store, HELLO) == b"hello"


async def test_an_empty_file(store):
    file = await keep(store, b"")
    assert (file.sha256, file.size) == (sha256().hexdigest(), 0)
    assert (await store.size(file.sha256), await read(store, file.sha256)) == (0, b"")


async def test_a_part_of_an_empty_file(store, request):
    file = await keep(store, b"")
    if "s3rver" in request.node.name:  # it announces a byte that it does not have
        with pytest.raises(Unavailable):
            await read(store, file.sha256, 0, 10)
        return
    assert await read(store, file.sha256, 0, 10) == b""


async def test_equal_files_are_kept_once(store):
    first, second = await keep(store), await keep(store)
    assert (first.sha256, first.key != second.key) == (second.sha256, True)
    assert len(await names_in(store)) == 1


async def test_large_files_pass_in_blocks(store):
    content = os.urandom(700_000)
    file = await store.stage(pieces_of(*(content[at : at + 999] for at in range(0, 700_000, 999))))
    await store.commit(file)
    pieces = [piece async for piece in store.read(file.sha256)]
    assert b"".join(pieces) == content
    assert max(len(piece) for piece in pieces) <= 262_144


@pytest.mark.parametrize(
    ("start", "stop", "content"),
    [(1, 3, b"el"), (0, 0, b""), (4, None, b"o"), (2, 99, b"llo"), (9, None, b""), (0, 2, b"he")],
)
async def test_parts(store, start, stop, content):
    await keep(store)
    assert await read(store, HELLO, start, stop) == content


async def test_a_reader_may_stop_early(store):
    file = await keep(store, bytes(2_000_000))
    for _ in range(3):
        pieces = store.read(file.sha256)
        await anext(pieces)
        await pieces.aclose()
    assert len(await read(store, file.sha256)) == 2_000_000


async def test_an_upload_that_fails_leaves_nothing(store):
    async def breaks_off():
        yield b"x" * 300_000
        raise RuntimeError("gone")

    with pytest.raises(RuntimeError, match="gone"):
        await store.stage(breaks_off())
    assert await names_in(store) == []


async def test_an_upload_that_is_cancelled_leaves_nothing(store):
    entered = asyncio.Event()

    async def stalls():
        yield b"x" * 300_000
        entered.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(store.stage(stalls()))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await names_in(store) == []


async def test_a_withdrawn_file_can_be_committed_again(store):
    await keep(store)
    withdrawn = await store.withdraw(HELLO)
    assert (withdrawn.sha256, withdrawn.size) == (HELLO, 5)
    with pytest.raises(NotFound):
        await read(store, HELLO)
    assert await store.withdraw(HELLO) is None
    await store.commit(withdrawn)
    assert await read(store, HELLO) == b"hello"
    await store.discard(withdrawn)
    assert await names_in(store) == [f"content/{HELLO}"]


async def test_a_staged_file_survives_a_withdrawal_by_others(store):
    file = await store.stage(pieces_of(b"hello"))
    await store.commit(file)
    await store.discard(await store.withdraw(HELLO))
    await store.commit(file)
    assert await read(store, HELLO) == b"hello"


async def test_what_was_swept_too_early(store):
    file = await store.stage(pieces_of(b"hello"))
    await store.discard(file)
    with pytest.raises(Unavailable, match="took too long"):
        await store.commit(file)
    await keep(store)
    await store.commit(file)  # there is another one of this content


async def test_leftovers_are_old(store):
    assert await store.leftovers(-60) == []
    await keep(store, b"other")
    whole = await store.stage(pieces_of(b"hello"))
    assert await store.leftovers(60) == []
    assert await store.leftovers(-60) == [whole]
    await store.discard(whole)
    assert len(await names_in(store)) == 1


async def test_a_withdrawn_file_is_a_leftover_when_it_is_old(store):
    await keep(store)
    withdrawn = await store.withdraw(HELLO)
    assert await store.leftovers(60) == []
    assert await store.leftovers(-60) == [withdrawn]


@pytest.mark.parametrize("name", ["", "../../../etc/passwd", "a" * 63, "A" * 64, "a" * 64 + "\n"])
async def test_what_is_not_a_hash_is_never_a_path(store, name):
    with pytest.raises(NotFound):
        await store.size(name)
    with pytest.raises(NotFound):
        await read(store, name)
    with pytest.raises(NotFound):
        await store.withdraw(name)
    with pytest.raises(NotFound):
        await store.commit(StagedFile("x", name or None, 0))


async def test_many_at_once(store):
    contents = [b"%d" % (number % 7) for number in range(50)]
    await asyncio.gather(*(keep(store, content) for content in contents))
    assert len(await names_in(store)) == 7


async def test_a_store_that_is_closed_opens_again(store):
    await store.close()
    await keep(store)
    await store.close()
    assert await read(store, HELLO) == b"hello"
