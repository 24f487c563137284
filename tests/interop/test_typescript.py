"""Front ends compile against the client for TypeScript, and call a server by it.

The front ends are in ``typescript``. Each has lines that are mistakes, which the compiler finds.
One is a front end of React for the application that the generator of FeathersJS 5 makes. It
compiles against that, and as it is against the client of an application of `alula new`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import anyio.to_thread
import pytest
from examples.chat.app import make_app as make_chat
from tests.conformance.endpoints import load
from tests.conformance.endpoints import make_app as make_typed_case
from tests.interop import moved_chat, typed_endpoints
from tests.interop.node_script import assert_passed, run_checks
from tests.interop.typed_chat import make_app
from tests.openapi.described import make_app as make_everything
from tests.requirements import require_node, require_node_modules

from alula import App
from alula.adapters.memory import MemoryService
from alula.openapi import typescript
from alula.schema import with_schema

pytestmark = pytest.mark.slow  # the compiler; `make outside` runs it

FRONT_ENDS = Path(__file__).with_name("typescript")
ROOT = Path(__file__).parents[2]
PACKAGES = (
    "@feathersjs/authentication-client",
    "@feathersjs/feathers",
    "@feathersjs/rest-client",
    "@feathersjs/socketio-client",
    "@types/node",
    "socket.io-client",
    "typescript",
)
OPTIONS = {"strict": True, "target": "es2022", "skipLibCheck": True, "types": ["node"]}
# What the template of a React application on Vite sets, and Node's own modules.
BROWSER = {
    "module": "esnext",
    "moduleResolution": "bundler",
    "noEmit": True,
    "isolatedModules": True,
    "verbatimModuleSyntax": True,
    "noUnusedLocals": True,
    "noUnusedParameters": True,
    "exactOptionalPropertyTypes": True,
}
REACT = {
    "module": "esnext",
    "moduleResolution": "bundler",
    "noEmit": True,
    "isolatedModules": True,
    "noUnusedLocals": True,
    "jsx": "react-jsx",
}
# What the front end and the application of FeathersJS import beside the above.
OF_REACT = (
    "@feathersjs/authentication",
    "@feathersjs/authentication-local",
    "@feathersjs/authentication-oauth",
    "@feathersjs/configuration",
    "@feathersjs/generators",
    "@feathersjs/koa",
    "@feathersjs/mongodb",
    "@feathersjs/schema",
    "@feathersjs/socketio",
    "@feathersjs/typebox",
    "@types/react",
    "mongodb",
    "react",
    "winston",
)
NODE = {"module": "nodenext", "esModuleInterop": True, "outDir": "built"}
CHECKS = ("sign in", "messages", "notes", "a route", "no schema")
STREAM_CHECKS = (
    "items",
    "an early error",
    "a late error",
    "leaving",
    "many items, and leaving them",
    "two at once",
    "a lost connection",
    "the client of FeathersJS alone",
)
MOVED_CHECKS = ("sign up", "messages", "owners", "events", "strangers")
LINES_OF_MOVED_CHAT = 119


def generated_code(folder, database="memory"):
    """Return the client of a new application with users."""
    command = [sys.executable, "-c", "from alula._cli import main; main()"]
    answers = [f"--database={database}", "--authentication", "--service=messages"]
    subprocess.run([*command, "new", "shop", *answers], cwd=folder, check=True, capture_output=True)
    written = subprocess.run(
        [*command, "client", "--typescript"],
        cwd=folder / "shop",
        check=True,
        capture_output=True,
        text=True,
    )
    return written.stdout


def compiled(folder, code, *names, options=BROWSER):
    """Compile a client and front ends in a folder; return what the compiler says."""
    (folder / "node_modules").symlink_to(require_node_modules(*PACKAGES))
    (folder / "client.ts").write_text(code, encoding="utf-8")
    for name in names:
        (folder / name).write_text((FRONT_ENDS / name).read_text())
    return compile_files(folder, options, {"files": ["client.ts", *names]})


def compile_files(folder, options, files):
    """Compile files of a folder with packages; return what the compiler says."""
    node, modules = require_node(), require_node_modules(*PACKAGES)
    settings = {"compilerOptions": {**OPTIONS, **options}, **files}
    (folder / "tsconfig.json").write_text(json.dumps(settings))
    (folder / "package.json").write_text("{}")
    compiler = modules / "typescript" / "bin" / "tsc"
    command = [node, compiler, "--project", "."]
    done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True)
    assert bool(done.returncode) is bool(done.stdout), done
    return done.stdout


APPLICATIONS = {
    "front_end.ts": lambda _: typescript(make_app()),
    "chat.ts": lambda _: typescript(make_chat()),
    "moved_chat.ts": lambda folder: typescript(moved_chat.make_app(folder)),
    "generated.ts": generated_code,
    "endpoints.ts": lambda _: typescript(typed_endpoints.make_app()),
}


@pytest.mark.parametrize("name", APPLICATIONS)
def test_a_front_end_compiles(name, tmp_path):
    assert compiled(tmp_path, APPLICATIONS[name](tmp_path), name) == ""


def test_a_service_of_every_kind_compiles(tmp_path):
    assert compiled(tmp_path, typescript(make_everything(tmp_path / "uploads"))) == ""


def test_the_typed_endpoints_compile(tmp_path):
    head, cases = load()
    services = {case["service"]: case for case in cases}
    code = typescript(App())
    for at, case in enumerate(services.values()):
        if "registration" not in case:
            app, _ = make_typed_case(head, case)
            (tmp_path / f"case{at}.ts").write_text(typescript(app), encoding="utf-8")
            code += f"import './case{at}'\n"
    assert compiled(tmp_path, code) == ""


def test_declarations_alone_compile(tmp_path):
    code = typescript(make_app(), declarations=True)
    (tmp_path / "services.d.ts").write_text(code, encoding="utf-8")
    uses = "import type { Message, ServiceTypes } from './services'\n"
    uses += "export const text = (message: Message): string => message.text\n"
    uses += "export const path: keyof ServiceTypes = 'messages'\n"
    assert compiled(tmp_path, uses) == ""


def test_the_code_of_the_page_compiles(tmp_path):
    page = (ROOT / "docs" / "client.md").read_text()
    blocks = re.findall(r"^```ts\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    message = {"title": "Message", "properties": {"text": {}, "likes": {"type": "integer"}}}
    app = App()
    pages = MemoryService(paginate={"default": 5})
    app.use("messages", with_schema(pages, message))
    code = typescript(app)
    for number, block in enumerate(blocks):
        (tmp_path / f"block{number}.ts").write_text(block)
        code += f"import './block{number}'\n"
    assert compiled(tmp_path, code) == ""


@pytest.mark.parametrize("name", APPLICATIONS)
def test_every_mistake_is_an_error(name, tmp_path):
    lines = (FRONT_ENDS / name).read_text().splitlines()
    mistakes = {at for at, line in enumerate(lines, 1) if "// @ts-expect-error " in line}
    code = APPLICATIONS[name](tmp_path)
    # Without the marks, the compiler names each line that is below one, and no other.
    unmarked = "\n".join(line.replace("@ts-expect-error", "") for line in lines)
    (tmp_path / "unmarked.ts").write_text(unmarked)
    said = compiled(tmp_path, f"{code}import './unmarked'\n")
    found = {int(line) - 1 for line in re.findall(r"^unmarked\.ts\((\d+),", said, re.MULTILINE)}
    assert found == mistakes, said
    assert len(mistakes) > 2


@pytest.fixture(scope="module")
def made_by_feathersjs(tmp_path_factory):
    """Return the folder of the sources that the generator of FeathersJS 5 writes."""
    modules = require_node_modules(*PACKAGES, *OF_REACT)
    folder = tmp_path_factory.mktemp("feathersjs")
    (folder / "node_modules").symlink_to(modules)
    script = folder / "generate.mjs"
    script.write_text(Path(__file__).with_name("feathers_application.mjs").read_text())
    command = [require_node(), script, folder / "chat"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "chat" / "src"


def sources_of(side, folder, feathersjs):
    """Put the typed client of one application into a folder: that of FeathersJS, or ours."""
    if side == "feathersjs":
        shutil.copytree(feathersjs, folder, dirs_exist_ok=True)
        assert "userClient" in (folder / "client.ts").read_text()
    else:
        (folder / "client.ts").write_text(generated_code(folder, "mongodb"), encoding="utf-8")
        shutil.rmtree(folder / "shop")  # Python alone
    (folder / "node_modules").symlink_to(require_node_modules(*PACKAGES, *OF_REACT))
    return {"include": ["**/*.ts", "*.tsx"]}


@pytest.mark.parametrize("side", ["feathersjs", "ours"])
def test_a_front_end_of_react_moves_as_it_is(side, tmp_path, made_by_feathersjs):
    files = sources_of(side, tmp_path, made_by_feathersjs)
    front_end = (FRONT_ENDS / "react_chat.tsx").read_text()
    (tmp_path / "react_chat.tsx").write_text(front_end)
    assert compile_files(tmp_path, REACT, files) == ""
    # Both find the same mistakes, and no other.
    (tmp_path / "react_chat.tsx").write_text(front_end.replace("@ts-expect-error", ""))
    said = compile_files(tmp_path, REACT, files)
    found = re.findall(r"^(\S+)\((\d+),", said, re.MULTILINE)
    lines = front_end.splitlines()
    marked = {at for at, line in enumerate(lines, 1) if "// @ts-expect-error " in line}
    assert {(name, int(line) - 1) for name, line in found} == {
        ("react_chat.tsx", at) for at in marked
    }
    assert len(marked) > 2


async def outcomes_of(folder, app, front_end, calls, *arguments):
    """Compile a front end and its calls, and run these with a server of the application."""
    said = compiled(folder, typescript(app), f"{front_end}.ts", f"{calls}.ts", options=NODE)
    assert said == ""
    async with await app.listen(0) as server:
        script = folder / "built" / f"{calls}.js"
        return await anyio.to_thread.run_sync(run_checks, script, PACKAGES, server.url, *arguments)


@pytest.fixture(scope="module")
async def outcomes(tmp_path_factory):
    return await outcomes_of(tmp_path_factory.mktemp("calls"), make_app(), "front_end", "calls")


@pytest.mark.parametrize("check", CHECKS)
async def test_a_server_answers_as_typed(check, outcomes):
    assert_passed(outcomes, check)


async def test_no_check_runs_that_is_not_listed(outcomes):
    assert tuple(outcomes) == CHECKS


@pytest.fixture(scope="module", params=["rest", "socketio"])
async def read_streams(request, tmp_path_factory):
    folder, app = tmp_path_factory.mktemp("streams"), typed_endpoints.make_app()
    return await outcomes_of(folder, app, "endpoints", "streams", request.param)


@pytest.mark.parametrize("check", STREAM_CHECKS)
async def test_streams_are_read_as_typed(check, read_streams):
    assert_passed(read_streams, check)


async def test_no_stream_is_read_that_is_not_listed(read_streams):
    assert tuple(read_streams) == STREAM_CHECKS


def test_the_moved_chat_is_short():
    code = moved_chat.code_of_chat()
    assert len(code.splitlines()) <= LINES_OF_MOVED_CHAT
    # It is the whole application: settings, services, real time, and what starts it.
    assert {"load_settings(", "socketio(", "AuthenticationService(", ".run("} <= set(
        re.findall(r"\.?\w+\(", code)
    )


@pytest.fixture(scope="module", params=["rest", "socketio"])
async def moved_outcomes(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("moved")
    app = moved_chat.make_app(folder)
    return await outcomes_of(folder, app, "moved_chat", "moved_calls", request.param)


@pytest.mark.parametrize("check", MOVED_CHECKS)
async def test_the_moved_chat_serves_its_front_end(check, moved_outcomes):
    assert_passed(moved_outcomes, check)


async def test_the_moved_chat_has_no_other_check(moved_outcomes):
    assert tuple(moved_outcomes) == MOVED_CHECKS
