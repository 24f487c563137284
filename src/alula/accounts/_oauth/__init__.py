"""Sign in with others: the way to the provider, and the way back.

Needs the extra ``oauth``.
"""
