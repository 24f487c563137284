"""404 for what nobody answered."""

from __future__ import annotations

import pytest
from tests.express.asgi_client import call

from alula.express import error_handler, express, not_found


def app_with(*middleware):
    app = express()
    app.get("/known", lambda req, res: res.json({}))
    app.use(list(middleware))
    app.use(error_handler(logger=False))
    return app


URLS = ["/nope", "/nope?a=1&b=%20", "/a%2Fb/%C3%BC", "/"]


@pytest.mark.parametrize("url", URLS)
async def test_says_that_nothing_is_there(url):
    answer = await call(app_with(not_found()), "GET", url)
    assert answer.status == 404
    assert answer.json == {
        "name": "NotFound",
        "message": "Page not found",
        "code": 404,
        "className": "not-found",
        "data": {"url": url},
    }


@pytest.mark.parametrize("url", URLS)
async def test_verbose_names_the_url(url):
    answer = await call(app_with(not_found(verbose=True)), "GET", url)
    assert answer.json["message"] == f"Page not found: {url}"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"])
async def test_every_method_is_answered(method):
    assert (await call(app_with(not_found()), method, "/known")).status == 404


async def test_head_has_no_body():
    answer = await call(app_with(not_found()), "HEAD", "/nope")
    assert (answer.status, answer.body) == (404, b"")


async def test_what_was_answered_does_not_get_there():
    assert (await call(app_with(not_found()), "GET", "/known")).status == 200


async def test_goes_on_to_the_error_middleware_as_an_error():
    async def handler(error, req, res, next):
        res.status(error.code).send(error.name)

    app = express()
    app.use(not_found())
    app.use(lambda req, res: res.send("not reached"))
    app.use(handler)
    answer = await call(app, "GET", "/nope")
    assert (answer.status, answer.text) == (404, "NotFound")


async def test_a_token_in_the_url_stays_out_of_the_error():
    logged = []
    app = express().use(not_found(verbose=True), error_handler(logger=logged.append))
    answer = await call(app, "GET", "/x?a=1&access_token=secret&b=2")
    assert answer.json["data"] == {"url": "/x?a=1&access_token=...&b=2"}
    assert "secret" not in answer.text + str(logged)
