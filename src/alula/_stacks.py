"""What a stack tells: which frames are the user's, and which hook, service or middleware runs.

A function that runs code of others says so once, by `describe_frames`; a look at the stack of a
thread then finds what runs there without a trace of it in the calls themselves.
"""

from __future__ import annotations

import asyncio
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from traceback import TracebackException
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

__all__ = [
    "Place",
    "callback_frames",
    "describe_frames",
    "is_user_code",
    "keep_user_frames",
    "place_of",
]

Describe: TypeAlias = Callable[[Mapping[str, Any]], str]
Runner = TypeVar("Runner", bound=Callable[..., Any])

_DESCRIBED: Final[dict[CodeType, Describe]] = {}
_ALULA: Final = Path(__file__).parent
_STDLIB: Final = tuple({Path(sysconfig.get_paths()[name]) for name in ("stdlib", "platstdlib")})
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


class Place(NamedTuple):
    """Where a thread is.

    Attributes:
        what: What runs there, such as ``before hook app.check of service 'notes'``.
        where: The file, the line and the function of the user's innermost frame in it; the
            innermost of all frames where none is the user's.
    """

    what: str
    where: str


_LOOPS: Final = {
    function.__code__
    for function in (asyncio.Handle._run, asyncio.Runner.run)  # noqa: SLF001  # only to know their frames
}


def describe_frames(function: Runner, describe: Describe) -> Runner:
    """Say what runs inside the frames of a function, and return it.

    Args:
        function: Runs code of others; a closure says it for all closures of that code.
        describe: Returns the description. It gets the local names of a frame, and is called from
            another thread in the midst of it: some names may not be there yet.
    """
    _DESCRIBED[function.__code__] = describe
    return function


def callback_frames(frame: FrameType | None) -> list[FrameType]:
    """Return the frames of what an event loop runs at the moment, the innermost first.

    Args:
        frame: The innermost frame of the loop's thread, None for an unknown one.
    """
    frames = []
    while frame is not None and frame.f_code not in _LOOPS:
        frames.append(frame)
        frame = frame.f_back
    return frames


def place_of(frames: Sequence[FrameType]) -> Place:
    """Return where code is whose frames are given, the innermost first."""
    if not frames:
        return Place("a callback of the event loop", "an unknown place")
    described = ((at, what) for at, each in enumerate(frames) if (what := _described(each)))
    last, what = next(described, (len(frames) - 1, ""))
    within = frames[: last + 1]  # code around it has only called what runs
    inner = next((each for each in within if is_user_code(each.f_code.co_filename)), frames[0])
    code = inner.f_code
    what = what or f"{inner.f_globals.get('__name__', '')}.{code.co_qualname}"
    return Place(what, f"{code.co_filename}, line {inner.f_lineno}, in {code.co_name}")


def _described(frame: FrameType) -> str | None:
    describe = _DESCRIBED.get(frame.f_code)
    if describe is None:
        return None
    try:
        return describe(frame.f_locals)
    except (KeyError, AttributeError):  # a name that is not there yet
        return None


@lru_cache(maxsize=4096)
def is_user_code(filename: str) -> bool:
    """Tell whether a file is neither Python's nor of an installed package nor Alula's."""
    path = Path(filename)
    if filename.startswith("<") or not _INSTALLED.isdisjoint(path.parts):
        return False
    return not any(path.is_relative_to(folder) for folder in (_ALULA, *_STDLIB))


def keep_user_frames(
    error: TracebackException, is_kept: Callable[[str], bool] = is_user_code, *, inner: bool = False
) -> int:
    """Take the frames of others out of an error, of those that led to it, and of those in it.

    A stack in which nothing is the user's stays whole.

    Args:
        error: What is shown; it is changed.
        is_kept: Tells by its file whether a frame is the user's.
        inner: Whether to keep what the user's innermost frame has called.

    Returns:
        How many frames were taken out.
    """
    kept = [at for at, frame in enumerate(error.stack) if is_kept(frame.filename)]
    removed = 0
    # A syntax error has no frame of its own file.
    if kept or is_kept(getattr(error, "filename", None) or "<none>"):
        deeper = error.stack[kept[-1] + 1 :] if kept and inner else []
        frames = [*(error.stack[at] for at in kept), *deeper]
        removed = len(error.stack) - len(frames)
        error.stack[:] = frames
    inside: list[TracebackException] = list(getattr(error, "exceptions", None) or ())
    for each in (error.__cause__, error.__context__, *inside):
        if each is not None:
            removed += keep_user_frames(each, is_kept, inner=inner)
    return removed
