"""The settings of a new application; no secret of development is valid in production."""

from __future__ import annotations

import runpy

import pytest
from tests.cli.generator.applications import alula

from alula.configuration import ConfigurationError

SECRET = "SHOP_AUTHENTICATION_SECRET"
URL = "SHOP_MONGODB_URL"
GOOD = {SECRET: "thirty-two random bytes at least", URL: "mongodb://db.example/shop"}


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Load the settings of an application on MongoDB with users, in an environment."""
    alula(tmp_path, monkeypatch, "new", "shop", "--database=mongodb", "--authentication")

    def load(**environ):
        for name in ("ALULA_ENV", SECRET, URL):
            monkeypatch.delenv(name, raising=False)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        return runpy.run_path(str(tmp_path / "shop" / "configuration.py"))["load_settings"]()

    load.folder = tmp_path / "shop"
    return load


def test_development_needs_no_variables(load):
    settings = load()
    assert len(settings.authentication_secret.get_secret_value()) == 64
    assert settings.mongodb_url is None
    assert (settings.paginate.default, settings.paginate.max) == (10, 100)


def test_production_ignores_the_env_file(load):
    assert (load.folder / ".env").exists()
    with pytest.raises(ConfigurationError) as caught:
        load(ALULA_ENV="production")
    assert str(caught.value).splitlines()[1:] == [
        f"  - authentication_secret is missing; it is a secret: set {SECRET} in the environment",
        f"  - mongodb_url: is missing; set {URL} to its URL",
    ]


def test_production_reads_variables(load):
    settings = load(ALULA_ENV="production", **GOOD)
    assert settings.authentication_secret.get_secret_value() == GOOD[SECRET]
    assert settings.mongodb_url.get_secret_value() == GOOD[URL]
    assert not any(value in f"{settings!r} {settings}" for value in GOOD.values())


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"ALULA_ENV": "prod"}, "set it to one of: development, production, test"),
        ({SECRET: "short"}, "authentication_secret: value should have at least 32"),
        ({URL: "localhost:27017"}, "mongodb_url: must begin with mongodb:// or mongodb+srv://"),
        ({"SHOP_PAGINATE__MAX": "many"}, "paginate.max: input should be a valid integer"),
    ],
)
def test_errors_name_the_setting(load, environ, told):
    with pytest.raises(ConfigurationError) as caught:
        load(**environ)
    assert told in str(caught.value)
    assert "short" not in str(caught.value)
    assert "localhost" not in str(caught.value)


def test_the_error_of_a_fresh_clone_names_the_missing_variable(load):
    (load.folder / ".env").unlink()
    with pytest.raises(ConfigurationError, match=rf"set {SECRET} in the environment or in \.env"):
        load()
