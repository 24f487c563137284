"""The base class of strategies, the ways to prove who is calling."""
# ruff: noqa: ARG002  # methods of the base class are there to be overridden

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeAlias

from alula._context import Params
from alula._identity import SentRequest
from alula.authentication._entities import check_property, without
from alula.errors import NotAuthenticated

__all__ = ["AuthenticationStrategy", "Credentials", "Parsed", "Parser", "is_sent_twice"]

Credentials: TypeAlias = Mapping[str, Any]
"""What a client sends to show who it is: ``strategy``, and what that strategy needs."""

Parsed: TypeAlias = Credentials | Awaitable[Credentials | None] | None
Parser: TypeAlias = Callable[[Any, Any], Parsed]


class AuthenticationStrategy:
    """Base class for a way to authenticate; override `authenticate`.

    Attributes:
        name: The name under which it is registered.
        authentication: The authentication service that it is registered at.
        app: The application of that service.
        secret_fields: Fields of a user's record that are removed from ``params.user`` and from
            every response.
        can_be_guessed: Whether credentials can be guessed by many tries, which the throttle then
            limits.
        looks_up_account: Whether `authenticate` calls ``self.authentication.account_found(id,
            params)`` after it has looked for the account, and before it checks the credentials.
            The throttle then counts by account. Otherwise it counts by the name in `account_of`.
        has_scopes: Whether its credentials are limited to scopes, such as API keys: `authenticate`
            then returns them as ``scopes`` in ``authentication``. The hook `authenticate` refuses
            calls that lack a scope; the scope ``"*"`` is all of them.
        security_scheme: How clients send credentials that have scopes, as a security scheme of
            OpenAPI; None leaves them out of descriptions.
        methods: How users sign in with it, as in RFC 8176: ``("pwd",)`` for a password. With
            sessions, tokens have them in the claim ``amr``.

    Examples:
        >>> from alula.authentication import AuthenticationStrategy
        >>> from alula.errors import NotAuthenticated
        >>> class Pin(AuthenticationStrategy):
        ...     async def authenticate(self, authentication, params):
        ...         if authentication.get("pin") != "0000":
        ...             raise NotAuthenticated("Invalid PIN")
        ...         user = await self.app.service("users").get(1)
        ...         return {"authentication": {"strategy": self.name}, "user": user}
    """

    name: str = ""
    authentication: Any = None
    app: Any = None
    secret_fields: tuple[str, ...] = ()
    can_be_guessed: bool = True
    looks_up_account: bool = False
    has_scopes: bool = False
    security_scheme: Mapping[str, Any] | None = None
    methods: tuple[str, ...] = ()

    def register(self, name: str, authentication: Any) -> None:
        """Connect the strategy to its service, which calls this when it is registered.

        Args:
            name: The name under which it is registered.
            authentication: The authentication service.

        Raises:
            ValueError: The strategy is already registered somewhere else, or one of its
                `secret_fields` is inside another property.
        """
        if self.authentication not in {None, authentication} or self.name not in {"", name}:
            raise ValueError(
                f"the strategy {name!r} is already registered, as {self.name!r}; make one instance"
                " for each place where it is used"
            )
        for field in self.secret_fields:
            check_property(field, f"the strategy {name!r}")
        self.name, self.authentication, self.app = name, authentication, authentication.app

    async def setup(self) -> None:
        """Prepare, and check the configuration; called when the application is set up."""

    async def authenticate(
        self, authentication: Mapping[str, Any], params: Params
    ) -> dict[str, Any]:
        """Check credentials.

        Args:
            authentication: What the client sent: ``strategy``, and any other JSON.
            params: The params of the call; ``params.provider`` is None for internal calls.

        Returns:
            ``{"authentication": {"strategy": self.name}}``, and under the name of the entity
            (``"user"``) the record of the user. All of it except ``accessToken`` is copied into
            ``params``. An ``id`` beside ``strategy`` names the credentials: a real-time connection
            that was opened with them ends with
            ``self.authentication.connections.announce(self.name, [id])``. With an ``expiresAt``,
            in milliseconds since 1970, it ends at that time.

        Raises:
            NotAuthenticated: The credentials are not valid.
        """
        raise NotImplementedError(f"{type(self).__name__} has no authenticate(...)")

    def authenticate_without(
        self, authentication: Mapping[str, Any], params: Params, fields: frozenset[str]
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        """Return a coroutine of what `authenticate` returns, without some fields of the user.

        The authentication service calls it with its ``secret_fields``; override `authenticate`.
        """

        async def authenticate() -> dict[str, Any]:
            try:
                result = await self.authenticate(authentication, params)
            except NotAuthenticated:
                self.authentication.connections.refused(params.get("connection"), authentication)
                raise
            entity = self.authentication.entity
            if entity not in result:
                return result
            # A copy: a strategy may keep what it has returned.
            return {**result, entity: without(result[entity], fields)}

        return authenticate()

    def account_of(self, authentication: Mapping[str, Any]) -> str | None:
        """Return the account that credentials name, None if they name none."""
        return None

    def parse(
        self, req: Any, res: Any
    ) -> Mapping[str, Any] | Awaitable[Mapping[str, Any] | None] | None:
        """Return the credentials in a request, None if it has none.

        It runs for every request; make it a plain function if you can, since a coroutine costs
        more.

        Args:
            req: The request.
            res: The response.
        """
        return None


def is_sent_twice(req: SentRequest, header: bytes) -> bool:
    """Tell whether a request has a header twice. A proxy may have checked the other value.

    Args:
        req: The request.
        header: The name of the header in lower case.
    """
    sent = req.scope["headers"]
    return len(req.sent_headers) < len(sent) and sum(name == header for name, _ in sent) > 1
