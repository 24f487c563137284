"""The command `alula`."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.client.raw_server import CLOSE, answer, raw_server
from typer.testing import CliRunner

import alula
from alula._cli import main

ROOT = Path(__file__).parents[2]
CODE = """
from starlette.applications import Starlette
from alula import App
from alula.express import express
from alula.adapters.memory import MemoryService

app = App()
app.use("notes", MemoryService())
text = "no application"


class here:
    inside = app


def make_app():
    return app


def make_nothing():
    return None


web = express()
described = App()
described.set("openapi", {"title": "Shop"})
foreign = Starlette()
"""


@pytest.fixture
def run(monkeypatch, tmp_path):
    (tmp_path / "shop.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield lambda *arguments, **options: CliRunner().invoke(main, arguments, **options)
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) == str(tmp_path / f"{name}.py"):
            del sys.modules[name]


@pytest.mark.parametrize("target", ["shop:app", "shop:make_app", "shop:here.inside"])
def test_prints_the_description(run, target):
    result = run("openapi", target)
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert list(document["paths"]) == ["/notes", "/notes/{id}"]
    assert document["info"]["title"] == "API"


def test_the_description_names_the_url_of_the_application(run):
    assert "servers" not in json.loads(run("openapi", "shop:app").stdout)
    result = run("openapi", "shop:app", "--server", "https://example.com/shop")
    assert json.loads(result.stdout)["servers"] == [{"url": "https://example.com/shop"}]


def test_can_be_asked_twice_in_one_folder(run):
    before = len(sys.path)
    assert run("openapi", "shop:app").stdout == run("openapi", "shop:app").stdout
    assert len(sys.path) == before + 1


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("shop", "'shop' is not the name of an application; write MODULE:NAME, such as app:app"),
        ("shop:", "'shop:' is not the name of an application"),
        (":app", "':app' is not the name of an application"),
        ("shup:app", "cannot find the module 'shup' in"),
        ("shop.inner:app", "cannot find the module 'shop.inner' in"),
        ("shop:api", "the module 'shop' has no 'api'"),
        ("shop:app.api", "the module 'shop' has no 'app.api'"),
        ("shop:text", "'shop:text' is 'no application', not an Alula application"),
        ("shop:make_nothing", "is None, not an Alula application"),
        ("shop:web", "not an Alula application such as express(App())"),
        ("shop:foreign", "not an Alula application such as express(App())"),
    ],
)
def test_reports_what_is_not_an_application(run, target, said):
    result = run("openapi", target)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


FILES = {
    "main.py": "from alula.express import express\nweb: object = express(App()).use(json())\n",
    "api/server.py": "app = express(App())\n",
    "factory.py": "def make_app():\n    return 1\n\nnumber = 1\napp = make_app()\n",
    "broken.py": "app = express(",
    "empty.py": "",
}


@pytest.mark.parametrize(
    ("target", "files", "said"),
    [
        (
            "main.py",
            ["main.py"],
            "'main.py' names a file; write MODULE:NAME; did you mean main:web?",
        ),
        ("main.py:web", ["main.py"], "names a file; write MODULE:NAME; did you mean main:web?"),
        ("./api/server.py", ["api/server.py"], "did you mean api.server:app?"),
        ("empty.py", ["empty.py"], "write MODULE:NAME, such as empty:app"),
        ("main", ["main.py"], "such as app:app; did you mean main:web?"),
        ("app:app", ["main.py", "broken.py"], "; did you mean main:web?"),
        ("app:app", ["factory.py", "main.py"], "mean factory:app or factory:make_app or main:web?"),
        ("factory.py:make_app", ["factory.py"], "did you mean factory:make_app?"),
        ("main:app", ["main.py"], "the module 'main' has no 'app'; did you mean main:web?"),
        ("nowhere:app", ["empty.py"], "cannot find the module 'nowhere' in"),
    ],
)
def test_suggests_what_is_there(tmp_path, monkeypatch, target, files, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    # In these tests, a module is one that can be imported.
    text = "App, json, express = object, int, lambda *_: express\nexpress.use = express\n"
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(
            FILES[name].replace("from alula.express import express\n", text)
        )
    result = CliRunner().invoke(main, ["openapi", target])
    for name in files:
        sys.modules.pop(name.removesuffix(".py"), None)
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize(
    ("module", "line", "error"),
    [
        ("broken", "import not_there_at_all", "No module named 'not_there_at_all'"),
        ("failing", "1 / 0", "ZeroDivisionError"),
        ("looking", '{}["key"]', "KeyError: 'key'"),
        ("unclosed", "def app(:", "SyntaxError"),
    ],
)
def test_a_module_that_fails_shows_where(run, tmp_path, module, line, error):
    (tmp_path / f"{module}.py").write_text(line)
    result = run("openapi", f"{module}:app")
    assert result.exit_code == 1
    assert f'File "{tmp_path / module}.py", line 1' in result.stderr
    assert error in result.stderr
    assert "importlib" not in result.stderr
    assert "alula/_cli" not in result.stderr
    assert result.stdout == ""


def test_the_version(run):
    assert run("--version").stdout == f"alula {version('alula')}\n"


@pytest.mark.parametrize(
    ("shell", "said"), [("bash", "complete -o"), ("zsh", "compdef"), ("fish", "complete --command")]
)
def test_the_script_for_the_completion_of_a_shell(run, shell, said):
    assert said in run(env={"_ALULA_COMPLETE": f"source_{shell}"}).stdout


def test_commands_import_what_they_need_when_they_run():
    loaded = "import sys, alula._cli; print(*(name for name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, check=True, text=True
    )
    late = ("alula.express", "alula.client", "alula.openapi", "alula.schema", "uvicorn", "orjson")
    assert [name for name in done.stdout.split() if name.startswith(late)] == []


def test_without_its_extra_it_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None; from alula._cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        "alula: the command alula needs typer, which is not installed;"
        " install it with: pip install 'alula[cli]'\n"
    )


def test_without_arguments_it_prints_the_help(run):
    result = run()
    assert "openapi" in result.output
    assert "Print the OpenAPI description" in result.output


def test_title_and_version_are_those_of_the_plugin(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    result = CliRunner().invoke(main, ["openapi", "tests.openapi.described:make_app"])
    assert json.loads(result.stdout)["info"] == {
        "title": "Everything",
        "version": "2.1",
        "description": "All kinds.",
    }


def test_the_project_installs_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"alula": "alula._cli:main"}


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.setattr(alula, "_cli", alula._cli)  # the import below replaces it
    monkeypatch.delitem(sys.modules, "alula._cli")
    with pytest.raises(SystemExit, match=r"needs typer.*pip install 'alula\[cli\]'"):
        importlib.import_module("alula._cli").main()


class TestClient:
    def test_of_an_application(self, run):
        done = run("client", "shop:app")
        assert done.exit_code == 0, done.output
        assert "def notes(client: Client | SyncClient) -> Any:" in done.stdout
        compile(done.stdout, "written.py", "exec")

    def test_of_a_server(self, run):
        told = {"openapi": "3.1.0", "info": {"title": "T"}, "tags": [{"name": "far"}], "paths": {}}
        with raw_server((answer(told), CLOSE), (answer(told), CLOSE)) as server:
            for url in (server.url, f"{server.url}/more/about.json"):
                done = run("client", url)
                assert done.exit_code == 0, done.output
                assert "def far(client: Client | SyncClient)" in done.stdout
        assert [each.split()[1] for each in server.requests] == [
            b"/openapi.json",
            b"/more/about.json",
        ]

    def test_in_typescript(self, run):
        done = run("client", "--typescript", "shop:app")
        assert done.exit_code == 0, done.output
        assert " * The services of the API, with the types of their records." in done.stdout
        assert '  "notes": NotesClientService\n' in done.stdout
        assert "export const createClient" in done.stdout

    def test_in_typescript_with_the_title_of_the_description(self, run):
        done = run("client", "--typescript", "shop:described")
        assert " * The services of Shop, with the types of their records." in done.stdout

    def test_in_typescript_of_a_server(self, run):
        done = run("client", "--typescript", "https://host/api/?a=1")
        assert done.exit_code == 2
        assert "sends the same at https://host/api/docs/client.ts" in done.stderr

    def test_of_nothing(self, run):
        done = run("client", "shop:nothing")
        assert done.exit_code == 2
        assert "has no 'nothing'" in done.stderr

    def test_of_a_server_without_a_description(self, run):
        with raw_server((answer({}, 404), CLOSE), (answer([]), CLOSE)) as server:
            done = run("client", server.url)
            assert done.exit_code == 2
            assert f"cannot get a description from {server.url}/openapi.json: " in done.stderr
            done = run("client", server.url)
            assert done.exit_code == 2
            assert "is not an OpenAPI description" in done.stderr
