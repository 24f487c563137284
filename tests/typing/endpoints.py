"""Services of an application's own, as `alula client` writes them."""

from __future__ import annotations

from contextlib import aclosing
from typing import Literal, assert_type

from written_endpoints import (
    ArticlesCreateResult,
    ArticlesFindResult,
    ArticlesGetResult,
    WordsAskItem,
    YearsYearLinesFindResult,
    articles,
    words,
    years_year_lines,
)

from alula import Page
from alula.client import Client, SyncClient


async def call(client: Client) -> None:
    own = articles(client)
    assert_type(await own.find(query={"tag": "a", "limit": 5}), list[ArticlesFindResult])
    assert_type(await own.create({"title": "News"}), ArticlesCreateResult)
    assert_type(await own.get(1), ArticlesGetResult | None)
    assert_type(await own.ping(), Literal["pong"])
    lines = years_year_lines(client)
    assert_type(await lines.find(route={"year": 2026}), Page[YearsYearLinesFindResult])
    assert_type(await lines.remove(1, route={"year": 2026}), None)
    async with aclosing(await words(client).ask(["a"])) as items:
        async for item in items:
            assert_type(item, WordsAskItem)
    await own.find(query={"tga": "a"})  # type: ignore[typeddict-unknown-key]  # pyright: ignore[reportArgumentType]
    await own.create({"tags": []})  # type: ignore[typeddict-item]  # pyright: ignore[reportArgumentType]
    await lines.find()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def call_at_once(client: SyncClient) -> None:
    assert_type(articles(client).find(), list[ArticlesFindResult])
    with words(client).ask(["a"]) as items:
        for item in items:
            assert_type(item, WordsAskItem)
