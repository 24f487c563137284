"""The page of the example chat in a real browser; the checks are in ``chat_browser.mjs``.

The chat keeps its data in a MongoDB, and in the end in memory.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest
from tests.interop.node_script import assert_passed, run_checks
from tests.requirements import require_chromium, require_mongod

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("chat_browser.mjs")
PACKAGES = ("playwright-core",)

CHECKS = (
    "a newcomer is welcome",
    "somebody registers",
    "a message is shown once it is sent",
    "markup is shown as text, and does not run",
    "a reaction is counted",
    "an edit is shown",
    "an edit that is refused is told",
    "an edit that is given up changes nothing",
    "another sees it all",
    "only the own messages can be changed",
    "somebody signs out, and in again",
    "a name that is taken is told",
    "a wrong password is told",
    "what another does comes by itself",
    "it says how many are here",
    "it says who is typing, to the others",
    "a removed message goes everywhere",
    "a reload keeps who one is",
    "the newest message is in sight",
    "who reads old messages is left alone",
    "it fits on a phone and on a desk",
    "it is used without a mouse",
    "a server that goes away is told, and comes back",
    "a server that came back still knows everybody",
    "a server that came back may have forgotten everybody",
    "nothing went wrong in the console",
)

SCREENSHOTS = {
    "desktop": (1280, 800),
    "desktop-away": (1280, 800),
    "desktop-first": (1280, 800),
    "desktop-new": (1280, 800),
    "desktop-problem": (1280, 800),
    "desktop-typing": (1280, 800),
    "phone": (390, 844),
    "phone-first": (390, 844),
    "phone-new": (390, 844),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the screenshots go."""
    return tmp_path_factory.mktemp("chat")


@pytest.fixture(scope="module")
def outcomes(folder, tmp_path_factory):
    require_mongod()
    data = tmp_path_factory.mktemp("data")
    given = (require_chromium(), str(folder), sys.executable, str(data))
    return run_checks(SCRIPT, PACKAGES, *given)


@pytest.mark.parametrize("check", CHECKS)
def test_page(check, outcomes):
    assert_passed(outcomes, check)


def test_no_check_runs_that_is_not_listed(outcomes):
    assert tuple(outcomes) == CHECKS


def test_there_are_screenshots_of_phone_and_desktop(outcomes, folder):
    sizes = {path.stem: size_of(path.read_bytes()) for path in folder.glob("*.png")}
    assert sizes == SCREENSHOTS


def size_of(png: bytes) -> tuple[int, int]:
    """Return width and height of a picture."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height
