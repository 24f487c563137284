"""The built pages in a real browser; the checks are in ``pages_browser.mjs``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.interop.node_script import assert_passed, run_checks
from tests.requirements import require_chromium

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("pages_browser.mjs")

CHECKS = (
    "all pages fit on a phone",
    "all pages fit on a desk",
    "the menu leads from page to page on a phone",
    "the menu leads from page to page on a desk",
    "a link to a name leads to it",
    "the search finds a name",
    "code has colours",
    "code can be copied, commands without their prompts",
    "nothing came from elsewhere",
    "nothing went wrong in the console",
)


class Silent(SimpleHTTPRequestHandler):
    """Serves files that the browser may keep, and says nothing of it."""

    protocol_version = "HTTP/1.1"

    def end_headers(self):
        self.send_header("Cache-Control", "max-age=600")
        super().end_headers()

    def log_message(self, format, *args):
        pass


@pytest.fixture(scope="module")
def url(site) -> Iterator[str]:
    """Where the pages are served: their search reads files, as no page from the disk may."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=site)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Where the screenshots go."""
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def outcomes(site, url, folder):
    pages = sorted(path.name for path in site.glob("*.html") if path.name != "404.html")
    arguments = (require_chromium(), url, str(folder), *pages)
    return run_checks(SCRIPT, ("playwright-core",), *arguments, seconds=600)


@pytest.mark.parametrize("check", CHECKS)
def test_page(check, outcomes):
    assert_passed(outcomes, check)


def test_no_check_runs_that_is_not_listed(outcomes):
    assert tuple(outcomes) == CHECKS


def test_there_are_pictures_of_phone_and_desktop(outcomes, folder):
    shown = {path.stem.partition("-")[0] for path in folder.glob("*.png")}
    assert shown == {"phone", "desktop"}
