"""HTTP with a provider: ten seconds, no redirects, no cookies, and at most 1 MiB of a response.

Errors never contain a text of the provider, because it may have secrets, which must not reach a
log.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final, Literal, TypeAlias, cast
from urllib.parse import quote_plus, urlsplit

from alula.accounts._urls import is_secure, origin_of
from alula.accounts.providers._provider import ProviderError, missing_library

try:
    import httpx2
    from authlib.integrations.base_client import (  # type: ignore[import-untyped]  # it has no types
        OAuthError,
    )
    from authlib.integrations.httpx_client import (  # type: ignore[import-untyped]  # it has no types
        AsyncOAuth2Client,
        OAuth2ClientAuth,
    )
    from authlib.oauth2.rfc6749.parameters import (  # type: ignore[import-untyped]  # it has no types
        prepare_grant_uri,  # pyright: ignore[reportUnknownVariableType]  # likewise
    )
    from authlib.oauth2.rfc7636 import (  # type: ignore[import-untyped]  # it has no types
        create_s256_code_challenge,  # pyright: ignore[reportUnknownVariableType]  # likewise
    )
except ImportError as error:
    raise missing_library(error) from error

__all__ = [
    "ClientSecret",
    "Exchange",
    "Method",
    "Token",
    "authorization_url",
    "is_secure_url",
    "shown_host",
]

SECONDS: Final = 10
MAX_BYTES: Final = 1024 * 1024

_OK: Final = 200
_TOO_MANY: Final = 429
_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
_URL: Final = re.compile(r"[\x21-\x5b\x5d-\x7e]+")  # browsers read a backslash as a slash
_CODE: Final = re.compile(r"[\x20-\x7e]{1,4096}")
_ERROR: Final = re.compile("[a-z_]{1,64}")
# Errors of a token endpoint that a person cannot cause. The last one is GitHub's.
_OWN_FAULTS: Final = frozenset(
    {
        "invalid_client",
        "unauthorized_client",
        "server_error",
        "temporarily_unavailable",
        "incorrect_client_credentials",
    }
)

Method: TypeAlias = Literal["client_secret_basic", "client_secret_post"]


@dataclass(frozen=True)
class ClientSecret:
    """How the application proves itself to a token endpoint."""

    client_id: str
    secret: str = field(repr=False)
    method: Method = "client_secret_post"


@dataclass(frozen=True)
class Token:
    """The response of a token endpoint, whose access token can be sent in a header."""

    access_token: str = field(repr=False)
    id_token: object = field(repr=False)


class Exchange:
    """The connections to one provider."""

    def __init__(self) -> None:
        self._client: Any = None

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def token(
        self, endpoint: str, proof: ClientSecret, *, redirect_uri: str, code: str, verifier: str
    ) -> Token:
        """Exchange a code for tokens.

        Args:
            endpoint: Where the provider does that.
            proof: How the application proves itself.
            redirect_uri: Where the browser has returned to.
            code: What it has brought.
            verifier: The PKCE code verifier.

        Raises:
            ProviderError: It was refused, or the response has no tokens.
        """
        if not _CODE.fullmatch(code):
            raise ProviderError("invalid", "the code has characters that are not allowed in codes")
        async with _asking(endpoint):
            client = self._opened()
            try:
                response: Mapping[str, Any] = await client.fetch_token(
                    endpoint,
                    grant_type="authorization_code",
                    code=code,
                    redirect_uri=redirect_uri,
                    code_verifier=verifier,
                    auth=_authentication(proof),
                )
            except (ValueError, TypeError, OverflowError, RecursionError):
                # It is not JSON, is nested too deeply, or has an odd `expires_in`.
                raise _invalid_response(endpoint) from None
            finally:
                client.token = None  # the client would keep it, and send it for other people
        access_token, token_type = response.get("access_token"), response.get("token_type")
        if not isinstance(token_type, str) or token_type.lower() != "bearer":
            raise ProviderError("invalid", f"{shown_host(endpoint)} sent no bearer token")
        if not isinstance(access_token, str) or not _VISIBLE.fullmatch(access_token):
            raise ProviderError("invalid", f"{shown_host(endpoint)} sent no access token")
        return Token(access_token, response.get("id_token"))

    async def get(
        self, url: str, *, access_token: str | None = None, accept: str = "application/json"
    ) -> Any:
        """Return the JSON at a URL.

        Args:
            url: Where it is.
            access_token: The token that gives access, None for public URLs.
            accept: The media type.

        Raises:
            ProviderError: It cannot be read.
        """
        headers = {"Accept": accept}
        if access_token is not None:
            headers["Authorization"] = f"Bearer {access_token}"
        async with _asking(url):
            response: httpx2.Response = await self._opened().request(
                "GET", url, headers=headers, withhold_token=True
            )
        if response.status_code != _OK:
            raise _status_error(url, response.status_code)
        try:
            return response.json()
        except (ValueError, RecursionError):  # the last one if it is nested too deeply
            raise _invalid_response(url) from None

    def _opened(self) -> Any:
        if self._client is None:
            self._client = _open_client()
        return self._client


def authorization_url(endpoint: str, parameters: Mapping[str, str], *, verifier: str) -> str:
    """Return the URL at which a person signs in, with a code challenge (PKCE, S256)."""
    make_url = cast("Callable[..., str]", prepare_grant_uri)
    make_challenge = cast("Callable[[str], str]", create_s256_code_challenge)
    return make_url(
        endpoint,
        response_type="code",
        code_challenge=make_challenge(verifier),
        code_challenge_method="S256",
        **parameters,
    )


def _open_client() -> Any:
    """Return a client of Authlib, which has no types."""
    return AsyncOAuth2Client(
        timeout=None,  # `_asking` has one for the whole exchange
        follow_redirects=False,
        # All people sign in by one client, so it must not keep the cookies of one of them.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        headers={"Accept-Encoding": "identity"},
        event_hooks={"response": [_bound]},
    )


def is_secure_url(text: str) -> bool:
    """Tell whether a text is a URL of https, or one of http on this machine."""
    if not _URL.fullmatch(text) or origin_of(text) is None:
        return False
    parts = urlsplit(text)
    try:
        # The host that is checked has to be the one that is asked.
        return httpx2.URL(text).host == parts.hostname and is_secure(parts)
    except httpx2.InvalidURL:
        return False


def shown_host(url: str) -> str:
    """Return the host of a URL, for errors."""
    return httpx2.URL(url).host


@asynccontextmanager
async def _asking(url: str) -> AsyncGenerator[None]:
    """Bound the time of an exchange, and turn its errors into those of providers."""
    host = shown_host(url)
    try:
        async with asyncio.timeout(SECONDS):
            yield
    except TimeoutError:
        text = f"{host} did not respond within {SECONDS} seconds"
        raise ProviderError("unavailable", text) from None
    except OAuthError as error:
        raise _oauth_error(host, error.error) from None
    except httpx2.HTTPStatusError as error:  # of Authlib
        raise _status_error(url, error.response.status_code) from None
    except httpx2.ConnectError as error:
        raise ProviderError("unavailable", f"{host} cannot be reached: {error}") from None
    except httpx2.HTTPError as error:
        text = f"the connection to {host} failed: {type(error).__name__}"
        raise ProviderError("unavailable", text) from None


def _oauth_error(host: str, code: object) -> ProviderError:
    shown = code if isinstance(code, str) and _ERROR.fullmatch(code) else "unknown error"
    text = f"{host} gave no token: {shown}"
    if shown == "access_denied":
        return ProviderError("access_denied", text)
    return ProviderError("unavailable" if shown in _OWN_FAULTS else "invalid", text)


def _status_error(url: str, status: int) -> ProviderError:
    failed = status >= 500 or status == _TOO_MANY
    return ProviderError(
        "unavailable" if failed else "invalid", f"{shown_host(url)} responded with {status}"
    )


def _invalid_response(url: str) -> ProviderError:
    return ProviderError("invalid", f"{shown_host(url)} sent a response that is not valid")


def _authentication(proof: ClientSecret) -> OAuth2ClientAuth:
    method = _basic if proof.method == "client_secret_basic" else proof.method
    return OAuth2ClientAuth(proof.client_id, proof.secret, method)


def _basic(client: Any, _: str, uri: str, headers: Any, body: Any) -> tuple[str, Any, Any]:
    """Write id and secret into the header. Authlib does not encode them (RFC 6749, 2.3.1)."""
    text = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret)}"
    headers["Authorization"] = f"Basic {b64encode(text.encode()).decode()}"
    return uri, headers, body


async def _bound(response: httpx2.Response) -> None:
    """Check the head of a response, and bound its body; httpx2 calls it before the body arrives."""
    host = response.request.url.host
    if 300 <= response.status_code < 400:
        text = f"{host} responded with a redirect, which is not followed"
        raise ProviderError("unavailable", text)
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise ProviderError(
            "invalid", f"{host} sent a compressed response, which was not requested"
        )
    response.stream = _Bounded(cast("httpx2.AsyncByteStream", response.stream), host)


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends with an error if it is too large."""

    def __init__(self, stream: httpx2.AsyncByteStream, host: str) -> None:
        self._stream = stream
        self._host = host

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > MAX_BYTES:
                raise ProviderError("invalid", f"{self._host} sent more than {MAX_BYTES} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
