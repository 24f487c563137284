"""The authentication service: settings, strategies, signing in and out, events, extensions."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import ClassVar

import pytest
from tests.authentication.building import (
    OTHER_SECRET,
    SECRET,
    add_authentication,
    add_user,
    login,
    make_app,
    quick_passwords,
)

from alula import App, Params
from alula.adapters.memory import MemoryService
from alula.authentication import (
    AuthenticationService,
    AuthenticationStrategy,
    Extension,
    JWTStrategy,
    LocalStrategy,
    authenticate,
    protect,
)
from alula.authentication._access_tokens import Tokens
from alula.errors import Conflict, MethodNotAllowed, NotAuthenticated, NotFound

Params.declare("tenant")


@pytest.fixture
async def app():
    app = make_app()
    await add_user(app, role="admin")
    await app.setup()
    return app


def service_of(app, path="authentication"):
    return app.service(path).service


class TestSecret:
    @pytest.fixture(autouse=True)
    def _no_environment(self, monkeypatch):
        monkeypatch.delenv("ALULA_SECRET", raising=False)

    def app_with(self, secret=None, **options):
        return make_app(secret=secret, **options)

    async def test_is_missing(self):
        with pytest.raises(ValueError, match="no secret; give one to AuthenticationService"):
            await self.app_with().setup()

    @pytest.mark.parametrize("secret", ["", b""])
    async def test_is_empty(self, secret):
        with pytest.raises(ValueError, match="has no secret"):
            await self.app_with(secret).setup()

    async def test_is_short(self):
        with pytest.raises(ValueError, match=r"has 31 bytes; HS256 needs 32.*secrets\.token_") as e:
            await self.app_with("x" * 31).setup()
        assert "xxx" not in str(e.value)

    async def test_comes_from_the_argument_first(self, monkeypatch):
        monkeypatch.setenv("ALULA_SECRET", OTHER_SECRET)
        app = self.app_with(SECRET).set("authentication_secret", OTHER_SECRET)
        token = service_of(app).create_access_token({}, "1")
        assert Tokens(SECRET).verify(token)

    async def test_then_from_the_setting(self, monkeypatch):
        monkeypatch.setenv("ALULA_SECRET", OTHER_SECRET)
        app = self.app_with().set("authentication_secret", SECRET)
        await app.setup()
        assert Tokens(SECRET).verify(service_of(app).create_access_token({}, "1"))

    async def test_then_from_the_environment(self, monkeypatch):
        monkeypatch.setenv("ALULA_SECRET", SECRET)
        app = self.app_with()
        await app.setup()
        assert Tokens(SECRET).verify(service_of(app).create_access_token({}, "1"))


class TestSettings:
    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"algorithm": "none"}, "algorithm is 'none'"),
            ({"expires_in": "soon"}, "'soon' is not a duration"),
            ({"expires_in": 0}, "0 is not a duration"),
        ],
    )
    async def test_that_are_not_in_order_stop_the_start(self, options, text):
        with pytest.raises(ValueError, match=text):
            await make_app(**options).setup()

    @pytest.mark.parametrize("name", ["strategies", "parse_strategies"])
    def test_names_of_strategies_are_a_list(self, name):
        with pytest.raises(TypeError, match="are lists of names"):
            AuthenticationService(App(), **{name: "jwt"})

    async def test_a_strategy_that_is_missing_stops_the_start(self):
        with pytest.raises(LookupError, match="'github'; registered: "):
            await make_app(strategies=["jwt", "github"]).setup()

    async def test_a_strategy_that_is_to_parse_and_missing_stops_the_start(self):
        with pytest.raises(LookupError, match="'api-key'"):
            await make_app(parse_strategies=["api-key"]).setup()

    async def test_missing_users_stop_the_start(self):
        app = App()
        add_authentication(app)
        with pytest.raises(LookupError, match="there is no service at 'users'") as caught:
            await app.setup()
        assert "or name another" in str(caught.value)

    async def test_users_without_a_known_id_stop_the_start(self):
        class Users:
            async def get(self, id, params):
                return {"key": id}

        app = App().use("users", Users())
        add_authentication(app)
        with pytest.raises(LookupError, match="has no `id`"):
            await app.setup()

        app = App().use("users", Users())
        add_authentication(app, entity_id="key")
        await app.setup()

    async def test_the_order_of_registration_does_not_matter(self):
        app = App()
        add_authentication(app)
        app.use("users", MemoryService())
        await app.setup()

    async def test_users_of_another_application(self):
        inner = App().use("users", MemoryService(start_id=1))
        app = App().use("api", inner)
        add_authentication(app, service="api/users")
        await inner.setup()
        await app.setup()
        hashed = str(await quick_passwords().hash("right"))
        await inner.service("users").create({"email": "ada@example.com", "password": hashed})
        result = await app.service("authentication").create(login())
        assert result["authentication"]["payload"]["sub"] == "1"

    async def test_every_setting_of_the_tokens(self, app):
        add_authentication(
            app, "other", audience="x", issuer="y", algorithm="HS384", secret="z" * 48,
            expires_in=timedelta(hours=1),
        )  # fmt: skip
        payload = (await app.service("other").create(login()))["authentication"]["payload"]
        assert payload["exp"] - payload["iat"] == 3600
        assert (payload["aud"], payload["iss"]) == ("x", "y")

    async def test_a_day_is_the_usual_lifetime(self, app):
        payload = (await app.service("authentication").create(login()))["authentication"]["payload"]
        assert payload["exp"] - payload["iat"] == 86400
        assert payload["aud"] == "https://yourdomain.com"
        assert "iss" not in payload

    async def test_the_first_that_is_set_up_is_the_default(self):
        app = make_app()
        add_authentication(app, "other")
        await app.setup()
        assert app.get("authentication") == "authentication"

    async def test_a_setting_names_the_default(self):
        app = make_app().set("authentication", "other")
        add_authentication(app, "other")
        await app.setup()
        assert app.get("authentication") == "other"


class ApiKey(AuthenticationStrategy):
    """A strategy of one's own."""

    secret_fields = ("apiKey",)

    async def authenticate(self, authentication, params):
        found = await self.app.service("users").find(query={"apiKey": authentication.get("key")})
        if not found:
            raise NotAuthenticated("Invalid API key")
        return {"authentication": {"strategy": self.name}, "user": found[0], "viaKey": True}

    def parse(self, req, res):
        key = req.get("x-api-key")
        return None if key is None else {"strategy": self.name, "key": key}


class TestStrategies:
    def test_ours_are_there(self):
        service = AuthenticationService(App())
        assert isinstance(service.strategy("jwt"), JWTStrategy)
        assert isinstance(service.strategy("local"), LocalStrategy)

    def test_those_that_are_not_listed_are_not(self):
        service = AuthenticationService(App(), strategies=["jwt"])
        with pytest.raises(LookupError, match="registered as 'local'; registered: jwt"):
            service.strategy("local")
        with pytest.raises(LookupError, match="registered: none"):
            AuthenticationService(App(), strategies=[]).strategy("jwt")

    def test_one_of_ones_own_takes_the_place(self):
        app = App()
        service, mine = AuthenticationService(app), JWTStrategy(header="x-token")
        service.register("jwt", mine)
        assert service.strategy("jwt") is mine
        assert (mine.name, mine.authentication, mine.app) == ("jwt", service, app)

    @pytest.mark.parametrize("strategy", [JWTStrategy, None, "jwt", object()])
    def test_something_that_is_none(self, strategy):
        with pytest.raises(TypeError, match="an instance of a class that derives"):
            AuthenticationService(App()).register("jwt", strategy)

    def test_one_instance_is_for_one_place(self):
        strategy = ApiKey()
        service = AuthenticationService(App())
        service.register("key", strategy)
        service.register("key", strategy)
        with pytest.raises(ValueError, match="'other' is already registered, as 'key'"):
            service.register("other", strategy)
        with pytest.raises(ValueError, match="make one instance for each place"):
            AuthenticationService(App()).register("key", strategy)

    async def test_one_of_ones_own_signs_in(self, app):
        service_of(app).offer("key", ApiKey(), signs_in=True)
        await app.service("users").patch(1, {"apiKey": "k"})
        result = await app.service("authentication").create({"strategy": "key", "key": "k"})
        assert result["user"] == {"id": 1, "email": "ada@example.com", "role": "admin"}
        assert result["viaKey"] is True
        assert service_of(app).verify_access_token(result["accessToken"])["sub"] == "1"
        with pytest.raises(NotAuthenticated, match="Invalid API key"):
            await app.service("authentication").create({"strategy": "key", "key": "x"})

    async def test_one_that_is_registered_and_not_listed_does_not_sign_in(self, app):
        service_of(app).register("key", ApiKey())
        with pytest.raises(NotAuthenticated, match="strategy not allowed in authStrategies"):
            await app.service("authentication").create({"strategy": "key", "key": "k"})
        await app.service("users").patch(1, {"apiKey": "k"})
        proof = {"strategy": "key", "key": "k"}
        result = await service_of(app).authenticate(proof, Params(), "key")
        assert result["user"]["id"] == 1

    async def test_one_that_finds_nobody_makes_no_token(self, app):
        class Nobody(AuthenticationStrategy):
            async def authenticate(self, authentication, params):
                return {"authentication": {"strategy": self.name}}

        service_of(app).offer("nobody", Nobody(), signs_in=True)
        with pytest.raises(RuntimeError, match="'nobody' found no user with an 'id'"):
            await app.service("authentication").create({"strategy": "nobody"})

    async def test_what_a_class_of_ones_own_leaves_out(self):
        class Unfinished(AuthenticationStrategy):
            pass

        strategy = Unfinished()
        assert strategy.parse(None, None) is None
        assert strategy.account_of({}) is None
        assert strategy.can_be_guessed
        await strategy.setup()
        with pytest.raises(NotImplementedError, match="Unfinished has no authenticate"):
            await strategy.authenticate({}, Params())

    async def test_are_set_up(self, app):
        seen = []

        class Prepared(AuthenticationStrategy):
            async def setup(self):
                seen.append(self.app)

        app = make_app()
        service_of(app).register("prepared", Prepared())
        await app.setup()
        assert seen == [app]


class TestParse:
    """The first strategy that finds something, whether it has to be waited for or not."""

    class Finder(AuthenticationStrategy):
        def __init__(self, found):
            self.found = found

        def parse(self, req, res):
            req.append(self.name)
            return self.found

    class SlowFinder(Finder):
        async def parse(self, req, res):
            req.append(self.name)
            return self.found

    async def parsed(self, *finders, names=()):
        service = AuthenticationService(
            App(), strategies=[], parse_strategies=list("abc"[: len(finders)])
        )
        for name, finder in zip("abc", finders, strict=False):
            service.register(name, finder)
        asked = []
        found = service.parse(asked, None, *names)
        if hasattr(found, "__await__"):
            found = await found
        return found, "".join(asked)

    @pytest.mark.parametrize("kinds", ["fff", "sff", "fsf", "ffs", "ssf", "fss", "sss"])
    async def test_the_first_that_finds_something(self, kinds):
        kind = {"f": self.Finder, "s": self.SlowFinder}
        for at in range(3):
            values = [None if place < at else place for place in range(3)]
            finders = [kind[each](value) for each, value in zip(kinds, values, strict=True)]
            assert await self.parsed(*finders) == (at, "abc"[: at + 1])
        nothing = [kind[each](None) for each in kinds]
        assert await self.parsed(*nothing) == (None, "abc")

    async def test_only_those_that_are_named(self):
        finders = [self.Finder(1), self.Finder(2)]
        assert await self.parsed(*finders, names=["b"]) == (2, "b")
        with pytest.raises(LookupError, match="registered as 'x'"):
            await self.parsed(self.Finder(1), names=["x"])

    async def test_nobody(self):
        assert await self.parsed(ApiKeyless()) == (None, "")

    async def test_only_one_that_looks(self):
        for kind in (self.Finder, self.SlowFinder):
            assert await self.parsed(kind(1)) == (1, "a")
            assert await self.parsed(kind(None), ApiKeyless()) == (None, "a")

    def test_who_is_registered_later_takes_part(self):
        service = AuthenticationService(App(), strategies=["jwt"])
        assert service.parse(FakeRequest(), None) is None
        service.register("jwt", self.Finder(5))
        assert service.parse(FakeRequest(), None) == 5


class ApiKeyless(AuthenticationStrategy):
    """Looks for nothing."""


class FakeRequest(list):
    """Has no headers."""

    scope: ClassVar = {"headers": []}
    sent_headers: ClassVar = {}


NO_STRATEGY = "Invalid authentication information (no `strategy` set)"
NOT_ALLOWED = "Invalid authentication information (strategy not allowed in authStrategies)"


class TestSignIn:
    async def test_answers_token_proof_and_user(self, app):
        result = await app.service("authentication").create(login())
        assert set(result) == {"accessToken", "authentication", "user"}
        assert result["user"] == {"id": 1, "email": "ada@example.com", "role": "admin"}
        proof = result["authentication"]
        assert proof["strategy"] == "local"
        assert proof["payload"] == service_of(app).verify_access_token(result["accessToken"])
        assert proof["payload"]["sub"] == "1"

    async def test_a_token_signs_in_as_well_and_stays_the_same(self, app):
        token = (await app.service("authentication").create(login()))["accessToken"]
        again = await app.service("authentication").create(
            {"strategy": "jwt", "accessToken": token}
        )
        assert again["accessToken"] == again["authentication"]["accessToken"] == token
        assert again["user"] == {"id": 1, "email": "ada@example.com", "role": "admin"}

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            ({}, NO_STRATEGY),
            ({"strategy": None}, NO_STRATEGY),
            ({"strategy": ""}, NO_STRATEGY),
            (None, NO_STRATEGY),
            ([login()], NO_STRATEGY),
            ("local", NO_STRATEGY),
            (5, NO_STRATEGY),
            ({"strategy": "github"}, NOT_ALLOWED),
            ({"strategy": "__class__"}, NOT_ALLOWED),
            ({"strategy": ["local"]}, NOT_ALLOWED),
            ({"strategy": {"local": 1}}, NOT_ALLOWED),
            ({"strategy": 5}, NOT_ALLOWED),
        ],
    )
    async def test_a_proof_without_a_strategy_that_is_allowed(self, app, data, message):
        with pytest.raises(NotAuthenticated, match=re.escape(message)):
            await app.service("authentication").create(data)

    async def test_the_query_of_the_request_changes_nothing(self, app):
        queries = [{"$select": ["email"]}, {"role": "user"}, {"$foo": 1}, {"password": {"$ne": 1}}]
        for query in queries:
            result = await app.service("authentication").create(
                login(), query=query, provider="rest"
            )
            assert result["user"] == {"id": 1, "email": "ada@example.com", "role": "admin"}

    async def test_a_proof_in_the_headers_changes_nothing(self, app):
        proof = {"strategy": "jwt", "accessToken": "garbage"}
        assert await app.service("authentication").create(login(), authentication=proof)

    async def test_data_of_the_request_gets_into_no_answer(self, app):
        data = {
            **login(),
            "user": {"role": "root"},
            "authentication": {"a": 1},
            "payload": {"b": 2},
        }
        result = await app.service("authentication").create(data)
        assert result["user"]["role"] == "admin"
        assert set(result["authentication"]) == {"strategy", "payload"}
        assert set(result["authentication"]["payload"]) == {"iat", "exp", "aud", "sub", "jti"}

    async def test_claims_of_hooks_and_of_a_class_of_ones_own(self, app):
        class Mine(AuthenticationService):
            async def get_payload(self, result, params):
                usual = await super().get_payload(result, params)
                return {**usual, "role": result["user"]["role"]}

        mine = Mine(app, secret=SECRET, throttle=False)
        mine.register("local", LocalStrategy(passwords=quick_passwords()))
        app.use("mine", mine)

        def add(context):
            context.params.payload = {"tenant": "acme"}

        app.service("mine").hooks(before={"create": [add]})
        payload = (await app.service("mine").create(login()))["authentication"]["payload"]
        assert (payload["tenant"], payload["role"]) == ("acme", "admin")

    async def test_another_name_of_who_signs_in(self):
        app = App().use("people", MemoryService(id="key", start_id=5))
        add_authentication(app, entity="person", service="people")
        await app.setup()
        hashed = str(await quick_passwords().hash("right"))
        await app.service("people").create({"email": "ada@example.com", "password": hashed})
        result = await app.service("authentication").create(login())
        assert result["person"] == {"key": 5, "email": "ada@example.com"}
        assert result["authentication"]["payload"]["sub"] == "5"

    async def test_without_users_a_strategy_decides_alone(self):
        class Machine(AuthenticationStrategy):
            async def authenticate(self, authentication, params):
                return {"authentication": {"strategy": self.name}}

        app = App()
        service = add_authentication(app, entity=None, strategies=["jwt", "machine"])
        service.register("machine", Machine())
        await app.setup()
        result = await app.service("authentication").create({"strategy": "machine"})
        assert set(result) == {"accessToken", "authentication"}
        assert "sub" not in result["authentication"]["payload"]


class TestTheUserInAnswers:
    async def test_is_seen_through_the_hooks_for_such_calls(self, app):
        seen = []

        def note(context):
            params = context.params
            seen.append((params.provider, params.query, params.get("user", {}).get("id")))

        app.service("users").hooks(
            around={"all": [protect("role")], "get": [authenticate("jwt")]}, before={"get": [note]}
        )
        result = await app.service("authentication").create(
            login(), provider="rest", query={"a": "b"}
        )
        assert result["user"] == {"id": 1, "email": "ada@example.com"}
        assert seen == [("rest", {}, 1)]

    async def test_never_has_a_password(self, app):
        # Neither a hook nor a resolver hides it here.
        internal = await app.service("authentication").create(login())
        external = await app.service("authentication").create(login(), provider="rest")
        assert "password" not in internal["user"]
        assert "password" not in external["user"]
        proof = {"strategy": "jwt", "accessToken": internal["accessToken"]}
        removed = await app.service("authentication").remove(None, authentication=proof)
        assert "password" not in removed["user"]

    async def test_is_what_a_service_of_ones_own_answers(self, app):
        class Users:
            id = "id"

            async def find(self, params):
                return [{"id": 1, "password": str(await quick_passwords().hash("right"))}]

            async def get(self, id, params):
                return "user 1"

        app = make_app(Users())
        result = await app.service("authentication").create(login())
        assert result["user"] == "user 1"

    async def test_who_is_gone_meanwhile_is_not_signed_in(self, app):
        def gone(context):
            raise NotFound("No record found for id '1'")

        app.service("users").hooks(before={"get": [gone]})
        with pytest.raises(NotAuthenticated, match="user of these credentials"):
            await app.service("authentication").create(login())


class TestSignOut:
    @pytest.fixture
    async def token(self, app):
        return (await app.service("authentication").create(login()))["accessToken"]

    @pytest.mark.parametrize("with_id", [False, True])
    async def test_answers_as_signing_in_does(self, app, token, with_id):
        proof = {"strategy": "jwt", "accessToken": token}
        result = await app.service("authentication").remove(
            token if with_id else None, authentication=proof
        )
        assert result["accessToken"] == token
        assert result["user"] == {"id": 1, "email": "ada@example.com", "role": "admin"}
        assert result["authentication"]["payload"]["sub"] == "1"

    @pytest.mark.parametrize("id", ["x", "null", "", 0])
    async def test_another_token(self, app, token, id):
        proof = {"strategy": "jwt", "accessToken": token}
        with pytest.raises(NotAuthenticated, match="Invalid access token"):
            await app.service("authentication").remove(id, authentication=proof)

    async def test_a_token_without_a_proof(self, app, token):
        with pytest.raises(NotAuthenticated, match="Invalid access token"):
            await app.service("authentication").remove(token)

    async def test_nobody(self, app):
        with pytest.raises(NotAuthenticated, match=re.escape(NO_STRATEGY)):
            await app.service("authentication").remove(None)

    async def test_the_service_has_no_other_methods(self, app):
        assert app.service("authentication").methods == ("create", "remove")
        with pytest.raises(MethodNotAllowed):
            await app.service("authentication").find()


class TestEvents:
    async def test_tell_of_sign_in_and_sign_out(self, app):
        seen = []
        for name in ("login", "logout"):
            app.on(name, lambda *args, name=name: seen.append((name, *args)))
        result = await app.service("authentication").create(login(), provider="rest", tenant="acme")
        proof = {"strategy": "jwt", "accessToken": result["accessToken"]}
        await app.service("authentication").remove(None, provider="rest", authentication=proof)
        (first, answer, params, context), (second, *_) = seen
        assert (first, second) == ("login", "logout")
        assert answer == result
        assert params.tenant == "acme"
        assert (context.path, context.method) == ("authentication", "create")
        assert "password" not in answer["user"]

    async def test_do_not_tell_of_failures(self, app):
        seen = []
        app.on("login", lambda *args: seen.append(args))

        def fail(context):
            raise Conflict("not today")

        with pytest.raises(NotAuthenticated):
            await app.service("authentication").create(login(password="wrong"), provider="rest")
        app.service("authentication").hooks(after={"create": [fail]})
        with pytest.raises(Conflict):
            await app.service("authentication").create(login(), provider="rest")
        assert seen == []

    async def test_tell_once_after_a_second_start(self, app):
        seen = []
        app.on("login", lambda *args: seen.append(args))
        await app.teardown()
        await app.setup()
        await app.service("authentication").create(login(), provider="rest")
        assert len(seen) == 1

    async def test_tell_nothing_of_calls_from_inside(self, app):
        seen = []
        for name in ("login", "logout"):
            app.on(name, lambda *args: seen.append(args))
        result = await app.service("authentication").create(login())
        proof = {"strategy": "jwt", "accessToken": result["accessToken"]}
        await app.service("authentication").remove(None, authentication=proof)
        assert seen == []


class TestExtensions:
    async def test_see_everything_in_order(self):
        seen = []

        class Noting(Extension):
            async def setup(self, authentication):
                seen.append(("setup", authentication.app is app))

            async def before_attempt(self, attempt):
                seen.append(("before", attempt.credentials["strategy"]))

            async def after_failure(self, attempt, error):
                seen.append(("failure", type(error).__name__))

            async def after_success(self, attempt):
                user = attempt.result["user"]
                seen.append(("success", user["id"], "password" in user))

            async def claims(self, attempt):
                seen.append(("claims", attempt.result["user"]["id"]))
                return {"sid": "s", "exp": 4070908800}

            async def response(self, attempt):
                seen.append(("response", attempt.response["authentication"]["payload"]["sid"]))
                return {**attempt.response, "more": 1}

            async def check_token(self, payload, entity, params):
                seen.append(("token", payload["sid"], "password" in entity))

            async def after_sign_out(self, attempt):
                seen.append(("out", attempt.response["user"]["id"]))

        app = make_app(extensions=[Noting(), Extension()])
        await add_user(app)
        await app.setup()
        authentication = app.service("authentication")
        with pytest.raises(NotAuthenticated):
            await authentication.create(login(password="wrong"))
        result = await authentication.create(login())
        assert result["more"] == 1
        assert result["authentication"]["payload"]["exp"] == 4070908800
        proof = {"strategy": "jwt", "accessToken": result["accessToken"]}
        await authentication.remove(None, authentication=proof)
        assert seen == [
            ("setup", True),
            ("before", "local"),
            ("failure", "NotAuthenticated"),
            ("before", "local"),
            ("success", 1, False),
            ("claims", 1),
            ("response", "s"),
            ("token", "s", True),
            ("out", 1),
        ]

    async def test_can_refuse_an_attempt_before_it_costs_anything(self):
        class Closed(Extension):
            async def before_attempt(self, attempt):
                raise Conflict("closed")

        app = make_app(extensions=[Closed()])
        checked = []
        service_of(app).strategy("local").authenticate = lambda *args: checked.append(args)
        with pytest.raises(Conflict):
            await app.service("authentication").create(login())
        assert checked == []

    async def test_can_refuse_a_token(self, app):
        class Ended(Extension):
            async def check_token(self, payload, entity, params):
                raise NotAuthenticated("ended")

        token = service_of(app).create_access_token({}, "1")
        service_of(app).extensions.append(Ended())
        proof = {"strategy": "jwt", "accessToken": token}
        with pytest.raises(NotAuthenticated, match="ended"):
            await service_of(app).authenticate(proof, Params(), "jwt")

    async def test_unexpected_failures_reach_them_too(self, app):
        seen = []

        class Noting(Extension):
            async def after_failure(self, attempt, error):
                seen.append(error)

        def broken(context):
            raise RuntimeError("broken")

        service_of(app).extensions.append(Noting())
        app.service("users").hooks(before={"find": [broken]})
        with pytest.raises(RuntimeError):
            await app.service("authentication").create(login())
        assert [str(error) for error in seen] == ["broken"]


class TestSeveralServices:
    @pytest.fixture
    async def app(self):
        app = make_app()
        app.use("admins", MemoryService(start_id=1))
        add_authentication(app, "admin-login", service="admins", entity="admin", audience="admins")
        hashed = str(await quick_passwords().hash("right"))
        await app.service("users").create({"email": "ada@example.com", "password": hashed})
        await app.service("admins").create({"email": "root@example.com", "password": hashed})
        app.use("secrets", MemoryService([{"id": 1}]))
        app.service("secrets").hooks(
            before={"get": [authenticate(service="admin-login", strategies=["jwt"])]}
        )
        await app.setup()
        return app

    async def proof(self, app, path, email):
        result = await app.service(path).create(login(email))
        return {"strategy": "jwt", "accessToken": result["accessToken"]}

    async def test_each_has_its_own_users(self, app):
        await self.proof(app, "authentication", "ada@example.com")
        await self.proof(app, "admin-login", "root@example.com")
        with pytest.raises(NotAuthenticated):
            await self.proof(app, "admin-login", "ada@example.com")

    async def test_tokens_count_where_they_were_made(self, app):
        admin = await self.proof(app, "admin-login", "root@example.com")
        user = await self.proof(app, "authentication", "ada@example.com")
        secrets = app.service("secrets")
        assert await secrets.get(1, authentication=admin, provider="rest")
        with pytest.raises(NotAuthenticated, match=r"jwt audience invalid. expected: admins"):
            await secrets.get(1, authentication=user, provider="rest")
        with pytest.raises(NotAuthenticated):
            await app.service("authentication").create(admin)


async def test_an_attempt_ends_with_the_service_that_it_was_made_at():
    class Noting(Extension):
        def __init__(self):
            self.seen = []

        async def account_found(self, attempt, id):
            self.seen.append((attempt.credentials["email"], id))

    here, elsewhere = Noting(), Noting()
    app = make_app(extensions=[here])
    app.use("admins", MemoryService(start_id=7))
    admins = {"service": "admins", "entity": "admin", "audience": "admins"}
    add_authentication(app, "admin-login", extensions=[elsewhere], **admins)
    hashed = str(await quick_passwords().hash("right"))
    await app.service("admins").create({"email": "root@example.com", "password": hashed})
    await add_user(app)

    async def check_root(context):
        service = service_of(app, "admin-login")
        await service.authenticate(login("root@example.com"), Params(), "local")

    app.service("users").hooks(before={"find": [check_root]})
    await app.service("authentication").create(login())
    assert (here.seen, elsewhere.seen) == ([("ada@example.com", 1)], [])
    await app.service("admin-login").create(login("root@example.com"))
    assert elsewhere.seen == [("root@example.com", 7)]


def test_a_derived_key_is_not_the_secret():
    service = AuthenticationService(App(), secret=SECRET)
    assert service.tokens.derived_key(b"x") == Tokens(SECRET).derived_key(b"x") != SECRET.encode()
