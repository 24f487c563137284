"""What debug mode says where nothing answers: what there is, and what an address may have meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from html import escape
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import quote

from alula.express._request import Request

__all__ = ["hint_for", "overview_page", "wants_overview"]

_DOCS_SETTING: Final = "openapi docs"
"""The setting where `alula.openapi` keeps the address of its page."""

_TITLE_SETTING: Final = "openapi"
"""The setting where it keeps the title of the API."""

_LONGEST_PATH: Final = 200
"""Characters of a path for which others are compared with it; the time grows with their square."""

_SIMILAR: Final = 0.7

_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
:root {{
  color-scheme: light dark;
  --text: #1c2126; --soft: #545d66; --ground: #fff; --raised: #f4f6f8; --line: #d3d9df;
  --accent: #0b5cad;
}}
@media (prefers-color-scheme: dark) {{
  :root {{
    --text: #e6eaee; --soft: #aab4bd; --ground: #14181c; --raised: #1e2429; --line: #3a444d;
    --accent: #7db8f5;
  }}
}}
* {{ box-sizing: border-box }}
body {{
  margin: 0 auto; max-width: 46rem; padding: 8vh 1.25rem 2rem; color: var(--text);
  background: var(--ground); font: 1rem/1.5 system-ui, sans-serif;
}}
header {{ display: flex; flex-wrap: wrap; gap: 1rem; align-items: end; margin-bottom: 2rem }}
header > div {{ flex: 1 1 16rem }}
h1 {{ margin: 0; font-size: 2.2rem; line-height: 1.2 }}
h2 {{ margin: 2rem 0 .5rem; font-size: 1rem; color: var(--soft); font-weight: 600 }}
p {{ margin: .25rem 0 }}
.soft, footer {{ color: var(--soft) }}
code, pre {{ font: .95rem/1.5 ui-monospace, monospace }}
a {{ color: var(--accent) }}
.button {{
  padding: .5rem 1.1rem; border-radius: .4rem; color: var(--ground); background: var(--accent);
  text-decoration: none;
}}
ul {{ margin: 0; padding: 0; list-style: none }}
.services {{ border: 1px solid var(--line); border-radius: .5rem; background: var(--raised) }}
.services li {{ display: flex; flex-wrap: wrap; gap: .25rem 1rem; padding: .6rem 1rem }}
.services li + li {{ border-top: 1px solid var(--line) }}
.services li > :first-child {{ flex: 1 1 12rem; overflow-wrap: anywhere }}
.pages {{ display: flex; flex-wrap: wrap; gap: .25rem 1.25rem }}
pre {{
  margin: 0; padding: .75rem 1rem; overflow: auto; border: 1px solid var(--line);
  border-radius: .5rem; background: var(--raised);
}}
footer {{ margin-top: 3rem; font-size: .875rem }}
</style>
<header>
  <div><p class="soft">Alula {version}, debug mode</p><h1>{title}</h1></div>
  {docs}
</header>
<main>
{body}
</main>
<footer>Only debug mode shows this page, and only where nothing else answers <code>GET /</code>.
Otherwise it is a 404.</footer>
</html>
"""

_NOTHING: Final = """<p>It runs. There are no services yet; this line adds the first:</p>
<pre>app.use("messages", MemoryService())</pre>"""


def wants_overview(req: Request) -> bool:
    """Tell whether this is a look at the root of an application in debug mode, not by a program."""
    is_root = req.path in {"", "/"} and not req.base_url and req.method in {"GET", "HEAD"}
    return bool(req.app.debug) and is_root and "json" not in (req.headers.get("accept") or "")


def overview_page(req: Request) -> str:
    """Return the page that lists what there is."""
    app = req.app
    about = app.settings.get(_TITLE_SETTING)
    docs = app.settings.get(_DOCS_SETTING)
    link = f'<a class="button" href="{escape(docs)}">Open the documentation</a>' if docs else ""
    services = _services(app)
    body = _NOTHING if not services else "\n".join(_sections(req, services))
    title = about["title"] if isinstance(about, dict) else "Alula"
    return _PAGE.format(version=version("alula"), title=escape(str(title)), docs=link, body=body)


def hint_for(req: Request) -> str:
    """Return what to add to the message of a 404, nothing outside of debug mode."""
    app = req.app
    if not app.debug or len(req.path) > _LONGEST_PATH:
        return ""
    places = [*(handle.path for handle in _services(app)), *_pages(app)]
    if req.path in {"", "/"}:
        known = ", ".join(f"/{place.strip('/')}" for place in places)
        return f"; there are {known}" if known and not req.base_url else ""
    segments = req.path.strip("/").split("/")
    guesses = [guess for place in places for guess in _guesses(segments, place.strip("/"))]
    likeness, meant = max(guesses, default=(0.0, ""))
    if likeness < _SIMILAR or meant == req.path:
        return ""
    return f"; did you mean {meant}?"


def _services(app: Any) -> list[Any]:
    """Return the handles of the services that are open to the outside."""
    return [handle for handle in getattr(app, "services", {}).values() if handle.methods]


def _pages(app: Any) -> list[str]:
    docs = app.settings.get(_DOCS_SETTING)
    return [*([docs] if docs else []), *sorted(app.early_paths)]


def _sections(req: Request, services: Sequence[Any]) -> Iterator[str]:
    yield "<h2>Services</h2>"
    yield '<ul class="services">'
    for handle in services:
        path = f"/{escape(handle.path)}"
        is_link = "find" in handle.methods and ":" not in handle.path
        name = f'<a href="{path}"><code>{path}</code></a>' if is_link else f"<code>{path}</code>"
        methods = escape(", ".join(handle.methods))
        yield f'<li><span>{name}</span><span class="soft">{methods}</span></li>'
    yield "</ul>"
    example = next((one.path for one in services if "find" in one.methods), services[0].path)
    host = escape(req.headers.get("host") or "localhost:3030")
    yield f"<h2>From a terminal</h2>\n<pre>curl {req.protocol}://{host}/{escape(quote(example))}</pre>"
    if pages := _pages(req.app):
        yield '<h2>Also here</h2>\n<ul class="pages">'
        yield from (f'<li><a href="{escape(page)}">{escape(page)}</a></li>' for page in pages)
        yield "</ul>"


def _guesses(segments: Sequence[str], place: str) -> Iterator[tuple[float, str]]:
    """Yield what a path may have meant where there is something at a place, and how alike it is."""
    parts = place.split("/")
    for begin in range(len(segments)):
        end = begin + len(parts)
        given = segments[begin:end]
        if len(given) < len(parts):
            return
        meant = [
            own if part.startswith(":") else part for part, own in zip(parts, given, strict=True)
        ]
        if begin == 0:
            one, other = "/".join(given).lower(), "/".join(meant).lower()
            yield (
                SequenceMatcher(None, one, other).ratio(),
                f"/{'/'.join([*meant, *segments[end:]])}",
            )
        elif given == meant:  # behind a prefix that is not there, such as /api
            yield _SIMILAR, f"/{'/'.join([*meant, *segments[end:]])}"
