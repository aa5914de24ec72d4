"""Parse pages: elements, visible text, and dangerous markup."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from typing import Any

Attributes = dict[str, str]

# Payloads that are dangerous if they become markup.
PAYLOADS = [
    "<script>alert('pwned')</script>",
    "<img src=x onerror=alert('pwned')>",
    "<svg/onload=alert('pwned')>",
    "</textarea></title></script><script>alert('pwned')</script>",
    "\"><iframe src=javascript:alert('pwned')></iframe>",
    "' autofocus onfocus=alert('pwned') x='",
    "<a href=javascript:alert('pwned')>x</a>",
    "[x](javascript:alert('pwned'))",
    "[x](  JaVaScRiPt:alert('pwned'))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:msgbox)",
    "[x](&#106;avascript:alert('pwned'))",
    "[x](java\tscript:alert('pwned'))",
    "[x]: javascript:alert('pwned')\n\n[x]",
    "<javascript:alert('pwned')>",
    "![x](javascript:alert('pwned'))",
    "![x](https://elsewhere.example/pixel.gif)",
    "![x](data:image/svg+xml;base64,PHN2Zy8+)",
    "[x](https://a.example \"' onmouseover=alert('pwned') \")",
    "[x](https://a.example/\"onmouseover=alert('pwned'))",
    "```html\n<script>alert('pwned')</script>\n```",
    "```\"><script>alert('pwned')</script>\n```",
    "`<script>alert('pwned')</script>`",
    "| <b onclick=alert('pwned')> |\n|---|\n| <script>x</script> |",
    "<style>body{display:none}</style>",
    "<form action=https://elsewhere.example><input name=password></form>",
    "{{ 7|add:7 }}{% csrf_token %}",
    "<base href=https://elsewhere.example>",
    "<div style=position:fixed hx-get=/logout/ hx-trigger=load>x</div>",
]

# For the tests of single pages: leaves quotes of both kinds and elements, also if only 20 characters fit.
PAYLOAD = (
    "' onfocus=x '\"><img src=x onerror=alert('pwned')></textarea></title></script>"
    "<script>alert('pwned')</script>"
)

_BAD_SCHEME = re.compile(r"^[\s\x00-\x1f]*(javascript|data|vbscript|file):", re.IGNORECASE)
_LINKS = ("href", "src", "action", "formaction", "poster", "xlink:href")


@dataclass
class Page(HTMLParser):
    """Parsed HTML: ``elements`` in order, and ``words``, the visible text."""

    html: str
    elements: list[tuple[str, Attributes]] = field(default_factory=list)
    words: str = ""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_data(self, data: str) -> None:
        self.words += data

    def all(self, tag: str) -> list[Attributes]:
        return [attributes for name, attributes in self.elements if name == tag]

    def links(self) -> list[str]:
        return [attributes["href"] for attributes in self.all("a") if "href" in attributes]

    def value_of(self, name: str) -> str:
        """Return the value of an input."""
        [found] = [a.get("value", "") for a in self.all("input") if a.get("name") == name]
        return found


def page(response: Any) -> Page:
    """Parse a response."""
    return Page(response.content.decode())


def submitted_fields(form: str) -> dict[str, Any]:
    """Return the names and values that a browser submits from the markup of an unchanged form."""
    fields: dict[str, Any] = {}
    select = ""
    for tag, attributes in Page(form).elements:
        name = attributes.get("name", "")
        if tag == "select":
            select = name
        elif tag == "option" and "selected" in attributes:
            fields[select] = attributes["value"]
        elif tag == "input" and name and (attributes["type"] != "checkbox" or "checked" in attributes):
            fields[name] = attributes.get("value", "")
    texts = re.findall(r'<textarea[^>]* ?name="([^"]+)"[^>]*>\r?\n?(.*?)</textarea>', form, re.DOTALL)
    return fields | {name: unescape(text) for name, text in texts}


def list_title(memory: Any) -> str:
    """Return the title of a memory in lists, redacted if it is secret."""
    is_open = memory.sensitivity in ("public", "private")
    return str(memory.title) if is_open else f"Secret memory {memory.uid[-6:]}"


def main(response: Any) -> Page:
    """Parse the main area of a response."""
    return Page(response.content.decode().partition("<main")[2].partition("</main>")[0])


def find_dangers(html: str) -> list[str]:
    """Return markup that could run, load from elsewhere or break out; empty for a safe page."""
    found = []
    for tag, attributes in Page(html).elements:
        if tag in ("iframe", "object", "embed", "img", "base", "style", "audio", "video"):
            found.append(f"<{tag}>")
        if tag == "script" and not attributes.get("src", "").startswith("/static/"):
            found.append(f"<script {attributes}>")
        for name, value in attributes.items():
            if name.startswith("on") or name == "style":
                found.append(f"{tag} {name}={value}")
            if name in _LINKS and (_BAD_SCHEME.match(value) or _loads_from_elsewhere(tag, name, value)):
                found.append(f"{tag} {name}={value}")
            if name.startswith("hx-") and value.startswith("/logout"):
                found.append(f"{tag} {name}={value}")
    return found


def _loads_from_elsewhere(tag: str, name: str, value: str) -> bool:
    """Whether it would load from or submit to another host; plain links may."""
    return (tag, name) != ("a", "href") and value.startswith(("http:", "https:", "//"))
