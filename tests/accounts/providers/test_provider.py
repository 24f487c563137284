"""`Provider`: one of your own, and what it costs those who have none."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from alula import App
from alula.accounts import Claims, Provider, ProviderError

LIBRARIES = ("authlib", "httpx2", "joserfc")


class Badges(Provider):
    """Believes who has a badge."""

    async def authorization_url(self, *, redirect_uri, state, nonce, verifier, passed_on):
        return f"https://badges.example/?to={redirect_uri}"

    async def issuer(self):
        return "https://badges.example"

    async def claims(self, *, redirect_uri, code, nonce, verifier):
        return Claims(self.name, await self.issuer(), code, None, False, None, {"badge": code})


async def test_a_provider_of_your_own_needs_three_methods():
    provider = Badges("badges", profile=lambda claims: {"badge": claims.subject})
    provider.configure(App())
    await provider.check_issuer(None)
    with pytest.raises(ProviderError, match="badges: the response names another issuer"):
        await provider.check_issuer("https://other.example")
    claims = await provider.claims(redirect_uri="", code="7", nonce="", verifier="")
    assert provider.profile(claims) == {"badge": "7"}
    assert (provider.form_post, provider.start_parameters) == (False, frozenset())
    await provider.close()


def test_accounts_without_providers_load_none_of_their_libraries():
    code = f"import sys, alula.accounts; print(set({LIBRARIES}) & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    ("library", "module"),
    [("httpx2", "_exchange"), ("authlib", "_exchange"), ("joserfc", "_discovery")],
)
def test_a_missing_library_is_named_with_its_command(library, module, monkeypatch):
    name = f"alula.accounts.providers.{module}"
    importlib.import_module(name)
    for loaded in [loaded for loaded in sys.modules if loaded.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"needs {library}.*pip install 'alula\[oauth\]'"):
        importlib.import_module(name)
