"""The MongoDB of the benchmarks: on core 1 beside wrk, with fresh records for each run."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from bson import ObjectId
from pymongo import MongoClient

from alula.local_mongodb import LocalServer
from benchmarks.records import KEY, records

Fresh = Callable[[], None]


@contextlib.contextmanager
def mongodb() -> Iterator[tuple[dict[str, str], Fresh]]:
    """Run it; yield what servers need in their environment, and what renews the records.

    ALULA_MONGODB_URL names another server, which has to be kept off core 0 by other means.
    """
    with _server() as url, MongoClient(url) as client:
        documents = [
            {"_id": ObjectId(KEY.format(n)), **record} for n, record in enumerate(records())
        ]

        def fresh() -> None:
            # Dropped and not emptied: deleted records slow the counting for minutes.
            client.drop_database("bench")
            client["bench"]["records"].insert_many(documents)

        yield {"BENCH_MONGODB": url}, fresh
        client.drop_database("bench")


@contextlib.contextmanager
def _server() -> Iterator[str]:
    given = os.environ.get("ALULA_MONGODB_URL")
    if given:
        yield given
        return
    server = LocalServer()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(_run_on_core_1, server).result()
        try:
            yield server.url
        finally:
            thread.submit(asyncio.run, server.stop()).result()


def _run_on_core_1(server: LocalServer) -> None:
    if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {1})  # of this thread, which hands it on to what it starts
    asyncio.run(server.start())
