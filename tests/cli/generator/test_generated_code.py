"""Linters and type checkers accept generated code."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.cli.generator.applications import LONG, alula
from tests.requirements import absent

BINARIES = Path(sys.executable).parent
DATABASES = ("sqlite", "postgresql", "mongodb", "memory")
USERS = ("--authentication", "--no-authentication")
REALTIME = ("--realtime", "--no-realtime")
FIRST = ("--service=messages", f"--service={LONG}", "--no-service")
LONG_FIELD = "a" * 24

# All of this file runs other programs on generated code, which has tests of its own.
pytestmark = pytest.mark.untraced


def program(name: str) -> str:
    path = BINARIES / name
    return str(path) if path.exists() else absent(f"no {name}: generated code is not looked at")


def check(folder: Path, *command: str) -> str:
    """Run a checker, which has to have nothing to say; return what it has said."""
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    done = subprocess.run(
        [program(command[0]), *command[1:]],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# `make test` runs one type checker.
@pytest.fixture(
    params=[
        "pyright",
        pytest.param("mypy", marks=pytest.mark.release),
        pytest.param("ty", marks=pytest.mark.release),
    ]
)
def type_checker(request, tmp_path) -> tuple[str, ...]:
    commands = {
        "mypy": ("mypy", "--cache-dir", str(tmp_path.parent / "mypy"), "."),
        "pyright": ("pyright", "--pythonpath", sys.executable, "."),
        "ty": ("ty", "check", "--python", sys.prefix, "--output-format", "concise"),
    }
    return commands[request.param]


def complaints(folder: Path, command: tuple[str, ...]) -> set[str]:
    """Return each place that a checker has something to say about: the file and the line."""
    with pytest.raises(AssertionError) as caught:
        check(folder, *command)
    return set(re.findall(r"(\w+\.py:\d+):", str(caught.value)))


SIGN_IN = {
    "sqlite": "--sign-in=github",
    "postgresql": "--sign-in=oidc",
    "mongodb": "--sign-in=google,github,gitlab,microsoft,apple,oidc",
    "memory": "--sign-in=apple,google",
}
"""The providers of the applications on each database."""


def add_everything(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generate one of everything in an application."""
    fields = f"title:str,done:bool,count:int?,{LONG_FIELD}:str?,due_date:float,owner:id?"
    for arguments in (
        ["service", "tasks", "--path=api/v1/tasks", f"--fields={fields}"],
        ["service", f"b{LONG[1:]}"],
        ["hook", "check-quota"],
        ["hook", f"c{LONG[1:]}", "--kind=error"],
        ["hook", "late", "--kind=before", "--service=tasks"],
        ["hook", "later", "--kind=after", "--service=tasks"],
        ["middleware", "count-visits"],
        ["middleware", f"d{LONG[1:]}"],
    ):
        alula(folder, monkeypatch, "generate", *arguments)


def is_tried_always(database: str, users: str, first: str, realtime: str) -> bool:
    """Tell whether the fast suite has a row: one of two, with every pair of answers."""
    row = (DATABASES.index(database), USERS.index(users), FIRST.index(first))
    return sum(row) % 2 == REALTIME.index(realtime)


def further(database: str, users: str, realtime: str) -> list[str]:
    """Return the other answers of a row: each pair of answers is in one."""
    has_files = (DATABASES.index(database) + REALTIME.index(realtime)) % 2
    cookies = ["--cookies"] if users == "--authentication" and has_files else []
    return ["--files" if has_files else "--no-files", *cookies]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("database", "users", "first", "realtime"),
    [
        pytest.param(*row, marks=[] if is_tried_always(*row) else pytest.mark.release)
        for row in itertools.product(DATABASES, USERS, FIRST, REALTIME)
    ],
)
def test_linters_accept_the_code(tmp_path, monkeypatch, database, users, first, realtime):
    answers = [
        f"--database={database}",
        users,
        first,
        realtime,
        *further(database, users, realtime),
    ]
    alula(tmp_path, monkeypatch, "new", LONG, *answers)
    folder = tmp_path / LONG
    add_everything(folder, monkeypatch)
    if users == "--no-authentication":
        alula(folder, monkeypatch, "generate", "authentication")
    # Half of them, on each database.
    others = [SIGN_IN[database]] if first != "--no-service" else []
    features = ("--totp", "--passkeys", "--api-keys", *others)
    alula(folder, monkeypatch, "generate", "accounts", *features)
    check(folder, "ruff", "check", "--no-cache", "--quiet", ".")
    check(folder, "ruff", "format", "--no-cache", "--diff", "--quiet", ".")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("database", "users"),
    [
        pytest.param("memory", "--authentication", marks=pytest.mark.release),
        pytest.param("mongodb", "--no-authentication", marks=pytest.mark.release),
        pytest.param("postgresql", "--no-authentication", marks=pytest.mark.release),
        ("sqlite", "--authentication"),
    ],
)
def test_type_checkers(tmp_path, monkeypatch, database, users, type_checker):
    """They accept the generated code, and refuse mistakes and paths that no service has."""
    answers = [f"--database={database}", users, "--realtime", "--files"]
    if users == "--authentication":
        answers.append("--cookies")
    alula(tmp_path, monkeypatch, "new", "shop", *answers)
    folder = tmp_path / "shop"
    add_everything(folder, monkeypatch)
    if users == "--authentication":
        features = ("--passkeys", SIGN_IN[database])
        alula(folder, monkeypatch, "generate", "accounts", *features)
    if database == "mongodb":
        fields = "owner:id,other_owner:id?"
        alula(folder, monkeypatch, "generate", "service", "links", f"--fields={fields}")
    right = 'from app import app\n\napp.service("api/v1/tasks")\n'
    (folder / "right_path.py").write_text(right)
    (folder / "wrong_path.py").write_text(right.replace("v1/tasks", "v1/task"))
    (folder / "slack.py").write_text("def slack(value): return value\n")
    slack = set() if type_checker[0] == "ty" else {"slack.py:1"}  # ty has no strict mode
    assert complaints(folder, type_checker) == {"wrong_path.py:3", *slack}
    # Both are strict by the settings of the application, without a rule switched off.
    settings = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]
    assert settings["mypy"].keys() <= {"strict", "exclude"}
    assert settings["pyright"].keys() <= {"typeCheckingMode", "ignore"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "database",
    [
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.release),
        pytest.param("mongodb", marks=pytest.mark.release),
        pytest.param("memory", marks=pytest.mark.release),
    ],
)
def test_its_tests_pass_with_everything_added(tmp_path, monkeypatch, request, database):
    alula(tmp_path, monkeypatch, "new", "shop", f"--database={database}", "--realtime")
    folder = tmp_path / "shop"
    add_everything(folder, monkeypatch)
    alula(folder, monkeypatch, "generate", "authentication")
    features = ("--totp", "--passkeys", "--api-keys", SIGN_IN[database])
    alula(folder, monkeypatch, "generate", "accounts", *features)
    if database == "mongodb":
        alula(folder, monkeypatch, "generate", "service", "links", "--fields=owner:id,at_end:id?")
        monkeypatch.setenv("SHOP_MONGODB_URL", request.getfixturevalue("mongodb_url"))
    elif database == "postgresql":
        monkeypatch.setenv("SHOP_DATABASE_URL", request.getfixturevalue("postgresql_url"))
    check_its_tests(folder, monkeypatch)


def check_its_tests(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the tests of an application, of which none may be skipped."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    plugins = ("-p", "anyio", "-p", "no:cacheprovider")
    output = check(folder, "python", "-m", "pytest", "-q", *plugins)
    assert " passed" in output
    assert "skipped" not in output


OWN_HOOKS = """
from alula.hooks import HOOK_TYPES

async def test_every_hook_is_of_the_library(app):
    tables = [app.hook_table, *(handle.hook_table for handle in app.services.values())]
    hooks = [
        hook
        for table in tables
        for kind in HOOK_TYPES
        for method in ("find", "get", "create", "update", "patch", "remove")
        for hook in table.of(kind, method)
    ]
    assert len(hooks) > 20
    modules = {getattr(hook, "__module__", type(hook).__module__) for hook in hooks}
    assert not [module for module in modules if module.partition(".")[0] != "alula"]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "database",
    [
        "sqlite",
        pytest.param("mongodb", marks=pytest.mark.release),
        pytest.param("memory", marks=pytest.mark.release),
    ],
)
def test_users_cookies_and_files_need_no_hook_of_its_own(tmp_path, monkeypatch, request, database):
    answers = ["--authentication", "--cookies", "--files", "--realtime"]
    alula(tmp_path, monkeypatch, "new", "shop", f"--database={database}", *answers)
    folder = tmp_path / "shop"
    (folder / "test_hooks.py").write_text(OWN_HOOKS)
    if database == "mongodb":
        monkeypatch.setenv("SHOP_MONGODB_URL", request.getfixturevalue("mongodb_url"))
    check_its_tests(folder, monkeypatch)


def test_a_checker_that_complains_is_noticed(tmp_path):
    (tmp_path / "a.py").write_text("import os\n")
    with pytest.raises(AssertionError, match="F401"):
        check(tmp_path, "ruff", "check", "--no-cache", ".")
