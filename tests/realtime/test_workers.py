"""Official clients at several workers and machines: all get through, and all events get to all."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import signal
import tempfile
import time
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from tests.cli.serving.commands import running
from tests.express.nginx import nginx_of
from tests.requirements import require_node, require_node_modules

HERE = Path(__file__).parent
SCRIPT = HERE / "many_clients.mjs"

pytestmark = pytest.mark.slow


class Clients:
    """Clients in a process of Node, which tells of each step."""

    def __init__(self, process):
        self._process = process

    async def tell(self, command=None):
        """Give a command, and return what came of it."""
        if command is not None:
            self._process.stdin.write(f"{command}\n".encode())
        async with asyncio.timeout(120):
            line = await self._process.stdout.readline()
        assert line, "the clients have ended"
        return json.loads(line)


@asynccontextmanager
async def clients_of(count, *urls):
    process = await asyncio.create_subprocess_exec(
        require_node(),
        str(SCRIPT),
        str(require_node_modules("socket.io-client")),
        str(count),
        *urls,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Clients(process)
    finally:
        process.kill()
        await process.wait()


@contextmanager
def machine(tmp_path, workers, **environment):
    """Run `alula serve`; sockets of the workers are in ``tmp_path``."""
    options = ("--workers", str(workers), "--port", "0", "--no-access-log")
    with running(
        HERE, "serve", "chat_application:app", *options, TMPDIR=str(tmp_path), **environment
    ) as command:
        command.base = f"http://127.0.0.1:{command.port()}"
        until = time.monotonic() + 60
        while len(sockets_in(tmp_path)) <= workers:  # that of the hub, and one of each worker
            assert time.monotonic() < until, command.text
            time.sleep(0.01)
        yield command


def sockets_in(folder):
    return [path.name for path in Path(folder).glob("alula-*/*.sock")]


def directories_in(folder):
    """Return the modes of the directories of sockets."""
    return [path.stat().st_mode & 0o777 for path in Path(folder).iterdir()]


def children_of(command):
    pid = command.process.pid
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def connected(told, count):
    return told["connected"] == told["upgraded"] == count


async def test_all_clients_get_through_and_get_all_events():
    require_node_modules("socket.io-client")
    with tempfile.TemporaryDirectory(prefix="t") as folder, machine(folder, 3) as command:
        async with clients_of(30, command.base) as clients:
            told = await clients.tell()
            assert connected(told, 30), told
            workers = {*told["workers"]}
            told = await clients.tell("create")
            assert (told["answered"], told["complete"], told["disconnects"]) == (30, 30, 0)

            # The network fails: they come back at any worker, and miss nothing.
            for _ in range(20):
                assert (await clients.tell("cut"))["recovered"] == 30
                told = await clients.tell("connect")
                assert connected(told, 30), told
                workers |= {*told["workers"]}
                # The system gives a connection to whichever worker is awake, so not always to all.
                if len(workers) > 1:
                    break
            assert len(workers) > 1
            told = await clients.tell("create")
            assert (told["answered"], told["complete"]) == (30, 30), told

            # A worker dies: its clients come back at the others, or at its successor.
            os.kill(children_of(command)[1], signal.SIGKILL)
            command.wait_for("another one replaces it")
            told = await clients.tell("connect")
            assert connected(told, 30), told
            told = await clients.tell("create")
            assert (told["answered"], told["complete"]) == (30, 30), told
            assert told["disconnects"] > 0

            # All workers are replaced, and their clients go to the new ones.
            command.process.send_signal(signal.SIGHUP)
            command.wait_for("all workers are new")
            told = await clients.tell("connect")
            assert connected(told, 30), told
            assert not {"w1", "w2", "w3"} & {*told["workers"]}
            told = await clients.tell("create")
            assert (told["answered"], told["complete"]) == (30, 30), told
        assert directories_in(folder) == [0o700]
        assert command.end(signal.SIGTERM) == 0
        assert directories_in(folder) == []
        assert not re.search("Traceback|unclosed", command.text), command.text


async def test_machines_behind_nginx_share_a_redis(redis, tmp_path):
    require_node_modules("socket.io-client")
    environment = {"CHAT_REDIS_URL": redis.url, "CHAT_STREAM": f"test:{secrets.token_hex(4)}"}
    with (
        tempfile.TemporaryDirectory(prefix="t") as one,
        tempfile.TemporaryDirectory(prefix="t") as two,
        machine(one, 2, **environment) as first,
        machine(two, 2, **environment) as second,
    ):
        async with (
            behind_nginx(tmp_path, first.base, second.base) as url,
            clients_of(12, url, first.base, second.base) as clients,
        ):
            assert connected(told := await clients.tell(), 12), told
            told = await clients.tell("create")
            assert (told["answered"], told["complete"], told["disconnects"]) == (12, 12, 0)


def behind_nginx(folder, *upstreams):
    """Run nginx as the page about scaling says, on other ports."""
    first, second = (upstream.removeprefix("http://") for upstream in upstreams)
    changes = {
        r"10\.0\.0\.1:3030": first,
        r"10\.0\.0\.2:3030": second,
        "listen 80;": "listen 127.0.0.1:PORT;",
    }
    return nginx_of("scaling.md", folder, changes)
