"""Node scripts that run checks and tell of each in a line of JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.conformance.serving import environment
from tests.requirements import require_node, require_node_modules

SECONDS_TO_RUN = 180


class Outcome(NamedTuple):
    """What came of one check.

    Attributes:
        error: What went wrong, None where nothing did.
        skipped: Whether it did not run at all.
    """

    error: str | None = None
    skipped: bool = False


def run_checks(
    script: Path, packages: Iterable[str], *arguments: str, seconds: float = SECONDS_TO_RUN
) -> dict[str, Outcome]:
    """Run a script and return the outcome of each of its checks, by name.

    The test that asks is left out where there is no Node or a package is missing. A Python that the
    script starts imports the very Alula that is tested.

    Args:
        script: Gets the folder of the JavaScript packages as its first argument, and prints a line
            ``{"name": ..., "error": ...}`` for each check.
        packages: The npm packages that it loads.
        arguments: Further arguments.
        seconds: How long it may take.

    Raises:
        AssertionError: It ended early, or printed something else, or a name twice.
        subprocess.TimeoutExpired: It did not end.
    """
    command = [require_node(), str(script), str(require_node_modules(*packages)), *arguments]
    ended = subprocess.run(
        command,
        check=False,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert ended.returncode == 0, f"{script.name} ended with {ended.returncode}: {ended.stderr}"
    outcomes: dict[str, Outcome] = {}
    for line in ended.stdout.splitlines():
        try:
            told = json.loads(line)
        except ValueError:
            raise AssertionError(f"{script.name} printed no JSON: {line}") from None
        name = told.pop("name")
        assert name not in outcomes, f"{script.name} has two checks of the name {name!r}"
        outcomes[name] = Outcome(**told)
    return outcomes


def assert_passed(outcomes: dict[str, Outcome], name: str) -> None:
    """Fail the running test with what a check has told, where it failed or never ran.

    Raises:
        AssertionError: With the message of the check.
    """
    outcome = outcomes.get(name)
    assert outcome is not None, f"{name!r} did not run; these did: {sorted(outcomes)}"
    assert not outcome.skipped, f"{name!r} was skipped"
    assert outcome.error is None, outcome.error
