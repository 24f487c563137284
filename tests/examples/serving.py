"""The example chat as a process of its own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.conformance.serving import ROOT, environment

SECONDS_TO_END = 60


class Running(NamedTuple):
    """A chat that is running: its process, its address, and what it said about itself."""

    process: subprocess.Popen[str]
    url: str
    said: str

    def stop(self, number: int = signal.SIGTERM) -> str:
        """Send a signal, and return what stands in the log once the process has ended."""
        self.process.send_signal(number)
        _, log = self.process.communicate(timeout=SECONDS_TO_END)
        return log


def start(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Start ``python -m examples.chat`` with arguments and environment variables."""
    command = [sys.executable, "-m", "examples.chat", *arguments]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env={**environment(), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def running_chat(*arguments: str, **variables: str) -> Iterator[Running]:
    """Run a chat while the context lasts, and yield it once it is ready.

    Raises:
        AssertionError: It did not start.
    """
    process = start(*arguments, **variables)
    try:
        said = ""
        while "stops it" not in said:
            line = process.stdout.readline()
            assert line, f"the chat did not start: {said}{process.stderr.read()}"
            said += line
        yield Running(process, re.search(r"https?://\S+", said)[0], said)
    finally:
        process.kill()
        process.communicate()
