"""The package: its public names, and what it says where the extra is missing."""

from __future__ import annotations

import inspect
import runpy
import sys

import pytest

import alula.files


@pytest.mark.parametrize("name", ["python_multipart", "orjson"])
def test_what_is_missing_is_named_with_the_command_that_installs_it(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"needs {name}.*pip install 'alula\[server,files\]'"):
        runpy.run_path(alula.files.__file__)


def test_all_public_names_are_there_and_documented():
    for name in alula.files.__all__:
        assert name == "INLINE_TYPES" or inspect.getdoc(getattr(alula.files, name)), name
