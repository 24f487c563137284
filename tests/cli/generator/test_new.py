"""`alula new`."""

from __future__ import annotations

import io
import json
import re
import stat
import subprocess
import sys
from types import SimpleNamespace

import pytest
from click import Command, Context
from tests.cli.generator.applications import alula, files_of
from tests.docs.test_prose import forbidden_in, long_sentences_of, walls_of
from typer.main import get_command
from typer.testing import CliRunner

from alula._cli import main
from alula._cli.generator import new_application
from alula._cli.generator.new_application import compatible_versions
from alula._cli.generator.project import DATABASES


@pytest.fixture
def new(tmp_path, monkeypatch):
    """Run `alula new` in an empty folder."""
    return lambda *arguments, code=0: (
        alula(tmp_path, monkeypatch, "new", *arguments, code=code).output
    )


class TestFiles:
    def test_it_prints_each_file_and_the_next_steps(self, new, tmp_path):
        said = new("shop")
        created = set(re.findall(r"^ +create {2}(\S+)$", said, re.MULTILINE))
        assert created == files_of(tmp_path / "shop").keys()
        assert {"app.py", "config/default.toml", "services/messages/test_messages.py"} <= created
        assert "cd shop\n" in said
        assert "alula dev" in said

    def test_the_default_is_sqlite_without_users(self, new, tmp_path):
        new("shop")
        files = files_of(tmp_path / "shop")
        assert not {".env", "services/users/service.py"} & files.keys()
        assert "SQLService(table" in files["services/messages/service.py"]
        assert 'Column("text", Text, nullable=False)' in files["services/messages/schema.py"]
        assert '".data" / "shop.sqlite"' in files["configuration.py"]
        assert '"alula[server,schema,cli,sql,migrations]>=' in files["pyproject.toml"]

    def test_in_memory(self, new, tmp_path):
        new("shop", "--database", "memory")
        files = files_of(tmp_path / "shop")
        assert not {".env", "database.py", "services/users/service.py"} & files.keys()
        assert "MemoryService" in files["services/messages/service.py"]
        assert 'dependencies = ["alula[server,schema,cli]>=' in files["pyproject.toml"]

    def test_on_postgresql_with_users(self, new, tmp_path):
        new("my-shop", "--database", "postgresql", "--authentication")
        files = files_of(tmp_path / "my-shop")
        assert "alula[server,schema,cli,postgresql,migrations,auth]" in files["pyproject.toml"]
        assert 'dev = ["alula[embedded-postgresql]", ' in files["pyproject.toml"]
        assert "@postgresql/my_shop" in files["compose.yaml"]
        assert 'ForeignKey("users.id", ondelete="CASCADE")' in files["services/messages/schema.py"]
        assert "LocalServer(DATA, share=True)" in files["database.py"]

    def test_on_mongodb_with_users(self, new, tmp_path):
        new("my-shop", "--database", "mongodb", "--authentication", "--service", "chat-rooms")
        files = files_of(tmp_path / "my-shop")
        assert "alula[server,schema,cli,mongodb,auth]" in files["pyproject.toml"]
        assert "mongodb://mongodb:27017/my_shop?replicaSet=rs0" in files["compose.yaml"]
        assert "user_id: Reference" in files["services/chat_rooms/schema.py"]
        assert 'app.use(\n        "chat-rooms",' in files["services/chat_rooms/service.py"]
        assert 'os.environ["MY_SHOP_AUTHENTICATION_SECRET"]' in files["conftest.py"]

    @pytest.mark.parametrize("database", DATABASES)
    def test_the_readme_is_in_plain_sentences(self, new, tmp_path, database):
        new("shop", "--database", database, "--authentication", "--realtime")
        text = files_of(tmp_path / "shop")["README.md"]
        assert (forbidden_in(text), long_sentences_of(text), walls_of(text)) == ([], [], [])

    def test_with_real_time(self, new, tmp_path):
        new("shop", "--realtime", "--authentication")
        files = files_of(tmp_path / "shop")
        assert "alula[server,schema,cli,sql,migrations,auth,realtime]" in files["pyproject.toml"]
        assert "\nrealtime = true\n" in files["pyproject.toml"]
        assert "app.configure(add_realtime)" in files["app.py"]
        assert "socketio(origins=" in files["channels.py"]
        assert "app.configure(sse())" in files["channels.py"]
        assert 'app.service("messages").live()' in files["services/messages/service.py"]
        assert "app.use(serve_static(PUBLIC" in files["middleware/__init__.py"]
        assert "/messages?$sort[id]=-1&$limit=20&$live=true" in files["public/live.html"]
        assert '@app.service("users").publish' in files["services/users/service.py"]
        assert "test_channels.py" in files

    def test_a_page_needs_a_service_to_show(self, new, tmp_path):
        new("shop", "--realtime", "--no-service")
        files = files_of(tmp_path / "shop")
        assert "public/live.html" not in files
        assert "serve_static" not in files["middleware/__init__.py"]
        assert "live.html" not in files["README.md"]

    @pytest.mark.parametrize("flags", [("--authentication",), ()])
    def test_the_client_in_the_readme_gets_events(self, new, tmp_path, flags):
        new("shop", "--realtime", *flags)
        text = files_of(tmp_path / "shop")["README.md"]
        assert "socketio-client socket.io-client" in text
        assert "import io from 'socket.io-client'\n\nconst socket = " in text
        signs_in = [
            " \\\n    @feathersjs/authentication-client\n```\n",
            "\nimport authentication from '@feathersjs/authentication-client'\n",
            ".configure(socketio(socket)).configure(authentication())\n",
            "await app.authenticate({ strategy: 'local', email: 'ada@example.com', password: ",
            "Only connections that are signed in get events.",
        ]
        assert [line in text for line in signs_in] == [bool(flags)] * len(signs_in)

    def test_with_cookies(self, new, tmp_path):
        new("shop", "--cookies")  # only users have some
        files = files_of(tmp_path / "shop")
        assert "\ncookies = true\n" in files["pyproject.toml"]
        assert "\nauthentication = true\n" in files["pyproject.toml"]
        service = files["services/authentication/service.py"]
        assert "cookie=TokenCookie(origins=settings.origins)" in service
        assert "cors(origins=origins, credentials=True)" in files["middleware/__init__.py"]

    def test_with_providers(self, new, tmp_path):
        said = new("shop", "--sign-in", "google, OIDC", "--database", "postgresql")
        assert (
            "  oidc      SHOP_OIDC_ISSUER, SHOP_OIDC_CLIENT_ID, SHOP_OIDC_CLIENT_SECRET\n" in said
        )
        files = files_of(tmp_path / "shop")
        assert "\nauthentication = true\n" in files["pyproject.toml"]
        assert ",auth,oauth]" in files["pyproject.toml"]
        assert "\n    app.configure(add_accounts)\n" in files["services/__init__.py"]
        assert "services/accounts/page.html" in files

    @pytest.mark.parametrize("database", DATABASES)
    def test_a_new_application_has_no_users_to_keep(self, new, database):
        said = new("shop", "--sign-in=google", "--database", database)
        assert "In production, set these variables" in said
        for old in ("migration", "not confirmed", "dropIndex"):
            assert old not in said

    @pytest.mark.parametrize("providers", ["", ",", "google,facebook"])
    def test_providers_that_are_not_known(self, new, tmp_path, providers):
        wrong = "facebook" if "facebook" in providers else providers
        said = new("shop", "--sign-in", providers, code=2)
        assert f"{wrong!r} is no provider to sign in with; use google, github" in said
        assert not list(tmp_path.iterdir())

    def test_providers_need_users(self, new, tmp_path):
        said = new("shop", "--no-authentication", "--sign-in=google", code=2)
        assert "--sign-in has no users" in said
        assert not list(tmp_path.iterdir())

    def test_a_service_cannot_be_called_as_that_of_accounts(self, new):
        said = new("shop", "--sign-in=google", "--service=accounts", code=2)
        assert "the service 'accounts' is part of --sign-in" in said

    def test_cookies_need_users(self, new, tmp_path):
        said = new("shop", "--no-authentication", "--cookies", code=2)
        assert "--cookies has no users" in said
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("database", DATABASES)
    def test_with_files(self, new, tmp_path, database):
        new("shop", "--database", database, "--files", "--authentication")
        files = files_of(tmp_path / "shop")
        assert ",files]" in files["pyproject.toml"]
        assert "\nfiles = true\n" in files["pyproject.toml"]
        assert "app.use(multipart())" in files["middleware/__init__.py"]
        assert "before=[only_own(" in files["services/uploads/service.py"]
        assert '"uploads"' in files["paths.py"]
        # The container may write to this folder alone.
        assert "SHOP_UPLOADS: /data/uploads" in files["compose.yaml"]
        assert files["compose.yaml"].count("\nvolumes:\n") == 1
        assert "\n  data:\n" in files["compose.yaml"]
        assert "/data\n" in files["Dockerfile"]
        text = files["README.md"]
        assert (forbidden_in(text), long_sentences_of(text), walls_of(text)) == ([], [], [])

    @pytest.mark.parametrize("flags", [("--authentication",), ()])
    def test_files_with_real_time(self, new, tmp_path, flags):
        new("shop", "--files", "--realtime", *flags)
        service = files_of(tmp_path / "shop")["services/uploads/service.py"]
        # Only with users do files have owners, who alone may learn of them.
        assert ("app.channel(f\"users/{data.get('userId')}\")" in service) == bool(flags)

    def test_without_cookies_and_files(self, new, tmp_path):
        new("shop", "--authentication")
        files = files_of(tmp_path / "shop")
        texts = [text for name, text in files.items() if name != "README.md"]
        assert not [text for text in texts if "TokenCookie" in text or "upload" in text]

    def test_without_real_time(self, new, tmp_path):
        new("shop", "--authentication")
        files = files_of(tmp_path / "shop")
        assert not {"test_channels.py", "channels.py"} & files.keys()
        assert not [name for name, text in files.items() if "alula.realtime" in text]

    def test_without_a_service(self, new, tmp_path):
        new("shop", "--no-service")
        files = files_of(tmp_path / "shop")
        assert [name for name in files if name.startswith("services/")] == ["services/__init__.py"]


class TestSecrets:
    def test_each_application_has_its_own(self, new, tmp_path):
        secrets = set()
        for name in ("shop", "bank"):
            new(name, "--authentication")
            found = files_of(tmp_path / name)
            (secret,) = re.findall(
                r"^\w+_AUTHENTICATION_SECRET=(\S{64})$", found[".env"], re.MULTILINE
            )
            assert sum(secret in text for text in found.values()) == 1
            secrets.add(secret)
        assert len(secrets) == 2

    def test_the_secret_is_private_and_not_committed(self, new, tmp_path):
        new("shop", "--authentication")
        env = tmp_path / "shop" / ".env"
        assert stat.S_IMODE(env.stat().st_mode) == 0o600
        files = files_of(tmp_path / "shop")
        assert ".env" in files[".gitignore"].splitlines()
        # The image gets what is named, and nothing else.
        lines = files[".dockerignore"].splitlines()
        assert "*" in lines
        assert not [line for line in lines if line.startswith("!.") or line == "!*"]
        assert "SHOP_AUTHENTICATION_SECRET=\n" in files[".env.example"]


class TestRefusals:
    @pytest.mark.parametrize("name", ["../shop", "Shop", "class", "/tmp/shop", "a" * 25])
    def test_a_bad_name(self, new, tmp_path, name):
        assert repr(name) in new(name, code=2)
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_with_something_in_it(self, new, tmp_path):
        (tmp_path / "shop").mkdir()
        (tmp_path / "shop" / "app.py").write_text("mine")
        assert "exists already and is not empty" in new("shop", code=2)
        assert files_of(tmp_path / "shop") == {"app.py": "mine"}
        assert "overwrite  app.py" in new("shop", "--force")
        assert "make_app" in (tmp_path / "shop" / "app.py").read_text()

    def test_a_file_of_that_name(self, new, tmp_path):
        (tmp_path / "shop").touch()
        assert "exists already" in new("shop", code=2)

    def test_an_empty_folder_is_taken(self, new, tmp_path):
        (tmp_path / "shop").mkdir()
        assert "create  app.py" in new("shop")

    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            (
                ["--database", "files"],
                "'files' is not a database; use sqlite, postgresql, mongodb, memory",
            ),
            (["--service", "Bad"], "'Bad' cannot be the name of a service"),
            (["--service", "docs"], "the application itself uses /docs"),
            (["--service", "users", "--authentication"], "'users' is part of --authentication"),
            (["--service", "a", "--no-service"], "cannot be used together"),
        ],
    )
    def test_invalid_options(self, new, tmp_path, options, reason):
        assert reason in new("shop", *options, code=2)
        assert list(tmp_path.iterdir()) == []

    def test_a_dry_run_writes_nothing(self, new, tmp_path):
        said = new("shop", "--dry-run")
        assert "create  app.py" in said
        assert said.endswith("this was a dry run.\n")
        assert list(tmp_path.iterdir()) == []


class TestQuestions:
    @pytest.fixture
    def answer(self, monkeypatch, tmp_path):
        """Run `alula new` with somebody at the terminal who answers."""
        monkeypatch.setattr(new_application, "can_ask", lambda: True)
        monkeypatch.chdir(tmp_path)

        def run(*arguments, answers, code=0):
            done = CliRunner().invoke(main, ["new", "shop", *arguments], input=answers)
            assert done.exit_code == code, done.output
            return done.output

        return run

    def test_all_of_them(self, answer, tmp_path):
        said = answer(answers="files\nmongo\ny\ngoogel\ngithub\ny\ny\ny\nnotes\n")
        assert "'googel' is no provider to sign in with; use google, github, gitlab" in said
        assert "Where do services keep their records?" in said
        assert "Enter sqlite, postgresql, mongodb, memory." in said
        files = files_of(tmp_path / "shop")
        assert {"database.py", ".env", "channels.py", "services/notes/schema.py"} <= files.keys()
        assert "services/uploads/schema.py" in files
        assert "TokenCookie(" in files["services/authentication/service.py"]
        assert '    "github": github,\n' in files["services/accounts/providers.py"]

    def test_return_takes_the_default(self, answer, tmp_path):
        answer(answers="\n\n\n\n\n")
        files = files_of(tmp_path / "shop")
        assert "services/messages/schema.py" in files
        assert "SQLService" in files["services/messages/service.py"]
        assert not {".env", "channels.py"} & files.keys()

    def test_no_service(self, answer, tmp_path):
        answer(answers="\n\n\n\n-\n")
        assert "services/messages/schema.py" not in files_of(tmp_path / "shop")

    def test_a_bad_service_is_asked_for_again(self, answer, tmp_path):
        said = answer(answers="\ny\n\n\n\ny\nTasks!\ndocs\nusers\nuploads\ntasks\n")
        assert "'Tasks!' cannot be the name of a service" in said
        assert "the application itself uses /docs; choose another path.\n" in said
        assert "the service 'users' is part of --authentication" in said
        assert "the service 'uploads' is part of --files" in said
        assert "services/tasks/schema.py" in files_of(tmp_path / "shop")

    def test_options_are_not_asked_for(self, answer):
        options = ["--database=memory", "--no-authentication", "--no-realtime", "--no-files"]
        options += ["--service=notes"]
        said = answer(*options, answers="")
        assert "?" not in said

    def test_the_end_of_the_input_writes_no_file(self, answer, tmp_path):
        assert answer(answers="memory\n", code=1).rstrip().endswith("Aborted.")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.usefixtures("answer")
    def test_ctrl_c_at_a_question(self, monkeypatch, tmp_path):
        class Keyboard(io.StringIO):
            def readline(self, size=-1):
                raise KeyboardInterrupt

        monkeypatch.setattr(sys, "stdin", Keyboard())
        with pytest.raises(SystemExit) as end:
            main(["new", "shop"])
        assert end.value.code == 130
        assert list(tmp_path.iterdir()) == []

    def test_yes_answers_all(self, answer):
        assert "?" not in answer("--yes", answers="")

    def test_without_a_terminal_there_are_no_questions(self):
        assert not new_application.can_ask()


def test_shells_complete_choices():
    from alula._cli.generator.additions import HOOK_KINDS

    database = next(
        each for each in get_command(main).commands["new"].params if each.name == "database"
    )
    hook = get_command(main).commands["generate"].commands["hook"]
    kind = next(each for each in hook.params if each.name == "kind")
    for option, command, known in ((database, "new", DATABASES), (kind, "hook", HOOK_KINDS)):
        found = option.shell_complete(Context(Command(command)), "")
        assert [each.value for each in found] == [*known]


@pytest.mark.parametrize(
    ("version", "requirement"),
    [("0.1.0", ">=0.1,<0.2"), ("0.12.3", ">=0.12,<0.13"), ("2.3.4", ">=2.3,<3")],
)
def test_the_requirement_allows_compatible_versions(version, requirement):
    assert compatible_versions(version) == requirement


def test_the_api_has_the_version_of_the_project(tmp_path, monkeypatch):
    alula(tmp_path, monkeypatch, "new", "shop", "--yes")
    project = tmp_path / "shop" / "pyproject.toml"
    project.write_text(project.read_text().replace('version = "0.1.0"', 'version = "3.1.4"'))
    command = [sys.executable, "-c", "from alula._cli import main; main()", "openapi"]
    done = subprocess.run(command, cwd=tmp_path / "shop", capture_output=True, check=True)
    assert json.loads(done.stdout)["info"] == {"title": "Shop", "version": "3.1.4"}


@pytest.mark.parametrize(
    ("source", "command"),
    [
        (None, "pip install '.[dev]'"),
        ('{"url": "file:///home/ada/alula", "dir_info": {}}',
         "pip install 'alula @ file:///home/ada/alula' '.[dev]'"),
        ('{"url": "https://host/alula", "vcs_info": {"vcs": "git", "commit_id": "abc"}}',
         "pip install 'alula @ git+https://host/alula@abc' '.[dev]'"),
    ],
)  # fmt: skip
def test_the_install_command_names_the_origin_of_alula(new, monkeypatch, source, command):
    monkeypatch.setattr(
        new_application, "distribution", lambda _: SimpleNamespace(read_text=lambda _: source)
    )
    assert f"\n  {command}    its dependencies, in a virtual environment\n" in new("shop", "--yes")
