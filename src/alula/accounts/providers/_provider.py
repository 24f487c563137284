"""The interface of providers: what accounts ask them, and what they say about a person.

This module needs no library, so an application without providers loads none.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from alula._identity import Application
from alula.types import Record

__all__ = ["Claims", "Profile", "Provider", "ProviderError", "missing_library"]

_NAME: Final = re.compile("[a-z0-9][a-z0-9-]{0,31}")


@dataclass(frozen=True)
class Claims:
    """What a provider says about a person who has signed in there.

    Attributes:
        provider: The name of the provider.
        issuer: The URL that names the provider, such as ``"https://accounts.google.com"``. Issuer
            and subject identify the person forever; addresses and names may change.
        subject: The id of the person at the issuer, 1 to 255 characters.
        email: The address as the provider wrote it, None without one.
        is_verified: Whether the address is known to be the person's: the provider says so, and is
            trusted to check it.
        name: The name to show, None without one.
        raw: All that the provider has sent, such as the claims of OpenID Connect. Do not read there
            whether an address is verified: use ``is_verified``.
    """

    provider: str
    issuer: str
    subject: str
    email: str | None
    is_verified: bool
    name: str | None
    raw: Mapping[str, Any] = field(repr=False)


Profile: TypeAlias = Callable[[Claims], Record]
"""Returns the data of a new user."""


class ProviderError(Exception):
    """A sign-in with a provider has failed.

    Args:
        code: Why: ``"access_denied"`` if the person or the provider refused, ``"invalid"`` if a
            response fails a check, ``"unavailable"`` if the provider could not be asked.
        message: What happened, for the log. It has no secret and no text of the provider, and it is
            not meant for pages.
    """

    def __init__(
        self, code: Literal["access_denied", "invalid", "unavailable"], message: str
    ) -> None:
        super().__init__(message)
        self.code: Final = code


def missing_library(error: ImportError) -> ImportError:
    """Return the error for a library of the extra that is not installed."""
    return ImportError(
        f"signing in with a provider needs {error.name}, which is not installed;"
        " install it with: pip install 'alula[oauth]'",
        name=error.name,
    )


class Provider(ABC):
    """A provider with which people sign in, by OAuth 2 or OpenID Connect.

    `openid`, `google`, `github` and others return one. Write a subclass for a provider that speaks
    neither.

    Args:
        name: The name in the routes and settings: lower-case letters, digits and hyphens.
        profile: Returns the data of a new user from the `Claims`; None for address and name.

    Attributes:
        name: As given.
        profile: As given.
        form_post: Whether the browser returns by a POST, so that cookies have to be sent with
            requests from other sites.
        start_parameters: The parameters that a page may pass on to the provider.

    Raises:
        ValueError: The name is not valid.
    """

    form_post: bool = False
    start_parameters: frozenset[str] = frozenset()

    def __init__(self, name: str, *, profile: Profile | None = None) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"a provider cannot be called {name!r}; use at most 32 lower-case letters, digits"
                " and hyphens, since the name is part of a URL"
            )
        self.name = name
        self.profile = profile

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def configure(self, app: Application) -> None:  # noqa: B027  # some need no settings
        """Read settings, before the first person signs in.

        Args:
            app: The application.

        Raises:
            ValueError: A setting is missing or not valid; the message names it.
        """

    async def close(self) -> None:  # noqa: B027  # some have no connections
        """Close connections to the provider. It opens new ones when it is used again."""

    @abstractmethod
    async def authorization_url(
        self,
        *,
        redirect_uri: str,
        state: str,
        nonce: str,
        verifier: str,
        passed_on: Mapping[str, str],
    ) -> str:
        """Return the URL at which a person signs in.

        Args:
            redirect_uri: Where the browser returns to.
            state: An unguessable text that the browser brings back.
            nonce: An unguessable text that the provider writes into its ID token.
            verifier: The PKCE code verifier; the URL has its SHA-256 hash.
            passed_on: Further parameters that the page asked for. Those that are not among
                ``start_parameters`` are left out.

        Raises:
            ProviderError: The provider cannot be reached, or does not say where that is.
        """

    @abstractmethod
    async def issuer(self) -> str:
        """Return the URL that names the provider, such as ``"https://accounts.google.com"``."""

    async def check_issuer(self, iss: str | None) -> None:
        """Check the parameter ``iss`` with which a browser returns (RFC 9207).

        Args:
            iss: Its value, None without one.

        Raises:
            ProviderError: It names another provider, or is missing although this one sends it.
        """
        if iss is not None and iss != await self.issuer():
            raise ProviderError("invalid", f"{self.name}: the response names another issuer")

    @abstractmethod
    async def claims(self, *, redirect_uri: str, code: str, nonce: str, verifier: str) -> Claims:
        """Ask the provider who has signed in.

        Args:
            redirect_uri: As it was sent.
            code: The code that the browser has brought back.
            nonce: As it was sent.
            verifier: As it was sent.

        Raises:
            ProviderError: The provider cannot be asked, or its response fails a check.
        """
