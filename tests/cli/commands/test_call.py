"""`alula call`: an application, a server, queries and data."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest
from tests.cli.applications import CODE, folder_with
from tests.client.raw_server import CLOSE, answer, raw_server

import alula._cli.commands.call as call_module
from alula._cli.commands.call import read_data, read_query
from alula._cli.terminal import UsageError

SIGNED = """
import asyncio
from alula.authentication import AuthenticationService, authenticate, JWTStrategy

class Me:
    async def find(self, params):
        return {"user": params.user, "provider": params.provider}

app.use("users", MemoryService({"1": {"id": "1", "email": "a@b.c"}}))
auth = AuthenticationService(app, secret="s" * 40)
auth.register("jwt", JWTStrategy())
app.use("authentication", auth)
app.use("me", Me())
app.service("me").hooks(before=[authenticate("jwt")])
"""

STREAMS = """
from alula import App

class Words:
    async def ask(self, data, params):
        for word in data:
            yield word

app = App().use("words", Words(), methods=["ask"])
"""


@pytest.fixture
def run(tmp_path):
    with folder_with(tmp_path) as run:
        yield run


def found(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


class TestAnApplication:
    def test_find(self, run):
        result = run("call", "notes", "find", "--query", "$limit=1")
        page = {"total": 7, "limit": 1, "skip": 0, "data": [{"id": 0, "n": 0}]}
        assert found(result) == page
        assert result.stdout == json.dumps(page, indent=2) + "\n"

    def test_what_changes_something(self, run):
        data = ("--data", '{"text": "ä"}')
        assert found(run("call", "notes", "create", *data)) == {"id": 7, "text": "ä"}
        assert found(run("call", "notes", "patch", "3", *data)) == {"id": 3, "n": 3, "text": "ä"}
        assert found(run("call", "notes", "remove", "4"))["id"] == 4
        several = run("call", "notes", "remove", "-q", '{"n": {"$gt": 5}}')
        assert found(several) == [{"id": 6, "n": 6}]

    def test_without_data_it_is_an_empty_object(self, run):
        assert found(run("call", "notes", "create")) == {"id": 7}

    def test_placeholders_are_written_out(self, run):
        result = run("call", "teams/red/counter", "get", "5")
        assert found(result) == {"id": "5", "route": {"team": "red"}}

    def test_a_custom_method(self, run):
        result = run("call", "teams/red/counter", "count", "-d", "[1]", "-q", "a=1")
        assert found(result) == {"data": [1], "query": {"a": "1"}, "provider": None}

    def test_a_method_that_streams(self, run, tmp_path):
        (tmp_path / "streams.py").write_text(STREAMS)
        result = run("call", "words", "ask", "--app", "streams:app", "-d", '["a", "b"]')
        assert found(result) == ["a", "b"]

    def test_it_is_set_up_and_torn_down_and_what_it_prints_is_no_part_of_the_answer(self, run):
        result = run("call", "teams/red/counter", "count")
        assert result.stderr == "set up\ntorn down\n"
        assert found(result)["data"] == {}

    def test_every_page(self, run):
        assert found(run("call", "notes", "find", "--all")) == [{"id": n, "n": n} for n in range(7)]

    def test_progress_is_for_terminals(self, run, capsys, monkeypatch):
        assert "records" not in run("call", "notes", "find", "--all").stderr
        for done, total in ((3, 7), (7, 7), (8, None)):
            call_module.show_progress(done, total)
        assert capsys.readouterr().err.split("\r")[1:] == [
            "  3 of 7 records",
            "  7 of 7 records",
            "",
            "  8 records",
            "",
        ]

    def test_progress_on_a_terminal(self, run, monkeypatch):
        seen = []
        terminal = SimpleNamespace(stderr=SimpleNamespace(isatty=lambda: True))
        monkeypatch.setattr(call_module, "sys", terminal)
        monkeypatch.setattr(call_module, "show_progress", lambda *now: seen.append(now))
        run("call", "notes", "find", "--all")
        assert seen == [(3, 7), (6, 7), (7, 7)]

    def test_another_application(self, run, tmp_path):
        (tmp_path / "other.py").write_text(CODE.replace('"notes"', '"others"'))
        assert found(run("call", "others", "get", "1", "--app", "other:app"))["id"] == 1


class TestWhoCalls:
    def test_it_is_an_internal_call(self, run):
        assert found(run("call", "hidden", "get", "1")) == {"id": "1", "secret": "s"}
        assert found(run("call", "closed", "find")) == []

    def test_or_one_from_outside(self, run):
        outside = ("--provider", "rest")
        assert found(run("call", "hidden", "get", "1", *outside)) == {"hidden": True}
        for path, method in (("closed", "find"), ("teams/red/counter", "remove")):
            result = run("call", path, method, *outside)
            assert result.exit_code == 1
            assert f"has no method `{method}` for this call" in result.stderr

    def test_a_token(self, run, tmp_path):
        (tmp_path / "app.py").write_text(CODE + SIGNED)
        sys.modules.pop("app", None)
        refused = run("call", "me", "find", "--provider", "rest")
        assert refused.exit_code == 1
        assert refused.stderr.endswith("alula: NotAuthenticated (401): Not authenticated\n")
        bad = run("call", "me", "find", "--token", "no.such.token")
        assert bad.exit_code == 1
        assert "NotAuthenticated (401)" in bad.stderr
        token = _token()
        for given in ({"env": {"ALULA_TOKEN": token}}, {}):
            more = () if given else ("--token", token)
            told = found(run("call", "me", "find", "--provider", "rest", *more, **given))
            assert told == {"user": {"id": "1", "email": "a@b.c"}, "provider": "rest"}


def _token():
    import datetime

    import jwt

    now = datetime.datetime.now(datetime.UTC)
    claims = {
        "sub": "1",
        "iat": now,
        "exp": now + datetime.timedelta(1),
        "aud": "https://yourdomain.com",
    }
    return jwt.encode(claims, "s" * 40, "HS256", {"typ": "access"})


class TestFailures:
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("nots", "find"), "there is no service at 'nots'; did you mean 'notes'?"),
            (("notes/5", "find"), "there is no service at 'notes/5'"),
            (("notes", "get"), "get needs the id of a record: alula call SERVICE get ID"),
            (("notes", "find", "5"), "find takes no id; get, update, patch, remove do"),
            (
                ("notes", "create", '{"a": 1}'),
                "data goes behind --data: alula call notes create --data '{\"a\": 1}'",
            ),
            (
                ("notes", "patch", "[1]"),
                "data goes behind --data: alula call notes patch ID --data '[1]'",
            ),
            (("notes", "get", "5", "--all"), "--all is for find, not for get"),
            (("notes", "find", "-q", "{no"), "the query is not JSON: "),
            (("notes", "create", "-d", "no"), "the data is not JSON: "),
            (("notes", "create", "-d", "@none.json"), "cannot read the file 'none.json': "),
        ],
    )
    def test_usage_errors(self, run, arguments, said):
        result = run("call", *arguments)
        assert result.exit_code == 2
        assert f"alula: {said}" in result.stderr
        assert result.stdout == ""

    def test_an_option_that_does_not_exist(self, run):
        assert run("call", "notes", "find", "--nothing").exit_code == 2

    def test_an_error_of_the_framework(self, run):
        result = run("call", "notes", "get", "99")
        assert result.exit_code == 1
        assert result.stderr.endswith("alula: NotFound (404): No record found for id '99'\n")

    def test_a_method_that_is_not_there(self, run):
        result = run("call", "notes", "count")
        assert result.exit_code == 1
        assert "MethodNotAllowed (405)" in result.stderr

    def test_any_other_error_shows_the_code_of_the_user(self, run, tmp_path):
        result = run("call", "teams/red/counter", "get", "fail")
        assert result.exit_code == 1
        assert f'File "{tmp_path / "app.py"}"' in result.stderr
        assert "LookupError: no such thing" in result.stderr
        assert "alula/_service/" not in result.stderr
        assert "torn down" in result.stderr

    def test_ctrl_c(self, run, monkeypatch):
        def interrupted(_):
            raise KeyboardInterrupt

        monkeypatch.setattr(call_module, "read_query", interrupted)
        assert run("call", "notes", "find").exit_code == 130


class TestAServer:
    def test_a_call(self, run):
        with raw_server((answer([{"id": 1}]), CLOSE)) as server:
            result = run("call", "notes", "find", "-q", "a[$gt]=1", "--url", server.url)
        assert found(result) == [{"id": 1}]
        assert server.requests[0].startswith(b"GET /notes?a[$gt]=1 ") or (
            server.requests[0].startswith(b"GET /notes?a%5B%24gt%5D=1 ")
        )
        assert b"authorization" not in server.requests[0].lower()

    def test_a_custom_method_with_a_token(self, run):
        with raw_server((answer({"sum": 3}), CLOSE)) as server:
            more = ("--url", server.url, "--token", "abc", "-d", "[1, 2]")
            result = run("call", "sums", "add", *more)
        assert found(result) == {"sum": 3}
        request = server.requests[0].lower()
        assert b"x-service-method: add" in request
        assert b"authorization: bearer abc" in request

    def test_every_page(self, run):
        pages = [
            answer({"total": 3, "limit": 2, "skip": skip, "data": data})
            for skip, data in ((0, [1, 2]), (2, [3]))
        ]
        with raw_server((pages[0], CLOSE), (pages[1], CLOSE)) as server:
            assert found(run("call", "notes", "find", "--all", "--url", server.url)) == [1, 2, 3]

    def test_an_error_of_the_server(self, run):
        error = {"name": "BadRequest", "message": "no", "code": 400, "data": {"why": "so"}}
        with raw_server((answer(error, 400), CLOSE)) as server:
            result = run("call", "notes", "find", "--url", server.url)
        assert result.exit_code == 1
        assert result.stderr.startswith("alula: BadRequest (400): no\n")
        assert '"why": "so"' in result.stderr

    def test_no_server(self, run):
        result = run("call", "notes", "find", "--url", "http://127.0.0.1:9")
        assert result.exit_code == 1
        assert "alula: Unavailable (503)" in result.stderr

    @pytest.mark.parametrize("url", ["", "foo", "ftp://host", "http://", "http://a:geheim@host"])
    def test_invalid_urls(self, run, url):
        result = run("call", "notes", "find", "--url", url)
        assert result.exit_code == 2
        assert result.stderr.startswith("alula: --url must be the address of a server")
        assert "geheim" not in result.stderr


class TestValues:
    @pytest.mark.parametrize(
        ("text", "query"),
        [
            ("", {}),
            ("?a=1", {"a": "1"}),
            ("a[$gt]=1&$sort[a]=-1", {"a": {"$gt": "1"}, "$sort": {"a": "-1"}}),
            (' {"a": 1}', {"a": 1}),
        ],
    )
    def test_queries(self, text, query):
        assert read_query(text) == query

    def test_a_query_that_is_too_deep(self):
        with pytest.raises(UsageError, match="cannot read the query"):
            read_query("a" + "[b]" * 20 + "=1")

    def test_data(self, tmp_path, monkeypatch):
        (tmp_path / "data.json").write_text('{"a": "ä"}', encoding="utf-8")
        (tmp_path / "bad").write_bytes(b"\xff")
        monkeypatch.chdir(tmp_path)
        assert read_data(None) is None
        assert read_data("[1]") == [1]
        assert read_data("@data.json") == {"a": "ä"}
        (tmp_path / "marked.json").write_text('{"a": 1}', encoding="utf-8-sig")
        assert read_data("@marked.json") == {"a": 1}
        with pytest.raises(UsageError, match="cannot read the file 'bad'"):
            read_data("@bad")

    def test_data_from_the_input(self, run):
        result = run("call", "notes", "create", "-d", "-", input='{"text": "in"}')
        assert found(result) == {"id": 7, "text": "in"}
        result = run("call", "notes", "create", "-d", "-", input="")
        assert result.exit_code == 2
        assert "the standard input is not JSON" in result.stderr


class TestCompletion:
    def complete(self, run, words):
        return run(
            env={
                "_ALULA_COMPLETE": "complete_bash",
                "COMP_WORDS": words,
                "COMP_CWORD": str(len(words.split(" ")) - 1),
            },
            prog_name="alula",
        ).stdout.split()

    def test_commands(self, run):
        assert self.complete(run, "alula ca") == ["call"]

    def test_services(self, run):
        assert self.complete(run, "alula call n") == ["notes"]
        assert len(self.complete(run, "alula call ")) == 4
        assert self.complete(run, "alula call --app none:app n") == []
        assert self.complete(run, "alula call --url http://x n") == []

    def test_methods(self, run):
        assert self.complete(run, "alula call notes f") == ["find"]
        assert self.complete(run, "alula call nothing f") == []

    def test_an_application_that_fails_or_speaks(self, run, tmp_path):
        (tmp_path / "app.py").write_text("print('hello')\nraise SystemExit(3)")
        assert self.complete(run, "alula call n") == []


@pytest.mark.parametrize(
    ("arguments", "is_told"),
    [
        (("notes", "create", "--data", "{}"), True),
        (("notes", "remove", "3"), True),
        (("notes", "find"), False),
        (("teams/red/counter", "remove", "3"), False),  # it does not say where its records are
    ],
)
def test_lost_records_are_reported(run, arguments, is_told):
    result = run("call", *arguments)
    assert result.exit_code == 0, result.output
    assert ("notes are in the memory of this command and are lost" in result.stderr) is is_told
    assert "note:" not in result.stdout
