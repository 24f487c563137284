"""Sessions: what begins and what ends them."""

from __future__ import annotations

import pytest
from tests.authentication.building import SECRET, app_with_sessions, goes_on, payload_of

from alula import Params
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService, Sessions
from alula.errors import BadRequest, NotAuthenticated


@pytest.fixture
def app():
    return app_with_sessions()


def authentication(app, secret=SECRET, users="users"):
    return AuthenticationService(app, secret=secret, service=users)


@pytest.fixture
def make(app, clock):
    async def make(secret=SECRET, users="users", **options):
        sessions = Sessions(service="sessions", now=clock, **options)
        await sessions.setup(authentication(app, secret, users))
        return sessions

    return make


async def test_sessions_that_have_run_out_are_removed(make, app, clock):
    sessions = await make(lifetime="30m")
    await sessions.begin(1)
    clock.time += 1800
    await sessions.begin(2)
    assert len(await app.service("sessions").find()) == 2  # it looks once an hour
    clock.time += 1800
    kept = await sessions.begin(1)
    assert [record["id"] for record in await app.service("sessions").find()] == [kept.id]


async def test_an_access_token_needs_a_session_of_its_user(make):
    sessions = await make()
    session = await sessions.begin(1)
    await sessions.check(payload_of(session))
    for payload in [{"sid": session.id, "sub": "2"}, {"sid": session.id}, {"sid": "x", "sub": "1"}]:
        with pytest.raises(NotAuthenticated, match=r"^The session has ended"):
            await sessions.check(payload)
    for sid in [None, 5, [session.id], {"$ne": ""}, True]:
        with pytest.raises(NotAuthenticated, match="has no session"):
            await sessions.check({"sid": sid, "sub": "1"})


async def test_tokens_of_other_servers_are_good_only_where_they_are_allowed(make):
    sessions = await make(foreign_tokens=True)
    await sessions.check({"sub": "1"})
    with pytest.raises(NotAuthenticated):
        await sessions.check({"sub": "1", "sid": "of a session that has ended"})
    with pytest.raises(NotAuthenticated):
        await (await make()).check({"sub": "1"})


async def test_signing_out_ends_this_session_alone(make):
    sessions = await make()
    here, there = await sessions.begin(1), await sessions.begin(1)
    for _ in range(2):  # twice does no harm
        await sessions.end(payload_of(here))
    await sessions.end({"sub": "1"})
    assert not await goes_on(sessions, here)
    assert await goes_on(sessions, there)


async def test_signing_out_everywhere_ends_all_sessions_of_a_user(make):
    sessions = await make()
    own = [await sessions.begin(1) for _ in range(3)]
    other = await sessions.begin(2)
    await sessions.end_all(1)
    assert [await goes_on(sessions, session) for session in own] == [False] * 3
    assert await goes_on(sessions, other)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("patch", (1, {"password": "new"})),
        ("patch", ("1", {"password": "new", "name": "Ada"})),
        ("patch", (None, {"password": "new"}, {"query": {"id": 1}})),
        ("patch", (None, {"password": "new"}, {"query": {"id": 1, "$select": ["name"]}})),
        ("update", (1, {"password": "new"})),
        ("update", (1, {"name": "without any"})),
        ("remove", (1,)),
        ("remove", (None, {"query": {"id": 1}})),
    ],
)
async def test_a_new_password_ends_all_sessions_of_the_user(make, app, method, arguments):
    sessions = await make()
    own = [await sessions.begin(1) for _ in range(2)]
    other = await sessions.begin(2)
    await getattr(app.service("users"), method)(*arguments)
    assert [await goes_on(sessions, session) for session in own] == [False] * 2
    assert await goes_on(sessions, other)


class Operators(MemoryService):
    """Takes update operators, as a document database does."""

    async def patch(self, id, data, params):
        return await self.get(1, {})


@pytest.mark.parametrize(
    ("data", "ends"),
    [
        ({"$set": {"password": "new"}}, True),
        ({"$set": {"password.hash": "new"}}, True),
        ({"password.hash": "new"}, True),
        ({"$unset": {"password": ""}}, True),
        ({"$rename": {"bio": "password"}}, True),
        ({"$rename": {"bio": "text"}}, False),
        ({"$set": {"name": "Ada"}, "$inc": 5}, False),
        ({"passwords": 1}, False),
        (["password"], False),
    ],
)
async def test_operators_that_touch_the_password_count(make, app, data, ends):
    app.use("accounts", Operators([{"id": 1}]))
    sessions = await make(users="accounts")
    session = await sessions.begin(1)
    await app.service("accounts").patch(1, data)
    assert await goes_on(sessions, session) is not ends


async def test_other_changes_end_no_session(make, app):
    sessions = await make()
    session = await sessions.begin(1)
    await app.service("users").patch(1, {"name": "Ada"})
    await app.service("users").get(1)
    await app.service("users").create({"password": "of somebody else"})
    with pytest.raises(Exception, match="No record found"):
        await app.service("users").patch(9, {"password": "new"})
    assert await goes_on(sessions, session)


async def test_a_result_without_ids_ends_nobodys_sessions(make, app):
    class Silent(MemoryService):
        async def patch(self, id, data, params):
            return None

    app.use("silent", Silent())
    sessions = await make(users="silent")
    session = await sessions.begin(1)
    await app.service("silent").patch(None, {"password": "new"})
    assert await goes_on(sessions, session)


# -- where somebody has signed in ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "stored", "network"),
    [
        ("192.0.2.77", "192.0.2.77", "192.0.2.0/24"),
        ("::ffff:192.0.2.77", "192.0.2.77", "192.0.2.0/24"),
        ("2001:db8:1:2::3", "2001:db8:1:2::3", "2001:db8:1::/48"),
        ("fe80::1%eth0", "fe80::1", "fe80::/48"),
        ("/run/a.sock", None, None),
        (None, None, None),
    ],
)
async def test_a_session_has_the_address_or_its_network(make, app, address, stored, network):
    for options, ip in (({}, stored), ({"privacy": True}, network)):
        session = await (await make(**options)).begin(1, params=Params(ip=address))
        assert (await app.service("sessions").get(session.id))["ip"] == ip


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ({}, None),
        ({"user-agent": "\x00\r\n"}, None),
        ({"user-agent": "Fire\x1b[2Jfox/\u202e1\x85 (é)\n"}, "Fire[2Jfox/1 (é)"),
        ({"user-agent": "\t" + "x" * 201}, "x" * 200),
    ],
)
async def test_a_session_has_the_browser_as_one_short_line(make, app, sent, stored):
    session = await (await make()).begin(1, params=Params(headers=sent))
    assert (await app.service("sessions").get(session.id))["userAgent"] == stored


async def test_a_store_of_an_earlier_version_goes_on_working(make, app, caplog):
    refused = []

    def refuse(context):
        if "ip" in context.data:
            refused.append(context.data)
            raise BadRequest("no column ip")

    app.service("sessions").hooks(before={"create": [refuse]})
    sessions = await make()
    for _ in range(2):
        assert await goes_on(sessions, await sessions.begin(1, ["pwd"], Params(ip="192.0.2.1")))
    assert (
        caplog.text.count("where people have signed in: no column ip. Add the properties ip") == 1
    )
    assert len(refused) == 1  # it is not asked again
    (record, _) = await app.service("sessions").find()
    assert record["methods"] == "pwd"


async def test_sessions_that_were_renewed_for_ever_end_too(make, app, clock):
    sessions = await make(absolute="40d")
    session = await sessions.begin(1)
    for_ever = {"expiresAt": 10 * session.expires_at}  # by an earlier version
    record = await app.service("sessions").patch(session.id, for_ever)
    assert sessions.session_of(record).expires_at == session.began_at + 40 * 86_400_000
    clock.time += 40 * 86_400 - 1
    assert await goes_on(sessions, session)
    clock.time += 1
    assert not await goes_on(sessions, session)


# -- mistakes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lifetime", "absolute", "grace"])
def test_an_invalid_duration_is_an_error(name):
    with pytest.raises(ValueError, match=rf"^sessions: {name}: 'soon' is not a duration"):
        Sessions(service="sessions", **{name: "soon"})


def test_options_that_contradict_each_other_are_errors():
    with pytest.raises(ValueError, match=r"lifetime is '91d', but a session ends '90d' after"):
        Sessions(service="sessions", lifetime="91d")
    Sessions(service="sessions", lifetime="91d", absolute="91d")
    with pytest.raises(ValueError, match="privacy is 'on'; write True or False"):
        Sessions(service="sessions", privacy="on")


async def test_a_service_that_clients_can_call_is_refused(app):
    with pytest.raises(ValueError, match=r"\['service'\] names the service 'users'"):
        await Sessions(service="users").setup(authentication(app))


async def test_a_missing_service_is_an_error(app):
    with pytest.raises(ValueError, match=r"\['service'\] names the service 'nowhere'"):
        await Sessions(service="nowhere").setup(authentication(app))


async def test_the_record_says_who_got_another_password_and_not_the_id_of_the_call(app, make):
    sessions = await make()
    session = await sessions.begin("a1")

    class Users(MemoryService):
        async def patch(self, id, data, params):
            return {"id": id.lower(), **data}

    app.use("people", Users())
    sessions = await make(users="people")
    session = await sessions.begin("a1")
    other = await sessions.begin("b2")
    await app.service("people").patch("A1", {"email": "ada@example.com"})
    assert await goes_on(sessions, session)
    await app.service("people").patch("A1", {"password": "new"})
    assert not await goes_on(sessions, session)
    assert await goes_on(sessions, other)


@pytest.mark.parametrize("result", [None, {"email": "ada@example.com"}, "done", []])
async def test_the_id_of_the_call_counts_where_the_answer_has_none(app, make, result):
    class Users(MemoryService):
        async def patch(self, id, data, params):
            return result

    app.use("people", Users())
    sessions = await make(users="people")
    session = await sessions.begin("a1")
    await app.service("people").patch("a1", {"password": "new"})
    assert not await goes_on(sessions, session)
