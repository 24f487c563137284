"""The page of debug mode that shows the records of a service, and how they change."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import quote

from alula._service import ServiceHandle
from alula.express._middleware._debug_page import DebugPage
from alula.outgoing._text import escape_html

__all__ = ["live_page"]

_SCRIPT: Final = Path(__file__).with_suffix(".js")


def live_page(handle: ServiceHandle, *, has_streams: bool) -> DebugPage:
    """Return the page.

    Args:
        handle: The service.
        has_streams: Whether the application has event streams.
    """
    path = escape_html(f"/{quote(handle.path)}")
    missing = [
        *([] if has_streams else ["app.configure(sse())  # from alula.realtime import sse"]),
        *([] if handle.live_options else [f"app.service({handle.path!r}).live()"]),
    ]
    if missing:
        body = _NOT_LIVE.format(lines=escape_html("\n".join(missing)))
    else:
        body = _BODY.format(path=path)
    return DebugPage(
        title=f"/{handle.path}",
        body=body,
        aside=f'<a href="/">All services</a> <a href="{path}">As JSON</a>',
        footer="Only debug mode shows this page.",
        script="" if missing else _SCRIPT.read_text("utf-8"),
    )


_NOT_LIVE: Final = """<p>To see the records here, and how they change, add:</p>
<pre>{lines}</pre>"""

_BODY: Final = """<form data-path="{path}">
<label for="filter">{path}?</label>
<input id="filter" placeholder="done=false&amp;$sort[id]=-1&amp;$limit=20" autocomplete="off"
  spellcheck="false">
</form>
<p id="status" class="soft" role="status">loading</p>
<table></table>"""
