"""Forms with files and the bytes of uploads in the descriptions, and cookies as credentials."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, Field
from pymongo import AsyncMongoClient
from tests.openapi.described import references

from alula import App
from alula.adapters.memory import MemoryService
from alula.adapters.mongodb import MongoDBService
from alula.authentication import AuthenticationService, TokenCookie, authenticate
from alula.express import express, rest
from alula.files import LocalFileStore, UploadService, UrlSigner, file_body, file_content, multipart
from alula.openapi import describe, describe_events, typescript
from alula.realtime import socketio
from alula.schema import with_schema

BINARY = {
    "type": "string",
    "format": "binary",
    "contentMediaType": "application/octet-stream",
}
FACTS = ["name", "type", "size", "sha256", "createdAt", "contentKey"]


class Album(BaseModel):
    name: str


class Picture(BaseModel):
    id: int
    name: str
    type: str
    size: int
    sha256: str
    content_key: str = Field(alias="contentKey")
    stars: int
    album: Album | None = None
    owner: int


@pytest.fixture
def app():
    return express(App()).configure(rest())


@pytest.fixture
def make_service(tmp_path):
    def make(records=None, **options):
        return UploadService(LocalFileStore(tmp_path), records or MemoryService(), **options)

    return make


def schema_of(document, name):
    return document["components"]["schemas"][name]


class TestForms:
    def test_files_and_fields(self, app, make_service):
        app.use("uploads", make_service(fields=["title", "album"]))
        document = describe(app)
        post = document["paths"]["/uploads"]["post"]
        content = {"schema": {"$ref": "#/components/schemas/uploads.create"}}
        assert post["requestBody"] == {
            "required": True,
            "content": {"multipart/form-data": content},
        }
        assert schema_of(document, "uploads.create") == {
            "type": "object",
            "properties": {
                "file": {"type": "array", "items": BINARY, "minItems": 1},
                "album": {"type": "string"},
                "title": {"type": "string"},
            },
            "required": ["file"],
        }
        one = {"$ref": "#/components/schemas/uploads"}
        several = {"type": "array", "items": one}
        created = post["responses"]["201"]["content"]["application/json"]["schema"]
        assert created == {"anyOf": [one, several]}
        assert {"413", "415"} <= post["responses"].keys()
        record = schema_of(document, "uploads")["properties"]
        assert list(record) == ["id", *FACTS, "album", "title"]
        assert record["createdAt"] == {"type": "string", "format": "date-time"}
        found = document["paths"]["/uploads"]["get"]["responses"]["200"]["content"]
        assert found["application/json"]["schema"] == several

    @pytest.mark.parametrize(
        ("of_all", "of_one", "expected"),
        [([], [], None), ([{}], [], 10), ([{}], [{"max_files": 1}], 1), ([], [{}], 10)],
    )
    def test_it_says_how_many_files_a_form_may_have(self, make_service, of_all, of_one, expected):
        app = express(App()).configure(rest())
        for options in of_all:
            app.use(multipart(**options))
        app.use("uploads", *(multipart(**options) for options in of_one), make_service())
        form = schema_of(describe(app), "uploads.create")
        assert form["properties"]["file"].get("maxItems") == expected

    @pytest.mark.parametrize(
        ("options", "types"), [({}, ["*/*"]), ({"types": ["text/*", "a/b"]}, ["a/b", "text/*"])]
    )
    def test_it_says_which_bodies_may_be_files(self, app, make_service, options, types):
        app.use("uploads", file_body(**options), make_service())
        content = describe(app)["paths"]["/uploads"]["post"]["requestBody"]["content"]
        assert list(content) == ["multipart/form-data", *types]
        assert content[types[0]] == {"schema": BINARY}

    def test_the_adapter_of_the_records_counts(self, app, make_service):
        pages = {"default": 5, "max": 10}
        inner = App().use("records", MemoryService(paginate=pages, multi=["remove"]))
        app.use("uploads", make_service(inner.service("records")))
        item = describe(app)["paths"]["/uploads"]
        page = item["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        assert set(page["properties"]) == {"total", "limit", "skip", "data"}
        assert "delete" in item
        assert "patch" not in item

    def test_records_of_a_service_of_your_own(self, app, make_service):
        class Records:
            async def find(self, params):
                return []

        app.use("uploads", make_service(Records()))
        document = describe(app)
        created = document["paths"]["/uploads"]["post"]["responses"]["201"]
        assert "uploads" in created["content"]["application/json"]["schema"]["anyOf"][0]["$ref"]

    def test_ids_of_mongodb_are_texts(self, app, make_service):
        collection = AsyncMongoClient(connect=False)["a"]["b"]
        app.use("uploads", make_service(MongoDBService(collection)))
        assert schema_of(describe(app), "uploads")["properties"]["_id"] == {"type": "string"}

    def test_a_model(self, app, make_service):
        app.use("pictures", with_schema(make_service(fields=["stars", "album", "file"]), Picture))
        document = describe(app)
        form = schema_of(document, "pictures.create")
        assert list(form["properties"]) == ["files", "album", "file", "stars"]
        assert form["properties"]["stars"]["type"] == "integer"
        assert form["properties"]["file"] == {"type": "string"}
        assert form["required"] == ["files", "stars"]
        assert "owner" in schema_of(document, "pictures")["properties"]
        names = {reference.removeprefix("#/components/schemas/") for reference in references(form)}
        assert names <= document["components"]["schemas"].keys()
        assert any("Album" in name for name in names)

    def test_custom_methods_take_json(self, app, make_service, tmp_path):
        class Scanned(UploadService):
            async def scan(self, data, params):
                return {}

        service = Scanned(LocalFileStore(tmp_path), MemoryService())
        app.use("uploads", service, methods=["create", "scan"])
        paths = describe(app)["paths"]
        for path, content_type in (
            ("/uploads", "multipart/form-data"),
            ("/uploads/scan", "application/json"),
        ):
            assert list(paths[path]["post"]["requestBody"]["content"]) == [content_type]

    def test_a_service_of_your_own_that_takes_forms(self, app):
        class Forms:
            takes_uploads = True

            async def create(self, data, params):
                return {}

        app.use("forms", Forms())
        document = describe(app)
        assert list(schema_of(document, "forms.create")["properties"]) == ["file"]
        created = document["paths"]["/forms"]["post"]["responses"]["201"]["content"]
        assert created["application/json"]["schema"] == {
            "anyOf": [{}, {"type": "array", "items": {}}]
        }

    def test_attributes_of_other_kinds_are_not_descriptions(self, app):
        class Forms:
            takes_uploads = True

            def fields(self):
                """Return what only the service knows."""

            record_schema = records = fields

            async def create(self, data, params):
                return {}

        app.use("forms", Forms())
        assert list(schema_of(describe(app), "forms.create")["properties"]) == ["file"]

    def test_events_have_the_record(self, app, make_service):
        app.configure(socketio()).use("uploads", make_service())
        app.service("uploads").publish("created")(lambda record, context: None)
        schemas = describe_events(app)["components"]["schemas"]
        assert "sha256" in schemas["uploads"]["properties"]


class TestContent:
    def test_without_a_route_there_is_none(self, app, make_service):
        app.use("uploads", make_service())
        assert "/uploads/{id}/content" not in describe(app)["paths"]

    def test_the_bytes_of_a_file(self, app, make_service):
        app.use("uploads", make_service()).configure(file_content("/uploads/"))
        item = describe(app)["paths"]["/uploads/{id}/content"]
        assert [parameter["name"] for parameter in item["parameters"]] == ["id"]
        operation = item["get"]
        assert operation["operationId"] == "uploads.content"
        assert operation["responses"]["200"]["content"] == {"*/*": {"schema": BINARY}}
        assert set(operation["responses"]) == {"200", "206", "304", "404", "416", "default"}
        assert "security" not in operation

    @pytest.mark.parametrize("is_signed", [False, True])
    def test_it_needs_what_get_needs(self, app, make_service, is_signed):
        signer = UrlSigner("s" * 32) if is_signed else None
        app.use("users/:user/uploads", make_service())
        app.configure(file_content("users/:user/uploads", signer=signer))
        app.service("users/:user/uploads").hooks(around=[authenticate("jwt")])
        document = describe(app)
        operation = document["paths"]["/users/{user}/uploads/{id}/content"]["get"]
        signed = [{"signature": []}] if is_signed else []
        assert operation["security"] == [{"bearer": []}, *signed]
        schemes = document["components"]["securitySchemes"]
        expected = {"type": "apiKey", "in": "query", "name": "signature"}
        assert schemes.get("signature") == (expected if is_signed else None)
        assert "401" in operation["responses"]

    @pytest.mark.parametrize("is_signed", [False, True])
    def test_without_get_a_signed_url_is_needed(self, app, make_service, is_signed):
        signer = UrlSigner("s" * 32) if is_signed else None
        app.use("uploads", make_service(), methods=["create"])
        app.configure(file_content("uploads", signer=signer))
        document = describe(app)
        assert ("/uploads/{id}/content" in document["paths"]) is is_signed
        if is_signed:
            operation = document["paths"]["/uploads/{id}/content"]["get"]
            assert operation["security"] == [{"signature": []}]
            assert list(document["components"]["securitySchemes"]) == ["signature"]

    def test_where_everybody_may_get_no_signature_is_needed(self, app, make_service):
        app.use("uploads", make_service())
        app.configure(file_content("uploads", signer=UrlSigner("s" * 32)))
        assert "security" not in describe(app)["paths"]["/uploads/{id}/content"]["get"]


class TestCookies:
    @pytest.fixture
    def document(self, app):
        return self.describe(app, cookie=TokenCookie(csrf_name="__Host-proof"))

    @staticmethod
    def describe(app, **options):
        app.use("users", MemoryService())
        service = AuthenticationService(app, secret="s" * 32, strategies=["jwt"], **options)
        app.use("authentication", service).use("notes", MemoryService())
        app.service("notes").hooks(around=[authenticate("jwt")])
        return describe(app)

    def test_they_are_schemes(self, document):
        schemes = document["components"]["securitySchemes"]
        assert list(schemes) == ["bearer", "cookie", "csrf"]
        assert schemes["cookie"].items() >= {
            ("type", "apiKey"), ("in", "cookie"), ("name", "__Host-token"),
        }  # fmt: skip
        assert schemes["csrf"].items() >= {
            ("type", "apiKey"), ("in", "header"), ("name", "X-CSRF-Token"),
            ("description", "The value of the cookie __Host-proof."),
        }  # fmt: skip

    def test_what_changes_something_needs_the_csrf_token(self, document):
        paths = document["paths"]
        for operation in (paths["/notes"]["get"], paths["/notes/{id}"]["get"]):
            assert operation["security"] == [{"bearer": []}, {"cookie": []}]
        for operation in (
            paths["/notes"]["post"],
            *(paths["/notes/{id}"][verb] for verb in ("put", "patch", "delete")),
            paths["/authentication"]["delete"],
        ):
            assert operation["security"] == [{"bearer": []}, {"cookie": [], "csrf": []}]

    def test_without_them_there_is_the_token_alone(self, app):
        document = self.describe(app)
        assert list(document["components"]["securitySchemes"]) == ["bearer"]
        assert document["paths"]["/notes"]["post"]["security"] == [{"bearer": []}]
        assert "csrfToken" not in schema_of(document, "authentication")["properties"]

    def test_an_application_without_sign_in_has_none(self):
        assert "securitySchemes" not in describe(App().use("notes", MemoryService()))["components"]

    @pytest.mark.parametrize("tokens_in_body", [True, False])
    def test_a_sign_in_returns_the_csrf_token(self, app, tokens_in_body):
        document = self.describe(app, cookie=TokenCookie(tokens_in_body=tokens_in_body))
        result = schema_of(document, "authentication")["properties"]
        assert {"csrfToken", "accessToken"} <= result.keys()
        code = typescript(app)
        assert "csrfToken?: string" in code
        assert ("accessToken?: string" in code) is not tokens_in_body


class TestTypeScript:
    def test_uploads_are_records_that_fetch_creates(self, app, make_service):
        app.use("uploads", make_service(fields=["title"]))
        code = typescript(app)
        assert "export interface Uploads {" in code
        for line in ("size: number", "createdAt: string", "title?: string", "id: number | string"):
            assert f"  {line}\n" in code
        assert "get(id: number | string, params?: UploadsParams): Promise<Uploads>" in code
        assert "create(" not in code
        assert "UploadsData" not in code
        assert '["find", "get", "patch", "remove"]' in code.replace("'", '"')

    def test_a_model_names_them(self, app, make_service):
        app.use("pictures", with_schema(make_service(fields=["stars"]), Picture))
        code = typescript(app)
        assert "Promise<Picture>" in code
        assert "create(" not in code
