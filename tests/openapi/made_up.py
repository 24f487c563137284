"""Requests that schemathesis makes up, asked of an application in this process.

To make a request up takes ten times as long as to answer it. So schemathesis makes fewer of them
than are asked, and their parts (path, query, headers, body) are combined anew for the rest.
Operations whose parameters and bodies are described alike share what was made up: each of them is
asked all of it.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.failures import FailureGroup
from schemathesis.core.transport import Response
from tests.express.asgi_client import Receiver, Sender, scope_of

SHARES = {GenerationMode.POSITIVE: 0.7, GenerationMode.NEGATIVE: 0.3}
_SHARE_MADE = 4  # of so many requests, one is made up and the others are combined
_AT_ONCE = 20  # answers to wrong passwords wait on purpose
_BASE = "http://alula.example"
_SAID = {"description", "summary", "title"}
_DEPTH = 8  # schemas that contain themselves end somewhere


class Asked:
    """What came of asking an application.

    Attributes:
        counts: How many requests each operation got.
        statuses: How often each status came.
        failures: What contradicts the description, with the request.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.statuses: dict[int, int] = {}
        self.failures: list[str] = []


async def ask(
    app: Any,
    document: Mapping[str, Any],
    examples: int,
    checks: Iterable[str],
    *,
    token: str,
    renew: Callable[[], object],
) -> Asked:
    """Ask every operation of a description at least ``examples`` times, in the same way each time.

    Args:
        app: An application that has been started.
        document: Its description.
        examples: How many requests to make up for each operation.
        checks: Names of what schemathesis checks in each answer.
        token: What every request carries.
        renew: Called now and then, so that records do not grow with every change of them all.
    """
    load_all_checks()
    chosen = [CHECKS.get_one(name) for name in checks]
    asked = Asked()
    for operations in groups(document):
        renew()
        calls = []
        for parts in made_up(operations[0], examples):
            request = prepared(operations[0].Case(**parts), token)
            cases = [operation.Case(**parts) for operation in operations]
            calls += [(app, case, request, chosen, asked) for case in cases]
        for first in range(0, len(calls), _AT_ONCE):
            await asyncio.gather(*(_ask_one(*call) for call in calls[first : first + _AT_ONCE]))
    return asked


def groups(document: Mapping[str, Any]) -> list[list[Any]]:
    """Return the operations of a description, those together that take the same."""
    found: dict[str, list[Any]] = {}
    for result in schemathesis.openapi.from_dict(dict(document)).get_all_operations():
        operation = result.ok()
        item, own = document["paths"][operation.path], operation.definition.raw
        parameters = [*item.get("parameters", ()), *own.get("parameters", ())]
        told = _without_words([parameters, own.get("requestBody")], document)
        key = json.dumps(told, sort_keys=True)
        found.setdefault(key, []).append(operation)
    return list(found.values())


def _without_words(value: Any, document: Mapping[str, Any], depth: int = 0) -> Any:
    """Return a part of a description whole, and without what is only said."""
    if isinstance(value, list):
        return [_without_words(each, document, depth) for each in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value and depth < _DEPTH:
        found: Any = document
        for name in value["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        return _without_words(found, document, depth + 1)
    return {k: _without_words(v, document, depth) for k, v in value.items() if k not in _SAID}


def made_up(operation: Any, examples: int) -> list[dict[str, Any]]:
    """Return the parts of requests for an operation, as it wants them and as it does not."""
    made: list[Any] = []
    # What has but one part can not be combined.
    count = examples // _SHARE_MADE if _parts(operation) > 1 else examples
    for mode, share in SHARES.items():
        strategy = operation.as_strategy(generation_mode=mode)
        made += _examples(strategy, math.ceil(count * share))
    chance = random.Random(0)
    parts = [_combined(each, each, each) for each in made]
    while len(parts) < examples:
        parts.append(_combined(*(chance.choice(made) for _ in range(3))))
    return parts


def _parts(operation: Any) -> int:
    return bool(operation.path_parameters) + bool(operation.query) + bool(operation.body)


def _combined(first: Any, second: Any, third: Any) -> dict[str, Any]:
    """Return what a case is made from, with the parts of three."""
    return {
        "path_parameters": first.path_parameters,
        "headers": first.headers,
        "cookies": first.cookies,
        "query": second.query,
        "body": third.body,
        "media_type": third.media_type,
    }


def _examples(strategy: Any, count: int) -> list[Any]:
    cases: list[Any] = []

    @seed(0)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(case: Any) -> None:
        cases.append(case)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a part can not be made wrong
        collect()
    return cases


def prepared(case: Any, token: str) -> requests.PreparedRequest:
    """Return the request of a case, as schemathesis sends it."""
    request = requests.Request(**case.as_transport_kwargs(base_url=_BASE)).prepare()
    request.headers["Authorization"] = f"Bearer {token}"
    return request


async def _ask_one(app: Any, case: Any, alike: Any, checks: list[Any], asked: Asked) -> None:
    """Ask what another operation was asked, which takes the same at another place."""
    request = alike.copy()
    request.method = case.method
    request.url = "?".join([f"{_BASE}{case.formatted_path}", *alike.url.split("?", 1)[1:]])
    answer = await _send(app, request)
    asked.counts[case.operation.label] = asked.counts.get(case.operation.label, 0) + 1
    asked.statuses[answer.status_code] = asked.statuses.get(answer.status_code, 0) + 1
    try:
        case.validate_response(answer, checks=checks)
    except FailureGroup as group:
        asked.failures.append(str(group))


async def _send(app: Any, request: requests.PreparedRequest) -> Response:
    body = request.body or b""
    sender = Sender([body.encode() if isinstance(body, str) else body])
    receiver = Receiver(request.method)
    url = request.url.removeprefix(_BASE)
    await app(scope_of(request.method, url, dict(request.headers)), sender, receiver)
    answer = receiver.answer
    headers: dict[str, list[str]] = {}
    for name, value in answer.headers:
        headers.setdefault(name, []).append(value)
    return Response(answer.status, headers, answer.body, request, elapsed=0.0, verify=False)
