"""What the package offers, and what it says where its extra is missing."""

from __future__ import annotations

import importlib
import inspect
import sys

import pytest

from alula import authentication


@pytest.mark.parametrize("missing", ["argon2", "bcrypt", "jwt"])
def test_the_error_of_a_missing_package_names_the_extra(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=rf"needs {missing},.*pip install 'alula\[auth\]'"):
        importlib.reload(authentication)


@pytest.mark.parametrize("name", authentication.__all__)
def test_everything_is_documented(name):
    assert inspect.getdoc(getattr(authentication, name))


def test_offers_the_interface():
    assert set(authentication.__all__) >= {
        "AuthenticationService",
        "AuthenticationStrategy",
        "JWTStrategy",
        "LocalStrategy",
        "authenticate",
        "hash_password",
        "password_hash",
        "protect",
    }
