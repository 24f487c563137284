"""Sign-in: tokens, passwords, strategies, and the hooks that ask who is calling.

Needs the extra ``auth``.
"""

try:  # the modules below import these, but their errors would not name the extra
    import argon2 as _argon2  # noqa: F401  # to see whether it is installed
    import bcrypt as _bcrypt  # noqa: F401  # to see whether it is installed
    import jwt as _jwt  # noqa: F401  # to see whether it is installed
except ImportError as error:
    raise ImportError(
        f"alula.authentication needs {error.name}, which is not installed;"
        " install it with: pip install 'alula[auth]'"
    ) from error

from alula.authentication._attempt import Attempt, Extension
from alula.authentication._base_strategy import AuthenticationStrategy
from alula.authentication._entities import fold_username
from alula.authentication._hooks import (
    authenticate,
    hash_password,
    hide_taken,
    password_hash,
    protect,
)
from alula.authentication._jwt_strategy import JWTStrategy
from alula.authentication._local_strategy import LocalStrategy
from alula.authentication._passwords import HashedPassword, Passwords
from alula.authentication._service import AuthenticationService
from alula.authentication._sessions import Sessions
from alula.authentication._throttle import Throttle
from alula.authentication._token_cookies import TokenCookie

__all__ = [
    "Attempt",
    "AuthenticationService",
    "AuthenticationStrategy",
    "Extension",
    "HashedPassword",
    "JWTStrategy",
    "LocalStrategy",
    "Passwords",
    "Sessions",
    "Throttle",
    "TokenCookie",
    "authenticate",
    "fold_username",
    "hash_password",
    "hide_taken",
    "password_hash",
    "protect",
]
