"""Providers with whom people sign in: how each is asked, and what it has to answer.

This package knows no users, cookies and pages. Its presets need the extra ``oauth``.
"""
