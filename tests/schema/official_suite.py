"""The official JSON Schema test suite, out of the source distribution of `jsonschema`.

No package carries it for its own sake; the sources of `jsonschema` do. They are fetched once, by
pip, in the version that is installed, and kept in the environment.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.requirements import absent

SECONDS_TO_FETCH = 180


def require_suite() -> Path:
    """Return the folder with ``tests`` and ``remotes``; leave the test out where it can not be."""
    name = f"jsonschema-{version('jsonschema')}"
    folder = Path(sys.prefix) / "share" / name / "json"
    if not folder.is_dir():
        with tempfile.TemporaryDirectory() as fetched:
            try:
                fetch(Path(fetched))
            except subprocess.SubprocessError as error:
                absent(f"the official JSON Schema test suite can not be fetched: {error}")
            unpack(Path(fetched) / f"{name}.tar.gz", f"{name}/json/", folder)
    return folder


def fetch(folder: Path) -> None:
    """Let pip download the sources of `jsonschema`."""
    wanted = f"jsonschema=={version('jsonschema')}"
    options = ["--quiet", "--no-deps", "--no-binary", "jsonschema", "--dest", str(folder)]
    subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, wanted],
        check=True,
        capture_output=True,
        timeout=SECONDS_TO_FETCH,
    )


def unpack(archive: Path, start: str, folder: Path) -> None:
    """Write the JSON files of an archive whose names have this start into a folder."""
    with tarfile.open(archive) as opened:
        for member in opened:
            if member.isfile() and member.name.startswith(start) and member.name.endswith(".json"):
                path = folder / member.name.removeprefix(start)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(opened.extractfile(member).read())


def remotes(suite: Path) -> dict[str, Any]:
    """Return the schemas that others refer to, by their URIs."""
    found = {}
    for path in (suite / "remotes").rglob("*.json"):
        name = path.relative_to(suite / "remotes").as_posix()
        if not name.startswith("draft") or name.startswith("draft2020-12"):
            found[f"http://localhost:1234/{name}"] = json.loads(path.read_text("utf-8"))
    return found


def required(suite: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the groups of cases of draft 2020-12 that are not optional, each with its file."""
    for path in sorted((suite / "tests" / "draft2020-12").glob("*.json")):
        for group in json.loads(path.read_text("utf-8")):
            yield path.name, group
