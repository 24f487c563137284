"""The strategies of an authentication service: by name, and as parsers of requests."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from typing import Any

from alula._context import Params
from alula._identity import SentRequest
from alula.authentication._strategies import (
    AuthenticationStrategy,
    Credentials,
    JWTStrategy,
    Parsed,
    Parser,
)
from alula.authentication._token_cookies import TokenCookies
from alula.errors import NotAuthenticated
from alula.types import is_mapping

__all__ = ["StrategyTable"]


class StrategyTable:
    """The strategies of an authentication service; its base class.

    Args:
        entity: The name of the user's record in params and responses, None for no users.
        strategies: Names of the strategies for signing in.
        parse_strategies: Names of those that look for credentials in requests; None for the same.

    Attributes:
        entity: As given.
        strategies: As given.
        parse_strategies: As given, or ``strategies``.
        secret_fields: Fields of a user's record that no response and no params have.
        token_cookies: Reads and sets the cookies of tokens; None where there are none.

    Raises:
        TypeError: One string is given for a list.
    """

    def __init__(
        self,
        entity: str | None,
        strategies: Iterable[str],
        parse_strategies: Iterable[str] | None,
    ) -> None:
        if isinstance(strategies, str) or isinstance(parse_strategies, str):
            raise TypeError("strategies and parse_strategies are lists of names, not one string")
        self.entity = entity
        self.strategies: tuple[str, ...] = tuple(strategies)
        parsing = self.strategies if parse_strategies is None else parse_strategies
        self.parse_strategies: tuple[str, ...] = tuple(parsing)
        self.secret_fields: frozenset[str] = frozenset()
        self.token_cookies: TokenCookies | None = None
        self._strategies: dict[str, AuthenticationStrategy] = {}
        self._request_parser: Parser | None = None

    def register(self, name: str, strategy: AuthenticationStrategy) -> None:
        """Register a strategy, in place of one that has the name already.

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
        # Every request calls them, so without those that never find anything.
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
                return first_credentials(credentials, parsers[place:], req, res)
            return None

        return parse

    @property
    def token_strategy(self) -> JWTStrategy | None:
        """The strategy that checks access tokens, None if none is registered."""
        tokens = (s for s in self._strategies.values() if isinstance(s, JWTStrategy))
        return next(tokens, None)


async def first_credentials(
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
