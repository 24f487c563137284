"""What stands in the console blocks of the pages, typed into a shell as it stands there."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

import pytest
from tests.docs.test_code_blocks import PAGES
from tests.interop import test_readme_curl as readme
from tests.outside.environments import CONSTRAINTS, ROOT, SECONDS, run, variables
from tests.outside.test_pages import installed_by

BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
ADDRESS = re.compile(r"https?://(?:127\.0\.0\.1|0\.0\.0\.0):[1-9]\d*")
SERVES = ("alula dev", "alula serve")

# The application that the pages about commands have in mind.
APP = """
from alula import App
from alula.adapters.memory import MemoryService
from alula.express import error_handler, express, json, not_found, rest
from alula.openapi import openapi

async def log_call(context, next):
    await next()

def check_message(context):
    pass

def add_user(context):
    pass

class Messages:
    def __init__(self):
        self.records = MemoryService()

    async def find(self, params):
        return await self.records.find(params)

    async def get(self, id, params):
        return await self.records.get(id, params)

    async def create(self, data, params):
        return await self.records.create(data, params)

app = express(App())
app.use(json())
app.configure(rest())
app.use("messages", Messages())
app.hooks(around=[log_call])
app.service("messages").hooks(before={"create": [check_message]}, after={"create": [add_user]})
app.configure(openapi())
app.use(not_found(), error_handler())
"""

# What is not typed here, and why.
ELSEWHERE = {
    "make ": "test_demo runs `make demo`; the others are what runs this",
    ".venv/bin/python -m pytest": "for contributors",
    "curl localhost:3030": "test_the_first_example, on another port",
    "curl -N -H 'Accept: text/event-stream'": "it does not end; tests/realtime read such streams",
    "curl -N localhost:3030": "it needs a server on the port 3030; tests/express read such streams",
    "alula api-key create": "it needs an application with keys; tests/cli/commands make one",
    "alula generate accounts": "it needs an application with users; tests/cli/generator make one",
    "alula generate migration add-accounts": "the same",
    "alula migrate     ": "the same",
    "alula call messages patch 0 --data @changes.json": "it needs a server on the port 3030",
    "alula shell": "tests/cli types into it",
    "alula serve --host 0.0.0.0 --port 8443": "it needs a certificate; tests/cli makes one",
    "export CHAT_TELEMETRY": "it needs a collector",
    "export OTEL_": "it needs a collector",
    "mongod ": "it needs an installed MongoDB, and occupies its port",
    "opentelemetry-instrument": "it needs a collector",
    "npm init -y": "tests/interop/test_admin_page.py does the same with pinned versions",
    "npm install react-admin": "tests/interop/test_admin_page.py",
    "npx vite build": "tests/interop/test_admin_page.py",
    "python server.py": "tests/interop/test_admin_page.py",
    "pytest": "test_pages runs the project of the page",
}
JOURNEYS = ("README.md", "generator.md")
# What `pip` and `python -m venv` do, in a fifth of the processor time. The page of the first of the
# journeys is typed with pip itself.
WITH_UV = """
uv() { "$UV" --quiet --no-config "$@"; }
pip() { uv pip "$@" --python "$(type -P python)"; }
python() { if [[ "$1 $2" == "-m venv" ]]; then uv venv "$3"; else command python "$@"; fi; }
"""


class Command(NamedTuple):
    """A line of a console block, what it prints according to its page, and its place."""

    line: str
    prints: str
    at: int


def commands_of(text: str) -> list[Command]:
    """Return what stands to be typed; where no line has a prompt, all lines do."""
    found = []
    for block in BLOCK.finditer(text):
        at = text.count("\n", 0, block.start(1))
        prompts = "$ " in block[1]
        for offset, line in enumerate(block[1].splitlines()):
            if line.startswith("$ ") or not prompts:
                found.append(Command(line.removeprefix("$ ").strip(), "", at + offset))
            else:
                last = found[-1]
                found[-1] = last._replace(prints=f"{last.prints}{line}\n")
    return found


def typed_here(command: Command) -> bool:
    return not command.line.startswith(("pip install", *ELSEWHERE))


# tests/docs/test_tutorial.py types the commands of the tutorial, and test_pages its programs.
PLAIN = [
    page
    for page in PAGES
    if not page.name.startswith((*JOURNEYS, "tutorial"))
    and any(map(typed_here, commands_of(page.read_text())))
]


def bash(script: str, folder: Path, env: Mapping[str, str]) -> str:
    """Run lines that all have to succeed, and return what they print."""
    done = run("bash", "-ec", script, cwd=folder, env=dict(env))
    assert done.returncode == 0, f"{script}\n{done.stdout}"
    return done.stdout


@contextmanager
def serving(script: str, folder: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Run lines of which the last one serves, on any port; give its address, then press Ctrl+C."""
    log = folder / "serving.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            ["bash", "-ec", f"{script.rstrip()} --port 0"],
            cwd=folder,
            env={**env, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + SECONDS
        while not (found := ADDRESS.search(log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        yield found[0].replace("0.0.0.0", "127.0.0.1")
        subprocess.run(["kill", f"-{signal.SIGINT.value}", "--", f"-{process.pid}"], check=True)
        process.wait(30)
    finally:
        if process.poll() is None:
            subprocess.run(["kill", "-9", "--", f"-{process.pid}"], check=False)
            process.wait()
    assert "Traceback" not in log.read_text()


@pytest.mark.parametrize("page", PLAIN, ids=lambda page: page.name)
def test_the_commands_of_a_page(page, environments, tmp_path):
    text = page.read_text()
    (tmp_path / "app.py").write_text(APP)
    for command in filter(typed_here, commands_of(text)):
        above = [name for at, names in installed_by(text) for name in names if at < command.at]
        python = environments.python(above)
        env = variables(python)
        if command.line.startswith(SERVES):
            with serving(command.line, tmp_path, env) as url:
                assert urlopen(f"{url}/messages", timeout=60).status == 200
        else:
            printed = bash(command.line, tmp_path, env)
            assert command.prints in {"", printed}, printed


def test_the_first_example(environments, tmp_path):
    """The application of the README with what the README tells to install, asked by curl."""
    (_, requirements), *_ = installed_by(readme.README)
    python = environments.python(requirements)
    script = readme.APPLICATION.replace(f"app.run({readme.PORT})", "app.run(0)")
    (tmp_path / "app.py").write_text(script)
    process = subprocess.Popen(
        [python, "-u", "app.py"],
        cwd=tmp_path,
        env=variables(python),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        listening = process.stdout.readline()
        assert (found := re.search(r":(\d+)$", listening)), listening + process.stdout.read()
        for line, printed in readme.EXCHANGES:
            assert readme.run_in_a_shell(line, found[1]).strip() == printed.strip()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("name", JOURNEYS)
def test_an_application_from_nothing(name, environments, wheel, tmp_path):
    """`pip install`, `alula new`, its tests, a running server, and what is generated into it."""
    page = next(page for page in PAGES if page.name == name)
    first, *more = (found for found in BLOCK.findall(page.read_text()) if "alula" in found)
    if "alula new" not in first:
        first, *more = more
    python = environments.new(tmp_path / "venv", "--seed")
    begin = "" if name == JOURNEYS[0] else WITH_UV
    given = {"FIND_LINKS": str(wheel.parent), "CONSTRAINT": str(CONSTRAINTS)}
    pip = {f"{tool}_{option}": given[option] for tool in ("PIP", "UV") for option in given}
    # To compile all files of all packages takes longer than to install them.
    pip |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_QUIET": "1", "PIP_NO_COMPILE": "1"}
    pip["UV"] = str(Path(sys.prefix) / "bin" / "uv")
    env = variables(python, **pip)
    with serving(begin + first.replace("$ ", ""), tmp_path, env) as url:
        assert urlopen(f"{url}/health/ready", timeout=60).status == 200
        assert urlopen(f"{url}/messages", timeout=60).status == 200
    app = tmp_path / "chat"
    inside = app / ".venv" / "bin" / "python"
    env = variables(inside if inside.exists() else python, **pip)
    for command in [each for block in more for each in commands_of(f"```console\n{block}```")]:
        printed = bash(begin + command.line, app, env)
        assert command.prints in {"", printed}, printed
    if more:
        bash("python -m pytest -q", app, env)


def test_an_installation_from_a_clone(environments, tmp_path):
    """What the pages say for as long as there is no release."""
    python = environments.new(tmp_path / "venv", "--seed")
    pip = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_COMPILE": "1"}
    env = variables(python, PIP_CONSTRAINT=str(CONSTRAINTS), **pip)
    done = run("pip", "install", "--quiet", f"{ROOT}[cli]", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stdout
    assert bash("alula --version", tmp_path, env).startswith("alula 0.")


@pytest.mark.parametrize("name", ["README.md", "tutorial.md", "generator.md"])
def test_the_first_pages_say_how_to_install_before_a_release(name):
    page = next(page for page in PAGES if page.name == name)
    assert re.search(r"`pip install '/path/to/alula\[[\w,]+\]'`", page.read_text())


def test_every_command_is_typed_or_listed_as_tried_elsewhere():
    typed = [page.name for page in PLAIN]
    assert {"command-line.md", "openapi.md", "deployment.md"} <= set(typed)
    said = {
        reason
        for page in [*PAGES, ROOT / "CONTRIBUTING.md"]
        for command in commands_of(page.read_text())
        for reason in ELSEWHERE
        if command.line.startswith(reason)
    }
    assert said == set(ELSEWHERE)


def test_commands_are_read_with_their_output():
    text = "```console\n$ ls\na\nb\n$ pwd\n```\n\n```console\nmake\n```\n"
    assert commands_of(text) == [("ls", "a\nb\n", 1), ("pwd", "", 4), ("make", "", 8)]
