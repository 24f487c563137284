"""Uploads to a real server: its memory, clients that go away, and a server that is killed."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from hashlib import sha256
from http.client import HTTPConnection
from pathlib import Path

import pytest
from tests.files.forms import BOUNDARY, FORM, file_part, files_below

pytestmark = [pytest.mark.slow, pytest.mark.untraced]

ROOT = Path(__file__).parents[2]
END = f"\r\n--{BOUNDARY}--\r\n".encode()
HEAD = file_part(b"", "big.bin").removesuffix(b"\r\n")
MEGABYTE = 1024 * 1024


class Served:
    """The server as a process, and what it takes of memory."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.port = int(process.stdout.readline())

    def peak_megabytes(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024

    def connect(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=120)

    def send_part_of_an_upload(self, size: int) -> socket.socket:
        """Send some bytes of a larger upload, and return the open connection."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        head = "".join(f"{name}: {value}\r\n" for name, value in FORM.items())
        connection.sendall(
            f"POST /uploads HTTP/1.1\r\nhost: a\r\nauthorization: x\r\n{head}"
            f"content-length: {size * 2 + len(HEAD)}\r\n\r\n".encode()
        )
        connection.sendall(HEAD + b"x" * size)
        return connection


@contextmanager
def serve(*store: object):
    command = [sys.executable, "-m", "tests.files.upload_server", *map(str, store)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        yield Served(process)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def wait_until(condition, seconds=120):
    """Wait as long as the connections do: the machine may be busy with other tests."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"it did not come true in {seconds} seconds"
        time.sleep(0.01)


def stream(megabytes: int, digest):
    yield HEAD
    block = os.urandom(MEGABYTE - 8)
    for number in range(megabytes):
        piece = number.to_bytes(8, "big") + block
        digest.update(piece)
        yield piece
    yield END


@pytest.mark.parametrize(
    "megabytes", [64, pytest.param(1024, marks=pytest.mark.release)], ids="{} MB".format
)
@pytest.mark.parametrize("kind", ["local", "s3"])
def test_the_memory_does_not_grow_with_the_file(tmp_path, megabytes, kind, s3_port, bucket):
    with serve(*([tmp_path] if kind == "local" else [bucket, s3_port])) as server:
        digest = sha256()
        connection = server.connect()
        length = megabytes * MEGABYTE + len(HEAD) + len(END)
        headers = {**FORM, "authorization": "x", "content-length": str(length)}
        connection.request("POST", "/uploads", stream(0, sha256()), {**headers, **short()})
        assert connection.getresponse().read()
        before = server.peak_megabytes()
        connection.request("POST", "/uploads", stream(megabytes, digest), headers)
        response = connection.getresponse()
        assert (response.status, digest.hexdigest() in response.read().decode()) == (201, True)
        connection.request("GET", "/uploads/1/content")
        response, back = connection.getresponse(), sha256()
        while piece := response.read(MEGABYTE):
            back.update(piece)
        assert back.hexdigest() == digest.hexdigest()
        assert server.peak_megabytes() - before < 24
        connection.close()


def short() -> dict[str, str]:
    return {"content-length": str(len(HEAD) + len(END))}


@pytest.mark.parametrize("count", [50, pytest.param(500, marks=pytest.mark.release)])
def test_interrupted_uploads_leave_nothing(tmp_path, count):
    with serve(tmp_path) as server:

        def interrupt(numbers):
            for number in numbers:
                connection = server.send_part_of_an_upload(number % 7 * 100_000)
                if number % 2:  # a reset, not a close
                    option = b"\x01\x00\x00\x00\x00\x00\x00\x00"
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)
                connection.close()

        threads = [
            threading.Thread(target=interrupt, args=(range(first, count, 5),)) for first in range(5)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with server.send_part_of_an_upload(10) as last:  # the server still takes uploads
            wait_until(lambda: len(files_below(tmp_path)) == 1)
            last.close()
        wait_until(lambda: files_below(tmp_path) == [])


def test_without_credentials_nothing_reaches_the_disk(tmp_path):
    with serve(tmp_path) as server:
        connection = socket.create_connection(("127.0.0.1", server.port), timeout=30)
        with connection:
            connection.sendall(
                f"POST /uploads HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\n"
                f"content-type: {FORM['content-type']}\r\ncontent-length: 9999999\r\n\r\n".encode()
            )
            assert connection.recv(1000).startswith(b"HTTP/1.1 401 ")  # not 100
        assert files_below(tmp_path) == []


def test_what_a_killed_server_leaves_is_swept(tmp_path):
    with serve(tmp_path) as server, server.send_part_of_an_upload(600_000):
        wait_until(lambda: len(files_below(tmp_path)) == 2)  # with its mark
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    with serve(tmp_path):
        assert all(path.exists() for path in left)  # they may belong to another worker
    for path in left:
        os.utime(path, (0, 0))
    with serve(tmp_path):
        assert files_below(tmp_path) == []
