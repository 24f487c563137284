"""Runs the command `alula` as a process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import alula

SECONDS = 60
SOURCE = str(Path(alula.__file__).parents[1])
DECIDING = {"PORT", "WEB_CONCURRENCY", "ALULA_DEBUG", "ALULA_LOG_LEVEL", "FORWARDED_ALLOW_IPS"}
LISTENING = re.compile(r"(https?://127\.0\.0\.1:(\d+)|unix:\S+)")


class Command:
    """A running command, and all that it has written to its two outputs.

    Attributes:
        process: The process.
        lines: What it has written so far.
    """

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        inherited = {name: os.environ[name] for name in os.environ.keys() - DECIDING}
        own = {"ALULA_ENV": "test", "PYTHONPATH": SOURCE, "PYTHONUNBUFFERED": "1", **environment}
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from alula._cli import main; main()", *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**inherited, **own},
        )
        self.lines: list[str] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            with self._more:
                self.lines.append(line.rstrip("\n"))
                self._more.notify_all()
        with self._more:
            self._more.notify_all()

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, text: str, times: int = 1) -> None:
        """Wait until a text has been written so often."""
        with self._more:
            there = self._more.wait_for(lambda: self.text.count(text) >= times, SECONDS)
        assert there, f"{text!r} never came, but:\n{self.text}"

    def port(self) -> int:
        """Wait until it listens; return the port."""
        with self._more:
            found = self._more.wait_for(lambda: LISTENING.search(self.text), SECONDS)
        assert found, f"it never listened, but said:\n{self.text}"
        return int(LISTENING.search(self.text)[2])

    def end(self, number: int | None = None) -> int:
        """Send a signal, wait for the end, and return the exit code."""
        if number is not None:
            self.process.send_signal(number)
        status = self.process.wait(SECONDS)
        self._reader.join(SECONDS)
        return status

    def records(self) -> list[dict[str, Any]]:
        """Return the lines of the log."""
        return [json.loads(line) for line in self.lines if line.startswith("{")]

    def close(self) -> None:
        """End it at once, and what it has started; that sees its end."""
        self.process.kill()
        self.process.wait(SECONDS)
        self._reader.join(SECONDS)
        self.process.stdout.close()


@contextmanager
def running(folder: Path, *arguments: str, **environment: str) -> Iterator[Command]:
    """Run a command for as long as the block."""
    command = Command(folder, *arguments, **environment)
    try:
        yield command
    finally:
        command.close()
