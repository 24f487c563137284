"""Servers of the protocol of S3, each in a process of its own: it prints its port and serves.

One is moto, which is made for tests. The other one is s3rver, a server of its own on a folder,
which checks signatures.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.requirements import require_node, require_node_modules

from alula.files import S3FileStore

KEY_ID, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI"


def s3_store(bucket: str, port: int, **options) -> S3FileStore:
    """Return a store on a server of this machine."""
    given = {
        "prefix": "uploads/",
        "endpoint_url": f"http://127.0.0.1:{port}",
        "region": "eu-central-1",
        "access_key_id": KEY_ID,
        "secret_access_key": SECRET,
    }
    return S3FileStore(bucket, **(given | options))


@contextmanager
def serve_s3() -> Iterator[int]:
    """Run the server; give its port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.files.s3_server"],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a line for each request
        text=True,
    )
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def serve_s3rver(folder: Path) -> Iterator[int]:
    """Run the other server, with the bucket `photos`; give its port."""
    modules = require_node_modules("s3rver")
    script = Path(__file__).with_name("s3rver.cjs")
    process = subprocess.Popen(
        [require_node(), script, modules / "s3rver", folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # warnings of Node about old packages
        text=True,
    )
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def main() -> None:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    print(server.get_host_and_port()[1], flush=True)
    server._thread.join()


if __name__ == "__main__":
    main()
