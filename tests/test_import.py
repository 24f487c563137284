"""`import alula` is cheap and needs nothing but the standard library."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SRC = Path(__file__).parents[1] / "src"
TIMES_ASYNCIO = 2.0
RUNS = 7


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
