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
TRIES = 5
# With the pinned versions, the application of the README loads 322 beside those of an empty Python,
# 101 of them of alula: limits of results, of failures and of repeated lines have a module each, and
# methods that stream have three.
MOST_MODULES = 325


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


def times_asyncio() -> float:
    """Return how many times as much as that of asyncio the import of alula costs."""
    pairs = [[microseconds_of_import(name) for name in ("alula", "asyncio")] for _ in range(RUNS)]
    alula, asyncio = map(min, zip(*pairs, strict=True))
    return alula / asyncio


@pytest.mark.slow  # once; it is a matter of our own modules
def test_import_alula_costs_at_most_twice_as_much_as_asyncio():
    microseconds_of_import("alula")  # leaves the compiled files behind
    # 1.4 on a quiet machine. On a busy one, one try of several is quiet.
    tries: list[float] = []
    while len(tries) < TRIES and not (tries and min(tries) <= TIMES_ASYNCIO):
        tries.append(times_asyncio())
    assert min(tries) <= TIMES_ASYNCIO, f"{min(tries):.2f} times as much, the least of {tries}"


@pytest.fixture(scope="module")
def modules_of_the_readme() -> set[str]:
    readme = (SRC.parent / "README.md").read_text(encoding="utf-8")
    (application,) = re.findall(r"```python\n(from pydantic.*?)```", readme, re.DOTALL)
    return modules_loaded_by(f"exec({application!r}, {{'__name__': 'app'}})")


@pytest.mark.slow  # not with other versions of the packages
def test_an_application_loads_few_modules(modules_of_the_readme):
    """The clock of a shared machine says little; each module takes a third of a millisecond."""
    assert "pydantic.main" in modules_of_the_readme
    assert "alula.express" in modules_of_the_readme
    assert len(modules_of_the_readme) <= MOST_MODULES


@pytest.mark.parametrize(
    "library",
    [
        "anyio",
        "attr",
        "click",
        "cryptography",
        "h11",
        "httptools",
        "jinja2",
        "jsonschema",
        "jwt",
        "pymongo",
        "sqlalchemy",
        "uvicorn",
        "uvloop",
    ],
)
def test_an_application_loads_no_library_that_it_does_not_use(modules_of_the_readme, library):
    loaded = {name for name in modules_of_the_readme if name.partition(".")[0] == library}
    assert loaded == set()


def test_an_application_loads_the_types_of_starlette_alone(modules_of_the_readme):
    """Requests and responses are ours; few middleware wrap some of Starlette's."""
    loaded = {name for name in modules_of_the_readme if name.partition(".")[0] == "starlette"}
    assert loaded == {"starlette", "starlette.types"}


@pytest.mark.parametrize(
    "module",
    [
        "alula._hub",
        "alula._wire",
        "alula.express._http1",
        "alula.openapi._document",
        "alula.adapters._database_options",
        "alula.logs",
        "alula.schema._json_schema.validator",
        "difflib",
        "html.entities",
        "http",
        "logging.config",
        "multiprocessing",
        "unicodedata",
    ],
)
def test_an_application_loads_nothing_for_a_page_a_slip_or_a_server(modules_of_the_readme, module):
    assert module not in modules_of_the_readme


def test_an_application_without_models_loads_less():
    code = (
        "from alula import App\n"
        "from alula.adapters.memory import MemoryService\n"
        "from alula.express import error_handler, express, json, not_found, rest\n"
        "app = express(App()).use(json()).configure(rest())\n"
        "app.use('messages', MemoryService()).use(not_found(), error_handler())"
    )
    loaded = modules_loaded_by(f"exec({code!r}, {{'__name__': 'app'}})")
    assert "alula.express._rest" in loaded
    assert loaded & {"pydantic", "pydantic_core", "email.utils", "importlib.metadata"} == set()
    assert loaded & {"shutil", "sysconfig", "tempfile", "zipfile"} == set()
