"""Sessions: refresh tokens that are good for one use, and revocation."""

from __future__ import annotations

import asyncio
import logging

import pytest

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication._service import AuthenticationService
from alula.authentication._sessions import Sessions
from alula.errors import NotAuthenticated

SECRET = "a secret of the tests, which is long enough"


class Clock:
    """A clock that tests turn."""

    def __init__(self):
        self.time = 1_800_000_000.0

    def __call__(self):
        return self.time


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def app():
    app = App()
    app.use("sessions", MemoryService(), methods=[])
    app.use("users", MemoryService([{"id": 1, "password": "x"}, {"id": 2}], multi=True))
    return app


def authentication(app, secret=SECRET, users="users"):
    return AuthenticationService(app, secret=secret, service=users)


@pytest.fixture
def make(app, clock):
    async def make(secret=SECRET, users="users", **options):
        sessions = Sessions(service="sessions", now=clock, **options)
        await sessions.setup(authentication(app, secret, users))
        return sessions

    return make


def payload_of(session, **others):
    return {"sid": session.id, "sub": session.user_id, **others}


async def goes_on(sessions, session):
    """Tell whether the access tokens of a session are good."""
    try:
        await sessions.check(payload_of(session))
    except NotAuthenticated:
        return False
    return True


async def test_each_refresh_token_is_good_once_and_brings_the_next(make):
    sessions = await make()
    session = first = await sessions.begin(1)
    assert first.user_id == "1"
    seen = {first.refresh_token}
    for _ in range(5):
        session = await sessions.renew(session.refresh_token)
        assert (session.id, session.user_id) == (first.id, "1")
        assert session.refresh_token not in seen
        seen.add(session.refresh_token)
    assert await goes_on(sessions, first)


async def test_a_refresh_token_that_was_used_ends_the_session(make, caplog):
    sessions = await make()
    first = await sessions.begin(1)
    other = await sessions.begin(1)
    second = await sessions.renew(first.refresh_token)
    with (
        caplog.at_level(logging.WARNING, "alula.authentication"),
        pytest.raises(NotAuthenticated, match="has ended"),
    ):
        await sessions.renew(first.refresh_token)
    with pytest.raises(NotAuthenticated, match="has ended"):
        await sessions.renew(second.refresh_token)
    assert not await goes_on(sessions, first)
    assert await goes_on(sessions, other)
    assert "a refresh token of user '1' was used twice" in caplog.text
    assert first.refresh_token not in caplog.text


async def test_an_old_refresh_token_ends_the_session_too(make):
    sessions = await make(grace=60)
    first = await sessions.begin(1)
    second = await sessions.renew(first.refresh_token)
    await sessions.renew(second.refresh_token)
    with pytest.raises(NotAuthenticated):
        await sessions.renew(first.refresh_token)
    assert not await goes_on(sessions, first)


async def test_of_two_uses_at_once_one_wins_and_the_session_ends(make):
    sessions = await make()
    first = await sessions.begin(1)
    results = await asyncio.gather(
        *(sessions.renew(first.refresh_token) for _ in range(2)), return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in results) == ["NotAuthenticated", "Session"]
    assert not await goes_on(sessions, first)


async def test_within_the_grace_the_last_token_brings_the_same_next_one(make, clock):
    sessions = await make(grace="10s")
    first = await sessions.begin(1)
    second = await sessions.renew(first.refresh_token)
    clock.time += 9
    assert await sessions.renew(first.refresh_token) == second
    third = await sessions.renew(second.refresh_token)
    clock.time += 10
    with pytest.raises(NotAuthenticated):
        await sessions.renew(second.refresh_token)
    assert not await goes_on(sessions, third)


class Overtaken(MemoryService):
    """Another process renews or ends a session just before this one."""

    before_patch = None

    async def patch(self, id, data, params):
        if self.before_patch is not None:
            meanwhile, self.before_patch = self.before_patch, None
            await meanwhile()
        return await super().patch(id, data, params)


@pytest.mark.parametrize("grace", [0, 10])
async def test_who_is_overtaken_by_another_process_has_used_the_token_second(app, clock, grace):
    service = Overtaken()
    app.use("shared", service, methods=[])
    one, other = (Sessions(service="shared", grace=grace, now=clock) for _ in range(2))
    await one.setup(authentication(app))
    await other.setup(authentication(app))
    first = await one.begin(1)
    done = []

    async def meanwhile():
        done.append(await other.renew(first.refresh_token))

    service.before_patch = meanwhile
    if grace:
        assert await one.renew(first.refresh_token) == done[0]
    else:
        with pytest.raises(NotAuthenticated):
            await one.renew(first.refresh_token)
        assert not await goes_on(one, first)


async def test_who_signs_out_while_renewing_is_signed_out(app, clock):
    service = Overtaken()
    app.use("shared", service, methods=[])
    sessions = Sessions(service="shared", now=clock)
    await sessions.setup(authentication(app))
    first = await sessions.begin(1)

    async def meanwhile():
        await sessions.end(payload_of(first))

    service.before_patch = meanwhile
    with pytest.raises(NotAuthenticated):
        await sessions.renew(first.refresh_token)


async def test_what_is_no_refresh_token_of_ours_is_refused_without_asking_the_store(make, app):
    sessions = await make()
    session = await sessions.begin(1)
    sid, turn, tag = session.refresh_token.split(".")
    foreign = await make(secret="another secret, which is as long as that")
    theirs = (await foreign.begin(1)).refresh_token
    asked = []
    app.service("sessions").hooks(before=[lambda context: asked.append(context.method)])
    wrong = [
        None, 5, True, [], {}, b"", "", ".", "..", "a.b.c", sid, f"{sid}.{turn}", f"{sid}.{turn}.",
        f"{sid}.1.{tag}", f"{sid}.00.{tag}", f"{sid}.{turn}.{tag}=", f" {sid}.{turn}.{tag}",
        f"{sid}.{turn}.{tag[:-1]}", f"{sid}.{turn}.{tag}".swapcase(), f"x{sid}.{turn}.{tag}",
        f"{sid}.{turn}.{tag}é", "x" * 1_000_000, [session.refresh_token], {"$ne": ""}, theirs,
    ]  # fmt: skip
    for token in wrong:
        with pytest.raises(NotAuthenticated, match=r"^Invalid refresh token$"):
            await sessions.renew(token)
    assert asked == []
    await sessions.renew(session.refresh_token)


async def test_nothing_that_is_stored_renews_a_session(make, app):
    sessions = await make()
    session = await sessions.begin(1)
    (record,) = await app.service("sessions").find()
    assert record.keys() == {"id", "userId", "turn", "createdAt", "turnedAt", "expiresAt"}
    assert session.refresh_token.rpartition(".")[2] not in str(record)


async def test_a_session_lasts_as_long_as_it_is_renewed(make, clock):
    sessions = await make(lifetime="10m")
    session = await sessions.begin(1)
    for _ in range(3):
        clock.time += 599
        session = await sessions.renew(session.refresh_token)
    clock.time += 599
    assert await goes_on(sessions, session)
    clock.time += 1
    assert not await goes_on(sessions, session)
    with pytest.raises(NotAuthenticated, match="has ended"):
        await sessions.renew(session.refresh_token)


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
        with pytest.raises(NotAuthenticated, match="belongs to no session"):
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
    with pytest.raises(NotAuthenticated):
        await sessions.renew(here.refresh_token)
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


# -- mistakes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lifetime", "grace"])
def test_a_time_that_is_none_is_told(name):
    with pytest.raises(ValueError, match=rf"^sessions: {name}: 'soon' is no duration"):
        Sessions(service="sessions", **{name: "soon"})


async def test_a_service_that_clients_can_call_is_told(app):
    with pytest.raises(ValueError, match=r"\['service'\] names the service 'users', which client"):
        await Sessions(service="users").setup(authentication(app))


async def test_a_service_that_is_missing_is_told(app):
    with pytest.raises(ValueError, match=r"\['service'\] names the service 'nowhere', which is"):
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
