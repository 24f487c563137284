"""A fake provider, a web that a test writes down, and a clock."""

from __future__ import annotations

from functools import partial

import httpx2
import pytest
from authlib.integrations.httpx_client import AsyncOAuth2Client
from joserfc.jwk import RSAKey
from tests.accounts.providers.asking import Clock, Web

from alula.accounts import openid
from alula.accounts.providers import _discovery, _exchange
from alula.testing import FakeProvider


@pytest.fixture
async def fake():
    async with FakeProvider() as provider:
        yield provider


@pytest.fixture
async def provider(fake):
    made = openid("fake", issuer=fake.issuer, trust_email=True, **fake.credentials)
    yield made
    await made.close()


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(_discovery, "time", Clock())
    return _discovery.time


@pytest.fixture
def web(monkeypatch):
    """What every provider asks instead of the network."""
    answers = Web()
    client = partial(AsyncOAuth2Client, transport=httpx2.MockTransport(answers))
    monkeypatch.setattr(_exchange, "AsyncOAuth2Client", client)
    return answers


@pytest.fixture(scope="session")
def rsa_key():
    return RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"})
