"""What a new user does, from nothing to an application with rules of its own, without an editor.

It builds the wheel, installs it into a fresh environment, and for each combination of answers makes
an application, runs its tests, starts it, calls it with curl, adds a service, calls that, changes a
schema and sees the 400. `python -m tests.generator.journey` tries every pair of answers,
`--all` every combination; both print what took how long.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
OUR_FILES = ("src", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE")
PATIENCE = 60.0
AT_ONCE = 2
FIRST_ANSWER = 60.0
"""Seconds from nothing to the first answer, with what is installed in the cache of pip.

What is held is the time of the processor: that of the clock says as much about whatever else the
machine is doing.
"""

STARTS = {
    "dev": ("alula", "dev", "--port", "0"),
    "serve": ("alula", "serve", "--port", "0"),
    "script": ("python", "app.py"),
    "uvicorn": ("uvicorn", "app:app", "--port", "0"),
}
ACCOUNT = {"email": "ada@example.com", "password": "correct horse"}


class Answers(NamedTuple):
    """What was answered to `alula new`, and how the application is started."""

    database: str
    authentication: bool
    service: str | None
    start: str

    @property
    def name(self) -> str:
        who = "users" if self.authentication else "open"
        return f"{self.database[:5]}-{who}-{self.start}{'' if self.service else '-bare'}"

    @property
    def options(self) -> list[str]:
        return [
            f"--database={self.database}",
            "--authentication" if self.authentication else "--no-authentication",
            f"--service={self.service}" if self.service else "--no-service",
        ]


PAIRWISE = (
    Answers("mongodb", True, "messages", "dev"),
    Answers("mongodb", False, None, "script"),
    Answers("memory", True, None, "serve"),
    Answers("memory", False, "messages", "uvicorn"),
)
"""Every answer together with every other, and each way to start once."""

EVERYTHING = tuple(
    itertools.starmap(
        Answers,
        itertools.product(("mongodb", "memory"), (True, False), ("messages", None), STARTS),
    )
)


def processor_time() -> float:
    """Return the seconds that commands have kept the processor busy so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@dataclass
class Clock:
    """What took how long, in the order in which it was done."""

    begun: float = field(default_factory=processor_time)
    steps: list[tuple[str, float]] = field(default_factory=list)

    @contextlib.contextmanager
    def timed(self, step: str) -> Iterator[None]:
        begun = time.monotonic()
        yield
        self.steps.append((step, time.monotonic() - begun))

    def first_answer(self) -> None:
        """Hold that what came so far has not taken too long."""
        used = processor_time() - self.begun
        total = sum(seconds for _, seconds in self.steps)
        self.steps.append(("from nothing to the first answer", total))
        if used > FIRST_ANSWER:
            raise JourneyError(f"the first answer took {used:.0f} s of the processor: {self}")

    def __str__(self) -> str:
        return ", ".join(f"{step} {seconds:.1f}" for step, seconds in self.steps)


class JourneyError(AssertionError):
    """A step that did not do what it should; the text has what it said."""


@dataclass
class Traveller:
    """Somebody with a virtual environment, in a folder.

    Attributes:
        folder: Where applications are made.
        binaries: The programs of the environment.
    """

    folder: Path
    binaries: Path

    def environment(self, **more: str) -> dict[str, str]:
        """Return the variables of the machine without those of our own environment."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "ALULA_", "COV", "PYTEST"))
        }
        path = f"{self.binaries}{os.pathsep}{kept.get('PATH', '')}"
        return {**kept, "PATH": path, "VIRTUAL_ENV": str(self.binaries.parent), **more}

    def run(self, *command: str | Path, cwd: Path) -> str:
        """Run a command to its end, and return what it has said."""
        done = subprocess.run(
            [str(self._program(command[0])), *map(str, command[1:])],
            cwd=cwd,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise JourneyError(f"{' '.join(map(str, command))}:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    @contextlib.contextmanager
    def serving(self, answers: Answers, app: Path) -> Iterator[str]:
        """Start the application, and give its address once it is ready; stop it in the end."""
        command = STARTS[answers.start]
        log = app.with_name(f"{app.name}.log")
        with log.open("a+") as output:
            process = subprocess.Popen(
                [str(self._program(command[0])), *command[1:]],
                cwd=app,
                env=self.environment(PORT="0", PYTHONUNBUFFERED="1"),
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
            try:
                begun = log.stat().st_size
                url = until(lambda: self._address(process, log, begun), f"an address in {log}")
                until(lambda: curl(f"{url}/health/ready")[0] == 200, f"{url} to be ready")
                yield url
            finally:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def _address(self, process: subprocess.Popen[bytes], log: Path, begun: int) -> str | None:
        said = log.read_text()[begun:]
        if process.poll() is not None:
            raise JourneyError(f"the application has ended:\n{said}")
        found = re.search(r"http://127\.0\.0\.1:[1-9]\d*", said)
        return found[0] if found else None

    def _program(self, name: str | Path) -> Path:
        own = self.binaries / str(name)
        return own if own.exists() else Path(str(name))


def until(ask: Callable[[], Any], what: str) -> Any:
    """Return the first answer that is true."""
    end = time.monotonic() + PATIENCE
    while not (found := ask()):
        if time.monotonic() > end:
            raise JourneyError(f"waited in vain for {what}")
        time.sleep(0.05)
    return found


def eventually(go: Callable[[], None]) -> None:
    """Go until it succeeds: while an application starts anew, in memory, its users are gone."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return go()
        except JourneyError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def curl(url: str, data: Any = None, token: str | None = None) -> tuple[int, Any]:
    """Send a request with curl, and return its status and its JSON; 0 where nobody answers."""
    command = ["curl", "--silent", "--max-time", "30", "--write-out", "\n%{http_code}", url]
    if data is not None:
        command += ["--header", "Content-Type: application/json", "--data", json.dumps(data)]
    if token is not None:
        command += ["--header", f"Authorization: Bearer {token}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    body, _, status = done.stdout.rpartition("\n")
    try:
        return int(status), json.loads(body)
    except ValueError:
        return int(status or 0), body


def expect(status: int, answer: tuple[int, Any]) -> Any:
    """Return the JSON of an answer that has a status."""
    if answer[0] != status:
        raise JourneyError(f"expected {status}, got {answer}")
    return answer[1]


def sign_in(url: str, answers: Answers) -> str | None:
    """Register and sign in where there are users; return the token. In memory, both are anew."""
    if not answers.authentication:
        return None
    status, _ = curl(f"{url}/users", ACCOUNT)
    if status not in {201, 409}:
        raise JourneyError(f"nobody can register: {status}")
    signed_in = curl(f"{url}/authentication", {"strategy": "local", **ACCOUNT})
    token: str = expect(201, signed_in)["accessToken"]
    return token


def travel(traveller: Traveller, answers: Answers, clock: Clock, *, install: Path | None) -> None:
    """Make an application with these answers, and go all the way with it.

    Args:
        traveller: Who does it.
        answers: To what is asked.
        clock: Takes note of the times.
        install: The folder of the wheel where the environment has yet to get what the
            application needs; None where it has all of it.
    """
    app = traveller.folder / answers.name
    with clock.timed("new"):
        traveller.run("alula", "new", answers.name, *answers.options, cwd=traveller.folder)
    if install is not None:
        with clock.timed("pip install '.[dev]'"):
            pip(traveller, "--find-links", install, ".[dev]", cwd=app)
    with clock.timed("its tests"):
        traveller.run("python", "-m", "pytest", "-q", cwd=app)
    with contextlib.ExitStack() as running:
        with clock.timed("first calls"):
            url = running.enter_context(traveller.serving(answers, app))
            call_first(url, answers)
        if install is not None:
            clock.first_answer()
        if answers.start == "dev":
            add_service(traveller, answers, app, url, clock)
            change_schema(answers, app, url, clock)
            return
    with clock.timed("a service more"):
        traveller.run(*NEW_SERVICE, cwd=app)
        with traveller.serving(answers, app) as url:
            call_tasks(url, answers)
    with clock.timed("another schema"):
        shorten_titles(app)
        with traveller.serving(answers, app) as url:
            see_the_400(url, answers)


NEW_SERVICE = ("alula", "generate", "service", "tasks", "--fields=title:str,done:bool")


def call_first(url: str, answers: Answers) -> None:
    """Call what is there from the beginning."""
    paths = set(expect(200, curl(f"{url}/openapi.json"))["paths"])
    token = sign_in(url, answers)
    if answers.service is not None:
        assert f"/{answers.service}" in paths, paths
        made = expect(201, curl(f"{url}/{answers.service}", {"text": "Hello"}, token))
        page = expect(200, curl(f"{url}/{answers.service}?$limit=5", token=token))
        assert page["data"] == [made], page


def add_service(traveller: Traveller, answers: Answers, app: Path, url: str, clock: Clock) -> None:
    """Add a service while the application is running."""
    with clock.timed("a service more"):
        traveller.run(*NEW_SERVICE, cwd=app)
        eventually(lambda: call_tasks(url, answers))


def change_schema(answers: Answers, app: Path, url: str, clock: Clock) -> None:
    """Change a schema while the application is running."""
    with clock.timed("another schema"):
        shorten_titles(app)
        eventually(lambda: see_the_400(url, answers))


def call_tasks(url: str, answers: Answers) -> None:
    """Call the service that was added."""
    token = sign_in(url, answers)
    made = expect(201, curl(f"{url}/tasks", {"title": "Write the pages", "done": True}, token))
    assert (made["title"], made["done"]) == ("Write the pages", True), made
    assert expect(200, curl(f"{url}/tasks?done=true", token=token))["total"] >= 1
    refused = expect(400, curl(f"{url}/tasks", {"title": 5}, token))
    assert refused["data"][0]["instancePath"] == "/title", refused


def shorten_titles(app: Path) -> None:
    """Change the schema of the tasks."""
    schema = app / "services" / "tasks" / "schema.py"
    old = schema.read_text()
    new = old.replace("max_length=2000", "max_length=5")
    assert new != old, old
    schema.write_text(new)


def see_the_400(url: str, answers: Answers) -> None:
    """Send what the changed schema refuses, and what it takes."""
    token = sign_in(url, answers)
    refused = expect(400, curl(f"{url}/tasks", {"title": "Write the pages"}, token))
    assert refused["message"] == "validation failed", refused
    assert refused["data"][0]["message"] == "must NOT have more than 5 characters", refused
    expect(201, curl(f"{url}/tasks", {"title": "Write"}, token))


def pip(traveller: Traveller, *arguments: str | Path, cwd: Path) -> None:
    """Install into the environment of a traveller, in the versions that are tried here."""
    constraints = ROOT / "requirements" / "constraints.txt"
    traveller.run(
        *("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
        *("--constraint", constraints, *arguments),
        cwd=cwd,
    )


def build_wheel(folder: Path) -> Path:
    """Build the wheel from a copy of what it is made of; return the folder that it is in."""
    for name in OUR_FILES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    Traveller(folder, Path(sys.executable).parent).run(
        *("python", "-m", "build", "--wheel", "--no-isolation"), cwd=folder
    )
    return folder / "dist"


def set_out(folder: Path, wheels: Path, clock: Clock) -> Traveller:
    """Make a fresh environment in a folder, with the wheel and what `alula new` needs."""
    traveller = Traveller(folder, folder / "venv" / "bin")
    with clock.timed("venv"):
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    with clock.timed("pip install 'alula[cli]'"):
        (wheel,) = wheels.glob("*.whl")
        pip(traveller, f"alula[cli] @ {wheel.as_uri()}", cwd=folder)
    return traveller


def explore(folder: Path, rows: tuple[Answers, ...]) -> Mapping[Answers, Clock]:
    """Go through all rows: the first from nothing, the others in the environment of the first.

    Returns:
        The times of each.
    """
    (source := folder / "source").mkdir()
    wheels = build_wheel(source)
    first = Clock()
    traveller = set_out(folder, wheels, first)
    travel(traveller, rows[0], first, install=wheels)
    clocks = {row: Clock() for row in rows[1:]}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        going = [pool.submit(travel, traveller, row, clocks[row], install=None) for row in clocks]
    for each in going:
        each.result()
    return {rows[0]: first, **clocks}


def main() -> None:
    """Travel, and print the times."""
    parser = argparse.ArgumentParser(prog="python -m tests.generator.journey")
    parser.add_argument("--all", action="store_true", help="every combination of answers")
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="alula-journey-") as folder:
        rows = EVERYTHING if parser.parse_args().all else PAIRWISE
        for row, clock in explore(Path(folder), rows).items():
            print(f"{row.name:24} {clock}", flush=True)
    print(f"{len(rows)} applications in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
