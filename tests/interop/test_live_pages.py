"""Live lists in Chromium, without a framework and with React; see ``live_browser.mjs``."""

from __future__ import annotations

from pathlib import Path

import anyio.to_thread
import pytest
from tests.interop.live_application import make_app
from tests.interop.node_script import run_checks
from tests.requirements import require_chromium

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
ALULA_LIVE = HERE.parents[1] / "packages" / "alula-live" / "index.js"
PACKAGES = (
    "@feathersjs/feathers",
    "@feathersjs/socketio-client",
    "esbuild",
    "playwright-core",
    "react",
    "react-dom",
    "socket.io-client",
)


async def test_a_row_moves_in_two_windows(tmp_path):
    app = make_app(tmp_path)
    server = await app.listen(0, "127.0.0.1")
    given = (require_chromium(), server.url, tmp_path, HERE / "live_pages", ALULA_LIVE)
    try:
        outcomes = await anyio.to_thread.run_sync(
            lambda: run_checks(HERE / "live_browser.mjs", PACKAGES, *map(str, given))
        )
    finally:
        server.close()
        await server.wait_closed()
    assert {name: outcome.error for name, outcome in outcomes.items()} == {
        "a row moves in a page without a framework": None,
        "a row moves in a page with React": None,
        "a row moves in the page of debug mode": None,
        "nothing went wrong in the console": None,
    }
