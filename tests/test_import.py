"""`import alula` is cheap and needs nothing but the standard library."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src"
TIMES_ASYNCIO = 2.0
RUNS = 7
# With the pinned versions, the application of the README loads 432 beside those of an empty Python.
MOST_MODULES = 440


def fresh_interpreter(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a new interpreter that finds alula in src/."""
    return subprocess.run(
        [
            sys.executable,
            "-I",
            *options,
            "-c",
            f"import sys; sys.path.insert(0, {str(SRC)!r})\n{code}",
        ],
        capture_output=True,
        text=True,
        check=True,
    )


def modules_loaded_by(statement: str) -> set[str]:
    """Return what `statement` loads where third-party packages are at hand."""
    code = f"import json; before = set(sys.modules)\n{statement}\n"
    done = fresh_interpreter(code + "print(json.dumps(sorted(set(sys.modules) - before)))")
    return set(json.loads(done.stdout))


def microseconds_of_import(module: str) -> int:
    """Return what the import of `module` costs, with all that it imports in turn."""
    done = fresh_interpreter(f"import {module}", "-S", "-X", "importtime")
    rows = (line.split("|") for line in done.stderr.splitlines())
    return next(int(total) for _, total, name in rows if name.strip() == module)


def test_import_alula_loads_no_third_party_module():
    allowed = sys.stdlib_module_names | {"alula"}
    loaded = modules_loaded_by("import alula")
    assert "alula._app" in loaded
    foreign = {name for name in loaded if name.partition(".")[0] not in allowed}
    # Part of the standard library, with the name of the platform in its own.
    assert {name for name in foreign if not name.startswith("_sysconfigdata_")} == set()


def test_would_notice_a_third_party_module():
    assert "starlette.routing" in modules_loaded_by("import starlette.applications")


def test_import_alula_costs_at_most_twice_as_much_as_asyncio():
    microseconds_of_import("alula")  # leaves the compiled files behind
    pairs = [[microseconds_of_import(name) for name in ("alula", "asyncio")] for _ in range(RUNS)]
    alula, asyncio = map(min, zip(*pairs, strict=True))
    assert alula <= TIMES_ASYNCIO * asyncio, f"{alula / asyncio:.2f} times as much"


@pytest.fixture(scope="module")
def modules_of_the_readme() -> set[str]:
    readme = (SRC.parent / "README.md").read_text(encoding="utf-8")
    (application,) = re.findall(r"```python\n(from pydantic.*?)```", readme, re.DOTALL)
    return modules_loaded_by(f"exec({application!r}, {{'__name__': 'app'}})")


@pytest.mark.slow  # not with other versions of the packages
def test_an_application_loads_few_modules(modules_of_the_readme):
    """The clock of a shared machine says little; each module takes a third of a millisecond."""
    assert "pydantic.main" in modules_of_the_readme
    assert "uvicorn.server" in modules_of_the_readme
    assert len(modules_of_the_readme) <= MOST_MODULES


@pytest.mark.parametrize(
    "library",
    ["attr", "cryptography", "h11", "jinja2", "jsonschema", "jwt", "pymongo", "sqlalchemy"],
)
def test_an_application_loads_no_library_that_it_does_not_use(modules_of_the_readme, library):
    loaded = {name for name in modules_of_the_readme if name.partition(".")[0] == library}
    assert loaded == set()


def test_an_application_does_not_load_the_application_of_starlette(modules_of_the_readme):
    assert "starlette.responses" in modules_of_the_readme
    assert "starlette.applications" not in modules_of_the_readme
