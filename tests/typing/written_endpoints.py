"""The services of API, with the types of their records.

Written by `alula client`; run it again after the services have changed.
"""
# ruff: noqa
# fmt: off

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, Protocol, TypedDict, overload

from alula import Page, StreamedItems
from alula.client import Client, SyncClient, SyncItemStream

__all__ = [
    "ArticlesCreate",
    "ArticlesCreateResult",
    "ArticlesCreateResultAuthor",
    "ArticlesFindQuery",
    "ArticlesFindResult",
    "ArticlesFindResultAuthor",
    "ArticlesGetQuery",
    "ArticlesGetResult",
    "ArticlesGetResultAuthor",
    "ArticlesService",
    "SyncArticlesService",
    "SyncWordsService",
    "SyncYearsYearLinesService",
    "WordsAskItem",
    "WordsCountItem",
    "WordsService",
    "YearsYearLinesFindResult",
    "YearsYearLinesService",
    "articles",
    "words",
    "years_year_lines",
]


class ArticlesFindQuery(TypedDict, total=False):
    tag: str
    limit: int


class ArticlesFindResultAuthor(TypedDict):
    name: str


class ArticlesFindResult(TypedDict):
    title: str
    tags: list[str]
    id: int
    author: ArticlesFindResultAuthor


class ArticlesCreate(TypedDict):
    title: str
    tags: NotRequired[list[str]]


class ArticlesCreateResultAuthor(TypedDict):
    name: str


class ArticlesCreateResult(TypedDict):
    title: str
    tags: list[str]
    id: int
    author: ArticlesCreateResultAuthor


class ArticlesGetQuery(TypedDict, total=False):
    version: int


class ArticlesGetResultAuthor(TypedDict):
    name: str


class ArticlesGetResult(TypedDict):
    title: str
    tags: list[str]
    id: int
    author: ArticlesGetResultAuthor


class YearsYearLinesFindResult(TypedDict):
    n: int


class WordsAskItem(TypedDict):
    n: int


class WordsCountItem(TypedDict):
    n: int


class ArticlesService(Protocol):
    async def find(self, *, query: ArticlesFindQuery = ..., headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ...) -> list[ArticlesFindResult]: ...

    async def create(self, data: ArticlesCreate, *, query: Mapping[str, Any] = ..., headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ...) -> ArticlesCreateResult: ...

    async def get(self, id: int, *, query: ArticlesGetQuery = ..., headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ...) -> ArticlesGetResult | None: ...

    async def ping(self, data: None = None, *, query: Mapping[str, Any] = ..., headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ...) -> Literal['pong']: ...


class SyncArticlesService(Protocol):
    def find(self, *, query: ArticlesFindQuery = ..., headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ...) -> list[ArticlesFindResult]: ...

    def create(self, data: ArticlesCreate, *, query: Mapping[str, Any] = ..., headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ...) -> ArticlesCreateResult: ...

    def get(self, id: int, *, query: ArticlesGetQuery = ..., headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ...) -> ArticlesGetResult | None: ...

    def ping(self, data: None = None, *, query: Mapping[str, Any] = ..., headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ...) -> Literal['pong']: ...


@overload
def articles(client: Client) -> ArticlesService: ...
@overload
def articles(client: SyncClient) -> SyncArticlesService: ...
def articles(client: Client | SyncClient) -> Any:
    """Return the service."""
    return client.service('articles', methods=('ping',))


class YearsYearLinesService(Protocol):
    async def find(self, *, query: Mapping[str, Any] = ..., route: Mapping[str, Any], headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ...) -> Page[YearsYearLinesFindResult]: ...

    async def remove(self, id: int, *, query: Mapping[str, Any] = ..., route: Mapping[str, Any], headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ...) -> None: ...


class SyncYearsYearLinesService(Protocol):
    def find(self, *, query: Mapping[str, Any] = ..., route: Mapping[str, Any], headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ...) -> Page[YearsYearLinesFindResult]: ...

    def remove(self, id: int, *, query: Mapping[str, Any] = ..., route: Mapping[str, Any], headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ...) -> None: ...


@overload
def years_year_lines(client: Client) -> YearsYearLinesService: ...
@overload
def years_year_lines(client: SyncClient) -> SyncYearsYearLinesService: ...
def years_year_lines(client: Client | SyncClient) -> Any:
    """Return the service."""
    return client.service('years/:year/lines')


class WordsService(Protocol):
    async def ask(self, data: list[str], *, query: Mapping[str, Any] = ..., headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ...) -> StreamedItems[WordsAskItem]: ...

    async def count(self, data: list[int], *, query: Mapping[str, Any] = ..., headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ...) -> StreamedItems[WordsCountItem]: ...

    async def opened(self, data: None = None, *, query: Mapping[str, Any] = ..., headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ...) -> int: ...


class SyncWordsService(Protocol):
    def ask(self, data: list[str], *, query: Mapping[str, Any] = ..., headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ...) -> SyncItemStream[WordsAskItem]: ...

    def count(self, data: list[int], *, query: Mapping[str, Any] = ..., headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ...) -> SyncItemStream[WordsCountItem]: ...

    def opened(self, data: None = None, *, query: Mapping[str, Any] = ..., headers: Mapping[str, str] = ..., connection: Mapping[str, Any] = ...) -> int: ...


@overload
def words(client: Client) -> WordsService: ...
@overload
def words(client: SyncClient) -> SyncWordsService: ...
def words(client: Client | SyncClient) -> Any:
    """Return the service."""
    return client.service('words', methods=('ask', 'count', 'opened'))
