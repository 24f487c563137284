"""`alula generate` adds to an application and keeps what the user has changed."""

from __future__ import annotations

import re
import shutil

import pytest
from tests.cli.generator.applications import alula, files_of

from alula._cli.generator.project import find_project


@pytest.fixture(scope="module", params=["sqlite", "mongodb", "memory"])
def new_application(request, tmp_path_factory):
    """An application without users, on each database; no test changes it."""
    folder = tmp_path_factory.mktemp("new")
    with pytest.MonkeyPatch.context() as patch:
        alula(folder, patch, "new", "shop", f"--database={request.param}")
    return folder / "shop"


@pytest.fixture
def application(new_application, tmp_path):
    """A copy of such an application."""
    return shutil.copytree(new_application, tmp_path / "shop")


@pytest.fixture
def generate(application, monkeypatch):
    """Run `alula generate` in the application; return what it says."""

    def run(*arguments, code=0):
        return alula(application, monkeypatch, "generate", *arguments, code=code).output

    return run


def changes(before, after):
    """Return the lines that are in the files now and were not; none of those before is gone."""
    found = {}
    for path, text in before.items():
        old, new = text.splitlines(), after[path].splitlines()
        assert [line for line in old if line not in new] == [], path
        if added := [line for line in new if line not in old]:
            found[path] = added
    return found


class TestServices:
    def test_one_more(self, generate, application):
        before = files_of(application)
        said = generate("service", "chat-rooms", "--path=api/rooms", "--fields=title:str,open:bool")
        after = files_of(application)
        # One path is on one line, several are on a line each.
        one, two = (files["paths.py"] for files in (before, after))
        several = 'Literal[\n    "messages",\n    "api/rooms",\n]'
        assert two == one.replace('Literal["messages"]', several) != one
        assert changes({**before, "paths.py": two}, after) == {
            "services/__init__.py": [
                "from services.chat_rooms.service import add_chat_rooms",
                "    app.configure(add_chat_rooms)",
            ],
        }
        assert {path for path in after if path not in before} == {
            f"services/chat_rooms/{name}.py"
            for name in ("__init__", "schema", "service", "test_chat_rooms")
        }
        assert "create  services/chat_rooms/schema.py" in said
        assert "change  services/__init__.py" in said
        assert "class ChatRoom(BaseModel):" in after["services/chat_rooms/schema.py"]
        assert 'PATH = "api/rooms"' in after["services/chat_rooms/test_chat_rooms.py"]

    def test_a_second_time_changes_no_file(self, generate, application):
        generate("service", "notes")
        before = files_of(application)
        said = generate("service", "notes")
        assert {line.split()[0] for line in said.splitlines()} == {"same"}
        assert files_of(application) == before

    def test_from_a_folder_below(self, generate, application, monkeypatch):
        alula(application / "services", monkeypatch, "generate", "service", "notes")
        assert (application / "services/notes/schema.py").exists()

    def test_what_the_user_has_changed_is_not_overwritten(self, generate, application):
        schema = application / "services" / "messages" / "schema.py"
        schema.write_text(mine := f"{schema.read_text()}\n# mine\n")
        before = files_of(application)
        assert "services/messages/schema.py exists already" in generate(
            "service", "messages", code=2
        )
        assert files_of(application) == before
        assert "overwrite  services/messages/schema.py" in generate(
            "service", "messages", "--force"
        )
        assert schema.read_text() != mine

    def test_a_dry_run(self, generate, application):
        before = files_of(application)
        assert "change  services/__init__.py" in generate("service", "notes", "--dry-run")
        assert files_of(application) == before

    def test_without_a_place_the_code_to_add_is_printed(self, generate, application):
        services = application / "services" / "__init__.py"
        services.write_text("def register(app):\n    pass\n")
        said = generate("service", "notes", code=1)
        assert services.read_text() == "def register(app):\n    pass\n"
        assert (application / "services/notes/schema.py").exists()
        assert (
            "services/__init__.py was not changed: it has no function add_services at the top"
            " level. Add at the end of add_services:\n\n"
            "from services.notes.service import add_notes\n\napp.configure(add_notes)\n"
        ) in said

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            (["Notes"], "'Notes' cannot be the name of a service"),
            (["../notes"], "cannot be the name of a service"),
            (["notes", "--path=../x"], "cannot be a path"),
            (["docs"], "the application itself uses /docs"),
            (["notes", "--fields=a:text"], "is not a type"),
        ],
    )
    def test_invalid_options(self, generate, application, arguments, reason):
        before = files_of(application)
        assert reason in generate("service", *arguments, code=2)
        assert files_of(application) == before

    def test_outside_of_an_application(self, tmp_path, monkeypatch):
        said = alula(tmp_path, monkeypatch, "generate", "service", "notes", code=2).output
        assert "is not part of an application" in said
        assert "change to the folder that `alula new` has created" in said


class TestHooks:
    def test_around_all_services(self, generate, application):
        before = files_of(application)
        generate("hook", "check-quota")
        after = files_of(application)
        assert changes(before, after) == {
            "hooks/__init__.py": [
                "from hooks.check_quota import check_quota",
                "    app.hooks(around=[check_quota])",
            ]
        }
        assert (
            "async def check_quota(context: HookContext, next: Next)"
            in (after["hooks/check_quota.py"])
        )

    @pytest.mark.parametrize("kind", ["before", "after", "error"])
    def test_of_a_kind_for_one_service(self, generate, application, kind):
        generate("service", "rooms", "--path=api/rooms")
        before = files_of(application)
        generate("hook", "late", "--kind", kind, "--service", "rooms")
        after = files_of(application)
        assert changes(before, after) == {
            "services/rooms/service.py": [
                "from hooks.late import late",
                f'    app.service("api/rooms").hooks({kind}=[late])',
            ]
        }
        assert "async def late(context: HookContext) -> None:" in after["hooks/late.py"]

    def test_for_a_service_whose_file_has_a_byte_order_mark(self, generate, application):
        generate("service", "rooms", "--path=api/rooms")
        service = application / "services/rooms/service.py"
        service.write_text(service.read_text(), encoding="utf-8-sig")
        generate("hook", "late", "--service=rooms")
        code = service.read_text()
        assert code.startswith("\ufeff")
        assert 'app.service("api/rooms").hooks(around=[late])' in code

    @pytest.mark.parametrize("code", ["def add_rooms(app):\n    pass\n", "def add_rooms(:", None])
    def test_a_service_that_the_user_has_rewritten(self, generate, application, code):
        generate("service", "rooms", "--path=api/rooms")
        service = application / "services/rooms/service.py"
        service.unlink() if code is None else service.write_text(code)
        said = generate("hook", "late", "--service=rooms", code=0 if "pass" in f"{code}" else 1)
        told = f"{said}{service.read_text() if code else ''}"
        assert 'app.service("rooms").hooks(around=[late])' in told

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            (["print"], "is a built-in name of Python"),
            (["late", "--kind=behind"], "use around, before, after, error"),
            (["late", "--service=nowhere"], "cannot find the service 'nowhere'"),
            (["late", "--service=../x"], "cannot be the name of a service"),
        ],
    )
    def test_invalid_options(self, generate, arguments, reason):
        assert reason in generate("hook", *arguments, code=2)


def test_middleware(generate, application):
    before = files_of(application)
    generate("middleware", "count-visits")
    after = files_of(application)
    assert changes(before, after) == {
        "middleware/__init__.py": [
            "from middleware.count_visits import count_visits",
            "    app.use(count_visits)",
        ]
    }
    assert {path for path in after if path not in before} == {
        "middleware/count_visits.py",
        "middleware/test_count_visits.py",
    }


class TestAuthentication:
    def test_the_result_is_that_of_alula_new_with_authentication(
        self, generate, application, monkeypatch
    ):
        said = generate("authentication")
        assert 'app.service("...").hooks(around=[authenticate("jwt")])' in said
        assert "Install what that needs: pip install '.[dev]'" in said
        database = find_project(application).choices.database
        (other := application.parent / "other").mkdir()
        arguments = ["new", "shop", f"--database={database}", "--authentication"]
        alula(other, monkeypatch, *arguments)
        at_once, added = files_of(other / "shop"), files_of(application)
        # The first service stays open to everybody, and remarks may differ.
        mine = {path for path in at_once if not path.startswith("services/messages/")}
        same = {path for path in mine if at_once[path] == added[path]}
        assert added.keys() == at_once.keys()
        assert mine - same <= {
            ".env",
            ".env.example",
            "README.md",
            "configuration.py",
            "services/__init__.py",
            "pyproject.toml",
            "test_app.py",
            "paths.py",
        }
        # The order differs.
        assert sorted(at_once["paths.py"]) == sorted(added["paths.py"])

    def test_later_services_require_a_signed_in_user(self, generate, application):
        generate("authentication")
        generate("service", "notes")
        assert (
            'around=[authenticate("jwt"), set_owner("userId"'
            in (application / "services/notes/service.py").read_text()
        )

    @pytest.mark.parametrize("database", ["sqlite", "mongodb"])
    def test_events_for_everyone_are_told(self, tmp_path, monkeypatch, database):
        new = ["new", "--realtime", f"--database={database}"]
        alula(tmp_path, monkeypatch, *new, "shop")
        said = alula(tmp_path / "shop", monkeypatch, "generate", "authentication").output
        assert "Events still go to everyone who is connected" in said
        alula(tmp_path, monkeypatch, *new, "other", "--authentication")
        wanted = (tmp_path / "other/channels.py").read_text().replace("authenticated", "everyone")
        code = [line.strip() for line in said.split("join a channel:")[1].splitlines()]
        assert [line for line in code if line not in wanted] == []
        again = alula(tmp_path / "shop", monkeypatch, "generate", "authentication").output
        assert "Events still go" not in again

    def test_a_dry_run_adds_no_users(self, generate, application):
        before = files_of(application)
        assert "Users can register" not in generate("authentication", "--dry-run")
        assert files_of(application) == before

    def test_an_existing_secret_stays(self, generate, application):
        env = application / ".env"
        env.write_text("SHOP_AUTHENTICATION_SECRET=mine\n")
        generate("authentication")
        assert env.read_text() == "SHOP_AUTHENTICATION_SECRET=mine\n"

    def test_changes_that_fail_are_printed(self, generate, application):
        (application / "configuration.py").write_text("settings = {}\n")
        (application / "compose.yaml").unlink()
        (application / ".env.example").unlink()
        said = generate("authentication", code=1)
        assert "configuration.py was not changed: it has no class Settings" in said
        assert "authentication_secret: SecretStr = Field(min_length=32)" in said
        assert "compose.yaml" not in said

    def test_a_second_time_changes_no_file(self, generate, application):
        generate("authentication")
        before = files_of(application)
        generate("authentication")
        assert files_of(application) == before


class TestAccounts:
    def test_what_is_added(self, generate, application):
        generate("authentication")
        before = files_of(application)
        said = generate("accounts", "--totp", "--passkeys", "--api-keys")
        after = files_of(application)
        assert "The page is at\nhttp://localhost:3030/account" in said
        assert "SHOP_BASE_URL=https://api.example" in said
        choices = find_project(application).choices
        is_sql = choices.sql
        migrated = "  alula generate migration add-accounts\n  alula migrate\n"
        assert (migrated in said) is is_sql
        assert ("count as not confirmed" in said) is (choices.database != "memory")
        added = {path for path in after if path not in before}
        assert added == {
            f"services/accounts/{name}"
            for name in ("__init__.py", "page.html", "service.py", "test_accounts.py")
        } | ({"services/accounts/tables.py"} if is_sql else set())
        # Lines of these get longer.
        longer = {path: after[path] for path in ("pyproject.toml", "services/users/schema.py")}
        changed = changes({**before, **longer}, after)
        assert changed["services/__init__.py"] == [
            "from services.accounts.service import add_accounts",
            "    app.configure(add_accounts)",
        ]
        users = after["services/users/schema.py"]
        assert '\n    is_verified: bool = Field(False, alias="isVerified")\n' in users
        assert ('\n    Column("is_verified", Boolean, key="isVerified"' in users) is is_sql
        assert changed["config/test.toml"][-1] == 'mail = "memory"  # a list, which tests read'
        assert (
            '    mail: Literal["console", "memory", "smtp"] = "console"'
            in (changed["configuration.py"])
        )
        assert re.search(r"alula\[.*totp,passkeys", after["pyproject.toml"])
        variables = [
            f"SHOP_{name}"
            for name in (
                *("BASE_URL", "MAIL", "MAIL_SENDER"),
                *("SMTP_HOST", "SMTP_USERNAME", "SMTP_PASSWORD"),
            )
        ]
        assert re.findall(r"# (SHOP_\w+)=", "\n".join(changed[".env.example"])) == variables
        assert changed["compose.yaml"] == [
            f"      {name}: ${{{name}:?set it in .env, see .env.example}}" for name in variables
        ]
        for option in ("totp=True", "passkeys=True", "api_keys=True"):
            assert option in after["services/accounts/service.py"]

    def test_a_second_time_changes_no_file(self, generate, application):
        generate("authentication")
        generate("accounts", "--totp")
        before = files_of(application)
        generate("accounts", "--totp")
        assert files_of(application) == before

    def test_signing_in_with_others(self, generate, application):
        generate("authentication")
        before = files_of(application)
        choices = find_project(application).choices
        said = generate("accounts", "--sign-in", "oidc,apple,google")
        after = files_of(application)
        assert "SHOP_APPLE_TEAM_ID, SHOP_APPLE_KEY_ID" in said
        assert ('dropIndex("email_1")' in said) is choices.mongodb
        settings = after["configuration.py"]
        assert "    google_client_id: str | None = None\n" in settings
        assert "    apple_private_key: SecretStr | None = None\n" in settings
        assert "    oidc_issuer: str | None = None\n" in settings
        assert "github" not in settings
        providers = after["services/accounts/providers.py"]
        assert "import Provider, apple, google, openid\n" in providers
        assert '    "oidc": partial(openid, "oidc"),\n' in providers
        parser = 'app.use("/oauth/apple/callback", urlencoded())'
        assert parser in after["services/accounts/service.py"]
        users = after["services/users/schema.py"]
        assert "    email: Address | None = None\n" in users
        assert "    password: SecretStr | None = Field(None, min_length=8" in users
        assert ('    Column("password", Text),\n' in users) is choices.sql
        assert ('    Column("name", Text),\n' in users) is choices.sql
        index = "partialFilterExpression" in after["services/users/service.py"]
        assert index is choices.mongodb
        variables = [*re.findall("SHOP_OIDC[A-Z_]+", after[".env.example"])]
        assert variables == ["SHOP_OIDC_ISSUER", "SHOP_OIDC_CLIENT_ID", "SHOP_OIDC_CLIENT_SECRET"]
        assert [*re.findall(r"(SHOP_OIDC\w+): \$", after["compose.yaml"])] == variables
        assert ",oauth]" in after["pyproject.toml"]
        assert "services/accounts/test_sign_in.py" in after.keys() - before.keys()
        generate("accounts", "--sign-in", "oidc,apple,google")
        assert files_of(application) == after

    def test_providers_are_added_later(self, generate, application):
        generate("authentication")
        generate("accounts")
        assert "exists already" in generate("accounts", "--sign-in=google", code=2)
        generate("accounts", "--sign-in=google", "--force")
        files = files_of(application)
        assert "sign_in=providers" in files["services/accounts/service.py"]
        assert "    password: SecretStr | None" in files["services/users/schema.py"]

    def test_a_provider_that_is_not_known(self, generate, application):
        generate("authentication")
        before = files_of(application)
        said = generate("accounts", "--sign-in=facebook", code=2)
        assert "'facebook' is no provider to sign in with" in said
        assert files_of(application) == before

    def test_features_are_off(self, generate, application):
        generate("authentication")
        generate("accounts")
        code = (application / "services/accounts/service.py").read_text()
        assert not re.search("totp|passkeys|api_keys", code)
        assert "totp" not in (application / "pyproject.toml").read_text()

    @pytest.mark.parametrize(
        "features", [(), ("--totp", "--passkeys", "--api-keys", "--sign-in=google"), ("--totp",)]
    )
    def test_the_page_has_what_its_script_uses(self, generate, application, features):
        generate("authentication")
        generate("accounts", *features)
        page = (application / "services/accounts/page.html").read_text()
        html, _, script = page.partition("<script")
        used = set(re.findall(r"(?:byId|list|onClick|onSubmit)\('([\w-]+)'", script))
        assert used >= {"sign-in", "sessions"}
        assert used <= set(re.findall(r' id="([\w-]+)"', html))

    def test_they_need_users(self, generate, application):
        before = files_of(application)
        said = generate("accounts", code=2)
        assert "accounts need users who sign in; run: alula generate authentication" in said
        assert files_of(application) == before

    def test_a_dry_run_adds_nothing(self, generate, application):
        generate("authentication")
        before = files_of(application)
        assert "People confirm" not in generate("accounts", "--dry-run")
        assert files_of(application) == before

    def test_changes_that_fail_are_printed(self, generate, application):
        generate("authentication")
        (application / "services/users/schema.py").write_text("table = None\n")
        (application / "configuration.py").write_text("settings = {}\n")
        said = generate("accounts", code=1)
        assert "services/users/schema.py was not changed: it has no class User" in said
        assert 'is_verified: bool = Field(False, alias="isVerified")' in said
        assert "smtp_password: SecretStr | None = None" in said
