"""Runs cases of a folder: ``python -m tests.conformance.live --dir DIR --store memory``."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from tests.conformance.live.application import GIVEN, cases_in
from tests.conformance.live.runner import RUNNERS, run_case


async def main(folder: Path, store: str, transport: str, only: str) -> int:
    server = None
    url = f"sqlite:///{tempfile.mkdtemp()}/live.sqlite"
    if store == "postgresql":
        from alula.local_postgresql import LocalServer

        server = LocalServer()
        await server.start()
        url = server.url
    elif store == "mongodb":
        from alula.local_mongodb import LocalServer as LocalMongo

        server = LocalMongo()
        await server.start()
        url = server.url
    failed = passed = 0
    for case in cases_in(folder):
        if store not in case["stores"] or (only and only not in case["id"]):
            continue
        try:
            failures = await run_case(case, store, url, transport)
        except Exception as error:  # it is shown
            if only:
                raise
            failures = [repr(error)]
        for failure in failures[:3]:
            print(f"{case['id']}: {failure}"[:600])
        failed += bool(failures)
        passed += not failures
    print(f"{passed} passed, {failed} failed")
    if server is not None:
        await server.stop()
    return 1 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=Path, default=GIVEN)
    parser.add_argument("--store", default="memory")
    parser.add_argument("--transport", default="lists", choices=RUNNERS)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    raise SystemExit(asyncio.run(main(given.dir, given.store, given.transport, given.only)))
