"""Refresh tokens: good for one use, rotated by it, and their reuse ends the session."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.authentication.building import SECRET, app_with_sessions, goes_on, payload_of

from alula import Params
from alula.adapters.memory import MemoryService
from alula.authentication import Attempt, AuthenticationService, Sessions, authenticate
from alula.authentication._refresh_tokens import RefreshTokens
from alula.errors import NotAuthenticated


@pytest.fixture
def app():
    return app_with_sessions()


@pytest.fixture
def make(app, clock):
    async def make(secret=SECRET, service="sessions", **options):
        authentication = AuthenticationService(app, secret=secret)
        tokens = RefreshTokens(Sessions(service=service, now=clock, **options))
        await tokens.sessions.setup(authentication)
        await tokens.setup(authentication)
        return tokens

    return make


async def use(tokens, session):
    """Rotate the refresh token that a session had."""
    return await tokens.rotate(tokens.create(session))


async def test_each_refresh_token_is_good_once_and_brings_the_next(make):
    tokens = await make()
    session = first = await tokens.sessions.begin(1)
    assert first.user_id == "1"
    seen = {tokens.create(first)}
    for _ in range(5):
        session = await use(tokens, session)
        assert (session.id, session.user_id) == (first.id, "1")
        assert tokens.create(session) not in seen
        seen.add(tokens.create(session))
    assert await goes_on(tokens.sessions, first)


async def test_a_refresh_token_that_was_used_ends_the_session(make, caplog):
    tokens = await make()
    first = await tokens.sessions.begin(1)
    other = await tokens.sessions.begin(1)
    second = await use(tokens, first)
    with (
        caplog.at_level(logging.WARNING, "alula.authentication"),
        pytest.raises(NotAuthenticated, match="has ended"),
    ):
        await use(tokens, first)
    with pytest.raises(NotAuthenticated, match="has ended"):
        await use(tokens, second)
    assert not await goes_on(tokens.sessions, first)
    assert await goes_on(tokens.sessions, other)
    assert "a refresh token of user '1' was used twice" in caplog.text
    assert tokens.create(first) not in caplog.text


async def test_an_old_refresh_token_ends_the_session_too(make):
    tokens = await make(grace=60)
    first = await tokens.sessions.begin(1)
    second = await use(tokens, first)
    await use(tokens, second)
    with pytest.raises(NotAuthenticated):
        await use(tokens, first)
    assert not await goes_on(tokens.sessions, first)


async def test_of_two_uses_at_once_one_wins_and_the_session_ends(make):
    tokens = await make()
    first = await tokens.sessions.begin(1)
    results = await asyncio.gather(*(use(tokens, first) for _ in range(2)), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["NotAuthenticated", "Session"]
    assert not await goes_on(tokens.sessions, first)


async def test_within_the_grace_the_last_token_brings_the_same_next_one(make, clock):
    tokens = await make(grace="10s")
    first = await tokens.sessions.begin(1)
    second = await use(tokens, first)
    clock.time += 9
    assert await use(tokens, first) == second
    third = await use(tokens, second)
    clock.time += 10
    with pytest.raises(NotAuthenticated):
        await use(tokens, second)
    assert not await goes_on(tokens.sessions, third)


class Overtaken(MemoryService):
    """Another process renews or ends a session just before this one."""

    before_patch = None

    async def patch(self, id, data, params):
        if self.before_patch is not None:
            meanwhile, self.before_patch = self.before_patch, None
            await meanwhile()
        return await super().patch(id, data, params)


@pytest.mark.parametrize("grace", [0, 10])
async def test_who_is_overtaken_by_another_process_has_used_the_token_second(app, make, grace):
    service = Overtaken()
    app.use("shared", service, methods=[])
    one, other = [await make(service="shared", grace=grace) for _ in range(2)]
    first = await one.sessions.begin(1)
    done = []

    async def meanwhile():
        done.append(await use(other, first))

    service.before_patch = meanwhile
    if grace:
        assert await use(one, first) == done[0]
    else:
        with pytest.raises(NotAuthenticated):
            await use(one, first)
        assert not await goes_on(one.sessions, first)


async def test_who_signs_out_while_renewing_is_signed_out(app, make):
    service = Overtaken()
    app.use("shared", service, methods=[])
    tokens = await make(service="shared")
    first = await tokens.sessions.begin(1)

    async def meanwhile():
        await tokens.sessions.end(payload_of(first))

    service.before_patch = meanwhile
    with pytest.raises(NotAuthenticated):
        await use(tokens, first)


async def test_what_is_no_refresh_token_of_ours_is_refused_without_asking_the_store(make, app):
    tokens = await make()
    session = await tokens.sessions.begin(1)
    token = tokens.create(session)
    sid, rotation, tag = token.split(".")
    foreign = await make(secret="another secret, which is as long as that")
    theirs = foreign.create(await foreign.sessions.begin(1))
    asked = []
    app.service("sessions").hooks(before=[lambda context: asked.append(context.method)])
    wrong = [
        None, 5, True, [], {}, b"", "", ".", "..", "a.b.c", sid, f"{sid}.{rotation}",
        f"{sid}.{rotation}.", f"{sid}.1.{tag}", f"{sid}.00.{tag}", f"{sid}.{rotation}.{tag}=",
        f" {sid}.{rotation}.{tag}", f"{sid}.{rotation}.{tag[:-1]}", token.swapcase(), f"x{token}",
        f"{token}é", "x" * 1_000_000, [token], {"$ne": ""}, theirs,
    ]  # fmt: skip
    for each in wrong:
        with pytest.raises(NotAuthenticated, match=r"^Invalid refresh token$"):
            await tokens.rotate(each)
    assert asked == []
    await tokens.rotate(token)


async def test_nothing_that_is_stored_renews_a_session(make, app):
    tokens = await make()
    session = await tokens.sessions.begin(1)
    (record,) = await app.service("sessions").find()
    assert record.keys() == {
        "id",
        "userId",
        "rotation",
        "createdAt",
        "rotatedAt",
        "expiresAt",
        "methods",
        "ip",
        "userAgent",
    }
    assert tokens.create(session).rpartition(".")[2] not in str(record)


async def test_a_session_lasts_as_long_as_it_is_renewed(make, clock):
    tokens = await make(lifetime="10m")
    session = await tokens.sessions.begin(1)
    for _ in range(3):
        clock.time += 599
        session = await use(tokens, session)
    clock.time += 599
    assert await goes_on(tokens.sessions, session)
    clock.time += 1
    assert not await goes_on(tokens.sessions, session)
    with pytest.raises(NotAuthenticated, match="has ended"):
        await use(tokens, session)


async def test_a_session_ends_in_the_end_however_often_it_is_renewed(make, clock):
    tokens, days = await make(), 0
    session, began_at = await tokens.sessions.begin(1), clock.time
    for days in range(1, 90):
        clock.time = began_at + days * 86_400
        session = await use(tokens, session)
        assert session.expires_at == min(days + 30, 90) * 86_400_000 + session.began_at
    clock.time = began_at + 91 * 86_400
    with pytest.raises(NotAuthenticated, match="has ended"):
        await use(tokens, session)
    assert not await goes_on(tokens.sessions, session)


async def test_a_refresh_token_can_be_the_credentials_of_any_call(app, clock):
    app.use("authentication", AuthenticationService(app, secret=SECRET, sessions="sessions"))
    app.service("users").hooks(before={"find": [authenticate("refresh")]})
    await app.setup()
    service = app.service("authentication").service
    (tokens,) = [each for each in service.extensions if isinstance(each, RefreshTokens)]
    session = await tokens.sessions.begin(1)
    credentials = {"strategy": "refresh", "refreshToken": tokens.create(session)}
    await app.service("users").find(provider="rest", authentication=credentials)
    assert (await tokens.sessions.get(session.id))["rotation"] == 1


async def test_without_a_session_a_response_has_no_refresh_token(make):
    attempt = Attempt({}, Params(), response={"accessToken": "..."})
    assert await (await make()).response(attempt) == {"accessToken": "..."}


async def test_a_session_that_was_signed_out_is_not_renewed(make):
    tokens = await make()
    session = await tokens.sessions.begin(1)
    await tokens.sessions.end(payload_of(session))
    with pytest.raises(NotAuthenticated):
        await use(tokens, session)
