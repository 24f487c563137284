"""Settings from files and variables."""

from __future__ import annotations

import os
import runpy
import sys
from typing import Annotated

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    MongoDsn,
    SecretBytes,
    SecretStr,
    create_model,
    field_validator,
)

import alula.configuration
from alula.configuration import ConfigurationError, environment_name, load_settings


class Pages(BaseModel):
    model_config = ConfigDict(extra="forbid")

    default: int = 10
    max: int = Field(100, ge=1)


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    port: int = 3030
    debug: bool = False
    origins: list[str] = []
    paginate: Pages = Pages()


class WithSecret(Settings):
    token: SecretStr = Field(min_length=8)


class Needy(BaseModel):
    url: str
    token: SecretStr | None = None


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config").mkdir()
    return tmp_path


def write(folder, **files):
    for name, text in files.items():
        (folder / "config" / f"{name}.toml").write_text(text)


def load(folder, model=Settings, **environ):
    return load_settings(model, folder, prefix="SHOP_", environ=environ)


def complaint(folder, model=Settings, **environ):
    with pytest.raises(ConfigurationError) as caught:
        load(folder, model, **environ)
    return str(caught.value)


class TestSources:
    def test_defaults_of_the_model_are_used(self, tmp_path):
        assert load(tmp_path) == Settings()

    def test_the_file_of_the_environment_comes_before_the_default(self, folder):
        write(folder, default="port = 1\ndebug = true", development="port = 2", test="port = 3")
        assert (load(folder).port, load(folder).debug) == (2, True)
        assert (load(folder, ALULA_ENV="test").port, load(folder).debug) == (3, True)

    def test_variables_come_before_files(self, folder):
        write(folder, default="port = 1")
        assert load(folder, SHOP_PORT="4", SHOP_DEBUG="yes", PORT="5") == Settings(
            port=4, debug=True
        )

    def test_without_a_prefix_the_name_is_the_variable(self, folder):
        assert load_settings(Settings, folder, environ={"PORT": "5"}).port == 5

    def test_tables_are_merged_and_have_variables(self, folder):
        write(folder, default="[paginate]\ndefault = 1\nmax = 2", development="[paginate]\nmax = 3")
        assert load(folder).paginate == Pages(default=1, max=3)
        assert load(folder, SHOP_PAGINATE__MAX="4").paginate == Pages(default=1, max=4)

    def test_a_table_takes_the_place_of_what_was_none(self, folder):
        write(folder, default="paginate = 1", development="[paginate]\nmax = 3")
        assert load(folder).paginate == Pages(max=3)

    def test_a_list_is_written_with_commas(self, folder):
        found = load(folder, SHOP_ORIGINS="https://a.example, https://b.example,")
        assert found.origins == ["https://a.example", "https://b.example"]

    def test_the_variables_of_the_process_are_taken_unless_others_are_given(
        self, folder, monkeypatch
    ):
        monkeypatch.setenv("SHOP_PORT", "6")
        monkeypatch.delenv("ALULA_ENV", raising=False)
        assert load_settings(Settings, folder, prefix="SHOP_").port == 6
        assert environment_name() == "development"
        monkeypatch.setitem(os.environ, "ALULA_ENV", "test")
        assert environment_name() == "test"


class TestMisspeltVariables:
    """A misspelt variable of an optional setting is logged, but is not an error."""

    def test_one_of_the_environment(self, folder, caplog):
        load(folder, SHOP_ORGINS="https://a.example", SHOP_PAGINATE__MAX="4")
        assert caplog.messages == [
            "SHOP_ORGINS of the environment sets nothing; did you mean SHOP_ORIGINS?"
        ]
        assert caplog.records[0].name == "alula.configuration"

    def test_one_of_dot_env(self, folder, caplog):
        (folder / ".env").write_text("SHOP_PAGINATE_MAX=4")
        load(folder)
        assert caplog.messages == [
            "SHOP_PAGINATE_MAX of .env sets nothing; did you mean SHOP_PAGINATE__MAX?"
        ]

    @pytest.mark.parametrize(
        "variables",
        [
            {"SHOP_PORT": "5", "SHOP_PORTS": "5"},  # the setting has its variable
            {"SHOP_POSTAGE": "5"},  # of another program
            {"ORGINS": "a"},
            {"SHOP_ORIGINS": "a"},
        ],
    )
    def test_others_are_not_named(self, folder, caplog, variables):
        load(folder, **variables)
        assert caplog.messages == []

    def test_without_a_prefix_all_may_be_of_other_programs(self, folder, caplog):
        load_settings(Settings, folder, environ={"ORGINS": "a"})
        assert caplog.messages == []


class Named(BaseModel):
    name: str


class TestLinesOfDotEnv:
    LINES = """
# a remark
export SHOP_PORT=7
SHOP_TOKEN = "with = and spaces"
SHOP_ORIGINS='a'
OTHER="
"""

    def test_a_byte_order_mark_is_not_part_of_the_first_name(self, folder):
        (folder / "config" / "default.toml").write_text("debug = true", encoding="utf-8-sig")
        (folder / ".env").write_text("SHOP_PORT=7", encoding="utf-8-sig")
        assert (load(folder).port, load(folder).debug) == (7, True)

    def test_they_are_read_in_development_alone(self, folder):
        write(folder, production="")
        (folder / ".env").write_text(self.LINES)
        found = load(folder, WithSecret)
        assert (found.port, found.origins) == (7, ["a"])
        assert found.token.get_secret_value() == "with = and spaces"
        assert "token is missing" in complaint(folder, WithSecret, ALULA_ENV="production")

    @pytest.mark.parametrize(
        ("line", "value"),
        [
            ("chat  # its name", "chat"),
            ("chat\t# its name", "chat"),
            ("  # nothing yet", ""),
            ("", ""),
            ("#fff", "#fff"),
            ("a#b", "a#b"),
            ('"chat"  # its "name"', "chat"),
            ("'chat' # its name", "chat"),
            ('"a # b"', "a # b"),
            ('"a # b" # c', "a # b"),
            ("'it' and that # 'x", "'it' and that"),
            ("it's", "it's"),
            ('"', '"'),
        ],
    )
    def test_a_comment_behind_a_value_belongs_to_no_value(self, folder, line, value):
        (folder / ".env").write_text(f"SHOP_NAME={line}\n")
        assert load(folder, Named).name == value

    def test_variables_come_before_them(self, folder):
        (folder / ".env").write_text(self.LINES)
        assert load(folder, WithSecret, SHOP_PORT="8").port == 8

    def test_a_line_that_is_none_is_named_and_not_shown(self, folder):
        (folder / ".env").write_text('SHOP_TOKEN="first\nsecond"')
        told = complaint(folder)
        assert told.endswith(".env, line 2 is not NAME=value, nor a comment")
        assert "second" not in told

    def test_a_file_in_another_encoding(self, folder):
        (folder / ".env").write_bytes(b"SHOP_TOKEN=\xff")
        assert complaint(folder).endswith(".env is not UTF-8 text; save it as UTF-8")


class TestWhatMayBeMissing:
    class Optional(BaseModel):
        pages: Pages | None = None
        origins: list[str] | None = None
        either: int | str | None = None

    def test_nothing_is_given(self, folder):
        assert load(folder, self.Optional) == self.Optional()

    def test_a_table_is_read_by_its_settings(self, folder):
        assert load(folder, self.Optional, SHOP_PAGES__MAX="7").pages == Pages(max=7)

    def test_a_list_is_read_by_its_commas(self, folder):
        assert load(folder, self.Optional, SHOP_ORIGINS="a, b").origins == ["a", "b"]

    def test_one_of_several_types(self, folder):
        assert load(folder, self.Optional, SHOP_EITHER="b").either == "b"

    def test_a_secret_of_such_a_table_is_refused_in_a_file(self, folder):
        write(folder, default="[shop]\ntoken = 's3cret twelve'")
        told = complaint(folder, create_model("Outer", shop=(WithSecret | None, None)))
        assert "shop.token is a secret" in told
        assert "s3cret" not in told


class TestComplaints:
    def test_all_of_them_come_together(self, folder):
        write(folder, default="port = 'ten'\nprot = 1")
        assert complaint(folder, WithSecret, SHOP_PAGINATE__MAX="0").splitlines() == [
            "the settings are not valid (ALULA_ENV is 'development'):",
            "  - config/default.toml: port: input should be a valid integer, unable to parse string"
            " as an integer, not 'ten'",
            "  - SHOP_PAGINATE__MAX of the environment: paginate.max: input should be greater than"
            " or equal to 1, not '0'",
            "  - token is missing; it is a secret: set SHOP_TOKEN in the environment or in .env",
            '  - config/default.toml: unknown setting "prot"; did you mean "port"?',
        ]

    def test_something_unlike_any_setting(self, folder):
        write(folder, default="[colours]\nsky = 'blue'")
        line = 'config/default.toml: unknown setting "colours"; take it out'
        assert line in complaint(folder)

    def test_the_error_of_a_missing_value_names_where_to_set_it(self, folder):
        write(folder, test="")
        assert (
            "url is missing; set it in config/test.toml, or SHOP_URL in the environment"
            in complaint(folder, Needy, ALULA_ENV="test")
        )

    def test_a_mistyped_variable_is_an_error(self, folder):
        told = complaint(folder, WithSecret, SHOP_TOKNE="twelve characters")
        assert "there is a variable SHOP_TOKNE: did you mean SHOP_TOKEN?" in told
        assert "twelve" not in told

    def test_outside_development_a_secret_cannot_be_in_dot_env(self, folder):
        write(folder, production="")
        told = complaint(folder, WithSecret, ALULA_ENV="production")
        assert told.endswith("it is a secret: set SHOP_TOKEN in the environment")

    @pytest.mark.parametrize("model", [WithSecret, Needy])
    def test_a_secret_in_a_file_is_refused_and_not_shown(self, folder, model):
        write(folder, default="token = 'a good secret'\nurl = ''")
        told = complaint(folder, model)
        assert "config/default.toml: token is a secret, and must not be in a file" in told
        assert "take it out and set SHOP_TOKEN" in told
        assert "a good secret" not in told

    def test_a_wrong_secret_is_not_shown(self, folder):
        told = complaint(folder, WithSecret, SHOP_TOKEN="s3cret")
        assert "SHOP_TOKEN of the environment: token: value should have at least 8" in told
        assert "s3cret" not in told

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            (list[SecretStr] | None, "se,cret"),
            (list[Annotated[SecretStr, Field(min_length=9)]], "secret"),
            (Annotated[SecretStr, Field(min_length=9)] | None, "secret"),
            (Annotated[SecretBytes, Field(min_length=9)], "secret"),
            (dict[str, SecretStr], "secret"),
            (MongoDsn, "mongo://ann:secret@host"),
        ],
    )
    def test_a_wrong_secret_is_not_shown_wherever_it_is(self, folder, kind, value):
        model = create_model("Hiding", token=(kind, Field(max_length=1)))
        told = complaint(folder, model, SHOP_TOKEN=value)
        assert "SHOP_TOKEN of the environment: token" in told
        assert "cret" not in told

    def test_a_short_secret_is_measured_in_characters(self, folder):
        told = complaint(folder, WithSecret, SHOP_TOKEN="short")
        assert told.endswith("token: value should have at least 8 characters, not 5")

    def test_words_in_capitals_stay_so(self, folder):
        told = complaint(folder, create_model("Hiding", url=MongoDsn), SHOP_URL="http://host")
        assert "url: URL scheme should be" in told
        assert told.endswith(", not 'http://host'")

    @pytest.mark.parametrize("kind", [WithSecret, WithSecret | None])
    def test_a_table_is_not_shown_since_it_may_hold_a_secret(self, folder, kind):
        def refuse(_):
            raise ValueError("the two do not fit")

        model = create_model("Outer", shop=Annotated[kind, AfterValidator(refuse)])
        told = complaint(folder, model, SHOP_SHOP__TOKEN="good secret", SHOP_SHOP__PORT="1")
        assert told.endswith("shop: the two do not fit")

    @pytest.mark.parametrize(
        ("kind", "text"),
        [
            (list[SecretStr], "secrets = ['s3cret']"),
            (dict[str, SecretStr], "secrets = {a = 's3cret'}"),
            (dict[str, dict[str, SecretStr]], "secrets = {a = {b = 's3cret'}}"),
            (Annotated[SecretStr, Field(min_length=1)] | None, "secrets = 's3cret'"),
        ],
    )
    def test_secrets_in_a_file_are_refused_of_whatever_form(self, folder, kind, text):
        write(folder, default=text)
        told = complaint(folder, create_model("Hiding", secrets=kind))
        assert "is a secret, and must not be in a file" in told
        assert "s3cret" not in told

    def test_an_item_of_a_list_is_named_with_the_place_of_the_list(self, folder):
        write(folder, default="origins = [1]")
        assert "config/default.toml: origins.0: input should be a valid string" in complaint(folder)

    def test_a_rule_of_the_model_itself(self, folder):
        class Strict(Settings):
            url: str | None = Field(None, validate_default=True)

            @field_validator("url")
            @classmethod
            def there(cls, url):
                raise ValueError("Is needed here.")

        assert complaint(folder, Strict).endswith("  - url: is needed here")

    def test_a_rule_over_several_settings(self, folder):
        from pydantic import model_validator

        class Strict(Settings):
            @model_validator(mode="after")
            def fits(self):
                raise ValueError("The two do not fit")

        assert complaint(folder, Strict).endswith("  - the two do not fit")

    def test_an_environment_without_a_file(self, folder):
        write(folder, default="", production="")
        told = complaint(folder, ALULA_ENV="prod")
        assert told.startswith("ALULA_ENV is 'prod', but there is no ")
        assert told.endswith("or set it to one of: development, production")

    @pytest.mark.parametrize("content", [b"port = ", b"\xff"])
    def test_a_file_that_is_no_toml(self, folder, content):
        (folder / "config" / "default.toml").write_bytes(content)
        assert "default.toml is not valid TOML: " in complaint(folder)


# As FeathersJS 5 generates it, with and without what Alula has no setting for.
FEATHERS = """{
  "host": "localhost",
  "port": 3030,
  "public": "./public/",
  "origins": ["http://localhost:3030"],
  "paginate": {
    "default": 10,
    "max": 50
  },
  "postgresql": {
    "client": "pg",
    "connection": "postgres://postgres:@localhost:5432/chat"
  },
  "mongodb": "mongodb://127.0.0.1:27017/chat",
  "authentication": {
    "entity": "user",
    "service": "users",
    "secret": "thirty-two random bytes at least",
    "authStrategies": ["jwt", "local"],
    "jwtOptions": {
      "header": {"typ": "access"},
      "audience": "https://yourdomain.com",
      "algorithm": "HS256",
      "expiresIn": "1d"
    },
    "local": {"usernameField": "email", "passwordField": "password"}
  }
}
"""
FEATHERS_MAPPING = """{
  "port": {"__name": "PORT", "__format": "number"},
  "host": "HOSTNAME",
  "authentication": {"secret": "FEATHERS_SECRET"}
}
"""


class Postgresql(BaseModel):
    client: str
    connection: str


class Authentication(BaseModel):
    entity: str
    secret: str = ""
    strategies: list[str] = Field(alias="authStrategies")
    local: dict[str, str]


class OfFeathers(BaseModel):
    host: str
    port: int
    public: str
    origins: list[str]
    paginate: Pages
    mongodb: str
    postgresql: Postgresql
    authentication: Authentication


def write_json(folder, mapping=None, **files):
    for name, text in files.items():
        (folder / "config" / f"{name.replace('_', '-')}.json").write_text(text)
    if mapping is not None:
        (folder / "config" / "custom-environment-variables.json").write_text(mapping)


class TestJson:
    def test_the_files_of_a_feathersjs_application_are_read_as_they_are(self, folder):
        write_json(folder, FEATHERS_MAPPING, default=FEATHERS, test='{"port": 8998}')
        found = load_settings(OfFeathers, folder, environ={})
        assert (found.host, found.port, found.public) == ("localhost", 3030, "./public/")
        assert (found.origins, found.paginate.max) == (["http://localhost:3030"], 50)
        assert found.postgresql.client == "pg"
        assert found.authentication.strategies == ["jwt", "local"]
        assert found.authentication.local == {
            "usernameField": "email",
            "passwordField": "password",
        }
        given = {"NODE_ENV": "test", "HOSTNAME": "app", "FEATHERS_SECRET": "other"}
        found = load_settings(OfFeathers, folder, environ=given)
        assert (found.host, found.port, found.authentication.secret) == ("app", 8998, "other")
        assert load_settings(OfFeathers, folder, environ={"PORT": "80"}).port == 80
        in_production = load_settings(OfFeathers, folder, environ={"NODE_ENV": "production"})
        assert in_production.port == 3030

    def test_later_files_come_first(self, folder):
        write_json(folder, default='{"port": 1}')
        for port, name in enumerate(("test", "local", "local_test"), 2):
            write_json(folder, **{name: f'{{"port": {port}}}'})
            assert load(folder, NODE_ENV="test").port == port

    def test_a_local_file_alone_is_enough(self, folder):
        write_json(folder, local='{"port": 7}')
        assert load(folder).port == 7

    def test_objects_are_merged_and_lists_replaced(self, folder):
        write_json(
            folder,
            default='{"origins": ["a", "b"], "paginate": {"default": 1, "max": 2}}',
            development='{"origins": ["c"], "paginate": {"max": 3}}',
        )
        assert load(folder) == Settings(origins=["c"], paginate=Pages(default=1, max=3))

    def test_null_and_objects_take_the_place_of_values(self, folder):
        class Loose(BaseModel):
            url: str | None = "default"
            table: dict[str, int] = {}

        write_json(folder, default='{"table": 1}', local='{"url": null, "table": {"a": 1}}')
        assert load(folder, Loose) == Loose(url=None, table={"a": 1})

    def test_a_byte_order_mark_is_skipped(self, folder):
        (folder / "config" / "default.json").write_bytes(b'\xef\xbb\xbf{"port": 7}')
        assert load(folder).port == 7

    def test_the_variable_of_alula_comes_before_that_of_node(self, folder):
        write_json(folder, default="{}", test='{"port": 1}', staging='{"port": 2}')
        environ = {"NODE_ENV": "test", "ALULA_ENV": "staging"}
        assert load(folder, **environ).port == 2
        assert environment_name(environ, folder) == "staging"
        assert environment_name({"NODE_ENV": "test"}, str(folder)) == "test"
        assert environment_name({}, folder) == "development"
        # Without JSON it is of other programs, such as those that build the front end.
        assert environment_name({"NODE_ENV": "test"}) == "development"
        assert environment_name({"NODE_ENV": "test"}, folder / "elsewhere") == "development"

    def test_variables_without_a_mapping_count_as_ever(self, folder):
        write_json(folder, default='{"port": 1}')
        (folder / ".env").write_text("SHOP_DEBUG=true")
        assert load(folder, SHOP_PORT="2") == Settings(port=2, debug=True)

    def test_a_mapped_setting_has_that_variable_alone(self, folder):
        write_json(folder, '{"port": "PORT"}', default='{"port": 1}')
        assert load(folder, SHOP_PORT="2").port == 1
        assert load(folder, PORT="").port == 1  # as in Node
        (folder / ".env").write_text("PORT=3")
        assert load(folder).port == 3

    @pytest.mark.parametrize(
        ("format_", "text", "value"),
        [
            ("json", '{"a": [1]}', {"a": [1]}),
            ("json", "null", None),
            ("number", "1.5", 1.5),
            ("boolean", "false", False),
        ],
    )
    def test_formats(self, folder, format_, text, value):
        class Loose(BaseModel):
            value: object = "default"

        write_json(folder, f'{{"value": {{"__name": "VALUE", "__format": "{format_}"}}}}')
        assert load(folder, Loose, VALUE=text).value == value

    def test_a_table_is_merged_from_a_variable(self, folder):
        mapping = '{"paginate": {"__name": "PAGES", "__format": "json"}, "origins": "ORIGINS"}'
        write_json(folder, mapping, default='{"paginate": {"default": 3}}')
        found = load(folder, PAGES='{"max": 4}', ORIGINS="a, b")
        assert (found.paginate, found.origins) == (Pages(default=3, max=4), ["a", "b"])

    @pytest.mark.parametrize(
        ("format_", "text"),
        [("json", "s3cret{"), ("number", "true"), ("number", '"s3cret"'), ("boolean", "1")],
    )
    def test_a_value_of_another_format_is_told_and_not_shown(self, folder, format_, text):
        write_json(folder, f'{{"port": {{"__name": "PORT", "__format": "{format_}"}}}}')
        told = complaint(folder, PORT=text)
        assert told.endswith(
            f"  - PORT of the environment: port: the value is not a valid {format_}"
        )
        assert "s3cret" not in told

    def test_mistakes_are_told_with_their_place(self, folder):
        write_json(
            folder,
            '{"prt": "PORT",\n "debug": {"__name": "DEBUG", "__format": "yaml"}}',
            default='{\n  "port": "ten",\n  "paginate": {"max": 0, "maximum": 1},\n'
            '  "colours": {"sky": "blue"},\n  "origins": [1]\n}',
        )
        place = "config/default.json, line"
        assert complaint(folder).splitlines() == [
            "the settings are not valid (NODE_ENV is 'development'):",
            "  - config/custom-environment-variables.json, line 1, column 2: unknown setting"
            ' "prt"; did you mean "port"?',
            "  - config/custom-environment-variables.json, line 2, column 12: debug has the"
            " __format 'yaml'; use boolean, number or json",
            f"  - {place} 2, column 3: port: input should be a valid integer, unable to parse"
            " string as an integer, not 'ten'",
            f"  - {place} 5, column 3: origins.0: input should be a valid string, not 1",
            f"  - {place} 3, column 16: paginate.max: input should be greater than or equal to 1,"
            " not 0",
            f'  - {place} 3, column 26: unknown setting "paginate.maximum"; did you mean'
            ' "paginate.max"?',
            f'  - {place} 4, column 3: unknown setting "colours"; take it out',
        ]

    @pytest.mark.parametrize(
        "mapping",
        [
            '{"port": 1}',
            '{"port": ""}',
            '{"port": ["PORT"]}',
            '{"port": {"__format": "json"}}',
            '{"port": {"__name": null}}',
            '{"__name": "PORT"}',
        ],
    )
    def test_a_mapping_without_a_variable(self, folder, mapping):
        write_json(folder, mapping)
        told = complaint(folder)
        assert "custom-environment-variables.json, line 1, column" in told
        assert "needs the name of a variable" in told

    @pytest.mark.parametrize("format_", ["[1]", '"JSON"', "true"])
    def test_a_format_that_there_is_not(self, folder, format_):
        write_json(folder, f'{{"port": {{"__name": "PORT", "__format": {format_}}}}}')
        assert "use boolean, number or json" in complaint(folder)

    def test_a_model_that_ignores_others_ignores_their_mapping(self, folder):
        write_json(folder, '{"other": "OTHER", "name": "NAME"}', default='{"more": 1}')
        assert load(folder, Named, OTHER="1", NAME="chat").name == "chat"

    def test_secrets_are_refused_under_whatever_name(self, folder):
        class Aliased(BaseModel):
            model_config = ConfigDict(populate_by_name=True)

            token: SecretStr = Field(alias="accessToken")

        for name in ("token", "accessToken"):
            write_json(folder, '{"accessToken": "TOKEN"}', local=f'{{"{name}": "s3cret"}}')
            told = complaint(folder, Aliased)
            assert f"config/local.json, line 1, column 2: {name} is a secret" in told
            assert "s3cret" not in told
        assert "take it out and set TOKEN" in told

    def test_a_missing_setting_names_file_and_variable(self, folder):
        write_json(folder, '{"url": "URL"}', default='{"token": null}')
        told = complaint(folder, Needy)
        assert (
            "url is missing; set it in config/development.json, or URL in the environment" in told
        )

    def test_an_environment_without_a_file(self, folder):
        write_json(folder, "{}", default="{}", local="{}", test="{}")
        told = complaint(folder, NODE_ENV="tset")
        assert told.startswith("NODE_ENV is 'tset', but there is no ")
        assert told.endswith("tset.json; make the file, or set it to one of: development, test")
        assert complaint(folder, ALULA_ENV="tset").startswith("ALULA_ENV is 'tset'")

    @pytest.mark.parametrize("toml", ["default", "test"])
    @pytest.mark.parametrize("name", ["default", "local", "test", "custom_environment_variables"])
    def test_toml_and_json_together_are_refused(self, folder, toml, name):
        write(folder, **{toml: ""})
        write_json(folder, **{name: "{}"})
        told = complaint(folder, ALULA_ENV="test")
        assert f"config has {toml}.toml and JSON files; keep one kind" in told

    def test_json_of_other_programs_is_left_alone(self, folder):
        write(folder, default="port = 7")
        write_json(folder, firebase="no JSON at all")
        assert load(folder).port == 7

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            (b'{\n  "port" 1\n}', "default.json, line 2, column 10 is not valid JSON: "),
            (
                b'{"port": 1} // one',
                "default.json, line 1, column 13 is not valid JSON: Extra data",
            ),
            (b"", "default.json, line 1, column 1 is not valid JSON: "),
            (b"[1]", "default.json is not an object of settings: {...}"),
            (b"\xff", "default.json is not UTF-8 text; save it as UTF-8"),
        ],
    )
    def test_a_file_that_is_no_json(self, folder, content, problem):
        (folder / "config" / "default.json").write_bytes(content)
        assert problem in complaint(folder)


def test_it_names_the_command_that_brings_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(ImportError, match=r"install it with: pip install 'alula\[schema\]'"):
        runpy.run_path(alula.configuration.__file__)


@pytest.mark.parametrize("model", [Pages(), dict, None])
def test_settings_that_are_not_a_model_are_an_error(model, tmp_path):
    with pytest.raises(TypeError, match="takes a Pydantic model, the class itself"):
        load_settings(model, tmp_path)
