"""Messages of agents, sent to an application directly."""

from __future__ import annotations

import json
from typing import Any

from tests.express.asgi_client import Answer, post_json

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
    sent = {"accept": "application/json, text/event-stream", "host": HOST}
    sent["mcp-protocol-version"] = version
    params = dict(params or {})
    if version == MODERN:
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        sent["mcp-method"] = method
        if "name" in params:
            sent["mcp-name"] = params["name"]
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return await post_json(app, message, path, {**sent, **(headers or {})})


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
