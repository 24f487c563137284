"""SQLite: processes that are killed in mid-write, several that write, a disk that is full."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import sys
import time
from contextlib import asynccontextmanager

import pytest
from tests.conformance.serving import environment
from tests.faults.sql_serving import writers_on

from alula.adapters.sql import Database
from alula.adapters.sql._statement import Statement

pytestmark = pytest.mark.slow

# For each line on its input, which is a token, a child writes tokens from there on, many at a time,
# and says which were acknowledged. The argument is the file. A child costs a fork, and no imports.
WRITERS = """
import asyncio, os, sys
from alula.adapters.sql import Database
from alula.adapters.sql._statement import Statement

def say(text):
    os.write(1, f"{text}\\n".encode())  # in one piece, even if it is killed

async def main(path, token):
    database = Database(f"sqlite:///{path}")

    async def write(token):
        statement = Statement("insert into t (token) values (?1)", (token,))
        await database.run(statement, 10, writes=True)
        say(token)

    while True:
        await asyncio.gather(*(write(token + n) for n in range(20)))
        token += 20

for line in sys.stdin:
    child = os.fork()
    if not child:
        asyncio.run(main(sys.argv[1], int(line)))
    say(f"child {child}")
    os.waitpid(child, 0)
    say("ended")
"""


class Writers:
    """A process that writes to a file, one child after the other."""

    def __init__(self, process):
        self.process = process

    async def begin(self, token, count=5):
        """Start a child; return when it has written so many tokens."""
        self.process.stdin.write(b"%d\n" % token)
        self.acknowledged = set()
        self.child = None
        while self.child is None or len(self.acknowledged) < count:
            await self._read()

    async def _read(self):
        word, _, rest = (await self.process.stdout.readline()).decode().strip().partition(" ")
        if word == "child":
            self.child = int(rest)
        elif word != "ended":
            self.acknowledged.add(int(word))
        return word

    async def kill(self):
        """Kill the child; return what it has said."""
        os.kill(self.child, signal.SIGKILL)
        while await self._read() != "ended":
            pass
        return self.acknowledged


@asynccontextmanager
async def writers_of(path):
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        WRITERS,
        str(path),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment(),
    )
    try:
        yield Writers(process)
    finally:
        process.stdin.close()
        await process.wait()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "test.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("create table t (id integer primary key, token integer unique) strict")
    connection.close()
    return path


def tokens_in(path):
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
        return {token for (token,) in connection.execute("select token from t")}
    finally:
        connection.close()


async def test_processes_that_are_killed_in_mid_write(path, thorough):
    acknowledged: set[int] = set()
    async with writers_of(path) as writers:
        for turn in range(200 if thorough else 10):
            await writers.begin(turn * 1_000_000)
            await asyncio.sleep(random.uniform(0, 0.05))
            acknowledged |= await writers.kill()
            assert acknowledged <= tokens_in(path)
    assert len(acknowledged) > 40


async def test_two_processes_that_write_one_file(path, thorough):
    async with writers_of(path) as one, writers_of(path) as other:
        await one.begin(0, count=25)
        await other.begin(1_000_000_000, count=25)
        await asyncio.sleep(20 if thorough else 0.5)
        outputs = [await one.kill(), await other.kill()]
    assert all(len(acknowledged) > 20 for acknowledged in outputs)
    assert outputs[0] | outputs[1] <= tokens_in(path)


async def test_a_full_disk_refuses_what_it_cannot_keep_and_nothing_else(tmp_path, thorough):
    database = Database(f"sqlite:///{tmp_path / 'test.sqlite'}")
    async with writers_on(database, 20) as writers:
        for _ in range(20 if thorough else 2):
            pages = (await database.fetch("pragma page_count"))[0]["page_count"]
            await database.execute(f"pragma max_page_count = {pages}")
            before = writers.statuses.copy()
            end = time.monotonic() + 60
            while len(writers.statuses - before) < 1 or not (writers.statuses - before)[503]:
                assert time.monotonic() < end, writers.statuses
                await asyncio.sleep(0.01)
            await database.execute("pragma max_page_count = 1000000")
            begun = time.monotonic()
            while writers.last < begun:
                assert time.monotonic() < begun + 30
                await asyncio.sleep(0.01)
    assert set(writers.statuses) <= {200, 201, 503}
    await database.close()


async def test_another_process_holds_the_file_for_a_while(tmp_path, thorough):
    path = tmp_path / "test.sqlite"
    database = Database(f"sqlite:///{path}")
    async with writers_on(database, 20) as writers:
        outside = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for _ in range(50 if thorough else 3):
            await asyncio.to_thread(outside.execute, "begin immediate")
            await asyncio.sleep(0.05)
            outside.execute("commit")
            await asyncio.sleep(0.02)
        outside.close()
    assert set(writers.statuses) == {200, 201}
    await database.close()


async def test_cancelled_calls_leave_nothing_behind(path, thorough):
    database = Database(f"sqlite:///{path}")
    acknowledged: set[int] = set()
    token = 0
    for _ in range(2_000 if thorough else 50):
        calls = {}
        for _ in range(12):
            token += 1
            statement = Statement("insert into t (token) values (?1)", (token,))
            calls[token] = asyncio.ensure_future(database.run(statement, 5, writes=True))
        await asyncio.sleep(random.random() * 0.001)
        for call in random.sample([*calls.values()], 6):
            call.cancel()
        results = await asyncio.gather(*calls.values(), return_exceptions=True)
        for tried, result in zip(calls, results, strict=True):
            assert isinstance(result, list | asyncio.CancelledError), result
            if isinstance(result, list):
                acknowledged.add(tried)
    async with database.begin():
        """The writer is free."""
    await database.close()
    assert acknowledged <= tokens_in(path)
    # neither log nor index
    assert os.listdir(path.parent) == [path.name]  # noqa: PTH208  # nothing else runs any more
