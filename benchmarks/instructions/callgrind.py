"""Runs a program under Callgrind, and reads how many instructions its marked blocks took.

Callgrind is a tool of valgrind. It counts the instructions of one process exactly, whatever else
the machine does; the kernel's are not among them. `perf stat` would be faster, but virtual machines
and containers often hide the counters that it needs, and its figures are not those of Callgrind.

A mark is a call of `os.sched_yield`: Callgrind writes down its counts before each, and starts again
from zero.
"""

from __future__ import annotations

import compileall
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
MARK = "sched_yield"
_TOTAL = re.compile(r"^totals: (\d+)$", re.MULTILINE)


class CountingError(Exception):
    """There are no counts, for a reason that the message gives."""


@dataclass(frozen=True)
class Counts:
    """What one turn of a block takes.

    Attributes:
        instructions: Those of the processor, a median of all blocks.
        calls: How often it calls each function, as ``module:name``.
    """

    instructions: int
    calls: Mapping[str, int]


def count(command: Sequence[str], source: Path | None = None) -> dict[str, Counts]:
    """Count what the marked blocks of a Python program take, by the names of the blocks.

    Args:
        command: The program as `benchmarks.instructions.program` is one. It runs at the root of
            this repository.
        source: A folder with another version of the package `alula`.

    Raises:
        CountingError: valgrind is not installed, the program has failed, or its marks do not fit
            to its blocks.
    """
    # Code that was compiled in the same process takes 2 % more than code that was read from a file.
    for compiled in (source or ROOT / "src", ROOT / "benchmarks"):
        compileall.compile_dir(compiled, quiet=2)
    with tempfile.TemporaryDirectory() as folder:
        # Each variable moves the stack, and a random seed the places in all hash tables.
        environment = {
            "PYTHONHASHSEED": "0",
            "PATH": os.defpath,
            "LC_ALL": "C.UTF-8",
            "PYTHONPATH": str(source or ROOT / "src"),
        }
        output = _run(
            [
                _valgrind(), "--tool=callgrind", f"--callgrind-out-file={folder}/part",
                f"--dump-before={MARK}", *command,
            ],
            environment,
        )  # fmt: skip
        parts = {
            int(path.suffix[1:]): int(_TOTAL.findall(path.read_text(encoding="utf-8"))[0])
            for path in Path(folder).glob("part.*")
        }
    told = json.loads(output)
    names, turns = told["blocks"], told["turns"]
    # The first part ends at the first mark, and each block takes the part between its two marks.
    if len(parts) != 2 * len(names):
        raise CountingError(
            f"{len(names)} blocks have {len(parts)} marks: something else calls {MARK}, or this"
            " valgrind does not find it in the C library"
        )
    blocks: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        blocks.setdefault(name, []).append(parts[2 * number + 2])
    return {
        name: Counts(round(median(found) / turns), told["calls"][name])
        for name, found in blocks.items()
    }


def _valgrind() -> str:
    found = shutil.which("valgrind")
    if found is None:
        raise CountingError("valgrind is not installed (Debian: apt-get install valgrind)")
    return found


def _run(command: Sequence[str], environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CountingError(f"{' '.join(command)} failed:\n{done.stderr[-4000:].strip()}")
    return done.stdout
