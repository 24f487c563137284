"""Engines, workers and networks fail again and again while clients talk in rooms."""

from __future__ import annotations

import asyncio
import os
import random
import time

import pytest
from tests.faults.network import Network
from tests.faults.replica_set import SETTINGS
from tests.faults.rooms import Crowd, rooms_server
from tests.realtime.processes import Redis
from tests.requirements import require_mongod, require_postgresql

from alula.local_mongodb import Mongod, form_replica_set
from alula.local_postgresql._postgres import Postgres

pytestmark = pytest.mark.slow

CLIENTS = int(os.environ.get("ALULA_FAULTS_CLIENTS", "0"))


def size_of(thorough):
    """Return how many clients there are, and how many messages they create in a second."""
    return (CLIENTS or (1_000 if thorough else 60)), (60 if thorough else 80)


def tell(crowd, server, begun, what):
    figures = " ".join(f"{name}={n}" for name, n in sorted(crowd.journal.counts.items()))
    kib = [int(report["kib"]) // 1024 for report in server.reports()]
    print(f"\n{time.monotonic() - begun:6.1f} s {what}: {figures}; MiB {kib}", flush=True)


WAYS = ("drop", "half-open", "stall", "half-closed", "refuse")


async def cut(network, way, thorough):
    """Let the network fail in one of the ways for a moment."""
    if way == "drop":
        network.drop()
    elif way == "stall":
        network.stall()
    elif way == "refuse":
        network.refuse()
        network.drop()
    else:
        network.half_open("client" if way == "half-open" else "server")
    await asyncio.sleep(random.uniform(0.5, 8 if thorough else 1.5))
    network.heal()


async def fail_again_and_again(engine, server, network, crowd, turns, thorough):
    begun = time.monotonic()
    for turn in range(turns):
        reading = random.sample(crowd.clients, len(crowd.clients) // 20)
        for client in reading:
            client.reads.clear()
        if engine is not None:
            engine.kill()
        await asyncio.sleep(random.uniform(0.2, 3 if thorough else 0.5))
        await cut(network, WAYS[turn % len(WAYS)], thorough)
        if turn % 2:
            print(f"\nworker {server.kill_worker()} is killed")
        if engine is not None:
            await engine.start()
        for client in reading:
            client.reads.set()
        await crowd.until_connected()
        await asyncio.sleep(1 if thorough else 0.3)
        tell(crowd, server, begun, f"turn {turn + 1} of {turns}")


async def hold_what_is_promised(engine, url, thorough):
    size, rate = size_of(thorough)
    recover, ping = (30, 4) if thorough else (2, 0.5)
    async with (
        rooms_server(3, url, recover, ping) as server,
        Network(server.port) as network,
    ):
        before = server.reports()
        async with Crowd(server, network, size, rate) as crowd:
            async with crowd.talking():
                turns = 10 if thorough else 2
                await fail_again_and_again(engine, server, network, crowd, turns, thorough)
            await crowd.settle()
            told = f"{server.pids()}\n{server.command.text[-4000:]}"
            assert not crowd.journal.broken, "\n".join([*crowd.journal.broken, told])
            counts = crowd.journal.counts
            assert counts["recovered"] > 0 < counts["acknowledged"] < counts["events"]
            await crowd.leave()
        await nothing_is_left(server, before, recover)


async def nothing_is_left(server, before, recover):
    """Wait until workers hold nothing but what they held before anybody came."""
    tasks, descriptors = (
        max(report[name] for report in before) for name in ("tasks", "descriptors")
    )

    def is_empty(report):
        return (
            report["connections"] == report["channels"] == 0
            and report["tasks"] <= tasks
            and report["descriptors"] <= descriptors + 2
        )

    await server.until_reports(is_empty, f"more is left than {before}", recover + 20)


async def test_nothing_is_lost_when_workers_and_networks_fail(thorough):
    if not thorough:
        pytest.skip("the test with Redis does the same: see `make faults`")
    await hold_what_is_promised(None, "", thorough)


async def test_nothing_is_lost_when_redis_fails(tmp_path, thorough):
    redis = Redis(tmp_path)
    await redis.start()
    try:
        await hold_what_is_promised(redis, redis.url, thorough)
    finally:
        redis.kill()


async def test_nothing_is_lost_when_postgresql_fails(tmp_path, thorough):
    if not thorough:
        pytest.skip("a postgres takes long to start again: see `make faults`")
    require_postgresql()
    server = Postgres(tmp_path)
    await server.start()
    try:
        await hold_what_is_promised(server, server.url, thorough)
    finally:
        server.kill()


async def test_nothing_is_lost_when_mongodb_fails(tmp_path, thorough):
    if not thorough:
        pytest.skip("a mongod takes long to start again: see `make faults`")
    require_mongod()
    server = Mongod(tmp_path, replica_set="rooms")
    await server.start()
    try:
        await form_replica_set([server], SETTINGS)
        url = f"mongodb://{server.address}/?replicaSet=rooms"
        await hold_what_is_promised(server, url, thorough)
    finally:
        server.kill()
