"""Tools for agents: the official conformance suite of MCP, and the MCP Inspector."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

import pytest
from tests.authentication.building import add_authentication
from tests.interop.agents.served_tools import application
from tests.requirements import require_agent_tools

from alula.adapters.memory import MemoryService
from alula.authentication import authenticate

SECONDS = 240
FOLDER = Path(__file__).with_name("agents")
REQUIRED = {
    "2025-11-25": {
        "dns-rebinding-protection",
        "ping",
        "server-initialize",
        "tools-call-error",
        "tools-call-simple-text",
        "tools-call-with-progress",
        "tools-list",
    },
    "2026-07-28": {
        "dns-rebinding-protection",
        "http-header-validation",
        "tools-call-error",
        "tools-call-simple-text",
        "tools-call-with-progress",
        "tools-list",
    },
}
FAILED_CHECKS = {
    "2025-11-25": {},
    "2026-07-28": {
        "server-stateless": {  # they need a tool that asks its client for a completion
            "sep-2575-missing-capability-http-400",
            "sep-2575-server-rejects-undeclared-capability",
        },
        "caching": {  # of prompts and resources
            "sep-2549-prompts-list-caching-hints",
            "sep-2549-resources-list-caching-hints",
            "sep-2549-resources-templates-list-caching-hints",
        },
    },
}


async def run(folder: Path, script: str, *arguments: str) -> tuple[int, str]:
    """Run a program of Node, and return its status and what it has printed."""
    node, modules = require_agent_tools()
    process = await asyncio.create_subprocess_exec(
        node,
        str(modules / script),
        *arguments,
        cwd=folder,
        env={**os.environ, "HOME": str(folder), "NO_COLOR": "1"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), SECONDS)
    except TimeoutError:
        process.kill()
        raise
    return process.returncode, printed.decode()


@pytest.mark.slow
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_the_conformance_suite(revision, tmp_path):
    async with await application().listen(0) as server:
        status, printed = await run(
            tmp_path,
            f"conformance-{revision}/dist/index.js",
            *("server", "--url", f"{server.url}/mcp", "--suite", "all", "-o", str(tmp_path)),
            *("--spec-version", revision),
            *("--expected-failures", str(FOLDER / f"expected-failures-{revision}.yml")),
        )
    assert status == 0, printed
    passed = set(re.findall(r"^✓ ([\w-]+): [1-9]", printed, re.MULTILINE))
    assert REQUIRED[revision] <= passed, printed
    for scenario, expected in FAILED_CHECKS[revision].items():
        (file,) = tmp_path.glob(f"server-{scenario}-*/checks.json")
        checks = json.loads(file.read_text())
        failed = {check["id"] for check in checks if check["status"] == "FAILURE"}
        assert failed == expected


INSPECTOR = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"


async def inspect(folder: Path, server, era: str, *arguments: str) -> tuple[int, str]:
    """Call a server with MCP Inspector."""
    target = ("--cli", f"{server.url}/mcp", "--transport", "http", "--protocol-era", era)
    return await run(folder, INSPECTOR, *target, "--format", "json", "--method", *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_inspector(era, tmp_path):
    app = application().use("users", MemoryService(), methods=[])
    add_authentication(app)
    async with await app.listen(0) as server:
        status, printed = await inspect(tmp_path, server, era, "tools/list", "--strict")
        assert status == 0, printed
        names = [tool["name"] for tool in json.loads(printed)["result"]["tools"]]
        assert names == ["test_simple_text", "test_error_handling", "test_tool_with_progress"]
        call = ("tools/call", "--tool-name")
        status, printed = await inspect(tmp_path, server, era, *call, "test_tool_with_progress")
        assert (status, '\\"progress\\":100' in printed) == (0, True), printed
        status, printed = await inspect(tmp_path, server, era, *call, "test_error_handling")
        assert (status, "intentionally returns an error" in printed) == (5, True), printed
        app.service("test").hooks(before=[authenticate("jwt")])
        for more in ((), ("--header", "Authorization: Bearer x.y.z")):
            status, printed = await inspect(tmp_path, server, era, *call, "test_simple_text", *more)
            assert (status, '"auth_required"' in printed) == (3, True), printed
