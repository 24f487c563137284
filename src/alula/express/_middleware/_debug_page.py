"""The look of the pages of debug mode."""

from __future__ import annotations

import secrets
from typing import Final, NamedTuple

from alula.express._response import Response
from alula.outgoing._text import escape_html

__all__ = ["DebugPage", "send_debug_page"]


class DebugPage(NamedTuple):
    """What is on a page.

    Attributes:
        title: The title, a text.
        body: Its HTML.
        aside: HTML beside the title.
        footer: HTML below.
        script: JavaScript that runs on it, empty for none.
    """

    title: str
    body: str
    aside: str = ""
    footer: str = ""
    script: str = ""


def send_debug_page(res: Response, page: DebugPage) -> None:
    """Send a page. It loads nothing, and runs nothing but its own script."""
    from importlib.metadata import (  # noqa: PLC0415  # 2 % of an import, for these pages alone
        version,
    )

    policy, script = _POLICY, ""
    if page.script:
        nonce = secrets.token_urlsafe(16)
        policy = f"{policy}; script-src 'nonce-{nonce}'; connect-src 'self'"
        script = f'<script nonce="{nonce}">{page.script}</script>'
    text = _PAGE.format(
        version=version("alula"),
        style=_STYLE,
        title=escape_html(page.title),
        aside=page.aside,
        body=page.body,
        footer=page.footer,
        script=script,
    )
    res.set("Content-Security-Policy", policy).set("Cache-Control", "no-store")
    res.type("html").send(text)


_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
)

_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
<header>
  <div><p class="soft">Alula {version}, debug mode</p><h1>{title}</h1></div>
  {aside}
</header>
<main>
{body}
</main>
<footer>{footer}</footer>
{script}
</html>
"""

_STYLE: Final = """:root {
  color-scheme: light dark;
  --text: #1c2126; --soft: #545d66; --ground: #fff; --raised: #f4f6f8; --line: #d3d9df;
  --accent: #0b5cad;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #e6eaee; --soft: #aab4bd; --ground: #14181c; --raised: #1e2429; --line: #3a444d;
    --accent: #7db8f5;
  }
}
* { box-sizing: border-box }
body {
  margin: 0 auto; max-width: 46rem; padding: 8vh 1.25rem 2rem; color: var(--text);
  background: var(--ground); font: 1rem/1.5 system-ui, sans-serif;
}
header { display: flex; flex-wrap: wrap; gap: 1rem; align-items: end; margin-bottom: 2rem }
header > div { flex: 1 1 16rem }
h1 { margin: 0; font-size: 2.2rem; line-height: 1.2 }
h2 { margin: 2rem 0 .5rem; font-size: 1rem; color: var(--soft); font-weight: 600 }
p { margin: .25rem 0 }
.soft, footer { color: var(--soft) }
code, pre { font: .95rem/1.5 ui-monospace, monospace }
a { color: var(--accent) }
.button {
  padding: .5rem 1.1rem; border-radius: .4rem; color: var(--ground); background: var(--accent);
  text-decoration: none;
}
ul { margin: 0; padding: 0; list-style: none }
.services { border: 1px solid var(--line); border-radius: .5rem; background: var(--raised) }
.services li { display: flex; flex-wrap: wrap; gap: .25rem 1rem; padding: .6rem 1rem }
.services li + li { border-top: 1px solid var(--line) }
.services li > :first-child { flex: 1 1 12rem; overflow-wrap: anywhere }
.pages { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem }
pre {
  margin: 0; padding: .75rem 1rem; overflow: auto; border: 1px solid var(--line);
  border-radius: .5rem; background: var(--raised);
}
footer { margin-top: 3rem; font-size: .875rem }
.watch { margin-left: .5rem; font-size: .875rem }
input { flex: 1; padding: .4rem .6rem; font: .95rem/1.5 ui-monospace, monospace }
form { display: flex; flex-wrap: wrap; gap: .25rem .75rem; align-items: center }
form label { font: .95rem/1.5 ui-monospace, monospace }
table { width: 100%; margin-top: 1rem; border-collapse: collapse; font-size: .9rem }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: left }
th { color: var(--soft); font-weight: 600 }
td { overflow-wrap: anywhere; vertical-align: top }
@keyframes new { from { background: var(--accent) } }
.new { animation: new 1.5s }
@media (prefers-reduced-motion: reduce) { .new { animation: none } }
"""
