"""The authentication service: `create` signs in, `remove` signs out.

A sign-in is an `Attempt` that passes the steps listed in `AuthenticationService.create`. An access
token of a later request is checked by `JWTStrategy`, which also loads its user.
"""

from __future__ import annotations

import os
import time
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    MutableMapping,
    Sequence,
)
from typing import Any, Final

from alula._context import HookContext, Params
from alula._identity import Application, SentRequest
from alula._service import ServiceHandle
from alula.authentication._access_tokens import Duration, Tokens, check_separation
from alula.authentication._attempt import (
    Attempt,
    CheckedUser,
    Extension,
    Session,
    current_attempt,
    session_ended,
)
from alula.authentication._base_strategy import (
    AuthenticationStrategy,
    Credentials,
    Parsed,
    Parser,
)
from alula.authentication._connections import SignedInConnections
from alula.authentication._entities import Entities, without
from alula.authentication._hooks import check_hooks
from alula.authentication._jwt_strategy import JWTStrategy
from alula.authentication._local_strategy import LocalStrategy
from alula.authentication._refresh_tokens import RefreshStrategy, RefreshTokens
from alula.authentication._sessions import Sessions
from alula.authentication._throttle import throttle_from
from alula.authentication._tickets import Tickets
from alula.authentication._token_cookies import TokenCookie, TokenCookies
from alula.errors import NotAuthenticated
from alula.outgoing import public_part
from alula.types import UNSET, Id, is_mapping

__all__ = ["AuthenticationService"]

COOKIE_GRACE: Final = "10s"
"""For how long the last refresh token is still valid by default where cookies carry tokens."""

_READY_STRATEGIES: Final[Mapping[str, Callable[[], AuthenticationStrategy]]] = {
    "jwt": JWTStrategy,
    "local": LocalStrategy,
}


class AuthenticationService:
    """The service that signs users in and out; register it at ``authentication``.

    ``create`` checks credentials and returns ``{"accessToken", "authentication", "user"}``;
    ``remove`` signs out. After a call from a client the application emits ``login`` or ``logout``,
    with the response, the params and the context. A call over a real-time connection signs the
    connection in or out: its later calls have ``params.user``.

    Args:
        app: The application.
        secret: The key that signs tokens, at least 32 bytes. None takes the setting
            ``authentication_secret``, or else the environment variable ``ALULA_SECRET``.
        entity: The name of the user's record in params and responses. None for tokens without a
            user.
        service: The path of the service that has the users.
        entity_id: The property that holds the id of a user; None takes that of the service.
        strategies: Names of the strategies for signing in. ``"jwt"`` and ``"local"`` are built in,
            unless you register others under these names.
        parse_strategies: Names of the strategies that look for credentials in requests; None for
            the same as ``strategies``.
        audience: The claim ``aud`` of tokens; None sets none and accepts any.
        issuer: The claim ``iss`` of tokens; None sets none and accepts any.
        algorithm: ``"HS256"``, ``"HS384"`` or ``"HS512"``; a token cannot choose another.
        token_types: The accepted values of the header ``typ``; new tokens have the first. Take
            ``("access", "JWT")`` for tokens of a FeathersJS server whose ``jwtOptions`` have no
            ``header``.
        expires_in: How long a token is valid: ``"1d"``, ``"15m"``, seconds, or a `timedelta`.
            None for 15 minutes with sessions, and a day without.
        throttle: Options of the `Throttle` that limits attempts to sign in; False for none.
        sessions: Options of `Sessions`, or only the path of the service that stores them. Each
            sign-in then has a refresh token, too, and can be revoked. None for no sessions.
        extensions: Objects that are notified of each attempt, response and token.
        follow_user: Whether a user who is changed or removed, by this process or another one,
            changes at once what their real-time connections are signed in as.
        tickets: Whether ``POST <path>/tickets`` gives tickets, with which `EventSource` signs in.
            `alula.realtime.sse` turns it on.
        cookie: Whether a sign-in over REST sets cookies with the tokens, and under which names.
            None for no cookies.

    Raises:
        TypeError: An argument has the wrong type, such as one string for the list of strategies.

    Attributes:
        extensions: The extensions in their order; throttle and sessions come first.
        throttle: Limits attempts to sign in; None where nothing does.
        sessions: The sessions; None where there are none.
        entities: The users; None where there are none.
        connections: The real-time connections that are signed in.
        tickets: Creates and redeems tickets.
        refresh_tokens: Creates and rotates refresh tokens; None without sessions.
        token_cookies: Sets and reads the cookies of tokens; None where there are none.
        secret_fields: Fields of a user's record that no response and no params have.
        scoped_strategies: The names of the strategies whose credentials are limited to scopes.
        secret_ids: True: its ids are tokens, so logs leave them out.
        secret_events: True: its events have tokens, so they are never published.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> from alula.authentication import AuthenticationService
        >>> app = App()
        >>> app = app.use("users", MemoryService())
        >>> service = AuthenticationService(app, secret="thirty-two random bytes at least")
        >>> app = app.use("authentication", service)
    """

    secret_ids = True
    secret_events = True

    def __init__(
        self,
        app: Application,
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
        follow_user: bool = True,
        tickets: bool = False,
        cookie: TokenCookie | None = None,
    ) -> None:
        _check_types(app, service, secret, strategies, parse_strategies)
        self.app = app
        self.entity = entity
        self.secret_fields: frozenset[str] = frozenset()
        self.scoped_strategies: frozenset[str] = frozenset()
        self._strategies: dict[str, AuthenticationStrategy] = {}
        self._signing_in = (*strategies,)
        self._parsing = self._signing_in if parse_strategies is None else (*parse_strategies,)
        self._request_parser: Parser | None = None
        Params.declare("payload", "keeps_session", *(() if entity is None else (entity,)))
        self.entities = None if entity is None else Entities(app, service, entity, entity_id)
        self.connections = SignedInConnections(self)
        self._follows_users = follow_user and self.entities is not None
        self.tickets = Tickets(self)
        self._has_tickets = tickets
        self.token_cookies = None if cookie is None else TokenCookies(self, cookie)
        self._handle: ServiceHandle | None = None  # since the setup
        self._secret = secret
        self._tokens: Tokens | None = None
        default_lifetime = "1d" if sessions is None else "15m"
        self._token_options: dict[str, Any] = {
            "audience": audience,
            "issuer": issuer,
            "algorithm": algorithm,
            "expires_in": default_lifetime if expires_in is None else expires_in,
            "needs_subject": entity is not None,
            "types": token_types,
        }
        for name in self.strategies:
            if name in _READY_STRATEGIES:
                self.register(name, _READY_STRATEGIES[name]())
        self.extensions: list[Extension] = []
        self.throttle = throttle_from(throttle)
        if self.throttle is not None:
            self.extensions.append(self.throttle)
        self.sessions: Sessions | None = None
        self.refresh_tokens: RefreshTokens | None = None
        if sessions is not None:
            options = {"service": sessions} if isinstance(sessions, str) else sessions
            # All tabs of a browser share its cookies, and may renew them at the same moment.
            self._add_sessions(options if cookie is None else {"grace": COOKIE_GRACE, **options})
        self.extensions += extensions

    def _add_sessions(self, options: Mapping[str, Any]) -> None:
        self.sessions = Sessions(**options)
        self.refresh_tokens = RefreshTokens(self.sessions)
        self.extensions += [self.sessions, self.refresh_tokens]
        self.offer("refresh", RefreshStrategy(self.refresh_tokens), signs_in=True)

    # -- the strategies ------------------------------------------------------------------------

    @property
    def strategies(self) -> tuple[str, ...]:
        """The names of the strategies with which clients can sign in."""
        return self._signing_in

    @property
    def parse_strategies(self) -> tuple[str, ...]:
        """The names of the strategies that look for credentials in requests."""
        return self._parsing

    def register(self, name: str, strategy: AuthenticationStrategy) -> None:
        """Register a strategy under one of the names in `strategies` or `parse_strategies`.

        It replaces the strategy that has the name.

        Args:
            name: The name that credentials have under ``strategy``.
            strategy: An instance of its own, not registered elsewhere.

        Raises:
            TypeError: It is not an `AuthenticationStrategy`.
            ValueError: The instance is registered somewhere else.
        """
        if not isinstance(strategy, AuthenticationStrategy):
            raise TypeError(
                f"register({name!r}, {strategy!r}): a strategy is an instance of a class that"
                " derives from AuthenticationStrategy"
            )
        strategy.register(name, self)
        self._strategies[name] = strategy
        self._request_parser = None  # made anew, with this strategy
        self.secret_fields = frozenset(
            field for strategy in self._strategies.values() for field in strategy.secret_fields
        )
        self.scoped_strategies = frozenset(
            name for name, strategy in self._strategies.items() if strategy.has_scopes
        )

    def offer(
        self,
        name: str,
        strategy: AuthenticationStrategy,
        *,
        parses: bool = True,
        signs_in: bool = False,
        looks_first: bool = False,
    ) -> None:
        """Register a strategy, and say what it is for.

        Args:
            name: The name that credentials have under ``strategy``.
            strategy: An instance of its own, not registered elsewhere.
            parses: Whether it looks for credentials in requests and in the handshakes of real-time
                connections.
            signs_in: Whether clients can sign in with it. Otherwise it says who makes a request or
                opens a connection, but nobody gets a token for its credentials: an API key.
            looks_first: Whether it looks before the strategies so far. That matters if another one
                would take its credentials for its own, such as keys for tokens.

        Raises:
            TypeError: It is not an `AuthenticationStrategy`.
            ValueError: The instance is registered somewhere else.

        Examples:
            >>> from alula import App
            >>> from alula.authentication import AuthenticationService, AuthenticationStrategy
            >>> class ApiKeyStrategy(AuthenticationStrategy): ...
            >>> service = AuthenticationService(App(), secret="thirty-two random bytes at least")
            >>> service.offer("apiKey", ApiKeyStrategy())
            >>> (service.strategies, service.parse_strategies)
            (('jwt', 'local'), ('jwt', 'local', 'apiKey'))
        """
        self.register(name, strategy)
        self._signing_in = _with_or_without(self._signing_in, name, is_in=signs_in)
        self._parsing = _with_or_without(self._parsing, name, is_in=parses)
        if parses and looks_first:
            self._parsing = (name, *(other for other in self._parsing if other != name))

    def strategy(self, name: str) -> AuthenticationStrategy:
        """Return the strategy with a name.

        Raises:
            LookupError: No strategy has it.
        """
        if (strategy := self._strategies.get(name)) is None:
            registered = ", ".join(self._strategies) or "none"
            raise LookupError(f"no strategy is registered as {name!r}; registered: {registered}")
        return strategy

    def authenticate(
        self, authentication: object, params: Params, *strategies: str
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        """Check credentials, of a sign-in or of any other call.

        Args:
            authentication: The credentials, with the name of their strategy under ``strategy``.
            params: The params of the call.
            strategies: Names of the strategies that are allowed.

        Returns:
            ``authentication``, the user, and what else the strategy returns.

        Raises:
            NotAuthenticated: They are not valid, or their strategy is not allowed.
        """
        if not is_mapping(authentication) or not (name := authentication.get("strategy")):
            raise NotAuthenticated("Invalid authentication information (no `strategy` set)")
        strategy = self._strategies.get(name) if name in strategies else None
        if strategy is None:
            raise NotAuthenticated(
                "Invalid authentication information (strategy not allowed in authStrategies)"
            )
        return strategy.authenticate_without(authentication, params, self.secret_fields)

    def parse(self, req: SentRequest, res: object, *strategies: str) -> Parsed:
        """Return the credentials of a request, None if it has none, or an awaitable of that.

        Args:
            req: The request.
            res: The response.
            strategies: Names of the strategies that look for them; none for ``parse_strategies``.
        """
        if strategies:
            return self._parser_of(strategies)(req, res)
        # No `cached_property`: with it, Python 3.11 reads all attributes at a third of the speed.
        if (parse := self._request_parser) is None:
            parse = self._request_parser = self._parser_of(self.parse_strategies)
        return parse(req, res)

    def _parser_of(self, names: Iterable[str]) -> Parser:
        """Return what looks for the credentials of strategies, cookies last."""
        strategies = [*map(self.strategy, names)]
        # Every request calls these, so strategies that never find anything are left out.
        inherited = AuthenticationStrategy.parse
        parsers: list[Parser] = [s.parse for s in strategies if type(s).parse is not inherited]
        if self.token_cookies is not None and self.token_strategy in strategies:
            parsers.append(self.token_cookies.parse)
        if len(parsers) == 1:
            return parsers[0]

        def parse(req: SentRequest, res: object) -> Parsed:
            for place, parse_next in enumerate(parsers, 1):
                credentials = parse_next(req, res)
                if credentials is None:
                    continue
                if type(credentials) is dict or not hasattr(credentials, "__await__"):
                    return credentials  # pyright: ignore[reportUnknownVariableType]  # of any values
                return _first_credentials(credentials, parsers[place:], req, res)
            return None

        return parse

    def only_identifies(self, credentials: object) -> bool:
        """Return whether credentials say who somebody is, but cannot be used to sign in.

        Args:
            credentials: What a strategy has found in a request.
        """
        name = credentials.get("strategy") if is_mapping(credentials) else None
        return name in self.parse_strategies and name not in self.strategies

    @property
    def token_strategy(self) -> JWTStrategy | None:
        """The strategy that checks access tokens, None if none is registered."""
        tokens = (s for s in self._strategies.values() if isinstance(s, JWTStrategy))
        return next(tokens, None)

    # -- the service ---------------------------------------------------------------------------

    async def create(self, data: object, params: Params) -> dict[str, Any]:
        """Sign in.

        Args:
            data: The credentials, with the name of their strategy under ``strategy``.
            params: The params of the call.

        Returns:
            ``{"accessToken", "authentication", "user"}``, and with sessions ``refreshToken``.

        Raises:
            NotAuthenticated: The credentials are not valid.
            TooManyRequests: There were too many attempts.
        """
        attempt = self._new_attempt(data, params)
        with attempt.as_current_at(self):
            await self._check_credentials(attempt)  # by their strategy, and by a second step
            await self._show_user(attempt)  # as the caller may see the record
            await self._create_token(attempt)  # a session begins, with a refresh token
        return attempt.response

    async def check(self, credentials: object, params: Params) -> Attempt:
        """Check credentials as a sign-in does, with its throttle and its time, but sign nobody in.

        It is for calls that ask for a password again, such as one that changes the password.

        Args:
            credentials: As for `create`.
            params: The params of the call.

        Returns:
            The attempt; ``attempt.result`` has the user.

        Raises:
            NotAuthenticated: The credentials are not valid.
            TooManyRequests: There were too many attempts.
        """
        attempt = self._new_attempt(credentials, params)
        with attempt.as_current_at(self):
            await self._check_credentials(attempt)
        return attempt

    async def remove(self, id: str | None, params: Params) -> dict[str, Any]:
        """Sign out.

        Args:
            id: None, or the access token of the call.
            params: ``authentication`` has the credentials.

        Raises:
            NotAuthenticated: The credentials are not valid, or ``id`` is another token.
        """
        credentials = params.authentication
        if id is not None and (credentials is None or id != credentials.get("accessToken")):
            raise NotAuthenticated("Invalid access token")
        attempt = Attempt(credentials, params)
        with attempt.as_current_at(self):
            attempt.result = await self.authenticate(credentials, params, *self.strategies)
            await self._show_user(attempt)
            for extension in self.extensions:  # the session ends
                await extension.after_sign_out(attempt)
        self.forget_access_token(attempt.result.get("accessToken"))
        return attempt.response

    async def setup(self, app: Application, path: str) -> None:
        """Check secret, options, strategies and the users' service before the application starts.

        Raises:
            ValueError: The secret or another option is not valid; the message says what to do.
            LookupError: A strategy, also one that a hook names, or the users' service is not
                registered.
        """
        if self.entities is not None:
            _ = self.entities.id_name
        if not self.strategies and not self.parse_strategies:
            raise ValueError(
                "strategies is empty, so nobody can sign in: name the strategies, built in or"
                " your own: AuthenticationService(app, strategies=['jwt', 'local'])"
            )
        check_separation(self.tokens, self.entities, app, path)
        for name in {*self.strategies, *self.parse_strategies}:
            self.strategy(name)
        for strategy in list(self._strategies.values()):
            await strategy.setup()
        for extension in self.extensions:
            await extension.setup(self)
        app.settings.setdefault("authentication", path)
        check_hooks(self, app)
        handle = self._handle = app.service(path)
        for event in ("created", "removed"):
            handle.off(event, self._emit)  # a second setup must not emit twice
            handle.on(event, self._emit)
        self.connections.setup(app, path)
        if self.token_cookies is not None:
            self.token_cookies.setup(app, path)
        if self._follows_users:
            self.connections.follow_users()
        if self._has_tickets or app.settings.get("authentication_tickets"):
            self.tickets.offer(app, path)

    async def sign_in(
        self,
        user: Mapping[str, Any],
        params: Params,
        *,
        http: MutableMapping[str, Any] | None = None,
        methods: Iterable[str] = (),
        strategy: str = "application",
        session_id: str | None = None,
    ) -> Any:
        """Sign in a user whom your own code has checked, such as one who has just signed up.

        It is a call of this service like any other sign-in: its hooks and extensions run, a session
        begins, a real-time connection is signed in, and ``login`` is emitted. Clients cannot sign
        in by this way. The response has tokens: a service that returns it needs the attribute
        ``secret_events = True``, so that its events are not published.

        Args:
            user: The record of the user, or a mapping with its id.
            params: The params of the call in which the user signs in.
            http: ``context.http`` of that call, which gets the cookies. Needed with a `TokenCookie`
                where the call comes over REST.
            methods: How the user has signed in, as in RFC 8176, such as ``["otp"]``. With
                sessions, tokens have them in the claim ``amr``.
            strategy: The name under ``authentication.strategy`` of the result.
            session_id: The id of a session of this user that goes on; None begins one.

        Returns:
            What a client gets for a sign-in: ``{"accessToken", "authentication", "user"}``, and
            with sessions ``refreshToken``.

        Raises:
            NotAuthenticated: There is no such user or session any more.
            RuntimeError: The service is not set up or has no users, ``http`` is missing, or
                ``session_id`` is given without sessions.
            TypeError: The record has no id, or ``methods`` is one string.

        Examples:
            >>> from alula import App, HookContext
            >>> app = App()
            >>> async def sign_in(context: HookContext) -> None:
            ...     service = app.service("authentication").service
            ...     user, params, http = context.result, context.params, context.http
            ...     context.result = await service.sign_in(user, params, http=http)
        """
        handle, entities = self._handle, self.entities
        if handle is None or entities is None:
            raise RuntimeError("sign_in works after the setup of a service that has users")
        if http is None and self.token_cookies is not None and params.provider == "rest":
            raise RuntimeError(
                "the sign-in sets cookies; pass where: sign_in(user, params, http=context.http)"
            )
        user_id = entities.id_of(user)
        if user_id is None:
            raise TypeError(
                f"sign_in takes the record of a user; this one has no {entities.id_name!r}"
            )
        if isinstance(methods, str):
            raise TypeError(f"methods is a list of texts: [{methods!r}]")
        if session_id is not None and self.sessions is None:
            raise RuntimeError("session_id: this authentication service has no sessions")
        credentials = CheckedUser(user_id, (*methods,), strategy, session_id)
        inner = HookContext(handle.app, handle, "create", params.copy(query={}), data=credentials)
        await handle.run(inner)
        if http is not None:
            lines = _cookies_of(http) + _cookies_of(inner.http)
            headers: dict[str, Any] = http.get("headers") or {}
            http["headers"] = {**headers, **(inner.http.get("headers") or {})}
            if lines:
                http["headers"]["Set-Cookie"] = lines
        return inner.result if inner.dispatch is UNSET else public_part(inner.dispatch)

    # -- the steps of a sign-in ----------------------------------------------------------------

    async def account_found(self, id: Id, params: Params) -> None:  # noqa: ARG002  # for overrides
        """Notify the extensions which account a sign-in is for; called by its strategy.

        Args:
            id: The id of the account's record, None where there is none.
            params: The params that the strategy got.

        Raises:
            TooManyRequests: There were too many attempts for this account.
        """
        attempt = current_attempt(self)
        if attempt is not None:
            for extension in self.extensions:
                await extension.account_found(attempt, id)

    def _new_attempt(self, credentials: object, params: Params) -> Attempt:
        attempt = Attempt(credentials, params)
        is_checked = isinstance(credentials, CheckedUser)
        if is_mapping(credentials) and not is_checked:
            name = credentials.get("strategy")
            attempt.strategy = self._strategies.get(name) if name in self.strategies else None
        return attempt

    async def _check_credentials(self, attempt: Attempt) -> None:
        """Let the strategy check the credentials, and notify the extensions of the outcome."""
        for extension in self.extensions:  # the throttle takes a try
            await extension.before_attempt(attempt)
        credentials = attempt.credentials
        try:
            if isinstance(credentials, CheckedUser):
                attempt.result = await self._checked_user(attempt, credentials)
                attempt.methods = credentials.methods
            else:
                attempt.result = await self.authenticate(
                    credentials, attempt.params, *self.strategies
                )
                if attempt.strategy is not None and not attempt.methods:
                    attempt.methods = attempt.strategy.methods
            for extension in self.extensions:
                await extension.second_step(attempt)
        except Exception as error:
            for extension in self.extensions:
                await extension.after_failure(attempt, error)
            raise
        for extension in self.extensions:
            await extension.after_success(attempt)

    async def _checked_user(self, attempt: Attempt, credentials: CheckedUser) -> dict[str, Any]:
        """Return the result for a user whom the application has checked."""
        entities: Any = self.entities  # `sign_in` has looked
        record = await entities.get(credentials.user_id, attempt.params)

        async def confirm() -> None:
            # A removal or a new password may have ended the sessions just before this one began.
            now = await entities.get(credentials.user_id, attempt.params)
            if any(now.get(name) != record.get(name) for name in self.secret_fields):
                raise NotAuthenticated("The password has changed meanwhile; sign in again")

        attempt.confirm = confirm
        if credentials.session_id is not None:
            sessions: Any = self.sessions  # as above
            session: Session = sessions.session_of(await sessions.get(credentials.session_id))
            if session.user_id != str(entities.id_of(record)):
                raise session_ended()
            attempt.session = session
        user = without(record, self.secret_fields)
        return {"authentication": {"strategy": credentials["strategy"]}, entities.name: user}

    async def _show_user(self, attempt: Attempt) -> None:
        """Put the result into the response, with the user as the caller may see it."""
        attempt.response = dict(attempt.result)
        entities = self.entities
        if entities is not None and entities.name in attempt.response:
            record = attempt.response[entities.name]
            attempt.user_id = entities.id_of(record)
            record = await entities.shown(record, attempt.user_id, attempt.params)
            attempt.response[entities.name] = without(record, self.secret_fields)

    async def _create_token(self, attempt: Attempt) -> None:
        """Put a new access token into the response, and let the extensions add to it."""
        result = attempt.result
        if "accessToken" in result:  # the credentials are an access token: no second one
            return
        authentication: Mapping[str, Any] = result.get("authentication") or {}
        if self.entities is not None and attempt.user_id is None:
            raise RuntimeError(
                f"the strategy {authentication.get('strategy')!r} found no {self.entities.name}"
                f" with an {self.entities.id_name!r}, so there is nobody to make a token for"
            )
        claims = dict(await self.get_payload(result, attempt.params))
        for extension in self.extensions:
            claims.update(await extension.claims(attempt))
        self._end_with_session(claims, attempt.session)
        token = self.create_access_token(
            claims, None if self.entities is None else str(attempt.user_id)
        )
        attempt.response = {
            "accessToken": token,
            **attempt.response,
            "authentication": {**authentication, "payload": self.verify_access_token(token)},
        }
        for extension in self.extensions:
            attempt.response = await extension.response(attempt)

    def _end_with_session(self, claims: dict[str, Any], session: Session | None) -> None:
        """Let a token expire no later than its session, which closes its connections in time."""
        if session is not None:
            end = session.expires_at // 1000
            if end < claims.get("exp", time.time() + self.tokens.lifetime):
                claims["exp"] = end

    async def credentials_of_ticket(self, ticket: str) -> dict[str, str]:
        """Use a ticket up, and return the credentials of the user who got it.

        Args:
            ticket: The ticket; any text.

        Raises:
            NotAuthenticated: It is not valid, or was used before.
        """
        return await self.tickets.redeem(ticket)

    async def new_password(self, params: Params) -> None:
        """Notify the extensions of a call that sets a password, before it is hashed.

        Args:
            params: The params of the call.

        Raises:
            TooManyRequests: There were too many of them.
        """
        for extension in self.extensions:
            await extension.before_new_password(params)

    def _emit(self, response: object, context: HookContext) -> None:
        # Only clients sign in and out; the server may check credentials by the same calls.
        if context.params.provider is not None:
            event = "login" if context.method == "create" else "logout"
            self.app.emit(event, response, context.params, context)

    # -- tokens --------------------------------------------------------------------------------

    async def get_payload(
        self,
        result: Mapping[str, Any],  # noqa: ARG002  # for those who override it
        params: Params,
    ) -> Mapping[str, Any]:
        """Return additional claims of a new token; override it to add your own.

        Args:
            result: What the strategy returned.
            params: The params of the sign-in; hooks can put claims into ``params.payload``.
        """
        payload: Mapping[str, Any] = params.get("payload", {})
        return payload

    def create_access_token(self, claims: Mapping[str, Any], subject: str | None = None) -> str:
        """Return a new access token.

        Args:
            claims: Additional claims; an ``exp`` replaces the configured expiry.
            subject: The id of the user.
        """
        return self.tokens.create(claims, subject)

    def verify_access_token(self, token: object) -> dict[str, Any]:
        """Return the payload of an access token.

        Raises:
            NotAuthenticated: It is not valid, not valid now, or for another audience.
        """
        return (self._tokens or self.tokens).verify(token)

    def forget_access_token(self, token: object) -> None:
        """Forget a verified access token, so that its signature is verified again the next time.

        Tokens that are refused, or that sign out, are forgotten. Whether they are still accepted
        is up to the checks of each request.

        Args:
            token: Any value; one that is not remembered changes nothing.
        """
        if self._tokens is not None:  # else nothing was verified
            self._tokens.forget(token)

    def derived_key(self, purpose: bytes) -> bytes:
        """Return a key for another purpose; the secret cannot be computed from it."""
        return self.tokens.derived_key(purpose)

    @property
    def tokens(self) -> Tokens:
        """Creates and verifies the access tokens.

        Raises:
            ValueError: The service has no secret, or one that is not valid.
        """
        if self._tokens is not None:
            return self._tokens
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
        # No `cached_property`: with it, Python 3.11 reads all attributes at a third of the speed.
        self._tokens = Tokens(secret, **self._token_options)
        return self._tokens


def _cookies_of(http: Mapping[str, Any]) -> list[str]:
    """Return the lines ``Set-Cookie`` of a response."""
    headers: Mapping[str, Any] = http.get("headers") or {}
    given: str | list[str] = headers.get("Set-Cookie", [])
    return [given] if isinstance(given, str) else list(given)


def _with_or_without(names: tuple[str, ...], name: str, *, is_in: bool) -> tuple[str, ...]:
    """Return names that have one name, in its place or at the end, or that do not have it."""
    if not is_in:
        return tuple(other for other in names if other != name)
    return names if name in names else (*names, name)


async def _first_credentials(
    awaitable: Any, parsers: Sequence[Parser], req: SentRequest, res: object
) -> Credentials | None:
    """Wait for an asynchronous parser, and call the following ones until one finds credentials."""
    credentials: Credentials | None = await awaitable
    for parse in parsers:
        if credentials is not None:
            break
        parsed = parse(req, res)
        credentials = await parsed if isinstance(parsed, Awaitable) else parsed
    return credentials


def _check_types(
    app: object, service: object, secret: object, strategies: object, parse_strategies: object
) -> None:
    """Check what a type checker would find.

    Raises:
        TypeError: An argument is of another type.
    """
    if isinstance(strategies, str) or isinstance(parse_strategies, str):
        raise TypeError("strategies and parse_strategies are lists of names, not one string")
    if isinstance(app, type):
        raise TypeError(f"AuthenticationService(app) takes the application, not {app!r}")
    if not isinstance(service, str):
        raise TypeError(f"service is the path of the users' service, not {service!r}")
    if not isinstance(secret, str | bytes | None):  # without the value, which may be a secret
        raise TypeError(f"secret is a string or bytes, not of type {type(secret).__name__}")
