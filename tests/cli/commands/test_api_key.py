"""`alula api-key create`: a key for a machine, on the command line."""

from __future__ import annotations

import re

import pytest
from tests.cli.applications import folder_with

CODE = """
from sqlalchemy import BigInteger, Column, Integer, MetaData, Table, Text
from alula import App
from alula.accounts import Accounts
from alula.adapters.memory import MemoryService
from alula.adapters.sql import Database, SQLService
from alula.authentication import AuthenticationService

metadata = MetaData()
table = Table(
    "credentials", metadata, Column("id", Text, primary_key=True), Column("kind", Text),
    Column("userId", Text), Column("secret", Text), Column("data", Text), Column("count", Integer),
    *(Column(name, BigInteger) for name in ("createdAt", "usedAt", "expiresAt")),
)
database = Database("sqlite:///keys.sqlite", create_tables=True)
app = App()
app.configure(database)
app.use("users", MemoryService([{"id": 1}]), methods=[])
app.use("sessions", MemoryService(), methods=[])
app.use("credentials", SQLService(table, database), methods=[])
app.use("authentication", AuthenticationService(app, secret="s" * 32, sessions="sessions"))
accounts = Accounts(store="credentials", api_keys=True)
app.configure(accounts)
"""


@pytest.fixture
def run(tmp_path):
    with folder_with(tmp_path, CODE) as run:
        yield run


def test_the_key_alone_is_the_output(run, tmp_path):
    scopes = ("--scope", "reports:read", "--scope", "reports:write")
    result = run("api-key", "create", "1", *scopes, "--name", "CI")
    assert result.exit_code == 0, result.output
    assert re.fullmatch(r"alu_\w{12}_\w{43}_\w{6}\n", result.stdout)
    key_id = result.stdout.split("_")[1]
    assert re.match(rf"key {key_id} of user 1, valid until 20\d\d-\d\d-\d\d", result.stderr)
    again = run("api-key", "create", "1", "--scope", "*", "--expires-in", "never")
    assert again.stderr.endswith("of user 1, valid for ever:\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("1", "--scope", "a b"), "scopes is a list of 1 to 100 texts"),
        (("1", "--scope", "a", "--expires-in", "soon"), "'soon' is not a duration"),
        (("1",), "Missing option"),
    ],
)
def test_what_is_not_valid(run, arguments, text):
    result = run("api-key", "create", *arguments)
    assert result.exit_code == 2
    assert text in result.stderr


def test_a_user_who_does_not_exist(run):
    result = run("api-key", "create", "9", "--scope", "a")
    assert (result.exit_code, "There is no user '9'" in result.stderr) == (1, True)


def test_an_application_without_keys(tmp_path):
    with folder_with(tmp_path) as run:
        result = run("api-key", "create", "1", "--scope", "a")
    assert result.exit_code == 2
    assert "has no API keys" in result.stderr


def test_keys_in_memory_would_be_lost(tmp_path):
    code = CODE.replace("SQLService(table, database)", "MemoryService()")
    with folder_with(tmp_path, code) as run:
        result = run("api-key", "create", "1", "--scope", "a")
    assert result.exit_code == 2
    assert "end with this command; store 'credentials' in a database" in result.stderr
