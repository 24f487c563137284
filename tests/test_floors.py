"""The floors of the house: every import points to a lower floor or stays in its own package.

Imports under `TYPE_CHECKING` and inside functions count like all others.
"""

from __future__ import annotations

import ast
import graphlib
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.source_code import parse

pytestmark = pytest.mark.slow

SRC = Path(__file__).parents[1] / "src"

FLOOR_OF = {
    **dict.fromkeys(["errors", "types", "user_code", "routes", "sockets", "wire"], 1),
    **dict.fromkeys(["late_imports", "repeats", "item_stream"], 1),
    **dict.fromkeys(["configuration", "connection", "local_process", "shares", "cookies"], 1),
    **dict.fromkeys(["outgoing", "context", "declared", "watchdog", "public_error", "hub"], 2),
    **dict.fromkeys(["local_server", "json_schema", "stream_limits"], 2),
    **dict.fromkeys(["channels", "http", "hooks", "events", "query"], 3),
    **dict.fromkeys(["service_object", "json_encoding", "logs"], 3),
    **dict.fromkeys(["app_events", "registry", "service"], 4),
    **dict.fromkeys(["app", "identity", "gcra"], 5),
    **dict.fromkeys(["adapters", "express", "client", "schema", "authentication", "telemetry"], 6),
    "live": 6,
    **dict.fromkeys(["local_mongodb", "local_postgresql"], 6),
    **dict.fromkeys(
        ["accounts", "common_hooks", "files", "realtime", "service_facts", "testing"], 7
    ),
    **dict.fromkeys(["openapi", "mcp"], 8),
    **dict.fromkeys(["cli", "__init__"], 9),
}

# What a room may import besides the standard library. A room that is not here needs nothing more.
THIRD_PARTY = {
    # cryptography also for second factors, the others for providers alone.
    "accounts": {"authlib", "cryptography", "httpx2", "joserfc", "webauthn"},
    # The last two for type checkers alone.
    "adapters": {"asyncpg", "bson", "pymongo", "sqlalchemy", "pydantic", "typing_extensions"},
    "authentication": {"argon2", "bcrypt", "jwt"},
    "cli": {"alembic", "jinja2", "sqlalchemy", "typer"},
    "client": {"aiohttp", "httpx2", "js", "pyodide", "websockets", "yarl"},
    "configuration": {"pydantic"},
    "express": {
        "anyio",
        "httptools",
        "orjson",
        "starlette",
        "uvicorn",
        "uvloop",
        "websockets",
    },
    # orjson: to name the extra without it; the last three for buckets.
    "files": {"orjson", "python_multipart", "aiobotocore", "aiohttp", "botocore"},
    "json_encoding": {"orjson"},  # for those who send: the core imports it nowhere
    "local_mongodb": {"pymongo"},
    "mcp": {"anyio", "mcp", "orjson", "starlette"},  # orjson: to name the extra without it
    "logs": {"orjson"},  # where it is installed: logs work without it
    "outgoing": {"pydantic_core"},  # for Pydantic, when it writes a redacted record
    # orjson: to name the extra without it.
    "realtime": {"asyncpg", "bson", "orjson", "pymongo", "redis"},
    "schema": {
        "jsonschema",
        "jsonschema_specifications",
        "referencing",
        "pydantic",
        "pydantic_core",
        "typing_extensions",
    },
    "telemetry": {"opentelemetry"},
    "testing": {"joserfc", "pytest"},
    "types": {"typing_extensions"},  # for type checkers alone
}


def modules_of(src: Path) -> dict[str, Path]:
    """Map the name of each module below `src` to its file."""
    paths = {path: path.relative_to(src).with_suffix("").parts for path in src.rglob("*.py")}
    return {".".join(parts).removesuffix(".__init__"): path for path, parts in paths.items()}


def imports_of(module: str, modules: dict[str, Path]) -> Iterator[str]:
    """Yield the full name of each module that `module` imports, wherever in it."""
    package = module if modules[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(parse(modules[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level]
            parts = [*above, node.module] if node.level else [node.module]
            base = ".".join(filter(None, parts))
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield inner if inner in modules else base


def room_of(module: str) -> str:
    return module.split(".")[1].removeprefix("_") if "." in module else "__init__"


def complaints_about(src: Path) -> Iterator[str]:
    """Yield a line for each import that the house does not allow."""
    modules = modules_of(src)
    for room in sorted({room_of(module) for module in modules} - FLOOR_OF.keys()):
        yield f"alula.{room} stands on no floor: place it in FLOOR_OF of tests/test_floors.py"
    graph = {module: set(imports_of(module, modules)) for module in modules}
    for module, imported in sorted(graph.items()):
        for target in sorted(imported):
            here, there = room_of(module), room_of(target)
            origin = target.partition(".")[0]
            if origin != "alula":
                if origin not in sys.stdlib_module_names | THIRD_PARTY.get(here, set()):
                    yield f"{module} imports {target}, which is not in its THIRD_PARTY"
            elif here != there and FLOOR_OF.get(there, 0) >= FLOOR_OF.get(here, 10):
                yield f"{module} (floor {FLOOR_OF[here]}) imports {target} ({FLOOR_OF[there]})"
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        yield f"the imports go in a circle: {' <- '.join(error.args[1])}"


def test_every_import_of_alula_is_allowed():
    assert list(complaints_about(SRC)) == []


def test_reads_all_of_alula():
    modules = modules_of(SRC)
    assert {"alula", "alula._app", "alula.query", "alula.express._middleware"} <= modules.keys()
    assert "alula.query" in set(imports_of("alula.adapters.base", modules))


def test_the_server_extra_brings_what_the_web_layer_imports():
    extras = tomllib.loads((SRC.parent / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    # websockets is imported where it is installed: without it there are no websockets.
    lines = [*extras["server"], *extras["realtime"]]
    assert THIRD_PARTY["express"] <= {re.match(r"[\w-]+", line)[0] for line in lines}


HOUSE = {
    "alula/__init__.py": "from alula.app import App",
    "alula/errors.py": "import json",
    "alula/query/__init__.py": "from alula.query.string import parse",
    "alula/query/string.py": "from alula.errors import BadRequest",
    "alula/app.py": "import alula.query\nfrom alula import errors",
    "alula/express/__init__.py": "import starlette.applications",
    "alula/testing/adapter_suite.py": "import pytest",
}

TYPE_ONLY = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from alula.app import App"

VIOLATIONS = {
    "upwards": ("errors.py", "from alula.app import App", "alula.errors (floor 1) imports"),
    "plain import": ("errors.py", "import alula.query.string", "imports alula.query.string (3)"),
    "submodule": ("errors.py", "from alula import query", "imports alula.query (3)"),
    "relative": ("query/string.py", "from ..app import App", "imports alula.app (5)"),
    "relative name": ("query/string.py", "from .. import app", "imports alula.app (5)"),
    "relative in package": ("query/__init__.py", "from ..app import x", "imports alula.app (5)"),
    "the whole": ("app.py", "from alula import App", "alula.app (floor 5) imports alula (9)"),
    "types only": ("errors.py", TYPE_ONLY, "imports alula.app (5)"),
    "in a function": ("errors.py", "def f():\n    from alula.app import App", "alula.app (5)"),
    "same floor": ("context.py", "import alula.outgoing", "alula.context (floor 2) imports"),
    "adapter and web": ("adapters/base.py", "import alula.express", "imports alula.express (6)"),
    "no floor": ("utils.py", "", "alula.utils stands on no floor: place it in FLOOR_OF"),
    "circle": ("query/string.py", "from alula.query import parse", "alula.query.string <- "),
    "relative circle": ("query/string.py", "from . import parse", "in a circle: alula.query"),
    "third party": ("query/string.py", "import orjson", "alula.query.string imports orjson, wh"),
    "third party in a function": ("app.py", "def f():\n    import yaml", "app imports yaml, which"),
    "of another room": ("express/chain.py", "import pytest", "alula.express.chain imports pytest"),
}


def build(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_has_nothing_to_say_about_a_good_house(tmp_path):
    assert list(complaints_about(build(tmp_path, HOUSE))) == []


@pytest.mark.parametrize("kind", VIOLATIONS)
def test_notices_a_planted_violation(tmp_path, kind):
    name, text, complaint = VIOLATIONS[kind]
    complaints = list(complaints_about(build(tmp_path, {**HOUSE, f"alula/{name}": text})))
    assert any(complaint in line for line in complaints), complaints
