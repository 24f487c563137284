"""An application with users who can sign in, whose passwords are hashed in no time."""

from __future__ import annotations

from typing import Any

from alula import App, Params
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService, LocalStrategy, Passwords, Sessions
from alula.authentication._attempt import Session
from alula.errors import NotAuthenticated

SECRET = "a secret of this test, 32 bytes long"
OTHER_SECRET = "another secret of it, just as long as the first"

# A hash of "right" by the least cost, as other applications have stored it.
BCRYPT = "$2b$04$rlulnf2cFwLaz1Bu2gy99uSFTZfSWAirbO53Y6kPQ.TdFS6l1uAva"


def quick_passwords(**options: Any) -> Passwords:
    """Return what hashes in less than a millisecond."""
    return Passwords(
        **{"time_cost": 1, "memory_cost": 8, "parallelism": 1, "least_floor": 0.0, **options}
    )


def add_authentication(app: Any, path: str = "authentication", **options: Any) -> Any:
    """Register an authentication service and return it."""
    service = AuthenticationService(app, **{"secret": SECRET, "throttle": False, **options})
    if "local" in service.strategies:
        service.register("local", LocalStrategy(passwords=quick_passwords()))
    app.use(path, service)
    return service


def make_app(users: Any = None, **options: Any) -> App:
    """Return an application that is not set up."""
    app = App()
    app.use("users", MemoryService(start_id=1) if users is None else users)
    add_authentication(app, **options)
    return app


async def add_user(app: Any, email: str = "ada@example.com", **more: Any) -> dict[str, Any]:
    """Store a user whose password is "right", and return the record."""
    hashed = await quick_passwords().hash("right")
    record = {"email": email, "password": str(hashed), **more}
    return await app.service("users").create(record)


class Notes:
    """Answers who is calling."""

    async def find(self, params: Params) -> dict[str, Any]:
        names = ("user", "authentication", "authenticated", "provider", "query")
        return {name: params.get(name) for name in names}


async def app_with_notes() -> App:
    """Return an application with an administrator, and notes that tell who is calling."""
    app = make_app()
    await add_user(app, role="admin")
    app.use("notes", Notes())
    await app.setup()
    return app


def app_with_sessions() -> App:
    """Return an application with two users, and a service for sessions."""
    app = App()
    app.use("sessions", MemoryService(), methods=[])
    app.use("users", MemoryService([{"id": 1, "password": "x"}, {"id": 2}], multi=True))
    return app


def proof_for(app: Any, subject: str = "1", path: str = "authentication") -> dict[str, str]:
    """Return the data of a sign-in by a token of a user."""
    token = app.service(path).service.create_access_token({}, subject)
    return {"strategy": "jwt", "accessToken": token}


def login(email: Any = "ada@example.com", password: Any = "right") -> dict[str, Any]:
    """Return the data of a sign-in."""
    return {"strategy": "local", "email": email, "password": password}


class Clock:
    """A clock that tests turn."""

    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def __call__(self) -> float:
        return self.time


def payload_of(session: Session, **others: Any) -> dict[str, Any]:
    """Return the claims of an access token of a session."""
    return {"sid": session.id, "sub": session.user_id, **others}


async def goes_on(sessions: Sessions, session: Session) -> bool:
    """Tell whether the access tokens of a session are good."""
    try:
        await sessions.check(payload_of(session))
    except NotAuthenticated:
        return False
    return True
