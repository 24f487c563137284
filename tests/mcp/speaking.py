"""Messages of agents, sent to an application directly."""

from __future__ import annotations

import json
from typing import Any

from tests.express.asgi_client import Answer, call

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
VERSIONS = (LEGACY, MODERN)
HOST = "api.example.com"


async def send(
    app: Any,
    method: str,
    params: dict[str, Any] | None = None,
    *,
    version: str = MODERN,
    headers: dict[str, str] | None = None,
    path: str = "/mcp",
) -> Answer:
    """Send a message as a client of a revision of the protocol does, without a handshake."""
    message, sent = message_of(method, params or {}, version)
    return await call(app, "POST", path, json.dumps(message).encode(), {**sent, **(headers or {})})


def message_of(
    method: str, params: dict[str, Any], version: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a message of a revision of the protocol, and the headers that belong to it."""
    sent = {"accept": "application/json, text/event-stream", "host": HOST}
    sent |= {"content-type": "application/json", "mcp-protocol-version": version}
    params = dict(params)
    if version == MODERN:
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
            **params.get("_meta", {}),
        }
        sent["mcp-method"] = method
        if "name" in params:
            sent["mcp-name"] = params["name"]
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, sent


async def call_tool(
    app: Any, name: str, arguments: dict[str, Any] | None = None, **options: Any
) -> tuple[bool, Any]:
    """Call a tool; return whether it failed, and the value of its text."""
    params = {"name": name} if arguments is None else {"name": name, "arguments": arguments}
    answer = await send(app, "tools/call", params, **options)
    assert answer.status == 200, answer.text
    result = answer.json["result"]
    assert "structuredContent" not in result
    (content,) = result["content"]
    assert content["type"] == "text"
    return result["isError"], json.loads(content["text"])
