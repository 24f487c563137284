"""A program that calls the application through the client of openapi-python-client."""

import sys

from generated import AuthenticatedClient, Client
from generated.api.authentication import authentication_create
from generated.api.messages import messages_create, messages_find, messages_patch, messages_remove
from generated.api.users import users_create
from generated.models import (
    Authentication,
    AuthenticationCreateType0,
    Messages,
    MessagesCreate,
    MessagesFindResponse200,
    MessagesPatch,
    Users,
    UsersCreate,
)
from generated.types import UNSET

base, email, password = sys.argv[1], "eve@example.com", "correct horse"
anonymous = Client(base_url=base)
user = users_create.sync(client=anonymous, body=UsersCreate(email=email, password=password))
assert isinstance(user, Users)
credentials = AuthenticationCreateType0(strategy="local", email=email, password=password)
session = authentication_create.sync(client=anonymous, body=credentials)
assert isinstance(session, Authentication)
assert session.access_token is not UNSET
client = AuthenticatedClient(base_url=base, token=str(session.access_token))

created = messages_create.sync(client=client, body=MessagesCreate(text="one"))
assert isinstance(created, Messages)
key = str(created.id)
patched = messages_patch.sync(key, client=client, body=MessagesPatch(text="two"))
assert isinstance(patched, Messages)
assert patched.text == "two"
found = messages_find.sync(client=client, limit=1, text="two")
assert isinstance(found, MessagesFindResponse200)
assert [message.text for message in found.data] == ["two"]
assert isinstance(messages_remove.sync(key, client=client), Messages)
