"""A small chat: users, messages, one custom method, and a page that talks to the REST API."""
