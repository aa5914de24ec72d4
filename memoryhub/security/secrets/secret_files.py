"""Files that hold credentials by their name: what was read or written there never becomes a memory. Pure."""

from __future__ import annotations

import re

_NAMES = (
    r"\.env(?:\.[\w-]+)*|[\w-]+\.env|\.envrc|\.netrc|_netrc|\.npmrc|\.pypirc|\.pgpass|\.my\.cnf|\.htpasswd"
    r"|\.git-credentials|\.dockercfg|\.vault[-_]token|id_(?:rsa|dsa|ecdsa|ed25519)|kubeconfig"
    r"|(?:[\w.-]*[-_.])?(?:secrets?|credentials?|passwords?|passwd|api[-_]?keys?)"
    r"\.(?:json|ya?ml|toml|ini|txt|env|conf|csv|xml|properties|enc|gpg)"
    r"|credentials|shadow|[\w.-]+\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk|asc|gpg|tfvars)"
    r"|service[-_]account[\w.-]*\.json|terraform\.tfstate(?:\.backup)?"
)
_FILE = re.compile(rf"(?:^|[/\\])(?:{_NAMES})$", re.IGNORECASE)
_FOLDER = re.compile(r"(?:^|[/\\])(?:\.ssh|\.gnupg|\.aws|\.kube|\.docker|\.azure)[/\\]", re.IGNORECASE)
# Samples are there to be shown, and public keys to be given away.
_HARMLESS = re.compile(
    r"[._-](?:example|sample|template|dist|defaults?|schema|test)(?:\.\w+)?$|\.pub$"
    r"|(?:^|[/\\])(?:known_hosts|config)$",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[^\s'\"`=<>|;&()]{3,300}")
_HINTS = (
    *(".env", "rc", "secret", "credential", "passw", "pgpass", "id_", "kubeconfig", "key", "token", "shadow"),
    *(".pem", ".p12", ".pfx", ".jks", ".kdbx", ".ppk", ".asc", ".gpg", ".tf", ".ssh", ".aws", ".kube"),
    *(".docker", ".azure", "service", ".cnf", ".gnupg"),
)


def is_secret_file(path: str) -> bool:
    """Whether a path is that of a file made to hold credentials."""
    return bool((_FILE.search(path) or _FOLDER.search(path)) and not _HARMLESS.search(path))


def names_secret_file(command: str) -> bool:
    """Whether a shell command names such a file."""
    low = command.lower()
    if not any(mark in low for mark in _HINTS):
        return False
    return any(is_secret_file(found) for found in _TOKEN.findall(command))
