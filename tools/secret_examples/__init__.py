"""A labelled set of texts with and without secrets, generated from templates.

No file contains a whole token: a template has placeholders for random characters, and a break in the
issuer's prefix.
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

TEMPLATES = Path(__file__).with_name("templates")
BREAK = "¦"  # in the middle of a prefix, so that scanners do not report the templates
_DIGITS, _LETTERS, _SMALL = string.digits, string.ascii_letters, string.ascii_lowercase
_ALPHABETS = {
    "a": _LETTERS + _DIGITS,
    "l": _SMALL + _DIGITS,
    "u": string.ascii_uppercase + _DIGITS,
    "h": _DIGITS + "abcdef",
    "d": _DIGITS,
    "w": _LETTERS + _DIGITS + "-_",
    "b": _LETTERS + _DIGITS + "+/",
    "z": _LETTERS,
    "s": _SMALL + "234567",
    "c": string.ascii_uppercase + "234567",
}
_PLACEHOLDER = re.compile(r"\{([a-z]+)(\d*)\}")
# Texts around a token: notes, settings, code and commands.
_FRAMES = (
    "The token for staging is {} until Friday.",
    "{}",
    "export SERVICE_TOKEN={}",
    'token: "{}"',
    "We found `{}` in the build log and turned it off.",
    'client = Client(token="{}")',
    '{{"service": {{"token": "{}"}}}}',
    "1. log in\n2. paste {}\n3. restart the worker",
    "curl -H 'X-Auth-Token: {}' https://api.internal/v1/jobs",
    "--token={} \\\n  --verbose",
)
_NAMED = (
    "{name}_API_KEY={value}",
    '{name}Token = "{value}"',
    "our {name} api key is {value}, ask Ada for a new one",
    '"{name}_secret": "{value}"',
    "{name}:\n  api_token: {value}\n",
    'const {name}ApiKey = "{value}";',
    "{name} token: {value}",
    "<{name}Token>{value}</{name}Token>",
)


@dataclass(frozen=True)
class Example:
    """A text. ``kind`` is empty for a text without a secret. ``half``: 0 for tuning, 1 for measuring."""

    kind: str
    text: str
    half: int


def make_examples(seed: int = 7) -> list[Example]:
    """Return the whole set. Another seed gives other values in the same templates."""
    rng = random.Random(seed)
    return [*_examples_with_secrets(rng), *_examples_without_secrets(rng)]


def _examples_with_secrets(rng: random.Random) -> Iterator[Example]:
    for row, (kind, template) in enumerate(_load_templates_by_kind("tokens")):
        for turn in range(3):
            frame = _FRAMES[(row * 3 + turn) % len(_FRAMES)]
            yield Example(kind, frame.format(fill_template(template, rng)), turn % 2)
    for row, (service, template) in enumerate(_load_templates_by_kind("services")):
        for turn in range(2):
            frame = _NAMED[(row * 2 + turn) % len(_NAMED)]
            name, value = (service.upper() if frame[0] == "{" else service), fill_template(template, rng)
            yield Example(f"key of {service}", frame.format(name=name, value=value), turn % 2)
    for kind, template in _load_templates_by_kind("passwords"):
        for turn in range(2):
            yield Example(kind, fill_template(template, rng), turn)


def _examples_without_secrets(rng: random.Random) -> Iterator[Example]:
    for row, template in enumerate(_load_templates("plain")):
        yield Example("", fill_template(template, rng), row % 2)
    for row, template in enumerate(_load_templates("lookalikes")):
        for turn in range(2):
            yield Example("", fill_template(template, rng), (row + turn) % 2)
    for row, template in enumerate(_load_templates("long")):
        yield Example("", fill_template(template, rng), row % 2)


def _load_templates(name: str) -> list[str]:
    """Return the lines of a file. ``⏎`` in a line is a line break."""
    lines = (TEMPLATES / f"{name}.txt").read_text("utf-8").split("\n")
    return [line.replace("⏎", "\n") for line in lines if line]


def _load_templates_by_kind(name: str) -> Iterator[tuple[str, str]]:
    for line in _load_templates(name):
        kind, _, template = line.partition(" :: ")
        yield kind.strip(), template


def fill_template(template: str, rng: random.Random) -> str:
    """Replace the placeholders by random characters: ``{a20}`` by 20 letters and digits."""

    def generate(placeholder: re.Match[str]) -> str:
        name, length = placeholder[1], int(placeholder[2] or 0)
        if name in _GENERATORS:
            return _GENERATORS[name](rng, length)
        if name not in _ALPHABETS:
            return placeholder[0]
        return "".join(rng.choices(_ALPHABETS[name], k=length))

    return _PLACEHOLDER.sub(generate, template).replace(BREAK, "")


def _random_characters(rng: random.Random, alphabet: str, length: int) -> str:
    return "".join(rng.choices(_ALPHABETS[alphabet], k=length))


def _uuid(rng: random.Random, _: int) -> str:
    return "-".join(_random_characters(rng, "h", length) for length in (8, 4, 4, 4, 12))


def _password(rng: random.Random, length: int) -> str:
    """Return a password as generators make them: letters, at least two digits, one other character."""
    signs = [
        *_random_characters(rng, "a", length - 4),
        *_random_characters(rng, "d", 2),
        rng.choice("!#%+*?"),
        "q",
    ]
    rng.shuffle(signs)
    return "x" + "".join(signs)


def _base64(rng: random.Random, length: int) -> str:
    return base64.b64encode(rng.randbytes(length)).decode()


def _in_base64(rng: random.Random, length: int) -> str:
    return base64.b64encode(_random_characters(rng, "a", length).encode()).decode()


def _pair(rng: random.Random, length: int) -> str:
    return base64.b64encode(f"ada:{_random_characters(rng, 'a', length)}".encode()).decode()


def _jwt(rng: random.Random, _: int) -> str:
    head = _join_jwt({"alg": "HS256", "typ": "JWT"}, {"sub": _random_characters(rng, "d", 9), "name": "Ada"})
    return f"{head}.{_random_characters(rng, 'w', 43)}"


def _unsigned_jwt(rng: random.Random, _: int) -> str:
    return _join_jwt({"alg": "none", "typ": "JWT"}, {"sub": _random_characters(rng, "d", 9), "name": "Ada"})


def _join_jwt(*parts: dict[str, str]) -> str:
    texts = (json.dumps(part).encode() for part in parts)
    return ".".join(base64.urlsafe_b64encode(text).decode().rstrip("=") for text in texts)


def _bot(rng: random.Random, _: int) -> str:
    return base64.b64encode(_random_characters(rng, "d", 18).encode()).decode().rstrip("=")


_GENERATORS: dict[str, Callable[[random.Random, int], str]] = {
    "uuid": _uuid,
    "password": _password,
    "bytes": _base64,
    "readable": _in_base64,
    "pair": _pair,
    "jwt": _jwt,
    "unsigned": _unsigned_jwt,
    "bot": _bot,
}
