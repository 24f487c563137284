"""`alula.testing` loads nothing before it is asked for, and says what is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import alula.testing


def test_its_names_are_imported_on_first_access():
    assert alula.testing.__all__ == [
        "AdapterSuite",
        "FakeProvider",
        "RealtimeClient",
        "ReceivedEvent",
    ]
    assert alula.testing.FakeProvider.__module__ == "alula.testing._fake_provider"
    assert alula.testing.ReceivedEvent("messages created", {}).data == {}
    assert alula.testing.AdapterSuite.__module__ == "alula.testing._rules"
    with pytest.raises(AttributeError, match="no attribute 'Adapter'"):
        _ = alula.testing.Adapter


def test_without_pytest_the_error_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytest", None)
    with pytest.raises(ImportError, match="pip install pytest anyio"):
        _ = alula.testing.AdapterSuite


def test_importing_it_does_not_load_pytest():
    code = "import sys, alula.testing; print('pytest' in sys.modules, 'alula._app' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert done.stdout.split()[0] == "False"
