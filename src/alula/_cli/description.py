"""Descriptions of APIs: of an application that is imported, or of a server that is running."""

from __future__ import annotations

import json
from typing import Any

from alula._cli.terminal import UsageError
from alula.errors import FrameworkError

__all__ = ["description_at", "description_of"]


def description_of(app: Any) -> str:
    """Return the OpenAPI description of an application as text.

    Title and version are those that the plugin was told, where it is configured.
    """
    from alula.openapi._document import describe  # noqa: PLC0415  # only this command needs it

    about = getattr(app, "settings", {}).get("openapi") or {}
    return json.dumps(describe(app, **about), indent=2, ensure_ascii=False)


def description_at(url: str) -> dict[str, Any]:
    """Return the OpenAPI description that a server gives.

    Args:
        url: Its address, or that of the description where it is not at ``/openapi.json``.

    Raises:
        UsageError: There is none.
    """
    from alula.client import create_sync_client, rest  # noqa: PLC0415  # as above

    base, _, name = url.rpartition("/") if url.endswith(".json") else (url, "", "openapi.json")
    try:
        with create_sync_client().configure(rest(base).fetch()) as client:
            found = client.service(name).find()
    except (FrameworkError, ValueError) as error:
        raise UsageError(f"there is no description at {base}/{name}: {error}") from None
    if not isinstance(found, dict) or "openapi" not in found:
        raise UsageError(f"what {base}/{name} answers is no OpenAPI description")
    return found
