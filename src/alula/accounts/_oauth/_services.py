"""The services `oauth/:provider`, which begins a sign-in, and its `callback`, which finishes it.

Both are for browsers, which come by a link or a form and leave by a redirect. Their paths and
responses are those of FeathersJS.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from alula._context import Params
from alula._cookies import SameSite
from alula._identity import Application, identify
from alula.accounts._browsers import browser_tag, cookie_of_secret, secret_in_cookie
from alula.accounts._budgets import charge_network
from alula.accounts._guards import RECENT_SECONDS, check_recent
from alula.accounts._oauth._identities import Identities, Identity
from alula.accounts._oauth._matching import Matching
from alula.accounts._oauth._pages import Pages
from alula.accounts._oauth._refused import TEXTS, Refused
from alula.accounts._oauth._replies import Replies, Reply, send_reply
from alula.accounts._oauth._starts import Start, Starts
from alula.accounts._urls import origin_of
from alula.accounts.providers._provider import Claims, Provider, ProviderError
from alula.errors import BadRequest, Forbidden, MethodNotAllowed, NotAuthenticated, NotFound
from alula.types import is_mapping

__all__ = ["SignInWithOthers"]

_log: Final = logging.getLogger("alula.accounts")

_PATH: Final = "oauth/:provider"
_AN_HOUR: Final = 120  # starts, and callbacks, of one network
_METHODS: Final = ("fed",)  # of `amr`: somebody else has checked who it is
_OF_ORIGIN: Final = frozenset({"origin", "sec-fetch-site"})

# What providers say (RFC 6749, section 4.1.2.1, and OpenID Connect Core, section 3.1.2.6).
_CODES: Final[Mapping[str, str]] = {
    "access_denied": "access_denied",
    "consent_required": "access_denied",
    "interaction_required": "access_denied",
    "login_required": "access_denied",
    "server_error": "unavailable",
    "temporarily_unavailable": "unavailable",
}


class SignInWithOthers:
    """What the two services have in common.

    Args:
        authentication: The authentication service.
        providers: The providers.
        base_url: How browsers reach this server.
        pages: Where they return to.
        identities: The identities.
        matching: Finds users.
        replies: Makes the responses.
    """

    def __init__(
        self,
        authentication: Any,
        providers: Sequence[Provider],
        base_url: str,
        pages: Pages,
        identities: Identities,
        matching: Matching,
        replies: Replies,
    ) -> None:
        self.authentication = authentication
        self.providers = {provider.name: provider for provider in providers}
        self.pages = pages
        self.identities = identities
        self.matching = matching
        self.replies = replies
        self.starts = Starts()
        self._base_url = base_url

    def offer(self, app: Application) -> None:
        """Register the services."""
        for path, service in ((_PATH, _Start(self)), (f"{_PATH}/callback", _Callback(self))):
            app.use(path, service, methods=["find", "create"])
            app.service(path).hooks(around={"all": [send_reply]})

    def setup(self, app: Application, path: str) -> None:
        """Find the store, and derive the key of the cookies."""
        self.identities.setup(app)
        self.starts.setup(self.authentication, path)

    async def close(self) -> None:
        """Close the connections to the providers."""
        for provider in self.providers.values():
            await provider.close()

    def provider_of(self, params: Params) -> Provider:
        """Return the provider that the path of a call names.

        Raises:
            MethodNotAllowed: The call does not come from a browser over HTTP.
            NotFound: There is no such provider.
        """
        if params.provider != "rest":
            raise MethodNotAllowed("Sign in with others by a link that a browser follows")
        name = params.route.get("provider", "")
        if (provider := self.providers.get(name)) is None:
            raise NotFound("There is no such provider")
        return provider

    def redirect_uri(self, provider: Provider) -> str:
        """Return where a provider sends the browser back to."""
        return f"{self._base_url}/oauth/{provider.name}/callback"


class _Start:
    """Sends a browser to a provider.

    Attributes:
        secret_events: True: nobody gets events of it.
    """

    secret_events = True

    def __init__(self, common: SignInWithOthers) -> None:
        self._common = common

    async def setup(self, app: Application, path: str) -> None:
        """Prepare both services."""
        self._common.setup(app, path)

    async def teardown(self, app: Application, path: str) -> None:  # noqa: ARG002  # as applications call it
        """Close the connections to the providers."""
        await self._common.close()

    async def find(self, params: Params) -> Reply:
        """Begin a sign-in by a link: ``?redirect=notes``.

        Raises:
            BadRequest: The redirect is not below a page.
        """
        provider = self._common.provider_of(params)
        target, caller = self._target(params.query, params), None
        if (token := params.query.get("feathers_token")) is not None:
            caller = await self._caller_by_url(token, params)
        return await self._begin(provider, target, caller, params.query, params)

    async def create(self, data: object, params: Params) -> Reply:
        """Begin a sign-in by a form or a script. For a signed-in caller it links the identity.

        Raises:
            BadRequest: The redirect is not below a page.
            NotAuthenticated: The credentials are not valid, or the sign-in is not recent.
        """
        provider, values = self._common.provider_of(params), _mapping(data)
        target, caller = self._target(values, params), None
        if params.authentication is not None:
            caller = await self._caller(params)
        reply = await self._begin(provider, target, caller, values, params)
        if reply.location is not None and _wants_json(params):  # `fetch` cannot follow a redirect
            return Reply(status=201, body={"location": reply.location}, cookies=reply.cookies)
        return reply

    def _target(self, values: Mapping[str, Any], params: Params) -> str | None:
        sent = _referrer(params)
        origin = None if sent is None else origin_of(sent)
        return self._common.pages.resolve(values.get("redirect"), origin)

    async def _caller_by_url(self, token: object, params: Params) -> Mapping[str, Any] | None:
        """Return the claims of who wants to link an identity, by a token in the URL.

        A stranger could send somebody a link with the stranger's own token. Then the reader's
        identity would be linked to the stranger's account. So the token is accepted only from our
        own pages.

        Raises:
            BadRequest: The request comes from elsewhere, or does not say where it comes from.
            NotAuthenticated: The token is not valid.
        """
        sent = _referrer(params)
        if sent is not None and not self._common.pages.is_own(origin_of(sent)):
            raise BadRequest("feathers_token: only your own pages can link accounts with it")
        if not isinstance(token, str):
            raise BadRequest("feathers_token has to be one text")
        strategy = self._common.authentication.token_strategy
        credentials = {"strategy": strategy.name, "accessToken": token}
        try:
            caller = await self._caller(params.copy(query={}, authentication=credentials))
        except NotAuthenticated:
            if sent is None:  # nobody's token from nowhere: an ordinary sign-in
                return None
            raise
        if sent is None:
            raise BadRequest(
                "feathers_token needs the header Referer; use POST with an Authorization header"
                " on pages that do not send it"
            )
        return caller

    async def _caller(self, params: Params) -> Mapping[str, Any]:
        """Return the claims of a caller's token, which has a session.

        Raises:
            NotAuthenticated: The credentials are not an access token of a session.
            Forbidden: The credentials are in a cookie, and another site may have made the request.
        """
        authentication = self._common.authentication
        await identify(authentication, params, (authentication.token_strategy.name,))
        payload: Mapping[str, Any] = (params.authentication or {}).get("payload") or {}
        if "sid" not in payload:
            raise NotAuthenticated("Sign in again")
        return payload

    async def _begin(
        self,
        provider: Provider,
        target: str | None,
        caller: Mapping[str, Any] | None,
        values: Mapping[str, Any],
        params: Params,
    ) -> Reply:
        common = self._common
        await charge_network(common.authentication, "starts", params, _AN_HOUR)
        if caller is not None:  # who links an identity can sign in by it for ever
            check_recent(RECENT_SECONDS, caller)
        passed_on = {
            name: value
            for name in sorted(provider.start_parameters)
            if isinstance(value := values.get(name), str)
        }
        try:
            start = Start(
                provider=provider.name,
                issuer=await provider.issuer(),
                target=target,
                user_id=None if caller is None else caller["sub"],
                session_id=None if caller is None else caller["sid"],
            )
            location = await provider.authorization_url(
                redirect_uri=common.redirect_uri(provider),
                state=start.state,
                nonce=start.nonce,
                verifier=start.verifier,
                passed_on=passed_on,
            )
        except ProviderError as error:
            return common.replies.refused(target, _refused_by(provider, error))
        same_site: SameSite = "none" if provider.form_post else "lax"
        sent = params.headers.get("cookie")
        cookies = common.starts.cookies_of(start, sent, same_site=same_site)
        return Reply(location=location, cookies=cookies)


class _Callback:
    """Signs in a person who comes back from a provider.

    Attributes:
        secret_events: True: nobody gets events of it.
    """

    secret_events = True

    def __init__(self, common: SignInWithOthers) -> None:
        self._common = common

    async def find(self, params: Params) -> Reply:
        """Finish a sign-in with what the provider has put into the URL."""
        return await self._finish(params.query, params)

    async def create(self, data: object, params: Params) -> Reply:
        """Finish a sign-in with what the provider has sent as a form."""
        return await self._finish(_mapping(data), params)

    async def _finish(self, values: Mapping[str, Any], params: Params) -> Reply:
        common = self._common
        provider = common.provider_of(params)
        await charge_network(common.authentication, "callbacks", params, _AN_HOUR)
        start = common.starts.find(values.get("state"), params.headers.get("cookie"))
        if start is None:
            return common.replies.refused(common.pages.resolve(None, None), Refused("expired"))
        secret = secret_in_cookie("link_identity", params)
        try:
            claims = await self._claims(start, provider, values)
            identity = await common.matching.identity_of(
                claims, provider, start, browser_tag(secret)
            )
            reply = await self._sign_in(start, provider, identity, params)
        except ProviderError as error:
            reply = common.replies.refused(start.target, _refused_by(provider, error))
        except Refused as refused:
            reply = common.replies.refused(start.target, refused)
            if refused.has_mail:
                reply.cookies.append(cookie_of_secret("link_identity", secret))
        reply.cookies.append(common.starts.removal_of(start))
        return reply

    async def _claims(self, start: Start, provider: Provider, values: Mapping[str, Any]) -> Claims:
        """Check what has come back, and return what the provider says about the person.

        Raises:
            Refused: Something is not right.
            ProviderError: The provider cannot be reached, or its response is not valid.
        """
        if not await self._common.starts.use_up(start):
            raise Refused("expired")
        # Before the code goes anywhere: a code of one provider must not reach another (mix-up).
        if start.provider != provider.name or start.issuer != await provider.issuer():
            raise Refused("invalid")
        for name in ("code", "iss", "error"):
            if not isinstance(values.get(name), str | None):  # it is there twice
                raise Refused("invalid")
        await provider.check_issuer(values.get("iss"))
        if (said := values.get("error")) is not None:
            _log.info("the provider %r says %s", provider.name, ascii(said[:200]))
            raise Refused(_CODES.get(said, "invalid"))
        if not (code := values.get("code")):
            raise Refused("invalid")
        return await provider.claims(
            redirect_uri=self._common.redirect_uri(provider),
            code=code,
            nonce=start.nonce,
            verifier=start.verifier,
        )

    async def _sign_in(
        self, start: Start, provider: Provider, identity: Identity, params: Params
    ) -> Reply:
        common = self._common
        http: dict[str, Any] = {}
        try:
            result = await self._tokens(identity, start, provider, params, http)
        except (Forbidden, NotAuthenticated) as error:
            raise _refused_by_application(error) from error
        if not await common.identities.touch(identity):
            # It was removed before the session began, so nothing has ended that session.
            await common.authentication.sessions.end(result["authentication"]["payload"])
            raise Refused("expired")
        return common.replies.signed_in(start.target, result)

    async def _tokens(
        self,
        identity: Identity,
        start: Start,
        provider: Provider,
        params: Params,
        http: dict[str, Any],
    ) -> Any:
        """Sign in like any other sign-in, with the hooks and extensions of the service."""
        authentication = self._common.authentication
        # Not the page of this request gets the tokens, but the one that has begun.
        headers = {n: value for n, value in params.headers.items() if n not in _OF_ORIGIN}
        return await authentication.sign_in(
            {authentication.entities.id_name: identity.user_id},
            params.copy(query={}, headers=headers, authentication=None),
            http=http,
            methods=_METHODS,
            strategy=provider.name,
            session_id=start.session_id,
        )


def _mapping(value: object) -> Mapping[str, Any]:
    """Return a value that is a mapping, an empty one for all others."""
    return value if is_mapping(value) else {}


def _referrer(params: Params) -> str | None:
    """Return the URL or origin that a request comes from, None if it does not say."""
    return params.headers.get("referer") or params.headers.get("origin")


def _wants_json(params: Params) -> bool:
    accept = params.headers.get("accept", "").lower()
    return "application/json" in accept and "text/html" not in accept


def _refused_by(provider: Provider, error: ProviderError) -> Refused:
    _log.warning("a sign-in with %r failed: %s: %s", provider.name, error.code, error)
    return Refused(error.code)


def _refused_by_application(error: Forbidden | NotAuthenticated) -> Refused:
    """Return why hooks or extensions of the authentication service refuse a sign-in."""
    data = _mapping(error.data)
    code, ticket = data.get("code"), data.get("ticket")
    if not isinstance(code, str):
        return Refused("access_denied")
    text = TEXTS.get(code, error.message)
    return Refused(code, text, ticket=ticket if isinstance(ticket, str) else None)
