"""Accounts: people, roles, memberships, sign-in, tokens, sessions and saved searches."""
