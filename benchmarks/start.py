"""How long applications take to start, and what they take of the memory.

Figures are those of Alula alone, and absolute: they depend on the machine. Each is the least of
all rounds, since what else a machine does only adds to them. Starts are measured by the processor
time of their process, a restart of `alula dev` by the clock.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.contenders import ROOT, Contender, Row, run
from benchmarks.processes import conversation, processor_seconds, resident_bytes, running

CONNECTIONS: Final = 10_000

_FLOOR: Final = """
import asyncio, uvicorn, uvicorn.server, httptools, orjson, starlette.applications
from pydantic import BaseModel, Field
class Message(BaseModel):
    text: str = Field(min_length=1, max_length=500)
    likes: int = 0
"""


@dataclass(frozen=True)
class Subject:
    """Something that is measured.

    Attributes:
        name: What the table calls it.
        unit: What its figure counts.
        most: The largest figure that is wanted, None if it is only shown.
    """

    name: str
    unit: str
    most: float | None = None


README = Subject("import of the application of the README, processor time", "ms", 150)
LIBRARIES = Subject("the same without Alula: uvicorn, Starlette, orjson, one Pydantic model", "ms")
START = Subject("start of it by `app.run`, to its first response, processor time", "ms")
GENERATED = Subject("import of a generated application with SQLite and users", "ms")
REST = Subject("memory of the application of the README at rest, by `app.run`", "MiB", 45)
IDLE = Subject(f"{CONNECTIONS:,} idle HTTP connections, added to it", "MiB", 80)
ONE = Subject("an idle HTTP connection by `app.run`, after one request", "KiB", 8)
SOCKETS = Subject(f"{CONNECTIONS:,} idle connections of socket.io, added to it", "MiB")
RELOAD = Subject("`alula dev`: from saving a file to the first response", "ms", 600)
RESTART = Subject("a restart by `alula dev`, processor time", "ms")

Figures = Mapping[Subject, float]


def measure_start(rounds: int) -> dict[Subject, float]:
    """Return the least figure of each subject.

    Args:
        rounds: How often each is measured; 0 for a quick look at what runs without a generated
            application.
    """
    found: dict[Subject, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        readme = folder / "readme"
        readme.mkdir()
        (readme / "app.py").write_text(application_of_readme(), encoding="utf-8")
        if rounds:
            generate(folder)
        for _ in range(max(rounds, 1)):
            for subject, figure in _one_round(folder, quick=not rounds):
                found[subject] = min(figure, found.get(subject, figure))
    return found


def _one_round(folder: Path, *, quick: bool) -> Iterator[tuple[Subject, float]]:
    yield README, processor_of("import app", folder / "readme")
    yield LIBRARIES, processor_of(_FLOOR, folder)
    code = f"import sys; sys.path.insert(0, {str(folder / 'readme')!r}); from app import app"
    command = (sys.executable, "-c", code + "; app.run({port})")
    with running(Contender("the README", command, (Row("find", "/messages"),)), {}) as server:
        yield START, processor_seconds(server.pid) * 1000
        yield REST, resident_bytes(server.pid) / 2**20
    each = bytes_of_one("alula_app", "/memory/5", "connections", 100 if quick else CONNECTIONS)
    yield IDLE, each * CONNECTIONS / 2**20
    yield ONE, each / 2**10
    if quick:
        return
    each = bytes_of_one("alula_realtime", "", "sockets", CONNECTIONS)
    yield SOCKETS, each * CONNECTIONS / 2**20
    shop = folder / "shop"
    yield GENERATED, processor_of("import app", shop)
    with developing(shop) as restart:
        spent, seconds = restart()
        yield RELOAD, seconds * 1000
        yield RESTART, spent * 1000


def bytes_of_one(module: str, path: str, load: str, number: int) -> float:
    """Return the bytes that one idle connection of so many adds to a server.

    Args:
        module: The application, in `benchmarks.servers`.
        path: What the connections are opened at.
        load: What opens them, in `benchmarks.load`.
        number: How many there are.
    """
    first = number // 20  # their memory is not only theirs: pools of the server grow, too
    server = Contender("Alula", run(module), (Row("get", path or "/"),))
    with running(server, {}) as idle:
        program = [sys.executable, "-m", f"benchmarks.load.{load}", idle.url + path]
        with conversation(program, ROOT) as tell:
            tell(f"connect {first}")
            before = resident_bytes(idle.pid)
            tell(f"connect {number}")
            return (resident_bytes(idle.pid) - before) / (number - first)


def application_of_readme() -> str:
    """Return the first application of the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(from pydantic.*?)```", text, re.DOTALL)
    assert found
    return found[1]


def generate(folder: Path) -> None:
    """Generate an application, with a route that tells which version of its file runs."""
    options = ("--yes", "--database", "sqlite", "--authentication", "--no-files", "--no-realtime")
    subprocess.run(
        [Path(sys.executable).with_name("alula"), "new", "shop", *options],
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    path = folder / "shop" / "app.py"
    source = path.read_text(encoding="utf-8")
    end = "    app.use(not_found()"
    assert source.count(end) == 1
    route = '    app.get("/change", lambda req, res: res.json(CHANGE))\n'
    path.write_text(source.replace(end, route + end) + "\nCHANGE = 0\n", encoding="utf-8")


def processor_of(code: str, folder: Path) -> float:
    """Return the milliseconds of processor time that a program takes, with the interpreter."""
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    figures = []
    for _ in range(2):  # the first one compiles the files
        with subprocess.Popen([sys.executable, "-c", code], cwd=folder, env=environment) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"bench: {code!r} failed in {folder}")
        figures.append((usage.ru_utime + usage.ru_stime) * 1000)
    return figures[-1]


@contextlib.contextmanager
def developing(folder: Path) -> Iterator[Callable[[], tuple[float, float]]]:
    """Run `alula dev`; yield what changes a file and waits for its response.

    It returns the seconds of processor time that this takes, and those of the clock.
    """
    alula = str(Path(sys.executable).with_name("alula"))
    options = "'dev', '--no-access-log', '--port', '{port}'"
    code = f"import os; os.chdir({str(folder)!r}); os.execv({alula!r}, ['alula', {options}])"
    command = (sys.executable, "-c", code)
    path = folder / "app.py"
    with running(Contender("alula dev", command, (Row("change", "/change"),)), {}) as server:

        def current() -> bytes:
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(f"{server.url}/change", timeout=30) as response,
            ):
                content: bytes = response.read()
                return content
            return b""

        def restart() -> tuple[float, float]:
            used = -1.0  # until nothing is left to do: people take longer between two changes
            while used != (used := processor_seconds(server.pid)):
                time.sleep(0.5)
            before = int(current())
            source = path.read_text(encoding="utf-8")
            changed = source.replace(f"\nCHANGE = {before}\n", f"\nCHANGE = {before + 1}\n")
            began, spent = time.perf_counter(), processor_seconds(server.pid)
            path.write_text(changed, encoding="utf-8")
            while current() != b"%d" % (before + 1):
                if time.perf_counter() - began > 60:
                    raise SystemExit("bench: `alula dev` does not serve what was saved")
                time.sleep(0.005)
            return processor_seconds(server.pid) - spent, time.perf_counter() - began

        yield restart


def start_table(figures: Figures) -> str:
    """Return the figures as a Markdown table."""
    lines = ["| what | measured | wanted |", "|---|---:|---:|"]
    for subject, figure in figures.items():
        wanted = "" if subject.most is None else f"{subject.most:g} {subject.unit}"
        lines.append(f"| {subject.name} | {_written(figure)} {subject.unit} | {wanted} |")
    return "\n".join(lines)


def start_verdicts(figures: Figures) -> list[str]:
    """Return a line for each figure that has a target."""
    return [
        f"{'reached' if figure <= subject.most else 'MISSED'}: {subject.name} is"
        f" {_written(figure)} {subject.unit} (wanted {subject.most:g} {subject.unit})"
        for subject, figure in figures.items()
        if subject.most is not None
    ]


def _written(figure: float) -> str:
    return f"{figure:.0f}" if figure >= 100 else f"{figure:.1f}"
