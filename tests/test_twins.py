"""Two packages have functions of one name; taking the wrong one is explained."""

from __future__ import annotations

import pytest

from alula import App, client, express, realtime
from alula import authentication as auth
from alula._user_code import public_name_of, wrong_twin
from alula.adapters.memory import MemoryService


def application():
    app = express.express(App()).configure(express.rest())
    return app.use("notes", MemoryService())


HOOK = "authenticate of alula.authentication is a hook"
MIDDLEWARE = "authenticate of alula.express is middleware"
SERVER_REST = "rest of alula.express is for applications"
CLIENT_REST = "rest of alula.client is for clients"
SERVER_SOCKETIO = "socketio of alula.realtime is for applications"
CLIENT_SOCKETIO = "socketio of alula.client is for clients"

MISTAKES = {
    "a hook as middleware": (lambda app: app.use(auth.authenticate("jwt")), HOOK),
    "a hook in front of a service": (
        lambda app: app.use("x", auth.authenticate("jwt"), MemoryService()),
        HOOK,
    ),
    "middleware as an around hook": (
        lambda app: app.service("notes").hooks(around=[express.authenticate("jwt")]),
        MIDDLEWARE,
    ),
    "middleware as a before hook": (
        lambda app: app.service("notes").hooks(before=[express.authenticate("jwt")]),
        MIDDLEWARE,
    ),
    "a plugin by use": (lambda app: app.use(express.rest()), SERVER_REST),
    "a factory of plugins by use": (lambda app: app.use(express.rest), SERVER_REST),
    "middleware as a plugin": (lambda app: app.configure(express.authenticate("jwt")), MIDDLEWARE),
    "rest of the client": (lambda app: app.configure(client.rest), CLIENT_REST),
    "socketio of the client": (lambda app: app.configure(client.socketio), CLIENT_SOCKETIO),
    "rest of the server": (
        lambda _: client.create_client().configure(express.rest()),
        SERVER_REST,
    ),
    "socketio of the server": (
        lambda _: client.create_client().configure(realtime.socketio()),
        SERVER_SOCKETIO,
    ),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_the_wrong_twin_is_named(kind):
    mistake, message = MISTAKES[kind]
    with pytest.raises(TypeError) as caught:
        mistake(application())
    assert message in str(caught.value)


def test_public_names():
    assert public_name_of(express.json) == "alula.express.json"
    assert public_name_of(express.authenticate("jwt")) == "alula.express.authenticate"
    assert public_name_of(application) == "tests.test_twins.application"
    assert wrong_twin(application) is None
