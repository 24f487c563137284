"""The strategy that accepts access tokens, in headers and in credentials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MethodType
from typing import Any, Final, Literal, TypeAlias, get_args

from alula._context import Params
from alula._identity import AmbientCredentials, SentRequest
from alula.authentication._attempt import Extension
from alula.authentication._base_strategy import AuthenticationStrategy, is_sent_twice
from alula.authentication._entities import without
from alula.errors import NotAuthenticated

__all__ = ["JWTStrategy"]

OnExpiry: TypeAlias = Literal["close", "sign_out"]
"""What happens to a real-time connection whose token is no longer valid."""

_NO_CHECK: Final = Extension.check_token


class JWTStrategy(AuthenticationStrategy):
    """Accepts an access token: ``{"strategy": "jwt", "accessToken": "..."}``.

    In a request the token is in one header, alone or after a scheme: ``Bearer <token>``. A colon
    after the scheme and several spaces are accepted, as FeathersJS does.

    Args:
        header: The name of the header.
        schemes: The accepted schemes, in upper or lower case.
        on_expiry: What happens to a real-time connection whose token expires. ``"close"`` closes
            it, so that clients come back and notice that they are signed out. ``"sign_out"`` keeps
            it open, without a user. The same happens where its session or its user is removed.

    Attributes:
        header: As given, in lower case.
        on_expiry: As given.

    Raises:
        ValueError: ``on_expiry`` is neither of these.

    Examples:
        >>> from alula.authentication import JWTStrategy
        >>> strategy = JWTStrategy(header="X-Token", schemes=["Token"])
    """

    can_be_guessed = False

    def __init__(
        self,
        *,
        header: str = "Authorization",
        schemes: Iterable[str] = ("Bearer", "JWT"),
        on_expiry: OnExpiry = "close",
    ) -> None:
        if on_expiry not in get_args(OnExpiry):
            raise ValueError(f'on_expiry is {on_expiry!r}; write "close" or "sign_out"')
        self.on_expiry = on_expiry
        self._built_in_check = MethodType(JWTStrategy.authenticate, self)
        self.header = header.lower()
        self._raw_header = self.header.encode("ascii")
        spelled = (*schemes,)
        names = [scheme.lower() for scheme in spelled]
        self._schemes = frozenset((*spelled, *names, *(f"{name}:" for name in names)))

    async def authenticate(
        self, authentication: Mapping[str, Any], params: Params
    ) -> dict[str, Any]:
        """Verify a token, and load its user.

        Raises:
            NotAuthenticated: The token is not valid, or its user does not exist.
            Forbidden: It is that of a cookie, and another site may have made the request.
        """
        return await JWTStrategy.authenticate_without(self, authentication, params, None)

    async def authenticate_without(
        self, authentication: Mapping[str, Any], params: Params, fields: frozenset[str] | None
    ) -> dict[str, Any]:
        """Do the same as the base class. The fields are None when `authenticate` calls this.

        Raises:
            NotAuthenticated: The token or its user is not valid.
        """
        if fields is not None and self.authenticate != self._built_in_check:  # it is overridden
            return await super().authenticate_without(authentication, params, fields)
        token = authentication.get("accessToken")
        if not token and token in (None, "", 0):
            if isinstance(authentication, AmbientCredentials) and authentication.refusal:
                raise authentication.refusal
            raise NotAuthenticated("No access token")
        service = self.authentication
        try:
            payload = service.verify_access_token(token)
            entities, record = service.entities, None
            if entities is not None:
                record = await entities.get(payload["sub"], params)
            for extension in service.extensions:
                check = extension.check_token
                if getattr(check, "__func__", None) is not _NO_CHECK:  # saves a coroutine
                    await check(payload, record, params)
        except NotAuthenticated:
            service.forget_access_token(token)
            service.connections.refused(params.get("connection"), authentication)
            raise
        verified = {"strategy": self.name, "accessToken": token, "payload": payload}
        result: dict[str, Any] = {"accessToken": token, "authentication": verified}
        if entities is not None:
            result[entities.name] = without(record, fields) if fields else record
        return result

    # A strategy's `parse` gets a response, too.
    def parse(self, req: SentRequest, res: object) -> Mapping[str, Any] | None:  # noqa: ARG002  # as above
        """Return the token of a request, None if the header has none."""
        raw = req.sent_headers.get(self._raw_header)
        if raw is None:
            return None
        if is_sent_twice(req, self._raw_header):
            return {"strategy": self.name, "accessToken": None}
        scheme, _, rest = raw.decode("latin-1").partition(" ")
        if not rest or " " in rest or "\t" in rest or scheme not in self._schemes:
            scheme, _, rest = raw.decode("latin-1").strip(" \t").partition(" ")
            if not scheme:
                return None
            if not rest:
                return {"strategy": self.name, "accessToken": scheme}
            if scheme.lower() not in self._schemes:
                return None
            rest = rest.lstrip(" ").partition(" ")[0]
        return {"strategy": self.name, "accessToken": rest}
