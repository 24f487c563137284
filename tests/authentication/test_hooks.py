"""The hooks: who is calling, and passwords on their way in."""

from __future__ import annotations

from functools import partial

import pytest
from tests.authentication.building import (
    BCRYPT,
    Notes,
    add_authentication,
    add_user,
    app_with_notes,
    login,
    proof_for,
    quick_passwords,
)

from alula import UNSET, App, Params
from alula.adapters.memory import MemoryService
from alula.authentication import (
    AuthenticationStrategy,
    HashedPassword,
    authenticate,
    hash_password,
    password_hash,
)
from alula.common_hooks import only_own
from alula.errors import BadRequest, Forbidden, MethodNotAllowed, NotAuthenticated, Unavailable
from alula.hooks import annotate_hook, hook_metadata


@pytest.fixture
async def app():
    return await app_with_notes()


async def test_a_hook_that_wraps_it_runs_around_it(app):
    inner, trace = authenticate("jwt"), []

    async def admins_only(context, next):
        async def go_on():
            trace.append(context.params.user["id"])
            if context.params.user.get("role") != "admin":
                raise Forbidden("Admins only")
            await next()

        await inner(context, go_on)

    app.service("notes").hooks(around=[annotate_hook(admins_only, **hook_metadata(inner))])
    await add_user(app, "bob@example.com")
    found = await app.service("notes").find(provider="rest", authentication=proof_for(app))
    assert found["user"]["id"] == 1
    with pytest.raises(Forbidden):
        await app.service("notes").find(provider="rest", authentication=proof_for(app, "2"))
    with pytest.raises(NotAuthenticated):
        await app.service("notes").find(provider="rest")
    assert trace == [1, 2]


class TestOptionalAuthenticate:
    @pytest.fixture(autouse=True, params=["around", "before"])
    def _hook(self, request, app):
        app.service("notes").hooks({request.param: [authenticate("jwt", optional=True)]})

    async def test_a_call_without_credentials_has_no_user(self, app):
        found = await app.service("notes").find(provider="rest")
        assert (found["user"], found["authenticated"]) == (None, None)

    async def test_says_who_is_calling(self, app):
        found = await app.service("notes").find(provider="rest", authentication=proof_for(app))
        assert (found["user"]["id"], found["authenticated"]) == (1, True)

    @pytest.mark.parametrize(
        "proof", [{}, {"strategy": "jwt"}, {"strategy": "jwt", "accessToken": "x"}]
    )
    async def test_wrong_credentials_are_refused(self, app, proof):
        with pytest.raises(NotAuthenticated):
            await app.service("notes").find(provider="rest", authentication=proof)

    async def test_a_hook_that_needs_a_user_still_refuses_strangers(self, app):
        app.service("notes").hooks(before={"find": [only_own("userId")]})
        with pytest.raises(NotAuthenticated):
            await app.service("notes").find(provider="rest")


class TestAuthenticate:
    @pytest.fixture(autouse=True, params=["around", "before"])
    def _hook(self, request, app):
        app.service("notes").hooks({request.param: [authenticate("jwt")]})

    async def test_says_who_is_calling(self, app):
        proof = proof_for(app)
        found = await app.service("notes").find(
            provider="rest", authentication=proof, query={"a": "b"}
        )
        assert found["user"] == {"id": 1, "email": "ada@example.com", "role": "admin"}
        assert found["authentication"]["payload"]["sub"] == "1"
        assert found["authentication"]["accessToken"] == proof["accessToken"]
        assert (found["authenticated"], found["provider"], found["query"]) == (
            True, "rest", {"a": "b"},
        )  # fmt: skip

    async def test_refuses_who_proves_nothing(self, app):
        with pytest.raises(NotAuthenticated) as caught:
            await app.service("notes").find(provider="rest")
        assert (caught.value.message, caught.value.data) == ("Not authenticated", None)

    @pytest.mark.parametrize("proof", [{}, {"strategy": "local"}, {"strategy": "jwt"}])
    async def test_refuses_a_proof_that_is_none(self, app, proof):
        with pytest.raises(NotAuthenticated):
            await app.service("notes").find(provider="rest", authentication=proof)

    async def test_internal_calls_pass(self, app):
        found = await app.service("notes").find()
        assert (found["user"], found["authenticated"]) == (None, None)

    async def test_internal_calls_with_a_proof_are_checked(self, app):
        found = await app.service("notes").find(authentication=proof_for(app))
        assert found["user"]["id"] == 1
        with pytest.raises(NotAuthenticated):
            await app.service("notes").find(authentication=proof_for(app, "9"))

    async def test_what_server_code_says_counts(self, app):
        found = await app.service("notes").find(provider="rest", authenticated=True, user={"id": 7})
        assert found["user"] == {"id": 7}

    @pytest.mark.parametrize("value", [1, "true", "yes", [1]])
    async def test_only_true_is_true(self, app, value):
        with pytest.raises(NotAuthenticated):
            await app.service("notes").find(provider="rest", authenticated=value)

    async def test_does_not_check_twice(self, app):
        app.service("notes").hooks(before=[authenticate("jwt", "local")])
        seen = []
        app.service("users").hooks(before={"get": [lambda context: seen.append(1)]})
        await app.service("notes").find(provider="rest", authentication=proof_for(app))
        assert seen == [1]

    async def test_what_another_strategy_has_checked_does_not_count(self, app):
        app.service("notes").hooks(before=[authenticate("other")])
        with pytest.raises(NotAuthenticated, match="strategy not allowed"):
            await app.service("notes").find(provider="rest", authentication=proof_for(app))

    async def test_what_another_service_has_checked_does_not_count(self, app):
        add_authentication(app, "second", audience="second")
        app.service("notes").hooks(before=[authenticate(service="second", strategies=["jwt"])])
        with pytest.raises(NotAuthenticated, match=r"jwt audience invalid. expected: second"):
            await app.service("notes").find(provider="rest", authentication=proof_for(app))

    async def test_the_user_of_another_service_does_not_stay(self, app):
        class ByKey(AuthenticationStrategy):
            async def authenticate(self, authentication, params):
                return {"authentication": {"strategy": self.name}}

        add_authentication(app, "second", audience="second").register("key", ByKey())

        def with_key(context):
            assert context.params.user["id"] == 1
            context.params.authentication = {"strategy": "key"}

        second = authenticate(service="second", strategies=["key"])
        app.service("notes").hooks(before=[with_key, second])
        found = await app.service("notes").find(provider="rest", authentication=proof_for(app))
        assert found["user"] is None
        assert found["authentication"] == {"strategy": "key"}

    async def test_params_of_the_caller_stay_as_they_are(self, app):
        params = Params(provider="rest", authentication=proof_for(app))
        await app.service("notes").find(params)
        assert "user" not in params
        assert "payload" not in params.authentication

    async def test_params_that_a_hook_made_a_mapping_of(self, app):
        def spread(context):
            context.params = {**context.params}

        app.hooks(before=[spread])
        found = await app.service("notes").find(provider="rest", authentication=proof_for(app))
        assert found["user"]["id"] == 1

    async def test_the_users_themselves_can_be_behind_it(self, app):
        app.service("users").hooks(
            around={"find": [authenticate("jwt")], "get": [authenticate("jwt")]}
        )
        proof = proof_for(app)
        found = await app.service("notes").find(provider="rest", authentication=proof)
        assert found["user"]["id"] == 1
        user = await app.service("users").get(1, provider="rest", authentication=proof)
        assert user["id"] == 1
        assert (await app.service("authentication").create(login(), provider="rest"))["user"]
        with pytest.raises(NotAuthenticated):
            await app.service("users").get(1, provider="rest")


class TestAuthenticateOptions:
    @pytest.mark.parametrize(
        ("names", "options"),
        [((), {}), ((), {"strategies": []}), ((), {"service": "a"})],
    )
    def test_a_strategy_is_needed(self, names, options):
        with pytest.raises(TypeError, match=r"authenticate\(\) needs at least one strategy"):
            authenticate(*names, **options)

    @pytest.mark.parametrize(
        ("names", "options"),
        [((["jwt"],), {}), ((None,), {}), ((), {"strategies": "jwt"}), ((), {"strategies": [5]})],
    )
    def test_strategies_are_names(self, names, options):
        with pytest.raises(TypeError, match="takes names of strategies: authenticate"):
            authenticate(*names, **options)

    @pytest.mark.parametrize("kind", ["after", "error"])
    async def test_is_no_hook_for_afterwards(self, app, kind):
        check = authenticate("jwt")
        with pytest.raises(TypeError, match=rf"{kind} hook .*authenticate.* as before or around"):
            app.service("notes").hooks({kind: [check]})
        app.service("notes").hooks({kind: [partial(check)]})
        if kind == "error":
            app.service("notes").hooks(before=[lambda context: 1 / 0])
        with pytest.raises(RuntimeError, match="before or an around hook"):
            await app.service("notes").find()

    async def test_a_service_that_is_not_there(self):
        app = App().use("notes", Notes())
        app.service("notes").hooks(before=[authenticate("jwt")])
        with pytest.raises(LookupError, match="no authentication service at 'authentication'"):
            await app.service("notes").find()

    async def test_a_path_that_leads_to_something_else(self, app):
        app.service("notes").hooks(before=[authenticate(service="users", strategies=["jwt"])])
        with pytest.raises(LookupError, match="no authentication service at 'users'"):
            await app.service("notes").find()

    async def test_names_and_strategies_add_up(self, app):
        class Other(AuthenticationStrategy):
            async def authenticate(self, authentication, params):
                return {"authentication": {"strategy": "other"}, "user": {"id": 9}}

        app.service("authentication").service.register("other", Other())
        app.service("notes").hooks(before=[authenticate("jwt", strategies=["other"])])
        for proof, found in ((proof_for(app), 1), ({"strategy": "other"}, 9)):
            result = await app.service("notes").find(provider="rest", authentication=proof)
            assert result["user"]["id"] == found


class TestHashPassword:
    @pytest.fixture(autouse=True, params=["before", "around"])
    def _hook(self, request, app):
        hooks = [hash_password("password")]
        app.service("users").hooks({request.param: {"create": hooks, "patch": hooks}})

    def stored(self, app, id=2):
        return app.service("users").service._store[str(id)]

    async def test_new_passwords_are_hashed(self, app):
        data = {"email": "bob@example.com", "password": "right"}
        await app.service("users").create(data, provider="rest")
        assert self.stored(app)["password"].startswith("$argon2id$")
        assert type(self.stored(app)["password"]) is str
        assert data["password"] == "right"
        assert await app.service("authentication").create(login("bob@example.com"))

    async def test_data_without_a_password_stays_as_it_is(self, app):
        await app.service("users").patch(1, {"role": "user"})
        assert self.stored(app, 1)["role"] == "user"
        await app.service("authentication").create(login())

    @pytest.mark.parametrize("password", [None, "", 5, ["right"], {"$set": "x"}, "x" * 4097])
    async def test_what_can_be_no_password_is_refused(self, app, password):
        with pytest.raises(BadRequest, match="password has to be a text"):
            await app.service("users").create({"email": "b", "password": password})
        assert len(app.service("users").service._store) == 1

    @pytest.mark.parametrize("hashed", [BCRYPT, "$argon2id$v=19$m=4194304,t=99,p=1$c2FsdA$aGFzaA"])
    async def test_a_hash_that_a_client_sends_is_a_password(self, app, hashed):
        await app.service("users").create({"email": "b", "password": hashed}, provider="rest")
        assert self.stored(app)["password"] != hashed
        with pytest.raises(NotAuthenticated):
            await app.service("authentication").create(login("b"))
        assert await app.service("authentication").create(login("b", hashed))

    async def test_lists(self, app):
        data = [{"email": "b", "password": "right"}, {"email": "c"}]
        await app.service("users").create(data, adapter={"multi": True})
        assert self.stored(app)["password"].startswith("$argon2id$")
        assert "password" not in self.stored(app, 3)

    async def test_lists_that_are_refused_cost_nothing(self, app):
        strategy = app.service("authentication").service.strategy("local")
        strategy.hash_password = None  # a call would fail in another way
        with pytest.raises(MethodNotAllowed, match="Can not create multiple entries"):
            await app.service("users").create([{"password": "a"}] * 1000)

    @pytest.mark.parametrize("multi", [False, True])
    async def test_a_list_for_one_record_costs_nothing(self, app, multi):
        strategy = app.service("authentication").service.strategy("local")
        strategy.hash_password = None  # a call would fail in another way
        with pytest.raises(BadRequest, match="data of patch must be an object, not a list"):
            await app.service("users").patch(1, [{"password": "a"}], adapter={"multi": multi})

    async def test_a_password_that_an_operator_sets(self, app):
        class Operated:
            async def patch(self, id, data, params):
                return data

        app.use("operated", Operated())
        app.service("operated").hooks(before=[hash_password("password")])
        data = {"$set": {"password": "right", "a": 1}, "$inc": {"n": 1}, "$odd": 5, "b": 2}
        result = await app.service("operated").patch(1, data)
        assert await quick_passwords().check("right", result["$set"].pop("password"))
        assert result == {"$set": {"a": 1}, "$inc": {"n": 1}, "$odd": 5, "b": 2}
        with pytest.raises(BadRequest, match=r"not changed by \$unset"):
            await app.service("operated").patch(1, {"$unset": {"password": ""}})
        for renamed in ({"password": "bio"}, {"a": "b", "bio": "password"}):
            with pytest.raises(BadRequest, match=r"not changed by \$rename"):
                await app.service("operated").patch(1, {"$rename": renamed})
        assert await app.service("operated").patch(1, {"$rename": {"a": "b"}})
        with pytest.raises(BadRequest, match="password has to be a text"):
            await app.service("operated").patch(1, {"$set": {"password": None}})

    @pytest.mark.parametrize(
        "data",
        [
            {"password.x": 1},
            {"$set": {"password.x": 1}},
            {"$push": {"password.0": 1}},
            {"$rename": {"bio": "password.x"}},
        ],
    )
    async def test_no_part_of_a_password_is_set(self, app, data):
        # MongoDB would refuse it with a text that has the hash, and that text would be logged.
        with pytest.raises(BadRequest, match="without parts"):
            await app.service("users").patch(1, data)

    @pytest.mark.parametrize("password", ["right", HashedPassword(BCRYPT)])
    async def test_a_call_that_is_tried_again_hashes_once(self, app, password):
        attempts = []

        async def retry(context, next):
            try:
                await next()
            except Unavailable:
                await next()

        def fail_once(context):
            attempts.append(context.data["password"])
            if len(attempts) == 1:
                raise Unavailable("try again")

        app.service("users").hooks(around=[retry], before={"patch": [fail_once]})
        await app.service("users").patch(1, {"password": password})
        assert attempts == [self.stored(app, 1)["password"]] * 2
        await app.service("authentication").create(login())

    @pytest.mark.parametrize("data", ["text", 5, [5, "x"], None])
    async def test_data_that_is_no_mapping_is_left_to_the_service(self, app, data):
        class Anything:
            async def create(self, data, params):
                return {"got": data}

        app.use("anything", Anything())
        app.service("anything").hooks(before=[hash_password("password")])
        assert await app.service("anything").create(data) == {"got": data}


class TestPasswordHash:
    async def resolved(self, app, value, **options):
        class Context:
            pass

        Context.app, Context.params = app, Params(provider=options.pop("provider", None))
        Context.method = options.pop("method", "create")
        return await password_hash("local", **options)(value, {}, Context)

    async def test_resolves_to_a_hash(self, app):
        hashed = await self.resolved(app, "right")
        assert type(hashed) is str
        assert await quick_passwords().check("right", hashed)

    async def test_nothing_stays_nothing(self, app):
        assert await self.resolved(app, UNSET) is UNSET

    async def test_only_own_code_makes_users_without_a_password(self, app):
        assert await self.resolved(app, None) is None
        for call in ({"provider": "rest"}, {"method": "patch"}):
            with pytest.raises(BadRequest):
                await self.resolved(app, None, **call)

    async def test_leaves_hashes_of_ours_alone(self, app):
        hashed = await self.resolved(app, HashedPassword("x"))
        assert (hashed, type(hashed)) == ("x", str)

    async def test_names_the_service(self, app):
        add_authentication(app, "second")
        assert await self.resolved(app, "right", service="second")
        with pytest.raises(LookupError, match="'third'"):
            await self.resolved(app, "right", service="third")

    async def test_names_the_strategy(self, app):
        app.use("anything", MemoryService())
        app.service("anything").hooks(before=[hash_password("password", strategy="other")])
        with pytest.raises(LookupError, match="no strategy is registered as 'other'"):
            await app.service("anything").create({"password": "x"})


@pytest.mark.parametrize("kind", ["after", "error"])
async def test_hash_password_is_refused_where_it_would_do_nothing(app, kind):
    with pytest.raises(TypeError, match=rf"{kind} hook .*hash_password.* as before or around"):
        app.service("users").hooks({kind: {"create": [hash_password("password")]}})


def test_hash_password_takes_no_name_of_an_inner_field():
    with pytest.raises(ValueError, match=r"hash_password\('a.b.secret'\): .* such as 'secret'"):
        hash_password("a.b.secret")
