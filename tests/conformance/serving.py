"""The reference app as a process of its own, on ports that are free."""

from __future__ import annotations

import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from tests.conformance.replay import Bases, bases_of

import alula

ROOT = Path(__file__).parents[2]
SECONDS_TO_END = 60

STACK = re.compile(r"^Traceback \(most recent call last\):\n(?: .*\n)*(.*)$", re.MULTILINE)
ON_PURPOSE = (
    "Error: Forced error",
    "Error: Has errors",
    "Error: I am coded",
    "Error: Plain failure",
    "Error: just a string",
    "Error: publisher failed",
    "Error: publisher failed later",
    "LookupError: the database has no table 'no_such_table'; create it, or give a Table of"
    " SQLAlchemy and `await database.create()`",
    "TypeError: app.channel() needs at least one name: app.channel('everyone')",
)
PORTS = range(28_000, 32_000)  # below those that Linux, macOS and Windows choose themselves


def reference_server(mongodb: str | None = None) -> AbstractContextManager[Bases]:
    """Serve the reference app while the context lasts, and yield its addresses.

    Args:
        mongodb: The URL of a MongoDB; without one its services are not there.

    Raises:
        RuntimeError: It did not start.
        AssertionError: It did not end as asked, or has logged an error that was not meant.
    """
    return served("reference_app", *(["--mongodb", mongodb] if mongodb else []))


@contextmanager
def served(module: str, *arguments: str) -> Iterator[Bases]:
    """Run a module of this folder that takes ``--port``, and yield its addresses."""
    port = free_ports()
    command = [sys.executable, "-m", f"tests.conformance.{module}", "--port", str(port)]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [*command, *arguments],
            cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
        try:
            ready = process.stdout.readline()
            if not ready:
                raise RuntimeError(f"the {module} did not start: {logged(log)}")
            yield bases_of(f"http://127.0.0.1:{port}")
            process.send_signal(signal.SIGTERM)
            status = process.wait(SECONDS_TO_END)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        assert status == 0, f"the {module} ended with {status}: {logged(log)}"
        assert unexpected_errors(logged(log)) == [], logged(log)


def unexpected_errors(text: str) -> list[str]:
    """Return the errors whose stacks are in a log, without those that services raise on purpose.

    Over REST those are not logged; calls over sockets and publishers log theirs.
    """
    found: list[str] = STACK.findall(text)
    return [error for error in found if not error.endswith(ON_PURPOSE)]


def logged(log) -> str:
    """Return what a process has written to its log."""
    log.seek(0)
    return log.read()


def environment() -> dict[str, str]:
    """Return the environment for a process that imports the very Alula that is tested."""
    source = str(Path(alula.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}


def free_ports() -> int:
    """Return a port that is free, as are the two that follow.

    The system gives away none of them to connections before they are used.
    """
    while True:
        port = secrets.choice(PORTS)
        with ExitStack() as stack:
            try:
                for each in (port, port + 1, port + 2):
                    stack.enter_context(socket.create_server(("127.0.0.1", each)))
            except OSError:
                continue
            return port
