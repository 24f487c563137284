"""The authentication service: signing in creates a token, signing out removes it.

The way of a sign-in: `create` passes the attempt to the strategies, with the extensions before and
after (`_attempt`), and makes token and answer of what they found (`_answer`). The way of a token:
`JWTStrategy` has it checked by `verify_access_token`, loads its user, and asks the extensions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Final

from alula._context import HookContext, Params
from alula.authentication._access_tokens import Duration, Tokens, check_separation
from alula.authentication._entities import Entities, without
from alula.authentication._extension import Extension
from alula.authentication._refresh import RefreshStrategy
from alula.authentication._sessions import Sessions
from alula.authentication._strategies import AuthenticationStrategy, JWTStrategy, LocalStrategy
from alula.authentication._throttle import Throttle
from alula.errors import NotAuthenticated
from alula.types import Id

__all__ = ["AuthenticationService"]

_OURS: Final = {"jwt": JWTStrategy, "local": LocalStrategy}


class AuthenticationService:
    """A service whose records are sign-ins; it is registered at ``authentication``.

    ``create`` takes a proof and answers ``{"accessToken", "authentication", "user"}``, ``remove``
    signs out. Then the application emits ``login`` or ``logout``, with the answer, the params and
    the context of the call, if that came from outside.

    Args:
        app: The application.
        secret: The key of the tokens, at least 32 bytes. None takes the setting
            ``authentication_secret``, or else the environment variable ``ALULA_SECRET``.
        entity: The name of who signs in, in params and answers. None for tokens without a user.
        service: The path of the service that has their records.
        entity_id: The property that holds the id of a record; None takes that of the service.
        strategies: Names of the strategies that can be used to sign in. ``"jwt"`` and ``"local"``
            are there by themselves, unless you register others under these names.
        parse_strategies: Names of the strategies that look for proofs in requests; None for those
            of ``strategies``.
        audience: Whom tokens are for; None sets none and takes any.
        issuer: Who makes them; None sets none and takes any.
        algorithm: ``"HS256"``, ``"HS384"`` or ``"HS512"``; no token chooses another.
        token_types: What the header ``typ`` of a token may be; new ones have the first. Take
            ``("access", "JWT")`` for tokens of a FeathersJS server whose ``jwtOptions`` have no
            ``header``.
        expires_in: How long a token is valid: ``"1d"``, ``"15m"``, seconds, or a `timedelta`.
            None for 15 minutes with sessions, and a day without.
        throttle: The options of the `Throttle` that limits attempts to sign in; False for none.
        sessions: The options of `Sessions`, or only the path of the service that keeps them: then
            each sign-in brings a refresh token, too, and can be revoked. None for no sessions.
        extensions: What is told of each attempt, answer and token.

    Raises:
        TypeError: Strategies are one string in place of a list of names.

    Attributes:
        extensions: The extensions, in their order; throttle and sessions come first.
        throttle: What limits attempts to sign in, None where nothing does.
        sessions: The sessions, None where there are none.
        entities: The records that sign in, None where there are none.
        secret_fields: Fields of a user's record that nobody gets to see.
        secret_ids: Its ids are tokens, so no log has them.
    """

    secret_ids = True

    def __init__(
        self,
        app: Any,
        *,
        secret: str | bytes | None = None,
        entity: str | None = "user",
        service: str = "users",
        entity_id: str | None = None,
        strategies: Iterable[str] = ("jwt", "local"),
        parse_strategies: Iterable[str] | None = None,
        audience: str | Iterable[str] | None = "https://yourdomain.com",
        issuer: str | None = None,
        algorithm: str = "HS256",
        token_types: Iterable[str] = ("access",),
        expires_in: Duration | None = None,
        throttle: Mapping[str, Any] | bool = True,
        sessions: Mapping[str, Any] | str | None = None,
        extensions: Iterable[Extension] = (),
    ) -> None:
        if isinstance(strategies, str) or isinstance(parse_strategies, str):
            raise TypeError("strategies and parse_strategies are lists of names, not one string")
        if isinstance(app, type):
            raise TypeError(f"AuthenticationService(app) takes the application, not {app!r}")
        if not isinstance(service, str):
            raise TypeError(f"service is the path of the users' service, not {service!r}")
        if not isinstance(secret, str | bytes | None):  # the value may be one, so it is not shown
            raise TypeError(f"secret is a string or bytes, not of type {type(secret).__name__}")
        self.app = app
        self.entity = entity
        Params.declare("payload", *(() if entity is None else (entity,)))
        self.entities = None if entity is None else Entities(app, service, entity, entity_id)
        self.strategies = tuple(strategies)
        parsing = self.strategies if parse_strategies is None else parse_strategies
        self.parse_strategies = tuple(parsing)
        self.throttle = _throttle_of(throttle)
        self.sessions = _sessions_of(sessions)
        built_in = filter(None, (self.throttle, self.sessions))
        self.extensions: list[Extension] = [*built_in, *extensions]
        self._secret = secret
        usual = "1d" if self.sessions is None else "15m"
        self._token_options: dict[str, Any] = {
            "audience": audience,
            "issuer": issuer,
            "algorithm": algorithm,
            "expires_in": usual if expires_in is None else expires_in,
            "needs_subject": entity is not None,
            "types": token_types,
        }
        self._strategies: dict[str, AuthenticationStrategy] = {}
        self.secret_fields: frozenset[str] = frozenset()
        for name in self.strategies:
            if name in _OURS:
                self.register(name, _OURS[name]())
        if self.sessions is not None:
            self.strategies += ("refresh",)
            self.parse_strategies += ("refresh",)
            self.register("refresh", RefreshStrategy(self.sessions))

    # -- strategies ----------------------------------------------------------------------------

    def register(self, name: str, strategy: AuthenticationStrategy) -> None:
        """Register a strategy, in the place of one that has the name already.

        Raises:
            TypeError: It is none.
            ValueError: The instance is registered somewhere else.
        """
        if not isinstance(strategy, AuthenticationStrategy):
            raise TypeError(
                f"register({name!r}, {strategy!r}): a strategy is an instance of a class that"
                " derives from AuthenticationStrategy"
            )
        strategy.register(name, self)
        self._strategies[name] = strategy
        self.__dict__.pop("_parsers", None)
        self.secret_fields = frozenset(
            field for each in self._strategies.values() for field in each.secret_fields
        )

    def strategy(self, name: str) -> AuthenticationStrategy:
        """Return the strategy of a name.

        Raises:
            LookupError: There is none.
        """
        if (strategy := self._strategies.get(name)) is None:
            known = ", ".join(self._strategies) or "none"
            raise LookupError(f"no strategy is registered as {name!r}; there are: {known}")
        return strategy

    async def authenticate(
        self, authentication: Any, params: Params, *strategies: str
    ) -> dict[str, Any]:
        """Return what a proof shows: ``authentication``, the user, and what else a strategy adds.

        Args:
            authentication: The proof, with the name of its strategy under ``strategy``.
            params: The params of the call.
            strategies: Names of the strategies that are allowed.

        Raises:
            NotAuthenticated: It proves nothing, or its strategy is not allowed.
        """
        name = authentication.get("strategy") if isinstance(authentication, Mapping) else None
        if not name:
            raise NotAuthenticated("Invalid authentication information (no `strategy` set)")
        if name not in strategies or name not in self._strategies:
            raise NotAuthenticated(
                "Invalid authentication information (strategy not allowed in authStrategies)"
            )
        result = await self._strategies[name].authenticate(authentication, params)
        entity = self.entity
        if entity not in result:
            return result
        return {**result, entity: without(result[entity], self.secret_fields)}

    def parse(self, req: Any, res: Any, *strategies: str) -> Any:
        """Return the proof that a request carries, None for none, or an awaitable of that.

        Args:
            req: The request.
            res: The response.
            strategies: Names of the strategies that look for it; none for ``parse_strategies``.
        """
        parsers = self._parsers if not strategies else self._parsers_of(strategies)
        for at, parse in enumerate(parsers, 1):
            found = parse(req, res)
            if found is not None:
                if hasattr(found, "__await__"):
                    return _first_proof(found, parsers[at:], req, res)
                return found
        return None

    @cached_property
    def _parsers(self) -> list[Callable[[Any, Any], Any]]:
        # Every request passes here, so those that never find anything are left out.
        return self._parsers_of(self.parse_strategies)

    def _parsers_of(self, names: Iterable[str]) -> list[Callable[[Any, Any], Any]]:
        strategies = map(self.strategy, names)
        inherited = AuthenticationStrategy.parse
        return [each.parse for each in strategies if type(each).parse is not inherited]

    # -- the service ---------------------------------------------------------------------------

    async def create(self, data: Any, params: Params) -> dict[str, Any]:
        """Sign in.

        Raises:
            NotAuthenticated: The proof shows nothing.
        """
        result = await self._attempt(data, params)
        return await self._answer(result, params)

    async def remove(self, id: str | None, params: Params) -> dict[str, Any]:
        """Sign out.

        Args:
            id: None, or the token of the call.
            params: Has the proof in ``authentication``.

        Raises:
            NotAuthenticated: The proof shows nothing, or ``id`` is another token.
        """
        proof = params.authentication
        if id is not None and (proof is None or id != proof.get("accessToken")):
            raise NotAuthenticated("Invalid access token")
        result = await self.authenticate(proof, params, *self.strategies)
        answer = await self._shown(result, params)
        for extension in self.extensions:
            await extension.after_sign_out(answer, params)
        return answer

    async def setup(self, app: Any, path: str) -> None:
        """Check that all is there; the start fails otherwise.

        Raises:
            ValueError: The secret or another option is not in order; the message says what to do.
            LookupError: A strategy or the service of the users is missing.
        """
        _ = self.tokens
        if self.entities is not None:
            _ = self.entities.id_name
        check_separation(self, app, path)
        for name in {*self.strategies, *self.parse_strategies}:
            self.strategy(name)
        for strategy in list(self._strategies.values()):
            await strategy.setup()
        for extension in self.extensions:
            await extension.setup(self)
        app.settings.setdefault("authentication", path)
        handle = app.service(path)
        for event in ("created", "removed"):
            handle.off(event, self._tell)  # where it was set up before
            handle.on(event, self._tell)

    # -- tokens --------------------------------------------------------------------------------

    async def get_payload(
        self,
        result: Mapping[str, Any],  # noqa: ARG002  # for those who override it
        params: Params,
    ) -> Mapping[str, Any]:
        """Return what a new token says besides the usual; override it to add claims.

        Args:
            result: What the strategy found.
            params: The params of the sign-in; hooks can put claims into ``params.payload``.
        """
        payload: Mapping[str, Any] = params.get("payload", {})
        return payload

    def create_access_token(self, claims: Mapping[str, Any], subject: str | None = None) -> str:
        """Return a new token.

        Args:
            claims: What it says besides the usual; an ``exp`` replaces the usual one.
            subject: The id of the user.
        """
        return self.tokens.create(claims, subject)

    def verify_access_token(self, token: Any) -> dict[str, Any]:
        """Return the payload of a token.

        Raises:
            NotAuthenticated: It is not in order, not for this audience, or not valid now.
        """
        return self.tokens.verify(token)

    def derived_key(self, purpose: bytes) -> bytes:
        """Return a key for something else than access tokens, made from the secret.

        Args:
            purpose: What for; each purpose gets a key of its own.
        """
        return self.tokens.derived_key(purpose)

    @cached_property
    def tokens(self) -> Tokens:
        """What makes and checks the access tokens."""
        secret = self._secret
        if secret is None:
            secret = self.app.settings.get("authentication_secret") or os.environ.get(
                "ALULA_SECRET"
            )
        if not secret:
            raise ValueError(
                "the authentication service has no secret; give one to AuthenticationService,"
                " as the setting `authentication_secret`, or in the environment variable"
                " ALULA_SECRET"
            )
        return Tokens(secret, **self._token_options)

    # -- the two halves of a sign-in -----------------------------------------------------------

    async def _attempt(self, data: Any, params: Params) -> dict[str, Any]:
        """Return what the strategies find; every attempt to sign in passes here."""
        extensions = self.extensions
        for extension in extensions:
            await extension.before_attempt(data, params)
        try:
            result = await self.authenticate(data, params, *self.strategies)
        except Exception as error:
            for extension in extensions:
                await extension.after_failure(data, params, error)
            raise
        for extension in extensions:
            await extension.after_success(data, params, result)
        return result

    async def account_found(self, id: Id, params: Params) -> None:
        """Take note of the account that an attempt is for; a strategy calls it before it checks.

        Args:
            id: The id of its record, None where there is none.
            params: The params that the strategy got.

        Raises:
            TooManyRequests: There were too many attempts for this account.
        """
        for extension in self.extensions:
            await extension.account_found(id, params)

    async def new_password(self, params: Params) -> None:
        """Take note of a call that sets a password, before it is hashed.

        Args:
            params: The params of the call.

        Raises:
            TooManyRequests: There were too many of them.
        """
        for extension in self.extensions:
            await extension.before_new_password(params)

    async def _answer(self, result: dict[str, Any], params: Params) -> dict[str, Any]:
        """Return what a sign-in answers; every token is made here."""
        answer = await self._shown(result, params)
        if "accessToken" in answer:
            return answer
        claims = dict(await self.get_payload(result, params))
        for extension in self.extensions:
            claims.update(await extension.claims(result, params))
        token = self.create_access_token(claims, self._subject(result))
        found = result.get("authentication") or {}
        proof = {**found, "payload": self.verify_access_token(token)}
        answer = {"accessToken": token, **answer, "authentication": proof}
        for extension in self.extensions:
            answer = await extension.answer(answer, params)
        return answer

    async def _shown(self, result: Mapping[str, Any], params: Params) -> dict[str, Any]:
        """Return a result with the user as the caller may see it."""
        shown = dict(result)
        entities = self.entities
        if entities is not None and entities.name in shown:
            record = await entities.shown(shown[entities.name], params)
            shown[entities.name] = without(record, self.secret_fields)
        return shown

    def _subject(self, result: Mapping[str, Any]) -> str | None:
        entities = self.entities
        if entities is None:
            return None
        subject = entities.id_of(result.get(entities.name))
        if subject is None:
            name = (result.get("authentication") or {}).get("strategy")
            raise RuntimeError(
                f"the strategy {name!r} found no {entities.name} with an {entities.id_name!r}, so"
                " there is nobody to make a token for"
            )
        return str(subject)

    def _tell(self, answer: Any, context: HookContext) -> None:
        if context.params.provider is None:  # nobody has signed in: the application has asked
            return
        event = "login" if context.method == "create" else "logout"
        self.app.emit(event, answer, context.params, context)


async def _first_proof(
    found: Any, parsers: list[Callable[[Any, Any], Any]], req: Any, res: Any
) -> Any:
    """Wait for a parser, and go on with the following ones as long as there is nothing."""
    proof = await found
    for parse in parsers:
        if proof is not None:
            break
        proof = parse(req, res)
        if hasattr(proof, "__await__"):
            proof = await proof
    return proof


def _throttle_of(given: Mapping[str, Any] | bool) -> Throttle | None:
    if isinstance(given, Mapping):
        return Throttle(**given)
    return Throttle() if given else None


def _sessions_of(given: Mapping[str, Any] | str | None) -> Sessions | None:
    if isinstance(given, str):
        return Sessions(service=given)
    return None if given is None else Sessions(**given)
