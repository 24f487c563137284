"""The processor time of a server: all its processes count, however deep, also those that ended."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from benchmarks.processes import processor_seconds

pytestmark = [
    pytest.mark.slow,
    pytest.mark.untraced,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc"),
]

BUSY = 0.3  # seconds of the processor
# Each uses the processor, and says so. Those with a child start it first, and wait for the input.
USE_PROCESSOR = f"""
import subprocess, sys, time
while time.process_time() < {BUSY}:
    pass
"""
SAY_SO = "print('ready', flush=True); sys.stdin.read()"
CHILD = USE_PROCESSOR + SAY_SO
RUN = "import subprocess, sys; "


@pytest.fixture
def start() -> Iterator[Callable[[str], int]]:
    """Start a Python process, and return its id when it says that its work is done."""
    processes = []

    def start_process(source: str) -> int:
        process = subprocess.Popen(
            [sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        processes.append(process)
        assert process.stdout.readline() == b"ready\n"
        return process.pid

    yield start_process
    for process in processes:
        process.stdin.close()  # by which descendants end, too
        process.stdout.close()
        process.wait(30)


def test_counts_the_process_itself(start):
    assert processor_seconds(start(CHILD)) >= BUSY * 0.9


def test_counts_grandchildren(start):
    child = RUN + f"subprocess.run([sys.executable, '-c', {CHILD!r}])"
    parent = RUN + f"subprocess.run([sys.executable, '-c', {child!r}])"
    assert processor_seconds(start(parent)) >= BUSY * 0.9


def test_counts_children_that_have_ended(start):
    child = RUN + f"subprocess.run([sys.executable, '-c', {USE_PROCESSOR!r}])"
    parent = RUN + f"subprocess.run([sys.executable, '-c', {child!r}]); {SAY_SO}"
    assert processor_seconds(start(parent)) >= BUSY * 0.9


def test_does_not_count_others(start):
    idle = start("import sys; " + SAY_SO)
    before = processor_seconds(idle)
    start(CHILD)
    assert processor_seconds(idle) - before < BUSY * 0.5


def test_a_process_that_is_not_there_has_used_nothing():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert not Path("/proc", str(process.pid)).exists()
    assert processor_seconds(process.pid) == 0


def test_counts_in_seconds(start):
    # Not of this process: other tests may have servers running in it.
    assert processor_seconds(start(CHILD)) == pytest.approx(BUSY, abs=0.2)
