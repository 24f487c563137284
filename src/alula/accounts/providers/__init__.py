"""Providers with whom people sign in: how each is asked, and how its response is checked.

This package knows no users, cookies and pages. Its presets need the extra ``oauth``.
"""
