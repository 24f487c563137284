"""The providers with whom people sign in: their names, and the settings that each needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from alula._cli.terminal import UsageError

__all__ = ["PROVIDERS", "SignInProvider", "parse_providers"]


@dataclass(frozen=True)
class SignInProvider:
    """A provider, as templates need it.

    Attributes:
        name: The name in routes and settings.
        label: The name for people.
        settings: What it needs, and whether that is secret.
    """

    name: str
    label: str
    settings: Mapping[str, bool]

    @property
    def fields(self) -> Iterable[str]:
        """The fields of the settings of an application."""
        for setting, is_secret in self.settings.items():
            kind = "SecretStr" if is_secret else "str"
            yield f"{self.name}_{setting}: {kind} | None = None"

    def variables(self, prefix: str) -> list[str]:
        """Return the environment variables of its settings."""
        return [f"{prefix}{self.name}_{setting}".upper() for setting in self.settings]


_SECRET: Final = {"client_id": False, "client_secret": True}
_APPLE: Final = {"client_id": False, "team_id": False, "key_id": False, "private_key": True}

PROVIDERS: Final = {
    provider.name: provider
    for provider in (
        SignInProvider("google", "Google", _SECRET),
        SignInProvider("github", "GitHub", _SECRET),
        SignInProvider("gitlab", "GitLab", _SECRET),
        SignInProvider("microsoft", "Microsoft", _SECRET),
        SignInProvider("apple", "Apple", _APPLE),
        SignInProvider("oidc", "your company", {"issuer": False, **_SECRET}),
    )
}
"""The providers by their names; ``oidc`` is any provider that speaks OpenID Connect."""


def parse_providers(text: str) -> list[SignInProvider]:
    """Return the providers of a list such as ``google,github``, each once and in one order.

    Raises:
        UsageError: There is none, or a name is not known.
    """
    names = {name.strip().lower() for name in text.split(",")} - {""}
    unknown = sorted(names.difference(PROVIDERS))
    if unknown or not names:
        raise UsageError(
            f"{(unknown[0] if unknown else text)!r} is no provider to sign in with; use"
            f" {', '.join(PROVIDERS)}"
        )
    return [provider for name, provider in PROVIDERS.items() if name in names]
