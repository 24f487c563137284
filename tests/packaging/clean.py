"""Environments with the wheel, what some of its extras need, and nothing else.

To install an extra from an index for every test would cost minutes. The environment of the tests
has all packages already, so a clean one is a folder of links to the files of those packages that an
extra asks for, directly or not, and a Python that looks nowhere else.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run `command` without what this environment adds to Python; its output is in the result."""
    environment = {name: os.environ[name] for name in os.environ if not name.startswith("PYTHON")}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def requirements_of(wheel: Path) -> list[Requirement]:
    """Return what the metadata of a wheel ask for."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        text = archive.read(name).decode()
    return [Requirement(line) for line in re.findall(r"^Requires-Dist: (.*)$", text, re.MULTILINE)]


def asked_for(requirements: Iterable[Requirement], extras: Iterable[str]) -> Iterator[Requirement]:
    """Yield the requirements that hold here, with these extras."""
    wanted = [{"extra": extra} for extra in extras] or [{"extra": ""}]
    for each in requirements:
        if each.marker is None or any(each.marker.evaluate(extra) for extra in wanted):
            yield each


def closure(wheel: Path, *extras: str) -> dict[str, metadata.Distribution]:
    """Return by name every package that the wheel with these extras brings.

    Raises:
        AssertionError: What is installed here would not be good enough.
        importlib.metadata.PackageNotFoundError: It is not installed here.
    """
    own = requirements_of(wheel)
    found: dict[str, metadata.Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    left = list(asked_for(own, extras))
    while left:
        each = left.pop()
        name = canonicalize_name(each.name)
        if (name, frozenset(each.extras)) in seen:
            continue
        seen.add((name, frozenset(each.extras)))
        if name == "alula":
            left.extend(asked_for(own, each.extras))
            continue
        package = found.setdefault(name, metadata.distribution(name))
        assert each.specifier.contains(package.version, prereleases=True), f"{each} here"
        needed = [Requirement(line) for line in package.requires or ()]
        left.extend(asked_for(needed, each.extras))
    return found


def link_files(package: metadata.Distribution, folder: Path) -> None:
    """Put the files of an installed package into a folder, as links."""
    for file in package.files or ():
        if ".." not in file.parts:
            target = folder / file
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                target.symlink_to(file.locate())


def environment(wheel: Path, folder: Path, *extras: str) -> Path:
    """Fill a folder with the wheel and what its extras bring, and return it."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    for package in closure(wheel, *extras).values():
        link_files(package, folder)
    return folder


def run_in(folder: Path, code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run code by a Python that knows its own library and the folder alone."""
    prelude = f"import sys; sys.path.append({str(folder)!r})\n"
    return run(sys.executable, "-I", "-S", "-W", "error", "-c", prelude + code, cwd=cwd)
