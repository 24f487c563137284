"""Passkeys in Chromium, by the lines of the guide; see ``passkeys.mjs``."""

from __future__ import annotations

import re
from pathlib import Path

import anyio.to_thread
import pytest
from tests.accounts.building import ADA, make_world
from tests.interop.node_script import run_checks
from tests.requirements import require_chromium

from alula.express import express, json, rest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
GUIDE = HERE.parents[1] / "docs" / "accounts.md"
PACKAGES = (
    "@feathersjs/authentication-client",
    "@feathersjs/feathers",
    "@feathersjs/rest-client",
    "esbuild",
    "playwright-core",
)


async def test_a_page_adds_a_passkey_and_signs_in_with_it(tmp_path):
    (lines,) = re.findall(r"```js\n(async function addPasskey.*?)```", GUIDE.read_text(), re.DOTALL)
    (guide := tmp_path / "guide.js").write_text(lines)
    world = make_world(passkeys=True, origins=["http://app.localhost"])
    app = express(world.app).use(json()).configure(rest())
    server = await app.listen(0, "127.0.0.1")
    await world.app.service("users").create(ADA)
    given = (require_chromium(), server.url, guide)
    try:
        outcomes = await anyio.to_thread.run_sync(
            lambda: run_checks(HERE / "passkeys.mjs", PACKAGES, *map(str, given))
        )
    finally:
        server.close()
        await server.wait_closed()
    assert {name: outcome.error for name, outcome in outcomes.items()} == {
        "a passkey is added, and signs in": None,
        "an authenticator has one passkey of a user": None,
        "a page of another origin does not sign in": None,
    }
