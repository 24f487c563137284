"""People see their own sessions, and end them, on every adapter."""

from __future__ import annotations

import pytest
from tests.accounts.building import ADA, FROM_AFAR, make_world, started
from tests.express.asgi_client import call, post_json

from alula.errors import BadRequest, NotAuthenticated, NotFound
from alula.express import express, json, rest

BOB = {"email": "bob@example.com"}


def caller(signed_in, **query):
    credentials = {"strategy": "jwt", "accessToken": signed_in["accessToken"]}
    return {**FROM_AFAR, "authentication": credentials, "query": query}


@pytest.fixture
async def world(stores):
    world = await started(stores)
    await world.sign_up()
    await world.sign_up(**BOB)
    yield world
    await world.app.teardown()


def listing(world):
    return world.app.service("account/sessions")


async def test_the_list_has_the_sessions_of_the_caller(world):
    phone, laptop = await world.sign_in(), await world.sign_in()
    await world.sign_in(**BOB)
    found = await listing(world).find(caller(laptop))
    assert len(found) == 2
    (current,) = [session for session in found if session["current"]]
    assert current["id"] == laptop["authentication"]["payload"]["sid"]
    assert {session["id"] for session in found} - {current["id"]} == {
        phone["authentication"]["payload"]["sid"]
    }
    assert set(current) == {
        "id",
        "current",
        "createdAt",
        "lastUsedAt",
        "expiresAt",
        "ip",
        "userAgent",
        "methods",
    }
    assert (current["methods"], current["ip"]) == (["pwd"], "192.0.2.1")
    assert current["createdAt"] == current["lastUsedAt"] < current["expiresAt"]


async def test_one_session_ends_at_once(world):
    phone, laptop = await world.sign_in(), await world.sign_in()
    sid = phone["authentication"]["payload"]["sid"]
    ended = await listing(world).remove(sid, caller(laptop))
    assert (ended["id"], ended["current"]) == (sid, False)
    with pytest.raises(NotAuthenticated, match="ended"):
        await listing(world).find(caller(phone))
    with pytest.raises(NotFound):
        await listing(world).remove(sid, caller(laptop))
    assert len(await listing(world).find(caller(laptop))) == 1


async def test_all_others_end_and_the_own_one_goes_on(world):
    phone, laptop, bob = await world.sign_in(), await world.sign_in(), await world.sign_in(**BOB)
    ended = await listing(world).remove(None, caller(laptop, others="true"))
    assert [session["id"] for session in ended] == [phone["authentication"]["payload"]["sid"]]
    for signed_in in (laptop, bob):
        assert len(await listing(world).find(caller(signed_in))) == 1
    with pytest.raises(NotAuthenticated, match="ended"):
        await listing(world).find(caller(phone))


async def test_the_list_leaves_out_what_has_ended(world):
    signed_in = await world.sign_in()
    sessions = world.authentication.sessions
    began_at = sessions.milliseconds() - sessions.absolute
    old = await sessions.begin(1)  # renewed beyond its end by an earlier version
    await sessions.handle.patch(old.id, {"createdAt": began_at})
    (session,) = await listing(world).find(caller(signed_in))
    assert session["current"]


async def test_sessions_of_others_do_not_exist(world):
    ada, bob = await world.sign_in(), await world.sign_in(**BOB)
    with pytest.raises(NotFound):
        await listing(world).remove(bob["authentication"]["payload"]["sid"], caller(ada))
    query = {"userId": "2", "$or": [{"userId": "2"}]}
    (session,) = await listing(world).find(caller(ada, **query))
    assert session["current"]
    (session,) = await listing(world).find(caller(bob))
    assert session["current"]


async def test_what_is_refused():
    world = await started()
    await world.sign_up()
    signed_in = await world.sign_in()
    with pytest.raises(NotAuthenticated):
        await listing(world).find(dict(FROM_AFAR))
    for query in ({}, {"others": "false"}):
        with pytest.raises(BadRequest, match="others=true"):
            await listing(world).remove(None, caller(signed_in, **query))
    with pytest.raises(BadRequest, match="signed-in caller"):
        await listing(world).find()
    assert len(await listing(world).find(caller(signed_in))) == 1


def test_accounts_need_access_tokens():
    with pytest.raises(ValueError, match="needs a JWTStrategy"):
        make_world(authentication={"strategies": ["local"]})


async def test_over_rest():
    world = await started()
    web = express(world.app).use(json()).configure(rest())
    await world.sign_up()
    phone, entered = await world.sign_in(), {"strategy": "local", **ADA}
    browser = {"user-agent": "Firefox/150"}
    laptop = (await post_json(web, entered, "/authentication", headers=browser)).json
    bearer = {"authorization": f"Bearer {laptop['accessToken']}"}
    found = await call(web, "GET", "/account/sessions", headers=bearer)
    assert found.get("cache-control") == "no-store"
    (current,) = [session for session in found.json if session["current"]]
    assert (current["ip"], current["userAgent"]) == ("192.0.2.7", "Firefox/150")
    assert [session["current"] for session in found.json].count(True) == 1
    assert (await call(web, "DELETE", "/account/sessions", headers=bearer)).status == 400
    ended = await call(web, "DELETE", "/account/sessions?others=true", headers=bearer)
    assert [session["id"] for session in ended.json] == [phone["authentication"]["payload"]["sid"]]
    assert len((await call(web, "GET", "/account/sessions", headers=bearer)).json) == 1
