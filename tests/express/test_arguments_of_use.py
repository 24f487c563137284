"""What an argument of ``use`` is taken for, and what is said about what is none of it."""

from __future__ import annotations

from functools import partial
from unittest.mock import Mock

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette

from alula.adapters.memory import MemoryService
from alula.express import compression, error_handler, express, json, serve_static
from alula.express._routing import ItemType, item_type_of


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
        (middleware, ItemType.MIDDLEWARE),
        (plain, ItemType.MIDDLEWARE),
        (with_options, ItemType.MIDDLEWARE),
        (anything, ItemType.MIDDLEWARE),
        (Callable(), ItemType.MIDDLEWARE),
        (partial(on_error, None), ItemType.MIDDLEWARE),
        (Mock(), ItemType.MIDDLEWARE),
        (json(), ItemType.MIDDLEWARE),
        (compression(), ItemType.MIDDLEWARE),
        (on_error, ItemType.ERROR_MIDDLEWARE),
        (Callable().method, ItemType.ERROR_MIDDLEWARE),
        (error_handler(), ItemType.ERROR_MIDDLEWARE),
        (handler, ItemType.HANDLER),
        (partial(plain, next=None), ItemType.HANDLER),
        (asgi, ItemType.ASGI),
        (ASGIApplication(), ItemType.ASGI),
        (Starlette(), ItemType.ASGI),
        (FastAPI(), ItemType.ASGI),
        (express(), ItemType.ASGI),
        (Service(), ItemType.SERVICE),
        (CallableService(), ItemType.SERVICE),
        (MemoryService(), ItemType.SERVICE),
        (object(), ItemType.SERVICE),
        (None, ItemType.SERVICE),
        ("text", ItemType.SERVICE),
    ],
)
def test_an_item_is_known_by_its_signature(item, kind):
    assert item_type_of(item) is kind


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (Service, r"test_arguments_of_use\.Service is a class; use an instance: Service\(\)"),
        (Starlette, r"Starlette is a class; use an instance: Starlette\(\)"),
        ({"methods": ["find"]}, r"options are keywords: use\(path, service, methods=\[...\]\)"),
        (lambda: None, r"<lambda>\(\) fits nothing that can be used"),
        (lambda req: None, r"<lambda>\(req\) fits nothing"),
        (lambda a, b, c, d, e: None, r"middleware takes \(req, res, next\)"),
        (Service().find, r"Service\.find\(params\) fits nothing"),
        (serve_static, r"serve_static\(folder"),
        (json, r"^write app\.use\(json\(\)\), with brackets: alula\.express\.json is called"),
        (getattr, r"builtins\.getattr has no signature; wrap it in a function"),
    ],
)
def test_what_is_none_of_it_is_explained(item, message):
    with pytest.raises(TypeError, match=message):
        item_type_of(item)


def test_a_keyword_that_nobody_gives_does_not_fit():
    def needs_more(req, res, next, *, database): ...

    with pytest.raises(TypeError, match=r"database.* fits nothing"):
        item_type_of(needs_more)


@pytest.mark.parametrize("item", [lambda: None, lambda req: None, serve_static])
def test_only_what_takes_options_alone_is_to_be_called(item):
    with pytest.raises(TypeError) as raised:
        item_type_of(item)
    assert "call it" not in str(raised.value)
