"""The typed endpoints: services with annotations, and what calls and descriptions make of them.

``python -m tests.conformance.endpoints FILE.json`` runs all cases of a file. What a case holds is
described in its file under ``format``.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx2 as httpx
from tests.conformance.comparison import compare, differences
from tests.conformance.wire import Reply

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import AuthenticationService, JWTStrategy
from alula.express import error_handler, express, not_found, rest
from alula.express import json as json_parser
from alula.openapi import describe, typescript

CASES = Path(__file__).with_name("typed-cases.json")
OPENAPI = "http://example.com"


def load(path: Path = CASES) -> tuple[str, list[dict[str, Any]]]:
    """Return the head of all services, and the cases."""
    held = json.loads(path.read_text(encoding="utf-8"))
    return held["head"], next(value for value in held.values() if isinstance(value, list))


def play(head: str, case: Mapping[str, Any]) -> list[str]:
    """Return how a case differs from what is expected."""
    return asyncio.run(_play(head, case))


async def _play(head: str, case: Mapping[str, Any]) -> list[str]:
    wanted = case.get("registration")
    try:
        app, token = make_app(head, case)
    except Exception as error:
        if wanted is None:
            raise
        is_named = wanted.get("names", "") in str(error)
        is_kind = wanted["error"] in {each.__name__ for each in type(error).__mro__}
        return [] if is_named and is_kind else [f"registration: {error!r}"]
    if wanted is not None:
        return ["registration: expected an error"]
    found: list[str] = []
    if "request" in case:
        reply = await send(app, case["request"], token)
        found += compare(case["response"], reply)
        kind = case["response"].get("contentType")
        if kind is not None and reply.headers.get("content-type") != kind:
            found.append(f"content type: {reply.headers.get('content-type')}")
    found += [f"openapi {line}" for line in _openapi_differences(app, case.get("openapi", {}))]
    module = typescript(app) if "typescript" in case else ""
    found += [
        f"typescript lacks: {text}" for text in case.get("typescript", ()) if text not in module
    ]
    return found


def make_app(head: str, case: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the application of a case, and the token of its user."""
    module = ModuleType("typed_case")
    sys.modules[module.__name__] = module
    exec(f"{head}\n{case['service']}", module.__dict__)  # the cases are code
    app = express(App()).use(json_parser())
    app.configure(rest())
    token = ""
    if case.get("signedIn"):
        app.use("users", MemoryService({"1": {"id": 1}}))
        authentication = AuthenticationService(app, secret="s" * 32, service="users")
        authentication.register("jwt", JWTStrategy())
        app.use("authentication", authentication)
        token = authentication.create_access_token({}, "1")
    app.use(case["path"], module.Service(), methods=case["methods"])
    if hasattr(module, "hooks"):
        module.hooks(app.service(case["path"]))
    return app.use(not_found(), error_handler()), token


async def send(app: Any, request: Mapping[str, Any], token: str) -> Reply:
    """Send a request to an application in this process."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    headers = {
        name: value.replace("$TOKEN", token) for name, value in request.get("headers", {}).items()
    }
    async with httpx.AsyncClient(transport=transport, base_url=OPENAPI) as client:
        response = await client.request(
            request["method"],
            request["path"],
            headers=headers,
            **({"json": request["body"]} if "body" in request else {}),
        )
    return Reply(response.status_code, dict(response.headers), response.text)


# Where the description is better than what is expected, or only has another name.
BETTER = (
    # Generators call a type by its title, and would take two components for one.
    re.compile(r"/components/schemas/[\w.]+\.title: "),
    # References lead to components.
    re.compile(r"\.discriminator\.mapping\."),
)


def _openapi_differences(app: Any, parts: Mapping[str, Any]) -> Iterator[str]:
    document = json.loads(json.dumps(describe(app), default=str)) if parts else {}
    for pointer, expected in parts.items():
        value: Any = document
        try:
            for step in pointer.split("/")[1:]:
                value = value[step.replace("~1", "/").replace("~0", "~")]
        except (KeyError, TypeError):
            yield f"{pointer}: absent"
            continue
        for line in differences(expected, value, pointer):
            if not any(pattern.search(line) for pattern in BETTER):
                yield line


def main() -> int:
    """Run the cases of a file; return 1 if one differs."""
    head, cases = load(Path(sys.argv[1]))
    failed = 0
    for case in cases:
        try:
            found = play(head, case)
        except Exception as error:  # of this case alone
            found = [f"{type(error).__name__}: {error}"]
        if found:
            failed += 1
            print(f"FAILED [{case['area']}] {case['name']}", *found, sep="\n    ")
    print(f"{len(cases) - failed} of {len(cases)} cases hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
