"""The strategy of access tokens: what it reads of a request, and whom it lets in."""

from __future__ import annotations

import asyncio
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.authentication.building import OTHER_SECRET, add_authentication, add_user, make_app
from tests.express.asgi_client import request

from alula import UNSET, App, Params
from alula._user_code import callback_frames, place_of
from alula.adapters.memory import MemoryService
from alula.authentication import JWTStrategy
from alula.authentication._access_tokens import Tokens
from alula.errors import (
    BadRequest,
    GeneralError,
    MethodNotAllowed,
    NotAuthenticated,
    Unavailable,
)
from alula.hooks import disallow


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

    @given(st.lists(st.sampled_from([*" \t:,a\xa0", "Bearer", "bearer", "JWT", "X"]), max_size=6))
    def test_blanks_and_schemes_in_any_order(self, parts):
        value = "".join(parts)
        scheme, _, rest = value.strip(" \t").partition(" ")
        expected = rest.lstrip(" ").partition(" ")[0] if rest else scheme or None
        if rest and scheme.lower().removesuffix(":") not in {"bearer", "jwt"}:
            expected = None
        assert parsed(value) == expected

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

    async def test_hooks_that_users_get_later_see_the_look(self, app):
        token, seen = self.token_for(app), []
        await self.result_of(app, token, provider="rest")
        app.hooks(after={"get": [lambda context: seen.append(context.path)]})
        await self.result_of(app, token, provider="rest")
        app.service("users").hooks(before={"get": [disallow("server")]})
        with pytest.raises(MethodNotAllowed):
            await self.result_of(app, token, provider="rest")
        assert seen == ["users"]

    async def test_a_service_without_hooks_gets_the_same_params(self):
        class Users:
            id = "id"

            async def get(self, id, params):
                params.query["changed"] = params.headers["changed"] = True
                seen.append(params)
                return {"id": id, "name": "Ada"}

        seen = []
        app = make_app(Users())
        given = Params(
            provider="rest", query={"role": "x"}, headers={"a": "b"}, ip="192.0.2.1",
            paginate=False, adapter={"multi": True}, docdb={"a": 1}, authenticated=False,
        )  # fmt: skip
        given.tenant = "acme"
        service = app.service("authentication").service
        credentials = {"strategy": "jwt", "accessToken": self.token_for(app)}
        given.authentication = credentials
        await service.authenticate(credentials, given, "jwt")
        assert given.query == {"role": "x"}
        expected = Params(query={"changed": True}, headers=given.headers, ip="192.0.2.1")
        expected.tenant = "acme"
        assert seen == [expected]
        Params(seen[0]).check_names("users.get(...)")

    async def test_no_hook_gets_the_params_that_users_share(self, app):
        def change(context):
            context.params.query["$select"] = ["id"]
            context.params.tenant = "acme"

        token = self.token_for(app)
        assert (await self.result_of(app, token))["user"]["id"] == 1
        app.service("users").hooks(before={"get": [change]}, after={"get": [change]})
        assert (await self.result_of(app, token))["user"]["id"] == 1

    async def test_a_method_of_one_object_gets_the_params(self):
        async def get(id, params):
            seen.append(params.ip)
            return {"id": id}

        seen, users = [], MemoryService()
        users.get = get
        app = make_app(users)
        await self.result_of(app, self.token_for(app), provider="rest", ip="192.0.2.1")
        assert seen == ["192.0.2.1"]

    async def test_users_that_are_replaced_are_asked_as_they_want_it(self, app):
        class Users:
            id = "id"

            async def get(self, id, params):
                seen.append(params.ip)
                return {"id": id, "name": "Bob"}

        seen, given = [], {"provider": "rest", "ip": "192.0.2.1"}
        assert (await self.result_of(app, self.token_for(app), **given))["user"]["id"] == 1
        await app.unuse("users")
        app.use("users", Users())
        for _ in range(2):
            user = (await self.result_of(app, self.token_for(app), **given))["user"]
            assert user == {"id": "1", "name": "Bob"}
        assert seen == ["192.0.2.1"] * 2

    @pytest.mark.parametrize("is_hooked", [True, False])
    async def test_a_record_that_the_service_keeps_stays_as_it_is(self, is_hooked):
        class Users:
            id = "id"

            def get(self, id, params):  # a plain function
                return ada

        ada = {"id": "1", "password": "hash", "role": "user"}
        app = make_app(Users())
        if is_hooked:
            app.service("users").hooks(around=[lambda context, go_on: go_on()])
        user = (await self.result_of(app, self.token_for(app)))["user"]
        assert user == {"id": "1", "role": "user"}
        user["role"] = "admin"
        assert ada == {"id": "1", "password": "hash", "role": "user"}

    async def test_what_the_users_refuse_is_not_the_fault_of_the_client(self):
        class Users:
            id = "id"

            async def get(self, id, params):
                raise BadRequest(f"{id!r} is not a UUID")

        app = make_app(Users())
        with pytest.raises(GeneralError, match="refuses to read a user") as caught:
            await self.result_of(app, self.token_for(app))
        assert caught.value.__notes__ == ["'users' says: '1' is not a UUID"]
        with pytest.raises(GeneralError, match="refuses to read a user"):
            await app.service("authentication").service.entities.shown({"id": "1"}, "1", Params())

    async def test_a_service_without_a_result_signs_nobody_in(self):
        class Users:
            id = "id"

            async def get(self, id, params):
                return UNSET

        app = make_app(Users())
        with pytest.raises(RuntimeError, match=r"context\.result is UNSET"):
            await self.result_of(app, self.token_for(app))

    async def test_users_of_another_application(self):
        inner = App().use("users", MemoryService([{"id": 1, "password": "hash"}]))
        inner.service("users").hooks(after={"get": [lambda context: seen.append(context.path)]})
        app, seen = App().use("inner", inner), []
        add_authentication(app, service="inner/users")
        assert (await self.result_of(app, self.token_for(app)))["user"] == {"id": 1}
        assert seen == ["users"]

    async def test_users_that_are_set_up_late_are_waited_for(self):
        class Users(MemoryService):
            async def setup(self, app, path):
                await asyncio.sleep(0)
                self.reset([{"id": 1}])

        app = App()
        add_authentication(app)
        app.use("users", MemoryService([{"id": 1}]))
        await app.setup()
        token = self.token_for(app)
        await app.unuse("users")
        with pytest.raises(LookupError):
            await self.result_of(app, token)
        app.use("users", Users())
        assert (await self.result_of(app, token))["user"] == {"id": 1}
        await app.teardown()

    async def test_the_look_is_named_where_it_blocks_the_loop(self):
        class Users:
            id = "id"

            async def get(self, id, params):
                frames.append(place_of(callback_frames(sys._getframe())).what)
                return {"id": id}

        frames = []
        app = make_app(Users())
        await self.result_of(app, self.token_for(app))
        assert frames == ["`get` of service 'users'"]

    async def test_tokens_without_users(self):
        app = make_app(entity=None, strategies=["jwt"])
        service = app.service("authentication").service
        token = service.create_access_token({})
        result = await self.result_of(app, token)
        assert set(result) == {"accessToken", "authentication"}
        assert result["authentication"]["payload"] == service.verify_access_token(token)

    async def test_a_subclass_gets_the_whole_record_and_the_call_does_not(self, app):
        class Strict(JWTStrategy):
            async def authenticate(self, authentication, params):
                result = await super().authenticate(authentication, params)
                seen.append(result)
                return result

        seen = []
        app.service("authentication").service.register("jwt", Strict())
        result = await self.result_of(app, self.token_for(app))
        assert "password" not in result["user"]
        assert seen[0]["user"]["password"]  # what the strategy has returned stays as it was

    async def test_a_method_of_one_strategy_is_called(self, app):
        async def refuse(authentication, params):
            raise NotAuthenticated("Closed")

        await self.result_of(app, self.token_for(app))
        strategy = app.service("authentication").service.strategy("jwt")
        strategy.authenticate = refuse
        with pytest.raises(NotAuthenticated, match="Closed"):
            await self.result_of(app, self.token_for(app))
        del strategy.authenticate
        assert (await self.result_of(app, self.token_for(app)))["user"]["id"] == 1

    async def test_a_method_of_the_class_that_is_replaced_is_called(self, app, monkeypatch):
        async def refuse(strategy, authentication, params):
            raise NotAuthenticated("Closed")

        await self.result_of(app, self.token_for(app))
        monkeypatch.setattr(JWTStrategy, "authenticate", refuse)
        with pytest.raises(NotAuthenticated, match="Closed"):
            await self.result_of(app, self.token_for(app))

    def test_cannot_be_guessed(self):
        assert not JWTStrategy().can_be_guessed
        assert JWTStrategy().account_of({"accessToken": "x"}) is None
