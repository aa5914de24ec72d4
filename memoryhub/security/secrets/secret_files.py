"""Files that contain secrets, recognised by their names. Nothing from them becomes a memory. No Django."""

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
_HARMLESS = re.compile(  # samples and public keys
    r"[._-](?:example|sample|template|dist|defaults?|schema|test)(?:\.\w+)?$|\.pub$"
    r"|(?:^|[/\\])(?:known_hosts|config)$",
    re.IGNORECASE,
)
_ARGUMENT = re.compile(r"[^\s'\"`=<>|;&()]{3,300}")
_HINTS = (  # parts of all the names above; looking for them first is faster
    *(".env", "rc", "secret", "credential", "passw", "pgpass", "id_", "kubeconfig", "key", "token", "shadow"),
    *(".pem", ".p12", ".pfx", ".jks", ".kdbx", ".ppk", ".asc", ".gpg", ".tf", ".ssh", ".aws", ".kube"),
    *(".docker", ".azure", "service", ".cnf", ".gnupg"),
)


def is_secret_file(path: str) -> bool:
    """Return True if files with this path usually contain secrets."""
    return bool((_FILE.search(path) or _FOLDER.search(path)) and not _HARMLESS.search(path))


def names_secret_file(command: str) -> bool:
    """Return True if a shell command names such a file."""
    lowered = command.lower()
    if not any(hint in lowered for hint in _HINTS):
        return False
    return any(is_secret_file(argument) for argument in _ARGUMENT.findall(command))
