"""Virtual environments as a stranger has them: what a page tells to install, and nothing else."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement
from tests.requirements import absent
from tests.shared_folders import fill_once

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "requirements" / "constraints.txt"
OURS = ("PYTHON", "ALULA_", "COV", "PYTEST", "VIRTUAL_ENV", "MAKE", "MFLAGS")
SECONDS = 240.0


def variables(python: Path | None = None, **more: str) -> dict[str, str]:
    """Return the variables of this process without those that lead to its own environment.

    Args:
        python: The Python of an environment whose programs come first on the `PATH`.
        more: Variables to add.
    """
    kept = {name: os.environ[name] for name in os.environ if not name.startswith(OURS)}
    own = str(Path(sys.prefix) / "bin")
    path = [part for part in kept.get("PATH", "").split(os.pathsep) if part != own]
    if python is not None:
        path.insert(0, str(python.parent))
    return {**kept, "PATH": os.pathsep.join(path), **more}


def run(
    *command: str | Path, cwd: Path, env: dict[str, str], text: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; what it says on both channels is in `stdout`."""
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=env,
        input=text,
        stdin=None if text is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=SECONDS,
    )


class Environments:
    """Makes each environment once, for all worker processes.

    Attributes:
        wheel: The wheel of Alula that is installed where a page names `alula`.
        folder: Where the environments are.
    """

    def __init__(self, wheel: Path, folder: Path) -> None:
        self.wheel = wheel
        self.folder = folder

    def python(self, requirements: Iterable[str]) -> Path:
        """Return the Python of an environment with these requirements and nothing else.

        Args:
            requirements: What stands behind `pip install`, such as `alula[server]`.
        """
        names = self._combined(requirements)
        digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]

        def fill(folder: Path) -> None:
            python = self.new(folder)
            self._uv("pip", "install", "--python", python, *names)

        return fill_once(self.folder / digest, fill) / "bin" / "python"

    def new(self, folder: Path, *options: str) -> Path:
        """Make an empty environment in a folder, and return its Python."""
        self._uv("venv", "--python", sys.executable, *options, folder)
        return folder / "bin" / "python"

    def _combined(self, requirements: Iterable[str]) -> list[str]:
        """Return requirements with one for the wheel, which has all extras that they name."""
        parsed = [Requirement(each) for each in requirements]
        names = {str(each) for each in parsed if each.name != "alula"}
        extras = sorted({extra for each in parsed if each.name == "alula" for extra in each.extras})
        if any(each.name == "alula" for each in parsed):
            names.add(f"alula[{','.join(extras)}] @ {self.wheel.as_uri()}")
        return sorted(names)

    def _uv(self, *arguments: str | Path) -> None:
        uv = Path(sys.prefix) / "bin" / "uv"
        if not uv.exists():
            absent("no uv: what a stranger's environment shows is left out; run `make setup`")
        constraints = variables(UV_CONSTRAINT=str(CONSTRAINTS))
        done = run(uv, "--quiet", "--no-config", *arguments, cwd=self.folder, env=constraints)
        if done.returncode:
            absent(f"no environment of its own could be made: {done.stdout.strip()}")
