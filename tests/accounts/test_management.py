"""The actions of `authManagement`, called as front ends of FeathersJS do."""

from __future__ import annotations

import time

import pytest
from tests.accounts.building import ADA, FROM_AFAR, started, token_of

from alula.accounts import _management, _proofs
from alula.errors import BadRequest, Conflict, NotAuthenticated, TooManyRequests, Unavailable

USER = {"email": "ada@example.com"}


@pytest.fixture
async def world():
    world = await started(codes=True, check_unique=True)
    await world.sign_up()
    return world


def bearer(result):
    return {"authentication": {"strategy": "jwt", "accessToken": result["accessToken"]}}


async def test_the_address_is_proved_by_the_link_of_the_first_mail(world):
    (mail,) = await world.mails()
    assert (mail.kind, mail.to, mail.subject) == (
        "verify",
        "ada@example.com",
        "Confirm your e-mail address",
    )
    assert mail.link in mail.text
    assert mail.code in mail.text
    user = await world.manage("verifySignupLong", token_of(mail))
    assert user == {"id": 1, "email": "ada@example.com", "isVerified": True}
    error = await world.refusal("verifySignupLong", token_of(mail))
    assert (error.code, error.errors, error.data) == (400, {"$className": "badParam"}, {})


@pytest.mark.parametrize(
    ("action", "value"),
    [
        ("verifySignupLong", None),
        ("verifySignupLong", 5),
        ("verifySignupLong", {"$ne": None}),
        ("verifySignupShort", {"token": "1"}),
        ("verifySignupShort", {"token": 1, "user": USER}),
        ("resetPwdLong", {"token": "x"}),
        ("resetPwdLong", {"token": ["x"], "password": "battery staple"}),
        ("sendResetPwd", {"email": {"$ne": ""}}),
        ("sendResetPwd", {"email": ["ada@example.com"]}),
        ("sendResetPwd", {**USER, "name": "Ada"}),
        ("sendResetPwd", {"email": "ada"}),
        ("passwordChange", {"user": USER, "oldPassword": 1, "password": "battery staple"}),
        ("identityChange", {"user": USER, "password": "x", "changes": {"role": "admin"}}),
        ("checkUnique", {"name": "Ada"}),
        ("constructor", {}),
        ("sendMagicLink", USER),
        (["options"], {}),
    ],
)
async def test_a_value_of_a_wrong_shape_is_one_error(world, action, value):
    error = await world.refusal(action, value)
    assert (error.code, error.errors) == (400, {"$className": "badParams"})


async def test_data_that_is_no_object_is_refused(world):
    for data in (None, [], "options"):
        with pytest.raises(BadRequest):
            await world.app.service("authManagement").create(data, dict(FROM_AFAR))


async def test_what_is_off_is_not_there():
    world = await started()
    for action in ("checkUnique", "verifySignupShort", "resetPwdShort", "sendMagicLink"):
        assert (await world.refusal(action, USER)).errors == {"$className": "badParams"}
    assert await world.manage("options") == {
        "longTokenLen": 59,
        "shortTokenLen": 6,
        "shortTokenDigits": True,
        "identifyUserProps": ["email"],
    }
    await world.sign_up()
    (mail,) = await world.mails()
    assert mail.code is None


async def test_check_unique_tells_what_is_taken_and_not_to_the_owner(world):
    assert await world.manage("checkUnique", {"email": "free@example.com"}) is None
    error = await world.refusal("checkUnique", {"email": " ADA@Example.com"})
    assert (error.message, error.errors) == ("Values already taken.", {"email": "Already taken."})
    error = await world.refusal("checkUnique", USER, meta={"noErrMsg": True})
    assert error.message == "Error"
    error = await world.refusal("checkUnique", USER, ownId=1)
    assert error.errors == {"email": "Already taken."}
    me = bearer(await world.sign_in())
    assert await world.manage("checkUnique", USER, by=me, ownId=1) is None
    error = await world.refusal("checkUnique", USER, by=me, ownId=2)
    assert error.errors == {"email": "Already taken."}


async def test_a_code_dies_after_five_guesses_and_the_link_goes_on(world):
    (mail,) = await world.mails()
    wrong = {"token": f"{(int(mail.code) + 1) % 10**6:06}", "user": USER}
    for _ in range(5):
        assert (await world.refusal("verifySignupShort", wrong)).errors["$className"] == "badParam"
    await world.refusal("verifySignupShort", {"token": mail.code, "user": USER})
    assert (await world.user())["isVerified"] is False
    assert (await world.manage("verifySignupLong", token_of(mail)))["isVerified"] is True


async def test_the_right_code_counts_after_a_wrong_one_and_once(world):
    (mail,) = await world.mails()
    await world.refusal("verifySignupShort", {"token": "x\ud800", "user": USER})
    right = {"token": mail.code, "user": {"email": "ADA@example.com"}}
    assert (await world.manage("verifySignupShort", right))["isVerified"] is True
    await world.refusal("verifySignupShort", right)
    await world.refusal("verifySignupLong", token_of(mail))


async def test_a_code_expires_before_its_link(world, monkeypatch):
    (mail,) = await world.mails()
    now = time.time()
    monkeypatch.setattr(_proofs.time, "time", lambda: now + 660)
    await world.refusal("verifySignupShort", {"token": mail.code, "user": USER})
    assert await world.manage("verifySignupLong", token_of(mail))


async def test_a_link_expires_and_is_swept(world, monkeypatch):
    token = await world.token("verify")
    now = time.time()
    monkeypatch.setattr(_proofs.time, "time", lambda: now + 6 * 86400)
    await world.refusal("verifySignupLong", token)
    await world.manage("sendResetPwd", USER)
    await world.accounts.idle()
    (record,) = await world.app.service("credentials").find()
    assert record["kind"] == "reset"


async def test_a_reset_sets_the_password_proves_the_address_and_ends_all_sessions(world):
    await world.mails()
    me = bearer(await world.sign_in())
    assert await world.manage("sendResetPwd", {"email": "ADA@Example.com"}) == {
        "email": "ADA@Example.com"
    }
    token = await world.token("reset")
    value = {"token": token, "password": "battery staple"}
    short = await world.refusal("resetPwdLong", {**value, "password": "short"})
    assert short.errors == {"password": "The password needs at least 8 characters"}
    assert (await world.manage("resetPwdLong", value))["isVerified"] is True
    assert (await world.refusal("resetPwdLong", value)).errors == {"$className": "invalidToken"}
    with pytest.raises(NotAuthenticated):
        await world.app.service("users").get(1, {**FROM_AFAR, **me})
    with pytest.raises(NotAuthenticated):
        await world.sign_in()
    await world.sign_in("battery staple")
    assert [mail.kind for mail in await world.mails()] == ["password_changed"]


async def test_a_reset_by_code(world):
    await world.mails()
    await world.manage("sendResetPwd", USER)
    (mail,) = await world.mails()
    value = {"token": mail.code, "user": USER, "password": "battery staple"}
    wrong = {**value, "token": "000000x"}
    assert (await world.refusal("resetPwdShort", wrong)).errors == {"$className": "invalidToken"}
    nobody = {**value, "user": {"email": "nobody@example.com"}}
    assert (await world.refusal("resetPwdShort", nobody)).to_dict() == (
        await world.refusal("resetPwdShort", wrong)
    ).to_dict()
    assert await world.manage("resetPwdShort", value)
    assert await world.sign_in("battery staple")


async def test_a_first_password_is_set_with_the_proof(world):
    (mail,) = await world.mails()
    value = {"token": token_of(mail), "password": "battery staple"}
    wrong = {"token": "nonsense", "password": "battery staple"}
    error = await world.refusal("verifySignupSetPasswordLong", wrong)
    assert error.errors == {"$className": "badParam"}
    assert (await world.manage("verifySignupSetPasswordLong", value))["isVerified"] is True
    assert await world.sign_in("battery staple")

    await world.sign_up(email="bob@example.com")
    (mail,) = await world.mails("verify")
    user = {"email": "bob@example.com"}
    value = {"token": mail.code, "user": user, "password": "battery staple"}
    assert (await world.manage("verifySignupSetPasswordShort", value))["isVerified"] is True


async def test_the_second_link_ends_the_first(world):
    await world.mails()
    await world.manage("sendResetPwd", USER)
    first = await world.token("reset")
    await world.manage("sendResetPwd", USER)
    second = await world.token("reset")
    await world.refusal("resetPwdLong", {"token": first, "password": "battery staple"})
    await world.refusal("resetPwdLong", {"token": second[:16] + "x" * 43, "password": "x" * 8})
    assert await world.manage("resetPwdLong", {"token": second, "password": "battery staple"})


async def test_a_link_counts_for_its_purpose_and_its_address_only(world):
    verify = await world.token("verify")
    await world.refusal("resetPwdLong", {"token": verify, "password": "battery staple"})
    await world.app.service("users").patch(1, {"email": "New@example.com"})
    assert (await world.user())["email"] == "new@example.com"
    await world.refusal("verifySignupLong", verify)


async def test_links_of_a_removed_user_are_removed_and_do_not_count(world):
    verify = await world.token("verify")
    await world.app.service("users").remove(1)
    assert await world.app.service("credentials").find() == []
    await world.refusal("verifySignupLong", verify)


async def test_a_link_whose_user_was_removed_in_the_database_does_not_count(world):
    verify = await world.token("verify")
    world.app.service("users").service.reset()
    await world.refusal("verifySignupLong", verify)


async def test_a_new_password_ends_the_other_sessions(world):
    await world.mails()
    mine, other = bearer(await world.sign_in()), bearer(await world.sign_in())
    value = {"user": USER, "oldPassword": "correct horse", "password": "battery staple"}
    wrong = await world.refusal("passwordChange", {**value, "oldPassword": "wrong"}, by=mine)
    assert wrong.errors == {"oldPassword": "Current password is incorrect."}
    assert (await world.manage("passwordChange", value, by=mine))["id"] == 1
    assert await world.app.service("users").get(1, {**FROM_AFAR, **mine})
    with pytest.raises(NotAuthenticated):
        await world.app.service("users").get(1, {**FROM_AFAR, **other})
    assert [mail.kind for mail in await world.mails()] == ["password_changed"]
    # Without a sign-in, all sessions end.
    back = {"user": USER, "oldPassword": "battery staple", "password": "correct horse"}
    assert await world.manage("passwordChange", back)
    with pytest.raises(NotAuthenticated):
        await world.app.service("users").get(1, {**FROM_AFAR, **mine})


async def test_a_signed_in_caller_changes_nobody_else(world):
    await world.sign_up(email="bob@example.com", password="bobs password")
    bob = bearer(await world.sign_in("bobs password", email="bob@example.com"))
    value = {"user": USER, "oldPassword": "correct horse", "password": "battery staple"}
    error = await world.refusal("passwordChange", value, by=bob)
    assert error.errors == {"oldPassword": "Current password is incorrect."}
    invalid = {"authentication": {"strategy": "jwt", "accessToken": "x"}}
    assert (await world.refusal("passwordChange", value, by=invalid)).code == 401


async def test_the_new_password_follows_the_rules():
    world = await started(password_check=lambda text: "Too simple" if text == "password1" else None)
    for password in ("1234567", "x" * 5000, 12345678, ["12345678"], ADA["email"], "password1"):
        with pytest.raises(BadRequest) as refused:
            await world.sign_up(password=password)
        assert set(refused.value.errors) == {"password"}
    await world.sign_up()
    value = {"user": USER, "oldPassword": "correct horse", "password": "ADA@example.com"}
    assert (await world.refusal("passwordChange", value)).errors == {
        "password": "The password must not be the address"
    }
    me = bearer(await world.sign_in())
    with pytest.raises(BadRequest):
        await world.app.service("users").patch(1, {"password": "short"}, {**FROM_AFAR, **me})


async def test_an_address_changes_when_the_new_one_is_proved_and_can_be_taken_back(world):
    await world.manage("verifySignupLong", await world.token("verify"))
    session = bearer(await world.sign_in())
    value = {"user": USER, "password": "correct horse", "changes": {"email": "New@example.com"}}
    assert (await world.manage("identityChange", value))["email"] == "ada@example.com"
    undo, change = await world.mails()
    assert (undo.kind, undo.to) == ("undo", "ada@example.com")
    assert (change.kind, change.to) == ("change", "new@example.com")
    assert (await world.user())["email"] == "ada@example.com"
    assert (await world.manage("verifySignupLong", token_of(change)))["email"] == "new@example.com"
    # Nobody else gets the old address as long as it can be taken back.
    with pytest.raises(Conflict):
        await world.sign_up()
    assert await world.mails() == []

    assert (await world.manage("verifySignupLong", token_of(undo)))["email"] == "ada@example.com"
    with pytest.raises(NotAuthenticated):
        await world.app.service("users").get(1, {**FROM_AFAR, **session})
    await world.refusal("verifySignupLong", token_of(undo))
    with pytest.raises(NotAuthenticated):  # a thief knows the password
        await world.sign_in()
    (restored,) = await world.mails()
    value = {"token": token_of(restored), "password": "battery staple"}
    assert await world.manage("resetPwdLong", value)


async def test_a_thief_who_changes_the_address_twice_does_not_end_the_first_undo(world):
    await world.manage("verifySignupLong", await world.token("verify"))
    for old, new in (("ada", "thief"), ("thief", "second")):
        value = {
            "user": {"email": f"{old}@example.com"},
            "password": "correct horse",
            "changes": {"email": f"{new}@example.com"},
        }
        await world.manage("identityChange", value)
        mails = {mail.kind: mail for mail in await world.mails()}
        if old == "ada":
            undo = mails["undo"]
        else:
            last = mails["undo"]
        await world.manage("verifySignupLong", token_of(mails["change"]))
    assert (await world.manage("verifySignupLong", token_of(undo)))["email"] == "ada@example.com"
    await world.refusal("verifySignupLong", token_of(last))


async def test_a_change_by_code_and_without_an_undo_of_an_address_that_was_never_proved(world):
    await world.mails()
    value = {"user": USER, "password": "correct horse", "changes": {"email": "new@example.com"}}
    await world.manage("identityChange", value)
    (mail,) = await world.mails()
    right = {"token": mail.code, "user": USER}
    assert (await world.manage("verifySignupShort", right))["email"] == "new@example.com"


async def test_a_change_to_a_taken_address_answers_the_same_and_changes_nothing(world):
    await world.sign_up(email="bob@example.com")
    await world.mails()
    value = {"user": USER, "password": "correct horse", "changes": {"email": "bob@example.com"}}
    assert (await world.manage("identityChange", value))["email"] == "ada@example.com"
    (mail,) = await world.mails()
    assert (mail.kind, mail.to, mail.link) == ("taken", "bob@example.com", None)

    value["changes"] = {"email": "free@example.com"}
    await world.manage("identityChange", value)
    token = await world.token("change")
    await world.sign_up(email="free@example.com")
    error = await world.refusal("verifySignupLong", token)
    assert error.code == 409
    assert (await world.user())["email"] == "ada@example.com"


async def test_identity_change_refuses_a_wrong_password_like_an_unknown_address(world):
    value = {"user": USER, "password": "wrong", "changes": {"email": "new@example.com"}}
    wrong = await world.refusal("identityChange", value)
    assert wrong.message == "Password is incorrect."
    assert wrong.errors == {"password": "Password is incorrect.", "$className": "badParams"}
    nobody = {**value, "user": {"email": "nobody@example.com"}}
    assert (await world.refusal("identityChange", nobody)).to_dict() == wrong.to_dict()


async def test_the_answer_is_the_same_whether_there_is_an_account(world):
    await world.mails()
    for action in ("sendResetPwd", "resendVerifySignup"):
        for name in ("ada", "nobody"):
            value = {"email": f"{name}@example.com"}
            assert await world.manage(action, value) == value
    assert sorted(mail.to for mail in await world.mails()) == ["ada@example.com"] * 2
    await world.app.service("users").patch(1, {"isVerified": True})
    assert await world.manage("resendVerifySignup", USER) == USER
    assert await world.mails() == []


async def test_actions_that_send_look_nothing_up_before_they_answer(world):
    """So the time of the answer cannot tell anything, whatever the store costs."""
    await world.mails()
    looked_up = []
    watch = {"find": [lambda context: looked_up.append(context.params.query)]}
    world.app.service("users").hooks(before=watch)
    for action in ("sendResetPwd", "resendVerifySignup"):
        await world.manage(action, USER)
        assert looked_up == []
        await world.accounts.idle()
        assert len(looked_up) == 1
        looked_up.clear()


async def test_a_full_queue_is_a_503_for_all(world, monkeypatch):
    await world.mails()
    monkeypatch.setattr("alula.accounts._mail.CAPACITY", 0)
    for name in ("ada", "nobody"):
        with pytest.raises(Unavailable) as error:
            await world.manage("sendResetPwd", {"email": f"{name}@example.com"})
        assert error.value.headers == {"Retry-After": "60"}
    assert await world.sign_up(email="bob@example.com")  # the mail is lost, the user is there


async def test_mails_go_to_the_stored_address(world):
    await world.mails()
    await world.sign_up(email="mike@example.org")
    await world.mails()
    await world.manage("sendResetPwd", {"email": "m\u0131ke@example.org"})  # a dotless i
    assert await world.mails() == []
    await world.manage("sendResetPwd", {"email": "mi\u212ae@example.org"})  # the Kelvin sign
    (mail,) = await world.mails()
    assert mail.to == "mike@example.org"


async def test_budgets():
    world = await started(throttle=True, codes=True)
    await world.sign_up()
    await world.mails()
    for _ in range(2):  # one a minute, and the sign-up has sent one
        assert await world.manage("resendVerifySignup", USER) == USER
    assert await world.mails() == []
    for _ in range(18):
        await world.manage("sendResetPwd", USER)
    assert len(await world.mails()) == 1
    with pytest.raises(TooManyRequests) as error:
        await world.manage("sendResetPwd", {"email": "nobody@example.com"})
    assert int(error.value.headers["Retry-After"]) > 0
    assert await world.manage("sendResetPwd", USER, by={"ip": "198.51.100.7"})
    assert await world.manage("sendResetPwd", USER, by={"provider": None})

    for number in range(31):
        error = await world.refusal("verifySignupLong", "nonsense")
        assert error.code == (400 if number < 30 else 429)


async def test_a_person_who_knows_the_password_sends_few_mails_to_strangers():
    world = await started(throttle=True)
    await world.sign_up()
    await world.mails()
    for number in range(3):
        changes = {"email": f"stranger{number}@example.com"}
        value = {"user": USER, "password": "correct horse", "changes": changes}
        await world.manage("identityChange", value)
    assert [mail.to for mail in await world.mails()] == ["stranger0@example.com"]


async def test_budget_of_codes():
    world = await started(throttle=True, codes=True, code_tries=100)
    await world.sign_up()
    (mail,) = await world.mails()
    wrong = {"token": "000000x", "user": USER}
    for number in range(_management._CODES_A_DAY):
        await world.refusal("verifySignupShort", wrong, by={"ip": f"198.51.100.{number}"})
    right = {"token": mail.code, "user": USER}
    error = await world.refusal("verifySignupShort", right, by={"ip": "203.0.113.1"})
    assert error.code == 400


async def test_a_user_without_an_address_gets_no_mail(world):
    await world.mails()
    await world.app.service("users").patch(1, {"email": None})
    await world.manage("resendVerifySignup", USER)
    world.accounts._outbox.put(lambda: world_messages(world)._verify_by_id(1))
    assert await world.mails() == []


def world_messages(world):
    return world.app.service("authManagement").service._messages


async def test_an_address_that_a_schema_of_the_users_refuses_has_no_account(world):
    await world.mails()

    def refuse(context):
        raise BadRequest("no such domain", errors={"email": "is not one of ours"})

    world.app.service("users").hooks(before={"find": [refuse]})
    assert await world.manage("sendResetPwd", USER) == USER
    assert await world.manage("checkUnique", USER) is None
    assert await world.mails() == []


async def test_a_mail_for_a_user_who_is_gone_is_not_sent(world):
    await world.mails()
    world_messages(world).signed_up(99)
    assert await world.mails() == []
