"""Which files of an application have changed.

One look at a project costs a millisecond or so, since nothing that is not the project's is looked
into; that spares a package for every system that there is.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

__all__ = ["Seen", "changed", "look"]

Seen: TypeAlias = Mapping[str, tuple[int, int]]
"""When each file was written, and its size."""

_KINDS: Final = (".py", ".env", ".toml", ".yaml", ".yml")
_FOREIGN: Final = frozenset({"__pycache__", "node_modules", "site-packages"})
_ENVIRONMENT: Final = "pyvenv.cfg"


def look(places: Iterable[Path]) -> Seen:
    """Return the files below folders that make an application, as they are now.

    Hidden folders, those of Python environments and of installed packages are left out, so are
    files of other kinds. A file that is given by itself counts whatever its kind.
    """
    seen = {}
    for place in places:
        for name in _files(str(place)):
            try:
                status = os.stat(name)  # noqa: PTH116  # a Path for each file costs more than that
            except OSError:
                continue  # it has just been taken away
            seen[name] = status.st_mtime_ns, status.st_size
    return seen


def changed(before: Seen, after: Seen) -> list[str]:
    """Return the names of the files that are new, gone, or not as they were."""
    names = before.keys() | after.keys()
    return sorted(name for name in names if before.get(name) != after.get(name))


def _files(place: str) -> Iterator[str]:
    if not os.path.isdir(place):  # noqa: PTH112  # as above
        yield place
        return
    try:
        with os.scandir(place) as entries:
            found = list(entries)
    except OSError:
        return  # it is gone, or somebody else's
    if any(entry.name == _ENVIRONMENT for entry in found):
        return
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            if not entry.name.startswith(".") and entry.name not in _FOREIGN:
                yield from _files(entry.path)
        elif entry.name.endswith(_KINDS):
            yield entry.path
