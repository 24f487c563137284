"""An environment has what a page names, and nothing that only our own tests need."""

from __future__ import annotations

import json

from packaging.utils import canonicalize_name
from tests.outside.environments import run, variables
from tests.packaging.clean import closure

LIST = """
import json
from importlib import metadata
print(json.dumps([each.name for each in metadata.distributions()]))
"""


def packages(python, tmp_path):
    done = run(python, "-c", LIST, cwd=tmp_path, env=variables(python))
    assert done.returncode == 0, done.stdout
    return {canonicalize_name(name) for name in json.loads(done.stdout)}


def test_the_core_is_alone(environments, tmp_path):
    assert packages(environments.python(["alula"]), tmp_path) == {"alula"}


def test_an_extra_brings_what_it_asks_for_and_nothing_else(environments, wheel, tmp_path):
    installed = packages(environments.python(["alula[schema]"]), tmp_path)
    assert installed == {"alula", *closure(wheel, "schema")}
    assert "pytest" not in installed


def test_the_same_requirements_are_installed_once(environments):
    first = environments.python(["alula[schema]", "alula"])
    assert environments.python(["alula", "alula[schema]", "alula"]) == first
    assert environments.python(["alula"]) != first


def test_programs_of_our_own_environment_are_not_on_the_path(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", "src")
    monkeypatch.setenv("ALULA_SECRET", "x" * 32)
    monkeypatch.setenv("PATH", f"{__import__('sys').prefix}/bin:/usr/bin:/bin")
    found = variables(tmp_path / "bin" / "python", PORT="0")
    assert found["PATH"] == f"{tmp_path}/bin:/usr/bin:/bin"
    assert (found["PORT"], "PYTHONPATH" in found, "ALULA_SECRET" in found) == ("0", False, False)
