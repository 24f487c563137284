"""Outermost hooks: around all others, those of the application included."""

from __future__ import annotations

import pytest

from alula import App
from alula.errors import Conflict


class Echo:
    async def create(self, data, params):
        return data

    async def find(self, params):
        return []


@pytest.fixture
def log():
    return []


@pytest.fixture
def app(log):
    async def outermost(context, next):
        log.append("outermost")
        await next()
        log.append(context.result)

    app = App().use("echo", Echo())
    handle = app.service("echo")
    handle.hook_table.add_outermost(outermost, ["create"])
    handle.compose_hooks()
    return app


async def test_surrounds_all_hooks_whenever_they_are_registered(app, log):
    async def around(context, next):
        log.append("application")
        await next()
        context.result = "changed"

    app.hooks(around=[around])
    await app.service("echo").create({})
    assert log == ["outermost", "application", "changed"]


async def test_does_not_go_on_where_a_hook_fails(app, log):
    async def fail(context):
        raise Conflict("late")

    app.hooks(after={"create": [fail]})
    with pytest.raises(Conflict):
        await app.service("echo").create({})
    assert log == ["outermost"]


async def test_other_methods_have_none(app, log):
    await app.service("echo").find()
    assert log == []
