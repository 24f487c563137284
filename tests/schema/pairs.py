"""Pairs of a schema and a value, made up at random: often right, often wrong in one place."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

VALUES = 6
TEXTS = ["", "a", "ab", "x" * 5, "5", "-1", "1.5", "1e1", "true", "false", "null", "0", "1", "ü😀"]
NUMBERS = [0, 1, -1, 2, 5, 10, 1.5, -0.5, 1e21]
SCALARS = [*TEXTS, *NUMBERS, True, False, None]
PLAIN = ["string", "number", "integer", "boolean", "null"]
NAMES = ["a", "b", "c/d", "e~f", "$g"]
FORMATS = {
    "date-time": ["2024-01-01T00:00:00Z", "2024-02-30T00:00:00Z", "2024-01-01T00:00:00"],
    "date": ["2024-02-29", "2023-02-29", "2024-1-1"],
    "time": ["12:00:00Z", "23:59:60Z", "24:00:00Z", "12:00:00+05:30"],
    "email": ["a@b.cd", "a@b", "a b@c.de", "a.b@c-d.ef"],
    "ipv4": ["127.0.0.1", "256.0.0.1", "1.2.3"],
    "ipv6": ["::1", "1::2::3", "fe80::1", "::ffff:1.2.3.4"],
    "uuid": ["64b00000-0000-4000-8000-000000000001", "64b0"],
    "uri": ["http://a.b/c?d=e#f", "a b", "/c", "mailto:a@b.cd"],
    "hostname": ["a.b", "-a.b", "a" * 64],
    "json-pointer": ["/a/b~0", "a", "/~2", ""],
    "duration": ["P1D", "PT5M", "P", "P1W"],
    "regex": ["^a", "("],
}


def pairs(seed: int, count: int) -> Iterator[tuple[Any, Any]]:
    """Yield so many pairs, several with each schema."""
    rng = random.Random(seed)
    for _ in range(count // VALUES):
        schema = schema_of(rng, 3)
        for _ in range(VALUES):
            yield schema, value_for(rng, schema, 3)


def schema_of(rng: random.Random, depth: int) -> Any:
    """Return a schema."""
    if rng.random() < 0.03:
        return rng.random() < 0.5
    makers = [scalar, scalar, scalar]
    if depth:
        makers += [an_object, an_object, a_list, a_list, combined]
    return rng.choice(makers)(rng, depth - 1)


def scalar(rng: random.Random, _: int) -> Any:
    kind = rng.choice(
        ["string", "number", "integer", "boolean", "null", "format", "enum", "several"]
    )
    if kind == "string":
        schema: dict[str, Any] = {"type": kind}
        if rng.random() < 0.5:
            schema[rng.choice(["minLength", "maxLength"])] = rng.randint(0, 3)
        if rng.random() < 0.3:
            schema["pattern"] = rng.choice(["^a", "\\d+$", "^[ab]*$", "\\w"])
        return schema
    if kind in {"number", "integer"}:
        limits = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]
        bounds = {name: rng.choice([-1, 0, 1, 5, 1.5]) for name in limits if rng.random() < 0.3}
        return {"type": kind} | bounds | ({"multipleOf": 2} if rng.random() < 0.2 else {})
    if kind == "format":
        return {"type": "string", "format": rng.choice(list(FORMATS))}
    if kind == "enum":
        chosen = rng.sample(SCALARS, 3)
        return rng.choice(
            [{"enum": chosen}, {"const": chosen[0]}, {"type": "string", "enum": TEXTS[:3]}]
        )
    if kind == "several":
        return {"type": rng.sample(PLAIN, 2)}
    return {"type": kind}


def an_object(rng: random.Random, depth: int) -> Any:
    names = rng.sample(NAMES, rng.randint(1, 3))
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: schema_of(rng, depth) for name in names},
    }
    if rng.random() < 0.4:
        schema["required"] = rng.sample(NAMES, rng.randint(1, 2))
    if rng.random() < 0.4:
        schema["additionalProperties"] = rng.choice([False, {"type": "integer"}])
    if rng.random() < 0.2:
        schema["patternProperties"] = {"^[a-c]": schema_of(rng, 0)}
    if rng.random() < 0.2:
        schema[rng.choice(["minProperties", "maxProperties"])] = rng.randint(1, 2)
    if rng.random() < 0.2:
        schema["dependentRequired"] = {"a": rng.sample(["b", "c/d"], rng.randint(1, 2))}
    if rng.random() < 0.1:
        schema["propertyNames"] = {"maxLength": 2}
    for name in names:
        if rng.random() < 0.15 and isinstance(schema["properties"][name], dict):
            schema["properties"][name]["default"] = rng.choice(SCALARS)
    return schema


def a_list(rng: random.Random, depth: int) -> Any:
    schema: dict[str, Any] = {"type": "array"}
    if rng.random() < 0.8:
        schema["items"] = schema_of(rng, depth)
    if rng.random() < 0.2:
        schema["prefixItems"] = [schema_of(rng, 0)]
        schema["items"] = rng.choice([False, True, {"type": "string"}])
    if rng.random() < 0.4:
        schema[rng.choice(["minItems", "maxItems"])] = rng.randint(1, 2)
    if rng.random() < 0.2:
        schema["uniqueItems"] = True
    return schema


def combined(rng: random.Random, depth: int) -> Any:
    several = [schema_of(rng, depth) for _ in range(2)]
    keyword = rng.choice(["anyOf", "oneOf", "allOf", "if", "$ref", "not"])
    if keyword == "if":
        return {"if": several[0], "then": several[1], "else": schema_of(rng, 0)}
    if keyword == "$ref":
        return {"$ref": "#/$defs/x", "$defs": {"x": several[0]}} if depth == 2 else several[0]
    return {keyword: several[0] if keyword == "not" else several}


def value_for(rng: random.Random, schema: Any, depth: int) -> Any:
    """Return a value that may well fit."""
    if not isinstance(schema, dict) or rng.random() < 0.1:
        return anything(rng, depth)
    if "format" in schema:
        return rng.choice(FORMATS[schema["format"]])
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if schema.get("type") == "object":
        names = [name for name in NAMES if rng.random() < 0.5]
        inner = schema["properties"]
        return {name: value_for(rng, inner.get(name, True), depth - 1) for name in names}
    if schema.get("type") == "array":
        item = schema.get("items", True)
        return [value_for(rng, item, depth - 1) for _ in range(rng.randint(0, 3))]
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in schema:
            return value_for(rng, rng.choice(schema[keyword]), depth)
    return rng.choice(SCALARS)


def anything(rng: random.Random, depth: int) -> Any:
    if depth > 0 and rng.random() < 0.3:
        if rng.random() < 0.5:
            return {name: anything(rng, depth - 1) for name in rng.sample(NAMES, 2)}
        return [anything(rng, depth - 1) for _ in range(rng.randint(0, 2))]
    return rng.choice(SCALARS)
