"""What an argument of ``use`` is taken for, and what is said about what is none of it."""

from __future__ import annotations

from functools import partial
from unittest.mock import Mock

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette

from alula.adapters.memory import MemoryService
from alula.express import compression, error_handler, express, json, serve_static
from alula.express._classify import Kind, kind_of


async def middleware(req, res, next): ...


def plain(req, res, next): ...


def with_options(req, res, next, limit=5, *, strict=True, **more): ...


def anything(*args): ...


async def on_error(error, req, res, next): ...


def handler(req, res): ...


async def asgi(scope, receive, send): ...


class Callable:
    def __call__(self, req, res, next): ...

    def method(self, error, req, res, next): ...


class ASGIApplication:
    async def __call__(self, scope, receive=None, send=None): ...

    def get(self, id, params): ...


class Service:
    def find(self, params): ...


class CallableService(Service):
    def __call__(self): ...


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        (middleware, Kind.MIDDLEWARE),
        (plain, Kind.MIDDLEWARE),
        (with_options, Kind.MIDDLEWARE),
        (anything, Kind.MIDDLEWARE),
        (Callable(), Kind.MIDDLEWARE),
        (partial(on_error, None), Kind.MIDDLEWARE),
        (Mock(), Kind.MIDDLEWARE),
        (json(), Kind.MIDDLEWARE),
        (compression(), Kind.MIDDLEWARE),
        (on_error, Kind.ERROR_MIDDLEWARE),
        (Callable().method, Kind.ERROR_MIDDLEWARE),
        (error_handler(), Kind.ERROR_MIDDLEWARE),
        (handler, Kind.HANDLER),
        (partial(plain, next=None), Kind.HANDLER),
        (asgi, Kind.ASGI),
        (ASGIApplication(), Kind.ASGI),
        (Starlette(), Kind.ASGI),
        (FastAPI(), Kind.ASGI),
        (express(), Kind.ASGI),
        (Service(), Kind.SERVICE),
        (CallableService(), Kind.SERVICE),
        (MemoryService(), Kind.SERVICE),
        (object(), Kind.SERVICE),
        (None, Kind.SERVICE),
        ("text", Kind.SERVICE),
    ],
)
def test_an_item_is_known_by_its_signature(item, kind):
    assert kind_of(item) is kind


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (Service, r"test_classify\.Service is a class; use an instance: Service\(\)"),
        (Starlette, r"Starlette is a class; use an instance: Starlette\(\)"),
        ({"methods": ["find"]}, r"options are keywords: use\(path, service, methods=\[...\]\)"),
        (lambda: None, r"<lambda>\(\) fits nothing that can be used"),
        (lambda req: None, r"<lambda>\(req\) fits nothing"),
        (lambda a, b, c, d, e: None, r"middleware takes \(req, res, next\)"),
        (Service().find, r"Service\.find\(params\) fits nothing"),
        (serve_static, r"serve_static\(folder"),
        (json, r"call it to get middleware: [\w.]+\.json\(\)"),
        (getattr, r"builtins\.getattr has no signature; wrap it in a function"),
    ],
)
def test_what_is_none_of_it_is_explained(item, message):
    with pytest.raises(TypeError, match=message):
        kind_of(item)


def test_a_keyword_that_nobody_gives_does_not_fit():
    def needs_more(req, res, next, *, database): ...

    with pytest.raises(TypeError, match=r"database.* fits nothing"):
        kind_of(needs_more)


@pytest.mark.parametrize("item", [lambda: None, lambda req: None, serve_static])
def test_only_what_takes_options_alone_is_to_be_called(item):
    with pytest.raises(TypeError) as raised:
        kind_of(item)
    assert "call it" not in str(raised.value)
