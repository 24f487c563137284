"""The id of a request goes along to the servers that are asked for it."""

from __future__ import annotations

import pytest
from tests.client.faking import faked

from alula.client import forward_request_id
from alula.logs import request_scope


@pytest.fixture
def client_and_fetch():
    client, fetch = faked()
    return client.hooks(before=[forward_request_id]), fetch


def sent(fetch):
    (_, options), *_ = fetch.calls
    return {name.lower(): value for name, value in options["headers"].items()}


async def test_it_is_sent(client_and_fetch):
    client, fetch = client_and_fetch
    with request_scope("r-1"):
        await client.service("messages").find(query={"a": 1}, headers={"X-Tenant": "acme"})
    assert sent(fetch)["x-request-id"] == "r-1"
    assert sent(fetch)["x-tenant"] == "acme"
    assert fetch.urls == ["http://here/api/messages?a=1"]


async def test_one_of_the_call_counts_more(client_and_fetch):
    client, fetch = client_and_fetch
    with request_scope("r-1"):
        await client.service("messages").find(headers={"X-REQUEST-ID": "mine"})
    assert sent(fetch)["x-request-id"] == "mine"


async def test_outside_of_requests_none_is_sent(client_and_fetch):
    client, fetch = client_and_fetch
    await client.service("messages").get(1)
    assert "x-request-id" not in sent(fetch)


async def test_nothing_of_the_caller_is_changed(client_and_fetch):
    client, _ = client_and_fetch
    headers = {"X-Tenant": "acme"}
    with request_scope("r-1"):
        await client.service("messages").find({"headers": headers})
    assert headers == {"X-Tenant": "acme"}
