"""The strategy of access tokens: what it reads of a request, and whom it lets in."""

from __future__ import annotations

import pytest
from tests.authentication.building import OTHER_SECRET, add_user, make_app
from tests.express.asgi_client import request

from alula import Params
from alula.authentication import JWTStrategy
from alula.authentication._access_tokens import Tokens
from alula.errors import NotAuthenticated, Unavailable


def parsed(*values, strategy=None, name="authorization"):
    """Return the token that is read from headers."""
    strategy = strategy or JWTStrategy()
    strategy.name = "jwt"
    found = strategy.parse(
        request(headers=[("host", "x"), *((name, each) for each in values)]), None
    )
    if found is None:
        return None
    assert found["strategy"] == "jwt"
    return found["accessToken"]


class TestParse:
    @pytest.mark.parametrize(
        ("value", "token"),
        [
            ("Bearer a.b.c", "a.b.c"),
            ("bearer a.b.c", "a.b.c"),
            ("BEARER a.b.c", "a.b.c"),
            ("JWT a.b.c", "a.b.c"),
            ("Bearer   a.b.c", "a.b.c"),
            ("  Bearer a.b.c  ", "a.b.c"),
            ("\tBearer a.b.c\t", "a.b.c"),
            ("a.b.c", "a.b.c"),
            ("Bearer a.b.c extra", "a.b.c"),
        ],
    )
    def test_reads_a_token(self, value, token):
        assert parsed(value) == token

    @pytest.mark.parametrize(
        ("value", "token"),
        [
            ("Bearer", "Bearer"),
            ("Bearer ", "Bearer"),
            ("Bearer Bearer a.b.c", "Bearer"),
            ("Bearer,a.b.c", "Bearer,a.b.c"),
            ("Bearer\ta.b.c", "Bearer\ta.b.c"),
            ("Bearer\xa0a.b.c", "Bearer\xa0a.b.c"),
            ("Bearer \xa0a.b.c", "\xa0a.b.c"),
            ("Bearer a\tb", "a\tb"),
        ],
    )
    async def test_what_is_no_token_does_not_become_one(self, value, token):
        assert parsed(value) == token
        app = make_app()
        with pytest.raises(NotAuthenticated):
            await app.service("authentication").create({"strategy": "jwt", "accessToken": token})

    @pytest.mark.parametrize(
        "value", ["Digest a", "Basic a.b.c", "XBearerX a.b.c", "Bear er a.b.c", "Bea\xadrer a.b.c"]
    )
    def test_leaves_other_schemes_alone(self, value):
        assert parsed(value) is None

    @pytest.mark.parametrize("values", [[], [""], [" \t "]])
    def test_no_header_or_an_empty_one(self, values):
        assert parsed(*values) is None

    def test_two_headers_prove_nothing(self):
        two = [("authorization", "Bearer a.b.c")] * 2
        proof = JWTStrategy().parse(request(headers=two), None)
        assert proof == {"strategy": "", "accessToken": None}

    def test_header_and_schemes_are_settings(self):
        strategy = JWTStrategy(header="X-Token", schemes=["Token"])
        assert parsed("token abc", strategy=strategy, name="x-token") == "abc"
        assert parsed("Bearer abc", strategy=strategy, name="x-token") is None
        assert parsed("token abc", strategy=strategy) is None


class TestAuthenticate:
    @pytest.fixture
    async def app(self):
        app = make_app()
        await add_user(app, role="admin")
        return app

    def token_for(self, app, subject="1", **claims):
        return app.service("authentication").service.create_access_token(claims, subject)

    async def result_of(self, app, token, **params):
        service = app.service("authentication").service
        proof = {"strategy": "jwt", "accessToken": token}
        return await service.authenticate(proof, Params(params), "jwt")

    async def test_the_user_of_a_token(self, app):
        token = self.token_for(app, extra=1)
        result = await self.result_of(app, token)
        assert result["accessToken"] == token
        assert result["user"] == {"id": 1, "email": "ada@example.com", "role": "admin"}
        proof = result["authentication"]
        assert (proof["strategy"], proof["accessToken"]) == ("jwt", token)
        assert (proof["payload"]["sub"], proof["payload"]["extra"]) == ("1", 1)

    @pytest.mark.parametrize("token", [None, "", 0, False])
    async def test_no_token(self, app, token):
        with pytest.raises(NotAuthenticated, match="No access token"):
            await self.result_of(app, token)

    @pytest.mark.parametrize("token", [5, ["a"], {"$ne": 1}, [], {}, True])
    async def test_a_token_that_is_no_text(self, app, token):
        with pytest.raises(NotAuthenticated, match="jwt must be a string"):
            await self.result_of(app, token)

    async def test_a_token_of_somebody_else(self, app):
        token = Tokens(OTHER_SECRET).create({}, "1")
        with pytest.raises(NotAuthenticated, match="invalid signature"):
            await self.result_of(app, token)

    @pytest.mark.parametrize("subject", ["2", "999", "x", "1 ", "undefined", "$ne"])
    async def test_a_user_who_is_not_there(self, app, subject):
        with pytest.raises(NotAuthenticated) as caught:
            await self.result_of(app, self.token_for(app, subject))
        assert caught.value.to_dict() == {
            "name": "NotAuthenticated",
            "message": "The user of these credentials does not exist",
            "code": 401,
            "className": "not-authenticated",
        }

    async def test_a_user_who_was_removed_meanwhile(self, app):
        token = self.token_for(app)
        await self.result_of(app, token)
        await app.service("users").remove(1)
        with pytest.raises(NotAuthenticated):
            await self.result_of(app, token)

    async def test_a_user_who_was_changed_meanwhile(self, app):
        token = self.token_for(app)
        await self.result_of(app, token)
        await app.service("users").patch(1, {"role": "user"})
        assert (await self.result_of(app, token))["user"]["role"] == "user"

    async def test_a_database_that_is_away_is_no_wrong_token(self, app):
        def away(context):
            raise Unavailable("not now")

        app.service("users").hooks(before={"get": [away]})
        with pytest.raises(Unavailable):
            await self.result_of(app, self.token_for(app))

    async def test_the_look_at_a_user_is_an_internal_call(self, app):
        seen = []
        app.service("users").hooks(before={"get": [lambda context: seen.append(context.params)]})
        await self.result_of(
            app, self.token_for(app), provider="rest", query={"role": "x"}, tenant="acme",
            adapter={"multi": True},
        )  # fmt: skip
        assert [(each.provider, each.query, each.tenant) for each in seen] == [(None, {}, "acme")]
        assert "adapter" not in seen[0]

    async def test_tokens_without_users(self):
        app = make_app(entity=None, strategies=["jwt"])
        service = app.service("authentication").service
        token = service.create_access_token({})
        result = await self.result_of(app, token)
        assert set(result) == {"accessToken", "authentication"}
        assert result["authentication"]["payload"] == service.verify_access_token(token)

    def test_cannot_be_guessed(self):
        assert not JWTStrategy().can_be_guessed
        assert JWTStrategy().account_of({"accessToken": "x"}) is None
