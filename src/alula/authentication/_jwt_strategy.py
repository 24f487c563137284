"""Access tokens as credentials: `JWTStrategy`, and the short way of calls with a verified token."""

from __future__ import annotations

import re
import time
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from hashlib import blake2b
from operator import attrgetter
from types import MethodType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from alula._context import HookContext, Params
from alula._identity import AmbientCredentials, Application
from alula._user_code import describe_frames
from alula.authentication._access_tokens import VerifiedToken
from alula.authentication._attempt import Extension
from alula.authentication._entities import OF_NOBODY, Entities, without
from alula.authentication._strategies import AuthenticationStrategy, Request, is_unchanged
from alula.errors import NotAuthenticated, NotFound
from alula.types import UNSET, Id

__all__ = ["JWTStrategy", "TokenCheck", "checked_by_token", "token_checks"]

OnExpiry: TypeAlias = Literal["close", "sign_out"]
"""What happens to a real-time connection whose token is no longer valid."""

Call: TypeAlias = Callable[[Any], Coroutine[Any, Any, None]]
_Place: TypeAlias = tuple[Mapping[str, Any], Mapping[str, Any]]
"""The services of an application, and the settings, one of which names the service."""

_NO_CHECK: Final = Extension.check_token
_check_of: Final = attrgetter("check_token.__func__")


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
        names = [scheme.lower() for scheme in schemes]
        self._schemes = frozenset((*names, *(f"{name}:" for name in names)))
        written = [name.encode() for name in self._schemes if name.isascii() and " " not in name]
        any_scheme = b"|".join(map(re.escape, written)) or rb"(?!)"
        self._in_scheme = re.compile(rb"(?i:%s) ([^ ]*[^ \t])" % any_scheme).fullmatch

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
        """As in the base class; None for the fields is a call by `authenticate`.

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
            await run_token_checks(service.extensions, payload, record, params)
        except NotAuthenticated:
            service.token_refused(token, params)
            raise
        verified = {"strategy": self.name, "accessToken": token, "payload": payload}
        result: dict[str, Any] = {"accessToken": token, "authentication": verified}
        if entities is not None:
            result[entities.name] = without(record, fields) if fields else record
        return result

    @property
    def only_header(self) -> str | None:
        return self.header if is_unchanged(self, JWTStrategy, "parse") else None

    # A strategy's `parse` gets a response, too.
    def parse(self, req: Request, res: object) -> Mapping[str, Any] | None:  # noqa: ARG002  # as above
        """Return the token of a request, None if the header has none."""
        # From the raw headers, which take no loop in Python: browsers send a dozen of them.
        sent = req.scope["headers"]
        by_name: dict[bytes, bytes] = dict(sent)
        raw = by_name.get(self._raw_header)
        if raw is None:
            return None
        if len(by_name) < len(sent) and sum(name == self._raw_header for name, _ in sent) > 1:
            # A proxy may have checked the one, and this would take the other.
            return {"strategy": self.name, "accessToken": None}
        return self.parse_value(raw)

    def parse_value(self, raw: bytes) -> dict[str, Any] | None:
        """Return the token in the header's value, None if it has none."""
        # Most are a scheme, a space and a token.
        match = self._in_scheme(raw)
        if match is not None:
            return {"strategy": self.name, "accessToken": match[1].decode("latin-1")}
        scheme, _, rest = raw.decode("latin-1").strip(" \t").partition(" ")
        if not scheme:
            return None
        if not rest:
            return {"strategy": self.name, "accessToken": scheme}
        if scheme.lower() not in self._schemes:
            return None
        return {"strategy": self.name, "accessToken": rest.lstrip(" ").partition(" ")[0]}


async def run_token_checks(
    extensions: Iterable[Extension], payload: Mapping[str, Any], record: object, params: Params
) -> None:
    """Let extensions check a token.

    Raises:
        Exception: Any that they raise.
    """
    for extension in extensions:
        check = extension.check_token
        if getattr(check, "__func__", None) is not _NO_CHECK:  # saves a coroutine
            await check(payload, record, params)


def token_checks(extensions: Iterable[Extension]) -> list[object] | None:
    """Return the functions `check_token` of extensions, None if one is not that of a class."""
    try:
        return [*map(_check_of, extensions)]
    except AttributeError:
        return None


class TokenCheck(NamedTuple):
    """What is decided of an authentication service that checks access tokens as it is built in.

    It holds until the service has another `StrategyTable.version`, or extensions that check tokens
    by other functions.

    Attributes:
        service: The service.
        version: Its version.
        strategy: The name of the `JWTStrategy`.
        tokens: The tokens that were verified.
        entities: The users.
        get: Their method `get`, if it ignores the caller and nothing is around it.
        methods: What the handle of the users has such methods in; another object for other hooks.
        hidden: The fields that are removed from the record of a user.
        checks: The functions `check_token` of the extensions.
    """

    service: Any
    version: object
    strategy: str
    tokens: Mapping[bytes, VerifiedToken]
    entities: Entities
    get: Callable[[Id, Params], Awaitable[Any]] | None
    methods: object
    hidden: frozenset[str]
    checks: Sequence[object]


def checked_by_token(
    check: Call, look_up: Callable[[Application], Any], names: Sequence[str], path: str | None
) -> Callable[[Call], Call]:
    """Return what puts the check of a caller and the rest of a call into one coroutine.

    Args:
        check: Checks the caller of any call.
        look_up: Returns the authentication service of an application.
        names: Names of the strategies that are allowed.
        path: The path of the authentication service, None for the default one.
    """

    def join(inner: Call) -> Call:
        version: object = None  # of the service that was decided of
        decided: TokenCheck | None = None

        async def check_any(context: HookContext) -> None:
            await check(context)
            decide(context.app)
            await inner(context)

        way: Call = describe_frames(check_any, _describe)

        def decide(app: Application) -> None:
            nonlocal version, decided, way
            service = look_up(app)
            if getattr(service, "version", None) is version and (
                decided is None or decided.checks == token_checks(service.extensions)
            ):
                return
            services = app.services
            settings = app.settings if path is None else {"authentication": path}
            handle = services.get(settings.get("authentication", ""))
            # Only where one look-up finds it: not that of another application.
            if handle is None or handle.service is not service:
                return
            version, decided = service.version, service.token_check(names)
            if decided is None:
                way = check_any
            else:
                way = _short_way(decided, (services, settings), check_any, inner)

        return lambda context: way(context)  # noqa: PLW0108  # not `way` itself, which changes

    return join


def _short_way(decided: TokenCheck, place: _Place, long_way: Call, inner: Call) -> Call:  # noqa: C901  # one function, see below
    """Return the check of a token that was verified before, and the rest of the call behind it.

    What may differ from call to call is looked up in each: whether the service is still there, its
    version and extensions, the token, the time, the user. Where anything is not as it was decided,
    and for all that is refused, the long way runs in its place.
    """
    service, version, strategy, tokens, entities, get, methods, hidden, checks = decided
    has_checks = any(check is not _NO_CHECK for check in checks)
    services, settings = place
    name, path, users = entities.name, entities.handle.path, entities.app.services
    # Most records are dicts, of which one field is hidden. All others are left to `without`.
    field = next(iter(hidden), "")
    plain: Any = dict if len(hidden) == 1 else None
    marks = {"authenticated": True, "authenticated_by": service}

    # One function: it and the joined coroutine save 250 of the 1,842 bytecodes of a signed-in get.
    async def check_token(context: HookContext) -> None:  # noqa: PLR0912  # as above
        values = context._params.__dict__  # noqa: SLF001  # the property takes 150 instructions
        credentials = values.get("authentication")
        if credentials is None or "authenticated" in values:
            return await long_way(context)
        finding: Awaitable[Any] | None
        try:
            if (
                credentials["strategy"] != strategy
                or services[settings["authentication"]].service.version is not version
                or [*map(_check_of, service.extensions)] != checks
            ):
                raise LookupError
            token = credentials["accessToken"]
            copy_of_claims, until, _ = tokens[blake2b(token.encode()).digest()]
            if time.time() >= until:
                raise LookupError
            # Hooks may change the payload that they get, but must not change the remembered one.
            payload = copy_of_claims()
            if users[path].plain_methods is methods:
                finding = get(payload["sub"], OF_NOBODY)  # type: ignore[misc]  # pyright: ignore[reportOptionalCall]  # ty: ignore[not-callable]  # given with `methods`
            else:
                finding = entities.get(payload["sub"], context.params)
        except (LookupError, TypeError, AttributeError, UnicodeError):  # credentials are any JSON
            finding = token = payload = None
        if finding is None:
            return await long_way(context)
        try:
            record: Any = await finding
        except NotFound:
            record = UNSET
        except NotAuthenticated:  # by a hook of the users, which must not run again
            service.token_refused(token, context.params)
            raise
        if has_checks and record is not UNSET:
            await _run_checks(service, token, payload, record, context.params)
        if type(record) is plain:
            user: Any = {**record}  # pyright: ignore[reportUnknownVariableType, reportGeneralTypeIssues]  # ty: ignore[invalid-argument-type]  # a dict
            user.pop(field, None)
        elif record is UNSET:
            return await long_way(context)
        else:
            user = without(record, hidden)
        values["authentication"] = {"strategy": strategy, "accessToken": token, "payload": payload}
        values[name] = user
        values |= marks
        return await inner(context)

    return describe_frames(check_token, _describe)


async def _run_checks(
    service: Any, token: object, payload: Any, record: object, params: Params
) -> None:
    try:
        await run_token_checks(service.extensions, payload, record, params)
    except NotAuthenticated:
        service.token_refused(token, params)
        raise


def _describe(names: Mapping[str, Any]) -> str:
    return f"around hook authenticate(...) of {names['context'].service!r}"
