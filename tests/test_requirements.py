from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests import requirements

from alula.local_mongodb import _mongod as mongod
from alula.local_postgresql import _postgres as postgres


@pytest.fixture(autouse=True)
def developer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine where things may be missing, whatever the one that runs this is."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("ALULA_NODE_MODULES", raising=False)
    monkeypatch.delenv("ALULA_MONGODB_URL", raising=False)


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder with programs, and an environment without Node in it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setattr(mongod, "EMBEDDED", "nothing-of-this-name")
    monkeypatch.setattr(postgres, "EMBEDDED", "nothing-of-this-name")
    monkeypatch.setattr(postgres, "_OF_DISTRIBUTIONS", tmp_path / "none")
    return folder


def program(folder: Path, name: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def old_postgres(folder: Path) -> None:
    """Put a PostgreSQL there, as old as those of distributions."""
    path = Path(program(folder, "postgres"))
    path.write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 15.18'\n")


@pytest.fixture
def modules(tmp_path: Path, bin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two JavaScript packages, on a machine with Node."""
    program(bin_folder, "node")
    folder = tmp_path / "modules"
    for name in ("axios", "@feathersjs/errors"):
        (folder / name).mkdir(parents=True)
        (folder / name / "package.json").write_text("{}")
    monkeypatch.setenv("ALULA_NODE_MODULES", str(folder))
    return folder


PROGRAMS = ("nginx", "redis-server", "valgrind", "pgbouncer", "mongod")
REQUIREMENTS = [
    (requirements.require_node, "node", requirements.NO_NODE),
    (requirements.require_nginx, "nginx", requirements.NO_NGINX),
    (requirements.require_redis, "redis-server", requirements.NO_REDIS),
    (requirements.require_valgrind, "valgrind", requirements.NO_VALGRIND),
    (requirements.require_pgbouncer, "pgbouncer", requirements.NO_PGBOUNCER),
    (requirements.require_chromium, "chromium", requirements.NO_CHROMIUM),
    (requirements.require_chromium, "chromium-browser", requirements.NO_CHROMIUM),
    (requirements.require_chromium, "google-chrome", requirements.NO_CHROMIUM),
]


@pytest.mark.parametrize(("require", "name", "reason"), REQUIREMENTS)
def test_finds_the_program(bin_folder, require, name, reason):
    path = program(bin_folder, name)
    assert require() == path


@pytest.mark.parametrize(("require", "name", "reason"), REQUIREMENTS)
def test_skips_in_one_line_without_it(bin_folder, require, name, reason):
    program(bin_folder, "something-else")
    with pytest.raises(pytest.skip.Exception) as caught:
        require()
    assert caught.value.msg == reason
    assert "left out" in reason
    assert "\n" not in reason


@pytest.mark.parametrize(("require", "name", "reason"), REQUIREMENTS)
def test_fails_without_it_where_nothing_may_be_missing(
    bin_folder, monkeypatch, require, name, reason
):
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"with CI=true it must be there$") as caught:
        require()
    assert caught.value.msg.startswith(reason)


@pytest.mark.parametrize("value", ["", "false", "0"])
def test_only_true_makes_it_a_failure(bin_folder, monkeypatch, value):
    monkeypatch.setenv("CI", value)
    with pytest.raises(pytest.skip.Exception):
        requirements.require_nginx()


def test_node_of_the_environment_comes_before_that_of_the_machine(bin_folder):
    program(bin_folder, "node")
    chosen = program(Path(sys.prefix) / "bin", "node")
    assert requirements.require_node() == chosen


def test_node_modules_hold_what_is_asked_for(modules):
    assert requirements.require_node_modules("axios", "@feathersjs/errors") == modules


def test_node_modules_are_beside_the_interop_tests_by_default(modules, monkeypatch):
    monkeypatch.delenv("ALULA_NODE_MODULES")
    folder = Path(__file__).parent / "interop" / "node_modules"
    assert requirements.node_modules() == folder


def test_node_modules_from_the_environment_become_absolute(modules, monkeypatch):
    monkeypatch.chdir(modules.parent)
    monkeypatch.setenv("ALULA_NODE_MODULES", modules.name)
    assert requirements.require_node_modules("axios") == modules


def test_a_missing_package_is_named(modules):
    with pytest.raises(pytest.skip.Exception) as caught:
        requirements.require_node_modules("axios", "superagent", "qs")
    assert caught.value.msg == f"{modules} lacks superagent, qs: run `make setup`"


def test_a_missing_folder_is_named(modules, monkeypatch):
    monkeypatch.setenv("CI", "true")
    shutil.rmtree(modules)
    with pytest.raises(pytest.fail.Exception, match=r"modules lacks everything: run `make setup`"):
        requirements.require_node_modules()


def test_packages_without_node_are_of_no_use(modules, bin_folder):
    (bin_folder / "node").unlink()
    with pytest.raises(pytest.skip.Exception, match="no Node"):
        requirements.require_node_modules("axios")


def test_finds_a_mongod_that_runs(bin_folder):
    path = program(bin_folder, "mongod")
    assert requirements.require_mongod() == Path(path)


@pytest.mark.parametrize("script", [None, "exit 127", "kill -ILL $$"])
def test_a_mongod_that_does_not_run_is_none(bin_folder, monkeypatch, script):
    if script is not None:
        Path(program(bin_folder, "mongod")).write_text(f"#!/bin/sh\n{script}\n")
    with pytest.raises(pytest.skip.Exception) as caught:
        requirements.require_mongod()
    assert caught.value.msg == requirements.NO_MONGODB
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="with CI=true it must be there"):
        requirements.require_mongod()


def test_a_server_of_ones_own_takes_the_place_of_a_mongod(modules, monkeypatch):
    monkeypatch.setenv("ALULA_MONGODB_URL", "mongodb://db.example")
    assert requirements.NO_MONGODB not in requirements.missing()


def test_lists_what_is_missing(modules, bin_folder):
    assert requirements.missing() == [
        requirements.NO_CHROMIUM,
        requirements.NO_NGINX,
        requirements.NO_REDIS,
        requirements.NO_VALGRIND,
        requirements.NO_PGBOUNCER,
        requirements.NO_MONGODB,
        requirements.NO_POSTGRESQL,
    ]
    for name in ("google-chrome-stable", *PROGRAMS):
        program(bin_folder, name)
    old_postgres(bin_folder)
    assert requirements.missing() == []


def test_lists_missing_javascript(modules, bin_folder):
    for name in ("chromium", *PROGRAMS):
        program(bin_folder, name)
    old_postgres(bin_folder)
    (bin_folder / "node").unlink()
    shutil.rmtree(modules)
    assert requirements.missing() == [
        requirements.NO_NODE,
        f"no {modules}: the tests with JavaScript clients are left out",
    ]


LEFT_OUT = """
import pytest
from tests import requirements
from tests.requirements import pytest_terminal_summary

def test_behind_nginx():
    requirements.absent(requirements.NO_NGINX)

@pytest.mark.parametrize("number", [1, 2])
def test_in_a_browser(number):
    requirements.absent(requirements.NO_CHROMIUM)

def test_for_another_reason():
    pytest.skip("not today")

def test_that_passes():
    pass
"""


def test_says_once_for_each_reason_what_was_left_out(bin_folder, tmp_path):
    """The names of what a program is missing for are in a file, for a machine that has it."""
    program(bin_folder, "node")
    root = Path(__file__).parents[1]
    (tmp_path / "conftest.py").write_text(
        "from tests.requirements import pytest_terminal_summary as pytest_terminal_summary"
    )
    (tmp_path / "test_some.py").write_text(LEFT_OUT)
    names = tmp_path / "names.txt"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--rootdir", tmp_path, "--import-mode=importlib", tmp_path / "test_some.py"],
        cwd=tmp_path,
        env={"PATH": str(bin_folder), "PYTHONPATH": str(root), "ALULA_LEFT_OUT": str(names)},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("left out: ")]
    assert lines == [
        f"left out: 1 of the tests: {requirements.NO_NGINX}",
        f"left out: 2 of the tests: {requirements.NO_CHROMIUM}",
        "left out: 1 of the tests: not today",
    ], done.stdout
    assert names.read_text().splitlines() == [
        "test_some.py::test_behind_nginx",
        "test_some.py::test_in_a_browser[1]",
        "test_some.py::test_in_a_browser[2]",
    ]


class TestBare:
    """`scripts/bare` runs a command as on a machine without these programs."""

    BARE = Path(__file__).parents[1] / "scripts" / "bare"

    @pytest.fixture
    def folder(self, bin_folder, monkeypatch) -> Path:
        """The first folder of the PATH: with all of the programs, and another one."""
        for name in (*PROGRAMS, *requirements.CHROMIUM_NAMES, "another"):
            program(bin_folder, name)
        monkeypatch.setenv("PATH", f"{bin_folder}:/usr/bin:/bin")
        return bin_folder

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.BARE, *command], capture_output=True, text=True, check=False, cwd=self.BARE.parent
        )

    def test_all_of_the_programs_are_missing(self, folder):
        code = "from shutil import which; import sys; print([n for n in sys.argv[1:] if which(n)])"
        names = [*PROGRAMS, *requirements.CHROMIUM_NAMES, "another", "sh"]
        done = self.run(sys.executable, "-c", code, *names)
        assert done.stdout == "['another', 'sh']\n", done.stderr

    def test_each_program_that_a_test_may_wait_for_is_one_of_them(self):
        listed = self.BARE.read_text().partition('programs="')[2].partition('"')[0].split()
        assert {*PROGRAMS, *requirements.CHROMIUM_NAMES} <= set(listed)

    def test_what_is_missing_is_no_failure(self, folder, monkeypatch):
        monkeypatch.setenv("CI", "true")
        done = self.run("sh", "-c", "echo ${CI:-unset}")
        assert done.stdout == "unset\n"

    def test_the_status_is_that_of_the_command_and_no_links_are_left(self, folder, monkeypatch):
        links = folder.parent / "links"
        links.mkdir()
        monkeypatch.setenv("TMPDIR", str(links))
        assert self.run("sh", "-c", "exit 7").returncode == 7
        assert list(links.iterdir()) == []
