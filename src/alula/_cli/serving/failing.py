"""What `alula dev` serves while the application does not start: why it does not."""

from __future__ import annotations

from typing import Any

from alula.errors import GeneralError
from alula.express import WebApplication, error_handler, express

__all__ = ["failing"]


def failing(text: str) -> WebApplication:
    """Return an application that answers every request with an error.

    Args:
        text: What the error says.
    """

    def fail(_req: Any, _res: Any, _next: Any) -> None:
        raise GeneralError(text)

    app = express()
    app.debug = True
    return app.use(fail, error_handler(logger=False))
