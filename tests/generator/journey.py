"""The first steps of a new user: from an empty environment to an application with an own schema.

Builds the wheel and installs it into a fresh environment. For each combination of answers of
`alula new`, creates an application, runs its tests, starts it, calls it with curl, adds a service,
calls that, and changes its schema: the next request gets a 400.
`python -m tests.generator.journey` tries every pair of answers, `--all` every combination; both
print the duration of each step.
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
TIMEOUT_SECONDS = 60.0
CONCURRENT = 2
FIRST_RESPONSE_SECONDS = 60.0
"""Seconds from an empty environment to the first response, with all packages in the cache of pip.

It limits processor time: the time of the clock depends on what else the machine is doing.
"""

STARTS = {
    "dev": ("alula", "dev", "--port", "0"),
    "serve": ("alula", "serve", "--port", "0"),
    "script": ("python", "app.py"),
    "uvicorn": ("uvicorn", "app:app", "--port", "0"),
}
DATABASES = ("sqlite", "postgresql", "mongodb", "memory")
ACCOUNT = {"email": "ada@example.com", "password": "correct horse"}


class Answers(NamedTuple):
    """The answers to `alula new`, and how the application is started."""

    database: str
    authentication: bool
    service: str | None
    start: str

    @property
    def name(self) -> str:
        who = "users" if self.authentication else "open"
        return f"{self.database[:4]}-{who}-{self.start}{'' if self.service else '-bare'}"

    @property
    def options(self) -> list[str]:
        return [
            f"--database={self.database}",
            "--authentication" if self.authentication else "--no-authentication",
            # With the first service, so that the rows stay few.
            "--files" if self.service else "--no-files",
            *(["--cookies"] if self.authentication and self.service else []),
            f"--service={self.service}" if self.service else "--no-service",
        ]


PAIRWISE = (
    Answers("sqlite", True, "messages", "dev"),
    Answers("sqlite", False, None, "script"),
    Answers("postgresql", False, "messages", "dev"),
    Answers("postgresql", True, None, "uvicorn"),
    Answers("mongodb", True, "messages", "dev"),
    Answers("mongodb", False, None, "script"),
    Answers("memory", True, None, "serve"),
    Answers("memory", False, "messages", "uvicorn"),
)
"""Every pair of answers, and each way to start once."""

EVERYTHING = tuple(
    itertools.starmap(
        Answers,
        itertools.product(DATABASES, (True, False), ("messages", None), STARTS),
    )
)


def processor_time() -> float:
    """Return the processor time of all commands so far, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@dataclass
class Clock:
    """The duration of each step."""

    start: float = field(default_factory=processor_time)
    steps: list[tuple[str, float]] = field(default_factory=list)

    @contextlib.contextmanager
    def timed(self, step: str) -> Iterator[None]:
        start = time.monotonic()
        yield
        self.steps.append((step, time.monotonic() - start))

    def check_first_response(self) -> None:
        """Check that the steps so far have not taken too long."""
        used = processor_time() - self.start
        total = sum(seconds for _, seconds in self.steps)
        self.steps.append(("from nothing to the first response", total))
        if used > FIRST_RESPONSE_SECONDS:
            raise JourneyError(f"the first response took {used:.0f} s of the processor: {self}")

    def __str__(self) -> str:
        return ", ".join(f"{step} {seconds:.1f}" for step, seconds in self.steps)


class JourneyError(AssertionError):
    """A step has failed; the message has its output."""


@dataclass
class Environment:
    """A virtual environment, and a folder for applications.

    Attributes:
        folder: The folder.
        binaries: The folder of the programs of the environment.
    """

    folder: Path
    binaries: Path

    def variables(self, **more: str) -> dict[str, str]:
        """Return the environment variables without those of the environment of the tests."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "ALULA_", "COV", "PYTEST"))
        }
        path = f"{self.binaries}{os.pathsep}{kept.get('PATH', '')}"
        return {**kept, "PATH": path, "VIRTUAL_ENV": str(self.binaries.parent), **more}

    def run(self, *command: str | Path, cwd: Path) -> str:
        """Run a command to its end and return its output."""
        done = subprocess.run(
            [str(self._program(command[0])), *map(str, command[1:])],
            cwd=cwd,
            env=self.variables(),
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
        """Start the application, yield its URL once it is ready, and stop it."""
        command = STARTS[answers.start]
        log = app.with_name(f"{app.name}.log")
        with log.open("a+") as output:
            process = subprocess.Popen(
                [str(self._program(command[0])), *command[1:]],
                cwd=app,
                env=self.variables(PORT="0", PYTHONUNBUFFERED="1"),
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
            try:
                start = log.stat().st_size
                url = wait_for(lambda: self._address(process, log, start), f"an address in {log}")
                wait_for(lambda: curl(f"{url}/health/ready")[0] == 200, f"{url} to be ready")
                yield url
            finally:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(TIMEOUT_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def _address(self, process: subprocess.Popen[bytes], log: Path, start: int) -> str | None:
        said = log.read_text()[start:]
        if process.poll() is not None:
            raise JourneyError(f"the application has ended:\n{said}")
        found = re.search(r"http://127\.0\.0\.1:[1-9]\d*", said)
        return found[0] if found else None

    def _program(self, name: str | Path) -> Path:
        own = self.binaries / str(name)
        return own if own.exists() else Path(str(name))


def wait_for(ask: Callable[[], Any], what: str) -> Any:
    """Return the first result that is true."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while not (found := ask()):
        if time.monotonic() > end:
            raise JourneyError(f"waited in vain for {what}")
        time.sleep(0.05)
    return found


def retry(go: Callable[[], None]) -> None:
    """Retry until it succeeds: users in memory are gone after a restart of the application."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            return go()
        except JourneyError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def curl(url: str, data: Any = None, token: str | None = None) -> tuple[int, Any]:
    """Send a request with curl; return the status, 0 without a response, and the JSON."""
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
    """Return the JSON of a response with the expected status."""
    if answer[0] != status:
        raise JourneyError(f"expected {status}, got {answer}")
    return answer[1]


def sign_in(url: str, answers: Answers) -> str | None:
    """Register and sign in, if the application has users; return the token."""
    if not answers.authentication:
        return None
    status, _ = curl(f"{url}/users", ACCOUNT)
    if status not in {201, 409}:
        raise JourneyError(f"registration failed: {status}")
    signed_in = curl(f"{url}/authentication", {"strategy": "local", **ACCOUNT})
    token: str = expect(201, signed_in)["accessToken"]
    return token


def try_answers(
    environment: Environment, answers: Answers, clock: Clock, *, install: Path | None
) -> None:
    """Create an application with these answers and take all steps with it.

    Args:
        environment: The environment to use.
        answers: The answers to `alula new`.
        clock: Measures each step.
        install: The folder of the wheel to install the requirements of the application from;
            None if they are installed already.
    """
    app = environment.folder / answers.name
    with clock.timed("new"):
        environment.run("alula", "new", answers.name, *answers.options, cwd=environment.folder)
    if install is not None:
        with clock.timed("pip install '.[dev]'"):
            pip(environment, "--find-links", install, ".[dev]", cwd=app)
    with clock.timed("its tests"):
        environment.run("python", "-m", "pytest", "-q", cwd=app)
    with contextlib.ExitStack() as running:
        with clock.timed("first calls"):
            url = running.enter_context(environment.serving(answers, app))
            call_services(url, answers)
        if install is not None:
            clock.check_first_response()
        if answers.start == "dev":
            add_service(environment, answers, app, url, clock)
            change_schema(answers, app, url, clock)
            return
    with clock.timed("a service more"):
        environment.run(*NEW_SERVICE, cwd=app)
        with environment.serving(answers, app) as url:
            call_tasks(url, answers)
    with clock.timed("another schema"):
        limit_titles(app)
        with environment.serving(answers, app) as url:
            check_the_400(url, answers)


NEW_SERVICE = ("alula", "generate", "service", "tasks", "--fields=title:str,done:bool")


def call_services(url: str, answers: Answers) -> None:
    """Call the services of the new application."""
    paths = set(expect(200, curl(f"{url}/openapi.json"))["paths"])
    token = sign_in(url, answers)
    if answers.service is not None:
        assert f"/{answers.service}" in paths, paths
        made = expect(201, curl(f"{url}/{answers.service}", {"text": "Hello"}, token))
        page = expect(200, curl(f"{url}/{answers.service}?$limit=5", token=token))
        assert page["data"] == [made], page


def add_service(
    environment: Environment, answers: Answers, app: Path, url: str, clock: Clock
) -> None:
    """Add a service while the application is running."""
    with clock.timed("a service more"):
        environment.run(*NEW_SERVICE, cwd=app)
        retry(lambda: call_tasks(url, answers))


def change_schema(answers: Answers, app: Path, url: str, clock: Clock) -> None:
    """Change a schema while the application is running."""
    with clock.timed("another schema"):
        limit_titles(app)
        retry(lambda: check_the_400(url, answers))


def call_tasks(url: str, answers: Answers) -> None:
    """Call the added service."""
    token = sign_in(url, answers)
    made = expect(201, curl(f"{url}/tasks", {"title": "Write the pages", "done": True}, token))
    assert (made["title"], made["done"]) == ("Write the pages", True), made
    assert expect(200, curl(f"{url}/tasks?done=true", token=token))["total"] >= 1
    refused = expect(400, curl(f"{url}/tasks", {"title": 5}, token))
    assert refused["data"][0]["instancePath"] == "/title", refused


def limit_titles(app: Path) -> None:
    """Lower the maximum length of the titles of tasks."""
    schema = app / "services" / "tasks" / "schema.py"
    old = schema.read_text()
    new = old.replace("max_length=2000", "max_length=5")
    assert new != old, old
    schema.write_text(new)


def check_the_400(url: str, answers: Answers) -> None:
    """Send data that the changed schema refuses, and data that it accepts."""
    token = sign_in(url, answers)
    refused = expect(400, curl(f"{url}/tasks", {"title": "Write the pages"}, token))
    assert refused["message"] == "validation failed", refused
    assert refused["data"][0]["message"] == "must NOT have more than 5 characters", refused
    expect(201, curl(f"{url}/tasks", {"title": "Write"}, token))


def pip(environment: Environment, *arguments: str | Path, cwd: Path) -> None:
    """Install into an environment, in the versions of the project's constraints."""
    constraints = ROOT / "requirements" / "constraints.txt"
    environment.run(
        "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--constraint",
        constraints,
        *arguments,
        cwd=cwd,
    )


def build_wheel(folder: Path) -> Path:
    """Build the wheel from a copy of its sources; return its folder."""
    for name in OUR_FILES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    Environment(folder, Path(sys.executable).parent).run(
        "python", "-m", "build", "--wheel", "--no-isolation", cwd=folder
    )
    return folder / "dist"


def create_environment(folder: Path, wheels: Path, clock: Clock) -> Environment:
    """Create an environment with the wheel and the requirements of `alula new`."""
    environment = Environment(folder, folder / "venv" / "bin")
    with clock.timed("venv"):
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    with clock.timed("pip install 'alula[cli]'"):
        (wheel,) = wheels.glob("*.whl")
        pip(environment, f"alula[cli] @ {wheel.as_uri()}", cwd=folder)
    return environment


def try_all(folder: Path, rows: tuple[Answers, ...]) -> Mapping[Answers, Clock]:
    """Try all rows: the first in an empty environment, the others in the environment of the first.

    Returns:
        The durations of each.
    """
    (source := folder / "source").mkdir()
    wheels = build_wheel(source)
    first = Clock()
    environment = create_environment(folder, wheels, first)
    try_answers(environment, rows[0], first, install=wheels)
    if rows[1:]:  # the first row needs the extras of one database
        (wheel,) = wheels.glob("*.whl")
        extras = "cli,embedded,embedded-postgresql,mongodb,postgresql,sql"
        pip(environment, f"alula[{extras}] @ {wheel.as_uri()}", cwd=folder)
    clocks = {row: Clock() for row in rows[1:]}
    with ThreadPoolExecutor(CONCURRENT) as pool:
        going = [
            pool.submit(try_answers, environment, row, clocks[row], install=None) for row in clocks
        ]
    for each in going:
        each.result()
    return {rows[0]: first, **clocks}


def main() -> None:
    """Try the answers and print the durations."""
    parser = argparse.ArgumentParser(prog="python -m tests.generator.journey")
    parser.add_argument("--all", action="store_true", help="every combination of answers")
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="alula-journey-") as folder:
        rows = EVERYTHING if parser.parse_args().all else PAIRWISE
        for row, clock in try_all(Path(folder), rows).items():
            print(f"{row.name:24} {clock}", flush=True)
    print(f"{len(rows)} applications in {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
