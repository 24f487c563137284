"""Runs servers and clients on a core each, and tells what they use of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contenders import HERE, ROOT, Contender


@dataclass(frozen=True)
class Server:
    """A server that runs: its base URL, and its process."""

    url: str
    pid: int


def processor_seconds(pid: int) -> float:
    """Return what a process and its descendants have used, with all threads, in seconds.

    Descendants that have ended count from the moment their parent has waited for them.
    """
    parents, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields = path.read_text().rpartition(")")[2].split()
            number = int(path.parent.name)
            parents[number] = int(fields[1])
            # utime, stime, and those of its children that have ended
            used[number] = sum(map(int, fields[11:15]))
    family, generation = set(), {pid} & used.keys()
    while generation:
        family |= generation
        generation = {number for number in used if parents[number] in generation} - family
    return sum(used[number] for number in family) / os.sysconf("SC_CLK_TCK")


def wait_until_idle(pid: int) -> None:
    """Wait until a process and its descendants do nothing any more, for five seconds at most.

    A server goes on with the requests that it has when its load ends. What is measured next would
    wait behind it.
    """
    before = processor_seconds(pid)
    for _ in range(50):
        time.sleep(0.1)
        now = processor_seconds(pid)
        if now - before < 0.02:  # the clock counts hundredths
            return
        before = now


def resident_bytes(pid: int) -> int:
    """Return the bytes of memory that a process has."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def pinned(core: int) -> list[str]:
    """Return the prefix that keeps a command on one core, where the system has `taskset`."""
    return ["taskset", "-c", str(core)] if shutil.which("taskset") else []


@contextlib.contextmanager
def conversation(command: Sequence[str], cwd: Path) -> Iterator[Callable[[str], list[str]]]:
    """Run a program on core 1; yield what sends it a line, and returns the words of its answer.

    Raises:
        SystemExit: It has ended.
    """
    with subprocess.Popen(
        [*pinned(1), *command], cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        requests, answers = process.stdin, process.stdout

        def tell(line: str) -> list[str]:
            requests.write(line + "\n")
            requests.flush()
            answer = answers.readline().split()
            if not answer:
                raise SystemExit(f"bench: {command} ended at {line!r}")
            return answer

        yield tell
        requests.close()


@contextlib.contextmanager
def running(
    contender: Contender,
    environment: Mapping[str, str],
    core: int = 0,
    folder: Path | None = None,
) -> Iterator[Server]:
    """Run a server on a core, in a folder of its own if there is one, where it writes its log."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    node = contender.command[0] == "node"
    command = [part.format(port=port) for part in contender.command]
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((folder / "server.log").open("wb")) if folder else None
        process = subprocess.Popen(
            [*pinned(core), *command],
            cwd=folder or (HERE if node else ROOT),
            env={
                **os.environ,
                "NODE_ENV": "production",
                "PORT": str(port),
                **contender.environment,
                **environment,
            },
            stdout=log or subprocess.DEVNULL,
            stderr=log,
        )
    base = f"http://127.0.0.1:{port}"
    try:
        path = contender.rows[0].path
        _wait_for(base + (path if path.startswith("/") else "/"), process, contender.name)
        yield Server(base, process.pid)
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:  # Robyn with one process ignores the signal
            process.kill()
            process.wait()


def _wait_for(url: str, process: subprocess.Popen[bytes], name: str) -> None:
    """Wait until there is an answer, whatever it is: a port may be open before that."""
    for _ in range(300):
        try:
            urllib.request.urlopen(url, timeout=30).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.1)
    raise SystemExit(f"bench: {name} did not start: {process.args}")
