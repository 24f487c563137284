"""Tickets, with which a page signs a stream in that cannot send headers."""

from __future__ import annotations

import logging
import time

import pytest
from tests.authentication.building import SECRET, add_authentication, login, make_app
from tests.authentication.connecting import (
    follow_the_book,
    is_signed_out,
    make_live_app,
    open_connection,
    session_of,
    token_for,
)
from tests.express.asgi_client import call as request
from tests.express.asgi_client import post_json

from alula import App
from alula._identity import add_tickets, identify_connection
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService, JWTStrategy
from alula.errors import NotAuthenticated
from alula.express import express, json, rest


@pytest.fixture
async def app():
    return await make_live_app(tickets=True, sessions="sessions")


async def ticket_for(app, token=None):
    token = token or (await app.service("authentication").create(login()))["accessToken"]
    credentials = {"strategy": "jwt", "accessToken": token}
    tickets = app.service("authentication/tickets")
    return (await tickets.create({}, provider="rest", authentication=credentials))["ticket"]


async def identify(app, ticket):
    connection = open_connection(app, added=False)
    await identify_connection(app, connection, ticket)
    return connection


async def test_signs_a_connection_in_once(app):
    told = follow_the_book(app)
    ticket = await ticket_for(app)
    connection = await identify(app, ticket)
    assert connection.user == {"id": 1, "email": "ada@example.com"}
    assert told == [("login", "ada@example.com", "ada@example.com")]
    for _ in range(2):
        with pytest.raises(NotAuthenticated, match="was used before"):
            await identify(app, ticket)


async def test_the_connection_lasts_as_long_as_the_token(app):
    token = (await app.service("authentication").create(login()))["accessToken"]
    connection = await identify(app, await ticket_for(app, token))
    payload = app.service("authentication").service.verify_access_token(token)
    assert connection.sign_in.expires == payload["exp"]
    assert session_of(connection) == payload["sid"]
    await app.service("sessions").remove(payload["sid"])
    assert is_signed_out(connection)


async def test_of_a_session_that_has_ended(app):
    ticket = await ticket_for(app)
    await app.service("sessions").remove(None, adapter={"multi": True})
    with pytest.raises(NotAuthenticated, match="session has ended"):
        await identify(app, ticket)


@pytest.mark.parametrize("ticket", ["", "x", "a.b.c", "ü", "x" * 10_000])
async def test_made_up(app, ticket):
    with pytest.raises(NotAuthenticated, match="Invalid ticket"):
        await identify(app, ticket)


async def test_an_access_token_is_no_ticket_and_a_ticket_no_access_token(app):
    with pytest.raises(NotAuthenticated, match="Invalid ticket"):
        await identify(app, token_for(app))
    ticket = await ticket_for(app)
    data = {"strategy": "jwt", "accessToken": ticket}
    with pytest.raises(NotAuthenticated, match="jwt malformed"):
        await app.service("authentication").create(data, provider="rest")


async def test_expires_after_half_a_minute(app, monkeypatch):
    ticket, now = await ticket_for(app), time.time()
    monkeypatch.setattr(time, "time", lambda: now + 31)
    with pytest.raises(NotAuthenticated, match="Invalid ticket"):
        await identify(app, ticket)


async def test_is_for_users_who_are_signed_in(app):
    tickets = app.service("authentication/tickets")
    for params in ({"provider": "rest"}, {}, {"authenticated": True, "provider": "rest"}):
        with pytest.raises(NotAuthenticated, match="Not authenticated"):
            await tickets.create({}, params)
    with pytest.raises(NotAuthenticated):
        await ticket_for(app, "nonsense")


async def test_are_offered_by_http():
    app = express(App())
    app.use(json())
    app.configure(rest())
    app.use("users", MemoryService([{"id": 1, "email": "ada@example.com"}]))
    app.use("authentication", AuthenticationService(app, secret=SECRET, strategies=["jwt"]))
    add_tickets(app)
    await app.setup()
    token = token_for(app)
    headers = [("authorization", f"Bearer {token}")]
    answer = await post_json(app, {}, "/authentication/tickets", headers=headers)
    assert (answer.status, answer.json["expiresIn"]) == (201, 30)
    connection = await identify(app, answer.json["ticket"])
    assert connection.user["id"] == 1
    assert (await post_json(app, {}, "/authentication/tickets")).status == 401
    for method in ("GET", "DELETE"):
        assert (await request(app, method, "/authentication/tickets")).status == 405


async def test_are_not_offered_unasked():
    app = await make_live_app()
    assert "authentication/tickets" not in app.services
    with pytest.raises(NotAuthenticated, match="Invalid ticket"):
        await identify(app, "x")


async def test_a_second_setup_keeps_them(app):
    ticket = await ticket_for(app)
    await app.teardown()
    await app.setup()
    assert (await identify(app, ticket)).user["id"] == 1


async def test_need_a_strategy_of_tokens():
    app = make_app(strategies=["local"], tickets=True)
    with pytest.raises(ValueError, match="register a JWTStrategy"):
        await app.setup()


async def test_a_strategy_of_another_name():
    app = make_app(strategies=["token"], tickets=True)
    service = app.service("authentication").service
    service.register("token", JWTStrategy())
    await app.setup()
    await app.service("users").create({"email": "ada@example.com"})
    credentials = {"strategy": "token", "accessToken": token_for(app)}
    tickets = app.service("authentication/tickets")
    made = await tickets.create({}, provider="rest", authentication=credentials)
    connection = await identify(app, made["ticket"])
    assert connection.authentication["strategy"] == "token"


async def test_of_one_service_are_no_tickets_of_another(app):
    app.use("staff", MemoryService([{"id": 1}]))
    add_authentication(
        app, "door", service="staff", secret=SECRET[::-1], strategies=["jwt"], tickets=True
    )
    await app.service("door").wait_for_setup()
    ticket = await ticket_for(app)
    with pytest.raises(NotAuthenticated, match="Invalid ticket"):
        await app.service("door").service.credentials_of_ticket(ticket)


async def test_leave_no_trace(app, caplog):
    caplog.set_level(logging.DEBUG)
    heard = []
    app.channel_registry.forward = heard.append
    app.publish(lambda data, context: app.channel("everyone"))
    ticket = await ticket_for(app)
    await identify(app, ticket)
    assert ticket not in repr(heard) + caplog.text
    assert {event.path for event in heard} <= {""}


async def test_another_process_redeems_them():
    users = MemoryService([{"id": 1, "email": "ada@example.com"}])
    here = await make_app(users, tickets=True, strategies=["jwt"]).setup()
    there = await make_app(users, tickets=True, strategies=["jwt"]).setup()
    ticket = await ticket_for(here, token_for(here))
    assert (await identify(there, ticket)).user["id"] == 1


async def test_are_used_up_for_all_processes_that_share_a_throttle():
    users, store, apps = MemoryService([{"id": 1}]), MemoryService(), []
    for _ in range(2):
        app = make_app(users, tickets=True, strategies=["jwt"], throttle={"service": "store"})
        apps.append(await app.use("store", store, methods=[]).setup())
    here, there = apps
    ticket = await ticket_for(here, token_for(here))
    await identify(here, ticket)
    with pytest.raises(NotAuthenticated, match="was used before"):
        await identify(there, ticket)
