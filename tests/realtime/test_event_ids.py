"""Event ids that nobody can make up, pass on or take back in time."""

from types import SimpleNamespace

import pytest

from alula import App
from alula._connection import Connection, client_key, user_id_of
from alula._context import Params
from alula._hub import WorkerDirectory, WorkerPlace
from alula._identity import shared_key
from alula.authentication import AuthenticationService
from alula.realtime import _event_ids
from alula.realtime._event_ids import EventIds, Position

SECRET = "thirty-two random bytes at least"


@pytest.fixture
def ids():
    return EventIds(lambda: b"key")


def id_of(ids, position="3e8~a:1", began=1000, user="7"):
    return f"{ids.sign(position)}.{ids.sign_beginning(began, user)}"


class TestAnId:
    def test_is_read_by_all_processes_with_the_key(self, ids):
        text = id_of(ids)
        expected = (Position(1.0, {"a": 1}), 1000)
        assert ids.read(text, "7") == expected
        assert EventIds(lambda: b"key").read(text, "7") == expected
        assert EventIds(lambda: b"other").read(text, "7") is None
        assert EventIds(lambda: None).read(text, "7") is None

    @pytest.mark.parametrize("text", ["", "5", "...", "3e8~a:1", "3e8~a:1.x.3e8.y", "a.b.c.d.e"])
    def test_that_is_made_up_is_none(self, ids, text):
        assert ids.read(text, "7") is None

    def test_of_another_user_is_none(self, ids):
        assert ids.read(id_of(ids), "8") is None
        assert ids.read(id_of(ids), "") is None

    def test_with_each_character_changed_is_none(self, ids):
        text = id_of(ids)
        for at, character in enumerate(text):
            changed = "A" if character != "A" else "B"
            assert ids.read(text[:at] + changed + text[at + 1 :], "7") is None

    def test_from_before_the_first_stream_is_none(self, ids):
        assert ids.read(id_of(ids, began=1001), "7") is None

    def test_that_is_signed_but_says_no_position_is_none(self, ids):
        assert ids.read(id_of(ids, position="garbage"), "7") is None

    def test_may_have_any_user(self, ids):
        text = id_of(ids, user="\ud800 ü")
        assert ids.read(text, "\ud800 ü") is not None


class TestTheKey:
    def test_is_derived_from_the_secret_of_authentication(self, monkeypatch):
        monkeypatch.delenv("ALULA_SECRET", raising=False)
        app = App()
        assert shared_key(app, b"x") is None
        app.use("authentication", AuthenticationService(app, secret=SECRET))
        key = shared_key(app, b"x")
        assert key not in {None, shared_key(app, b"y"), SECRET.encode()}

    @pytest.mark.parametrize("secret", [SECRET, SECRET.encode()])
    def test_is_derived_from_a_setting(self, secret):
        app = App()
        app.settings["authentication_secret"] = secret
        other = App()
        other.use("authentication", AuthenticationService(other, secret=SECRET))
        assert shared_key(app, b"x") == shared_key(other, b"x")

    def test_is_derived_from_the_environment(self, monkeypatch):
        monkeypatch.setenv("ALULA_SECRET", SECRET)
        app = App()
        app.settings["authentication_secret"] = SECRET
        assert shared_key(App(), b"x") == shared_key(app, b"x")

    def test_of_workers_is_in_their_directory(self, monkeypatch):
        monkeypatch.delenv("ALULA_SECRET", raising=False)
        directory = WorkerDirectory()
        try:
            place = WorkerPlace(directory.path, "w1")
            monkeypatch.setattr(_event_ids, "current_worker", lambda: place)
            key = _event_ids._key_of(App())
            assert key == place.read_secret()
            assert len(key) == 32
            assert (directory.path.stat().st_mode & 0o077) == 0
        finally:
            directory.close()


class TestClients:
    def connection(self, **attributes):
        return Connection(
            SimpleNamespace(deliver=None), provider="sse", headers={}, ip="192.0.2.1", **attributes
        )

    @pytest.mark.parametrize(
        ("attributes", "expected"),
        [
            ({}, None),
            ({"user": {"id": 7}}, "7"),
            ({"user": {"_id": "a"}}, "a"),
            ({"user": {"name": "ada"}}, None),
            ({"user": type("User", (), {"id": 8})}, "8"),
            ({"authentication": {"payload": {"sub": "9"}}}, "9"),
            ({"authentication": {"strategy": "jwt"}}, None),
        ],
    )
    def test_are_known_by_their_user(self, attributes, expected):
        connection = self.connection(**attributes)
        assert user_id_of(connection) == expected
        key = ("address", "192.0.2.1") if expected is None else ("user", expected)
        assert client_key(connection) == key

    def test_are_known_by_their_sign_in(self):
        connection = self.connection()
        connection.sign_in = type("SignIn", (), {"user_id": "5"})
        assert user_id_of(connection) == "5"

    def test_may_be_the_server_itself(self):
        assert client_key(Params()) is None
