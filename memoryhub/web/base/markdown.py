"""Markdown as safe HTML with marked search hits, and as plain text for lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

import nh3
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

_FIRST_MARKER, _END_MARKER = 0xFDD0, "\ufdef"
_MAX_KINDS = ord(_END_MARKER) - _FIRST_MARKER  # so many can be told apart
_MARKER = re.compile("[\ufdd0-\ufdef]")
# What opens a block, a cell or an emphasis: the mark begins after it, and ends before what closes it.
_LEADING_SYNTAX = re.compile(r"(?:[\s>#*+\-_~`|]|\d{1,9}[.)]\s)*")
_WORD = re.compile(r"\S+")
_TRAILING_SYNTAX = " \t\r*_~`|#"
_HTML_PART = re.compile("(<[^>]*>)|([\ufdd0-\ufdef])|([^<\ufdd0-\ufdef]+)")
_MARKER_IN_URL = re.compile("%EF%B7%[9A][0-9A-F]|[\ufdd0-\ufdef]")
_BLOCK_END = re.compile(r"</(?:p|h[1-6]|li|pre|tr|blockquote)>")


class MarkedSpan(NamedTuple):
    """A stretch of a text, and what it is taken for."""

    start: int
    end: int
    kind: str


def replace_marker_characters(text: str) -> str:
    """The text, of the same length, in which none of the characters stands that places are planted with."""
    return _MARKER.sub("\ufffd", text)


def span_kinds(places: Iterable[MarkedSpan]) -> list[str]:
    return sorted({place.kind for place in places})[:_MAX_KINDS]


def insert_markers(text: str, places: Sequence[MarkedSpan]) -> str:
    """The text with signs around each line of these places; of two that overlap the first counts."""
    kinds = span_kinds(places)
    pieces, at = [], 0
    for start, end, kind in _marked_lines(text, places):
        if start >= at and kind in kinds:
            pieces += [text[at:start], chr(_FIRST_MARKER + kinds.index(kind)), text[start:end], _END_MARKER]
            at = end
    return "".join([*pieces, text[at:]])


def _marked_lines(text: str, places: Sequence[MarkedSpan]) -> Iterator[MarkedSpan]:
    """What is to be marked, in order, without the signs of the syntax at its edges."""
    addresses = [found.span() for found in _WORD.finditer(text) if "://" in found.group()] if places else []
    for start, end, kind in sorted(places):
        # An address with a sign in it would be another one.
        end = next((last for first, last in addresses if first < end < last), end)
        at = start
        for line in text[start:end].splitlines(keepends=True):
            lead = _LEADING_SYNTAX.match(line)
            first = lead.end() if lead else 0
            last = len(line.rstrip().rstrip(_TRAILING_SYNTAX))
            if first < last:
                yield MarkedSpan(at + first, at + last, kind)
            at += len(line)


def markers_to_html(html: str, kinds: Sequence[str]) -> str:
    """HTML in which the words between planted signs are wrapped, and no sign is left."""
    kind, pieces = "", []
    for tag, sign, words in _HTML_PART.findall(html):
        if sign:
            kind = _marker_kind(sign, kinds)
        elif words:
            pieces.append(_wrap_in_mark(words, kind))
        else:
            signs = _MARKER_IN_URL.findall(tag)
            kind = (
                _marker_kind(unquote(signs[-1]), kinds)
                if signs
                else ""
                if _BLOCK_END.fullmatch(tag)
                else kind
            )
            pieces.append(_MARKER_IN_URL.sub("", tag))
    return "".join(pieces)


def split_url_markers(address: str) -> tuple[str, str]:
    """An address as it was before signs were planted in the text, and these signs."""
    return _MARKER_IN_URL.sub("", address), unquote("".join(_MARKER_IN_URL.findall(address)))


def _marker_kind(sign: str, kinds: Sequence[str]) -> str:
    """What begins with this sign; nothing does with one that closes."""
    number = ord(sign) - _FIRST_MARKER
    return kinds[number] if number < len(kinds) else ""


def _wrap_in_mark(words: str, kind: str) -> str:
    """Blanks between two elements stay as they are: not everywhere may there be something else."""
    return f'<mark title="{escape(kind)}">{words}</mark>' if kind and words.strip() else words


_SAFE_LINK = re.compile(r"(?:https?://|mailto:)[^\s]", re.IGNORECASE)
# Shorter lines than this were broken on purpose, not by an editor that wraps at 72 or 80 columns.
_MIN_WRAPPED_LINE = 60
# One long reference definition used ten thousand times would make megabytes of a small text.
_MAX_LINK_CHARS = 200_000

_TAGS = {
    *("p", "br", "hr", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong"),
    *("s", "a", "div", "mark", "table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES = {
    "a": {"href", "title"},
    "ol": {"start"},
    "pre": {"tabindex"},
    "div": {"tabindex"},
    "mark": {"title"},
}
_CLASSES = {"div": {"md-table"}, "td": {"md-center", "md-right"}, "th": {"md-center", "md-right"}}


def render(text: str, *, below: int = 2, places: Sequence[MarkedSpan] = (), links: bool = True) -> SafeString:
    """CommonMark with tables, strikethrough and bare addresses, as sanitised HTML.

    ``below``: the level of the heading that the text stands under; its own begin at the next, whatever the
    level it begins with, and skip none. ``places``:
    what is marked in it, as ``mark`` elements titled by kind. Without ``links`` each is told as words with
    its address behind them, so that nobody follows what is not to be trusted.
    """
    source = insert_markers(replace_marker_characters(text), places) if places else text
    html = _parser().render(source, {"below": below, "links": links})
    html = markers_to_html(html, span_kinds(places)) if places else html
    clean = nh3.clean(
        html,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes=_CLASSES,
        url_schemes={"http", "https", "mailto"},
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
    )
    return mark_safe(clean)  # noqa: S308 nh3 has cleaned it


class _Renderer(RendererHTML):
    """Images become links, wide blocks can be scrolled with the keyboard."""

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        label = escape(self.renderInlineAsText(token.children or [], options, env) or "image")
        source = escape(str(token.attrs.get("src", "")))
        return f'<a href="{source}">{label}</a>' if source else label

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f'<pre tabindex="0"><code>{escape(tokens[idx].content)}</code></pre>\n'

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return self.code_block(tokens, idx, options, env)

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return '<div class="md-table" tabindex="0"><table>\n'

    def table_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return "</table></div>\n"


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": True}, renderer_cls=_Renderer)
    parser.enable(["table", "strikethrough", "linkify"])
    parser.validateLink = _is_safe_link  # type: ignore[method-assign]
    assert parser.linkify is not None  # noqa: S101 the option above asks for it
    parser.linkify.set({"fuzzy_link": False, "fuzzy_email": False})
    parser.core.ruler.push("pages", _adapt_tokens)
    return parser


def _is_safe_link(url: str) -> bool:
    return bool(_SAFE_LINK.match(url))


def _adapt_tokens(state: StateCore) -> None:
    room = _MAX_LINK_CHARS
    _shift_headings(int(state.env["below"]), state.tokens)
    for token in state.tokens:
        if token.type in ("th_open", "td_open"):
            _align_by_class(token)
        elif token.type == "inline":
            _keep_deliberate_breaks(token)
            room = _limit_links(token.children or [], room)
            if not state.env["links"]:
                token.children = _links_to_text(token.children or [])


def _shift_headings(level: int, tokens: Sequence[Token]) -> None:
    """Each heading one level below the one it belongs to, the first of them below ``level``."""
    over: list[str] = []  # the headings that go on, as the text has them
    for token in tokens:
        if token.type == "heading_open":
            over = [tag for tag in over if tag < token.tag] + [token.tag]
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(level + len(over), 6)}"


def _limit_links(children: list[Token], room: int) -> int:
    """What is left of the room for addresses and titles; links beyond it and images in links lose theirs."""
    depth = 0
    for child in children:
        depth += {"link_open": 1, "link_close": -1}.get(child.type, 0)
        room -= sum(len(str(value)) for value in child.attrs.values())
        if room < 0 or (child.type == "image" and depth):
            child.attrs.clear()
    return room


def _links_to_text(children: Sequence[Token]) -> list[Token]:
    """Links and images as text: what they are called, and where they lead unless that is what they say."""
    told: list[Token] = []
    address = ""
    for child in children:
        if child.type == "link_open":
            address = "" if child.info == "auto" else str(child.attrs.get("href", ""))
        elif child.type == "link_close":
            told.append(_text_token(_url_in_parentheses(address)))
        elif child.type == "image":
            told.append(
                _text_token((child.content or "image") + _url_in_parentheses(str(child.attrs.get("src", ""))))
            )
        else:
            told.append(child)
    return told


def _url_in_parentheses(address: str) -> str:
    shown, signs = split_url_markers(address)
    return (f" ({shown})" if shown else "") + signs


def _text_token(text: str) -> Token:
    return Token("text", "", 0, content=text)


def _align_by_class(token: Token) -> None:
    """The content security policy allows no ``style`` attribute."""
    style: Any = token.attrs.pop("style", "")
    for side in ("center", "right"):
        if side in str(style):
            token.attrSet("class", f"md-{side}")


def _keep_deliberate_breaks(token: Token) -> None:
    """A line that had room for the next word was ended on purpose, like "Fixes #1" and "key: value"."""
    lines = token.content.split("\n")
    at = 0
    for child in token.children or []:
        if child.type not in ("softbreak", "hardbreak"):
            continue
        at += 1
        if child.type == "softbreak" and at < len(lines):
            first_word = lines[at].split(" ", 1)[0]
            if len(lines[at - 1]) + len(first_word) < _MIN_WRAPPED_LINE:
                child.type, child.tag = "hardbreak", "br"


# Python 3.11.2 (Debian 12) misreads a possessive loop with a backreference in it: that of emphasis is none.
# A line break inside a paragraph; no emphasis reaches beyond.
_LINE_BREAK = r"\n(?![ \t]*(?:\n|[#>*+-]))"
_MARKUP = re.compile(
    rf"""
      ^[ \t]*(?P<fence>`{{3,}}|~{{3,}})[^\n`]*\n(?P<block>(?s:.*?))(?:\n[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)
    | (?P<tick>`{{1,3}})(?P<code>[^`\n]++)(?P=tick)
    | `{{3,}}[\w+-]*                                        # of a block within a line
    | ^[ \t]*[-*_|:=](?:[ \t]*[-*_|:=]){{2,}}[ \t]*$         # a rule, or what is under a table's head
    | ^(?:[ \t]*(?:\#{{1,6}}(?=[ \t])|>))+[ \t]*             # before a heading or a quotation
    | ^[ \t]*[*+](?P<item>[ \t])
    | !?\[(?P<label>[^\[\]\n]*)\](?:\([^()\s]*(?:[ \t]"[^"\n]*")?\)|\([^()\s]*(?=…\Z))
    | (?<![\w*/\\.])(?P<star>\*{{1,3}})(?=[\w"'(\[`“‘«¿¡])(?P<strong>(?:(?!(?P=star))[^\n]|{_LINE_BREAK})+)
      (?<=[^\s*])(?P=star)(?![\w*/])
    | (?<![\w/\\.])(?P<line>__?)(?=[^\W_])(?P<weak>(?:[^_\n]|{_LINE_BREAK})++)(?<=\S)(?P=line)(?!\w)
    | (?<![\w~])~~(?=\S)(?P<gone>[^~\n]++)(?<=\S)~~(?![\w~])
    | (?<![\w*`])(?:\*\*|`)(?=[^\W_])(?P<cut>[^*`…]*+…)\Z     # what would close it has been cut off
    """,
    re.VERBOSE | re.MULTILINE,
)


def to_plain_text(text: str) -> str:
    """The text without marks of emphasis, code, headings, quotations and rules; of links the words stay."""
    return _MARKUP.sub(_replace_markup, text)


def _replace_markup(found: re.Match[str]) -> str:
    parts = found.groupdict()
    code = parts["block"] or parts["code"]
    if code is not None:
        return code
    if parts["item"]:
        return "- "
    if parts["line"] == "__" and not re.search(r"\s", parts["weak"]):
        return found[0]  # a name, as of Python's own methods
    inner = next((parts[name] for name in ("label", "strong", "weak", "gone", "cut") if parts[name]), "")
    return to_plain_text(inner)
