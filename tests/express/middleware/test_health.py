"""Liveness and readiness: what probes are told before, while and after an application serves."""

from __future__ import annotations

import asyncio
import json
import logging
import urllib.error
import urllib.request
from contextlib import suppress

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from tests.express.asgi_client import call

from alula import App
from alula.express import express, health, rest


class Service:
    async def find(self, params):
        return []


def app_with(**options):
    return express().configure(health(**options))


async def ready(app):
    answer = await call(app, "GET", "/health/ready")
    return answer.status, answer.json


def passes():
    return None


async def passes_later():
    await asyncio.sleep(0)
    return True


def raises():
    raise OSError("connect to db.internal:27017 failed")


async def hangs():
    await asyncio.sleep(60)


# -- what is answered ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/health/live", "/health/ready"])
async def test_an_application_that_serves_is_well(path):
    answer = await call(app_with(), "GET", path)
    assert (answer.status, answer.json) == (200, {"status": "ok"})
    assert answer.get("cache-control") == "no-store"


async def test_head_is_answered_without_a_body():
    answer = await call(app_with(), "HEAD", "/health/ready")
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize(("verb", "url"), [("POST", "/health/live"), ("GET", "/health")])
async def test_all_else_goes_on(verb, url):
    app = app_with()
    app.all("*", lambda req, res: res.json("mine"))
    assert (await call(app, verb, url)).json == "mine"


async def test_the_paths_are_a_choice():
    app = app_with(live="/livez", ready=None)
    assert (await call(app, "GET", "/livez")).status == 200
    assert (await call(app, "GET", "/health/ready")).status == 404
    assert (await call(app, "GET", "/health/live")).status == 404


async def test_a_query_changes_nothing():
    assert (await call(app_with(), "GET", "/health/ready?verbose=1")).json == {"status": "ok"}


# -- start and stop --------------------------------------------------------------------------------


async def test_an_application_is_ready_from_its_setup_to_its_teardown():
    app = express(App())
    app.configure(health())
    app.configure(rest())
    app.use("messages", Service())
    assert await ready(app) == (503, {"status": "starting"})
    assert (await call(app, "GET", "/health/live")).status == 200
    await app.setup()
    assert await ready(app) == (200, {"status": "ok"})
    await app.teardown()
    assert await ready(app) == (503, {"status": "starting"})


async def test_an_application_whose_setup_failed_is_not_ready():
    class Broken(Service):
        async def setup(self, app, path):
            raise OSError("no database")

    app = express(App())
    app.configure(health()).use("broken", Broken())
    with pytest.raises(OSError, match="no database"):
        await app.setup()
    assert await ready(app) == (503, {"status": "starting"})


async def test_one_that_drains_is_not_ready_and_serves_on():
    ran = []
    app = app_with(checks={"database": lambda: ran.append(1)})
    app.get("/", lambda req, res: res.json("served"))
    assert app.readiness == "ready"
    app.announce_shutdown()
    assert app.readiness == "draining"
    assert await ready(app) == (503, {"status": "draining"})
    assert ran == []
    assert (await call(app, "GET", "/health/live")).status == 200
    assert (await call(app, "GET", "/")).json == "served"


def ask(url):
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


async def test_probes_do_not_wait_for_a_long_setup_while_all_else_does():
    reached, go_on = asyncio.Event(), asyncio.Event()
    servers = []

    async def hold(context, next):
        servers.append(context.server)
        reached.set()
        await go_on.wait()
        await next()

    app = express(App())
    app.hooks(setup=[hold])
    app.configure(health())
    app.get("/", lambda req, res: res.json("served"))
    listening = asyncio.ensure_future(app.listen(0))
    await reached.wait()
    url = servers[0].url
    waiting = asyncio.ensure_future(asyncio.to_thread(ask, f"{url}/"))
    assert await asyncio.to_thread(ask, f"{url}/health/ready") == (503, {"status": "starting"})
    assert await asyncio.to_thread(ask, f"{url}/health/live") == (200, {"status": "ok"})
    assert not waiting.done()
    go_on.set()
    async with await listening:
        assert await waiting == (200, "served")
        assert await asyncio.to_thread(ask, f"{url}/health/ready") == (200, {"status": "ok"})
        app.announce_shutdown()
        assert (await asyncio.to_thread(ask, f"{url}/health/ready"))[0] == 503
    async with await app.listen(0):  # what starts again does not drain any longer
        assert await ready(app) == (200, {"status": "ok"})


async def test_a_plain_application_is_ready_once_the_gate_is_open():
    app = express()
    assert app.is_ready
    async with await app.listen(0):
        assert app.readiness == "ready"


async def test_an_application_that_extends_another_answers_probes_too():
    def hello(request):
        return PlainTextResponse("hello")

    app = express(App(), Starlette(routes=[Route("/hello", hello)]))
    app.configure(health())
    async with await app.listen(0):
        assert await ready(app) == (200, {"status": "ok"})
        assert (await call(app, "GET", "/hello")).text == "hello"


# -- checks ----------------------------------------------------------------------------------------


async def test_every_check_is_reported_by_its_name():
    app = app_with(checks={"mongodb": passes, "queue": passes_later})
    assert await ready(app) == (200, {"status": "ok", "checks": {"mongodb": "ok", "queue": "ok"}})


async def test_a_check_fails_by_raising_or_by_false_and_none_hides_another():
    checks = {"mongodb": raises, "queue": lambda: False, "files": passes, "slow": hangs}
    status, told = await ready(app_with(checks=checks, timeout=0.05))
    assert status == 503
    assert told == {
        "status": "failed",
        "checks": {"mongodb": "failed", "queue": "failed", "files": "ok", "slow": "timed out"},
    }


async def test_liveness_runs_no_check():
    assert (await call(app_with(checks={"mongodb": raises}), "GET", "/health/live")).status == 200


async def test_a_check_that_is_cancelled_from_within_has_failed():
    async def cancelled():
        raise asyncio.CancelledError

    assert (await ready(app_with(checks={"a": cancelled})))[1]["checks"] == {"a": "failed"}


async def test_a_check_that_clings_to_life_does_not_hold_the_answer_up():
    released = asyncio.Event()

    async def clings():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await released.wait()

    status, told = await ready(app_with(checks={"a": clings}, timeout=0.02))
    assert (status, told["checks"]) == (503, {"a": "timed out"})
    released.set()


async def test_a_check_that_clings_to_life_is_not_begun_again_before_it_ends():
    released = asyncio.Event()
    begun = 0

    async def clings():
        nonlocal begun
        begun += 1
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await released.wait()

    app = app_with(checks={"a": clings}, timeout=0.02)
    for _ in range(3):
        assert (await ready(app))[1]["checks"] == {"a": "timed out"}
    assert begun == 1
    released.set()
    assert (await ready(app))[0] == 200


async def test_a_check_that_was_late_begins_anew_once_it_has_ended():
    begun = []

    async def late_at_first():
        begun.append(None)
        if len(begun) == 1:
            await asyncio.sleep(60)

    app = app_with(checks={"a": late_at_first}, timeout=0.05)
    assert (await ready(app))[0] == 503
    await asyncio.sleep(0)  # its end
    assert (await ready(app))[0] == 200


async def test_checks_run_at_the_same_time():
    met = asyncio.Barrier(2)
    app = app_with(checks={"a": met.wait, "b": met.wait}, timeout=20)
    assert (await ready(app))[0] == 200


async def test_many_probes_at_once_cost_one_round_and_one_that_leaves_ends_no_other():
    rounds, began, go_on = [], asyncio.Event(), asyncio.Event()

    async def check():
        rounds.append(1)
        began.set()
        await go_on.wait()

    app = app_with(checks={"mongodb": check}, timeout=20)
    probes = [asyncio.ensure_future(ready(app)) for _ in range(5)]
    await began.wait()
    probes[0].cancel()
    await asyncio.sleep(0)
    go_on.set()
    done = await asyncio.gather(*probes, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    assert [status for status, _ in done[1:]] == [200] * 4
    assert len(rounds) == 1
    await ready(app)
    assert len(rounds) == 2


async def test_the_log_gets_the_reason_once_and_the_client_never(caplog):
    failing = [True]
    app = app_with(checks={"mongodb": lambda: raises() if failing else None})
    with caplog.at_level(logging.INFO, "alula.health"):
        for _ in range(3):
            answer = await call(app, "GET", "/health/ready")
            assert b"db.internal" not in answer.body
        (record,) = caplog.records
        assert record.levelname == "WARNING"
        assert record.getMessage() == "the health check mongodb: failed"
        assert str(record.exc_info[1]) == "connect to db.internal:27017 failed"
        failing.clear()
        assert (await ready(app))[0] == 200
    assert [entry.getMessage() for entry in caplog.records[1:]] == ["the health check mongodb: ok"]


async def test_false_is_explained_in_the_log(caplog):
    await ready(app_with(checks={"queue": lambda: False}))
    assert "returned False" in str(caplog.records[0].exc_info[1])


# -- mistakes --------------------------------------------------------------------------------------


def test_a_path_starts_with_a_slash():
    with pytest.raises(ValueError, match=r"'livez' starts with no slash: '/livez'"):
        health(live="livez")


@pytest.mark.parametrize("check", [None, "ping", hangs.__name__])
def test_a_check_is_a_function(check):
    with pytest.raises(TypeError, match=r"the check 'mongodb' is .*give a function"):
        health(checks={"mongodb": check})


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_time_limit_is_over_0(timeout):
    with pytest.raises(ValueError, match="the timeout of checks is"):
        health(timeout=timeout)


def test_only_an_application_of_express_is_configured():
    with pytest.raises(TypeError, match=r"health\(\) configures what express\(\) returns"):
        App().configure(health())


async def test_a_bus_that_is_away_degrades_readiness_and_keeps_requests_coming():
    states = {"realtime bus": "ok"}
    app = app_with(checks={"database": passes})
    app.settings["health notes"] = {"realtime bus": lambda: states["realtime bus"]}
    assert await ready(app) == (
        200,
        {"status": "ok", "checks": {"database": "ok", "realtime bus": "ok"}},
    )
    states["realtime bus"] = "away"
    assert await ready(app) == (
        200,
        {"status": "degraded", "checks": {"database": "ok", "realtime bus": "away"}},
    )
