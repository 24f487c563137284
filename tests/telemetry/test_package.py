"""The package: its names, what it says where the extra is missing, and that nothing loads it."""

from __future__ import annotations

import inspect
import runpy
import subprocess
import sys

import pytest

import alula.telemetry


def test_what_is_missing_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(ImportError, match=r"install it with: pip install 'alula\[telemetry\]'"):
        runpy.run_path(alula.telemetry.__file__)


def test_all_public_names_are_documented():
    assert alula.telemetry.__all__ == sorted(alula.telemetry.__all__)
    for name in alula.telemetry.__all__:
        assert inspect.getdoc(getattr(alula.telemetry, name)), name


def test_an_application_that_does_not_want_it_does_not_load_it():
    code = (
        "import sys, alula, alula.express, alula.logs, alula.client;"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
