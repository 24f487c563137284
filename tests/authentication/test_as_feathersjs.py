"""What tokens, strategies and settings of FeathersJS applications bring with them."""

from __future__ import annotations

import logging
import time

import jwt as pyjwt
import pytest
from tests.authentication.attacks.target import Target
from tests.authentication.building import SECRET, add_user, login, make_app

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService, AuthenticationStrategy
from alula.errors import NotAuthenticated

AUDIENCE = "https://yourdomain.com"


def token(typ="JWT", **claims):
    """A token as jsonwebtoken signs it: typ is JWT where nothing else is said."""
    claims = {"sub": "1", "iat": int(time.time()), "exp": int(time.time()) + 60, **claims}
    return pyjwt.encode(claims, SECRET, "HS256", headers={"typ": typ})


async def is_good(app, text):
    try:
        await app.service("authentication").create({"strategy": "jwt", "accessToken": text})
    except NotAuthenticated as error:
        return error.message
    return True


async def started(**options):
    app = make_app(**options)
    await app.setup()
    await add_user(app)
    return app


# -- the header --------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["Bearer:", "bearer:", "JWT:", "Bearer", "Bearer: "])
async def test_a_colon_behind_the_scheme_is_taken(scheme):
    target = await Target().start()
    answer = await target.opens(f"{scheme} {await target.token()}")
    assert answer.status == 200


@pytest.mark.parametrize("scheme", ["Bearer::", ":Bearer", "Basic:", "Bearers:"])
async def test_anything_else_is_another_scheme(scheme):
    target = await Target().start()
    answer = await target.opens(f"{scheme} {await target.token()}")
    assert answer.status == 401


# -- tokens ------------------------------------------------------------------------------------


async def test_tokens_of_partial_options_are_refused_by_default():
    app = await started()
    assert await is_good(app, token(aud=AUDIENCE)) == "jwt type invalid. expected: access"
    expected = f"jwt audience invalid. expected: {AUDIENCE}"
    assert await is_good(app, token("access")) == expected


async def test_and_accepted_where_the_options_say_so():
    app = await started(token_types=("access", "JWT"), audience=None)
    for text in (token(), token(aud=AUDIENCE), token("access"), token("access", aud=["a", "b"])):
        assert await is_good(app, text) is True
    assert await is_good(app, token("refresh")) == "jwt type invalid. expected: access or JWT"
    assert await is_good(app, token(exp=1)) == "jwt expired"
    forged = token()[:-2] + "AA"
    assert await is_good(app, forged) == "invalid signature"


async def test_new_tokens_have_the_first_type_and_no_audience():
    app = await started(token_types=["JWT", "access"], audience=None)
    answer = await app.service("authentication").create(login())
    text = answer["accessToken"]
    assert pyjwt.get_unverified_header(text)["typ"] == "JWT"
    assert "aud" not in answer["authentication"]["payload"]
    assert await is_good(app, text) is True


@pytest.mark.parametrize("types", [(), [], "JWT"])
async def test_types_are_a_list_of_names(types):
    with pytest.raises(ValueError, match=r"^token_types is .*\['access', 'JWT'\]$"):
        await started(token_types=types)


@pytest.mark.parametrize(
    ("one", "other", "mixed_up"),
    [
        ({"audience": None}, {"audience": "b"}, True),
        ({"audience": "a"}, {"audience": None}, True),
        ({"audience": "a"}, {"audience": "b"}, False),
        ({"token_types": ["a"]}, {"token_types": ["b"]}, False),
        ({"token_types": ["a"]}, {"token_types": ["b", "a"]}, True),
        ({"audience": ["a", "b"]}, {"audience": ["b"]}, True),
    ],
)
async def test_services_for_different_users_are_still_distinguished(one, other, mixed_up):
    app = App()
    for path, options in (("first", one), ("second", other)):
        app.use(f"{path}-users", MemoryService())
        service = AuthenticationService(app, secret=SECRET, service=f"{path}-users", **options)
        app.use(path, service)
    if not mixed_up:
        await app.setup()
        return
    with pytest.raises(ValueError, match="have different users"):
        await app.setup()


# -- strategies --------------------------------------------------------------------------------


class WithoutAuthentication(AuthenticationStrategy):
    """A strategy that says who, and not how."""

    async def authenticate(self, authentication, params):
        return {"user": await self.app.service("users").get(1), "authenticated": True}


@pytest.mark.parametrize("sessions", [None, "sessions"])
async def test_a_result_without_authentication_makes_a_token(sessions):
    app = make_app(strategies=["jwt", "local", "plain"], sessions=sessions)
    app.use("sessions", MemoryService(), methods=[])
    service = app.service("authentication").service
    service.register("plain", WithoutAuthentication())
    await app.setup()
    await add_user(app)
    answer = await app.service("authentication").create({"strategy": "plain"}, provider="rest")
    assert set(answer["authentication"]) == {"payload"}
    assert answer["user"] == {"id": 1, "email": "ada@example.com"}
    assert await is_good(app, answer["accessToken"]) is True
    proof = {"strategy": "plain"}
    params = {"provider": "rest", "authentication": proof, "query": {"everywhere": "true"}}
    answer = await app.service("authentication").remove(None, params)
    assert answer["user"]["id"] == 1
    assert await app.service("sessions").find() == []


@pytest.mark.parametrize("data", [login(), {"strategy": "plain"}])
async def test_a_record_without_the_id_that_is_configured_is_a_401(data, caplog):
    app = make_app(strategies=["jwt", "local", "plain"], entity_id="uuid")
    app.service("authentication").service.register("plain", WithoutAuthentication())
    await app.setup()
    await add_user(app)
    with caplog.at_level(logging.ERROR), pytest.raises(NotAuthenticated) as caught:
        await app.service("authentication").create(data, provider="rest")
    assert caught.value.message == "Can not set subject from user.uuid"
    assert "a record of 'users' has no 'uuid'" in caplog.text
    assert "entity_id=..." in caplog.text
