"""The page of accounts of a generated application in Chromium; see ``account_page.mjs``."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from tests.conformance.serving import environment, free_ports
from tests.interop.node_script import run_checks
from tests.requirements import require_chromium

from alula.testing import FakeProvider

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("account_page.mjs")
ALULA = Path(sys.executable).with_name("alula")
SECONDS = 60


FEATURES = "--totp --passkeys --api-keys --sign-in oidc,github"


@contextmanager
def provider() -> Iterator[FakeProvider]:
    """A provider at which Grace is signed in, in a thread of its own."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(FakeProvider()) as fake,
    ):
        fake.user = {"sub": "grace", "email": "grace@example.com", "name": "Grace"}
        yield fake


@contextmanager
def development(folder: Path, log: Path, variables: Mapping[str, str]) -> Iterator[None]:
    """Generate an application with accounts, and run it by `alula dev`."""
    for where, command in (
        (folder, "new shop --authentication --database=sqlite --no-files --cookies"),
        (folder / "shop", f"generate accounts {FEATURES}"),
    ):
        arguments = [ALULA, *command.split()]
        subprocess.run(arguments, check=True, cwd=where, env=variables, stdin=subprocess.DEVNULL)
    with log.open("w") as output:
        serving = subprocess.Popen(
            [ALULA, "dev"],
            cwd=folder / "shop",
            env=variables,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        end = time.monotonic() + SECONDS
        while "http://127.0.0.1:" not in log.read_text():
            assert serving.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        yield
    finally:
        serving.terminate()
        serving.wait()


def test_people_use_the_page(tmp_path):
    url, log = f"http://localhost:{free_ports()}", tmp_path / "dev.log"
    with provider() as fake:
        variables = {
            **environment(),
            "PORT": url.rpartition(":")[2],
            "PYTHONUNBUFFERED": "1",
            "SHOP_BASE_URL": url,
            "SHOP_OIDC_ISSUER": fake.issuer,
            "SHOP_OIDC_CLIENT_ID": fake.client_id,
            "SHOP_OIDC_CLIENT_SECRET": fake.client_secret,
        }
        with development(tmp_path, log, variables):
            chromium = require_chromium()
            outcomes = run_checks(SCRIPT, ("playwright-core",), chromium, url, str(log))
    assert {name: outcome.error for name, outcome in outcomes.items()} == dict.fromkeys(
        (
            "somebody signs up and confirms the address",
            "a wrong password is refused",
            "somebody has forgotten the password",
            "a link works once",
            "somebody signs in with a provider",
            "a sign-in that is too old or has ended",
            "a second factor",
            "a passkey",
            "the provider is disconnected and connected again",
            "an API key",
            "signed in elsewhere",
            "a mail connects an account that was there before",
            "a link of a stranger signs nobody in",
            "a link of a stranger puts no text into the page",
            "it fits on a phone, and no other page shows it",
        )
    )
    assert "nobody can sign in with github yet: set SHOP_GITHUB_CLIENT_ID" in log.read_text()
