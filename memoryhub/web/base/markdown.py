"""Render Markdown as sanitised HTML, and as plain text for lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import nh3
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from linkify_it import LinkifyIt
from markdown_it import MarkdownIt
from markdown_it.helpers import parseLinkDestination, parseLinkLabel, parseLinkTitle
from markdown_it.parser_inline import ParserInline
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock, table
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

_SAFE_LINK = re.compile(r"(?:https?://|mailto:)[^\s]", re.IGNORECASE)
# Shorter lines were broken on purpose, not by an editor that wraps at 72 or 80 columns.
_MIN_WRAPPED_LINE = 60
# One long reference definition, used ten thousand times, would turn a small text into megabytes.
_MIN_LINK_CHARS, _LINK_CHARS_PER_CHARACTER = 10_000, 3
# Units of work, about 3 µs each: for rendering, and for the plain text, which takes less time.
_MIN_WORK, _WORK_PER_CHARACTER, _PLAIN_WORK_PER_CHARACTER = 500, 0.9, 0.45
_WORK_PER_LINE, _WORK_PER_BLOCK, _WORK_PER_ROW, _WORK_PER_STEP, _WORK_PER_LOOKAHEAD = 3, 8, 7, 2, 4
_WORK_PER_SIGN = {"*": 4, "_": 4, "~": 4, "[": 8, "]": 4, "!": 6, "&": 5, "<": 24}
_EMPHASIS = re.compile(r"\*+|_+|~+")
_MAX_BARE_URL, _MAX_BRACKETS, _MAX_PARENTHESES = 2000, 12, 3
_START_OF_WORD = re.compile(rf"\S{{0,{_MAX_BARE_URL + 1}}}")
_BRACKET = re.compile(r"[(\[{\"']")
# In a text with more URLs than that, bare URLs are no links: finding them takes long in "http://http://…".
_WORK_PER_URL, _MIN_URLS, _CHARACTERS_PER_URL = 12, 20, 40

_TAGS = {
    *("p", "br", "hr", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong"),
    *("s", "a", "div", "table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES = {
    "a": {"href", "title"},
    "ol": {"start"},
    "pre": {"tabindex"},
    "div": {"tabindex"},
}
_CLASSES = {"div": {"md-table"}, "td": {"md-center", "md-right"}, "th": {"md-center", "md-right"}}


def render(text: str, *, below: int = 2, links: bool = True) -> SafeString:
    """Render CommonMark with tables, strikethrough and bare URLs as sanitised HTML.

    ``below``: the level of the heading above the text; its own headings start one level lower and skip none.
    Without ``links``, each link is shown as text followed by its URL, so that no one follows an untrusted
    link.
    """
    try:
        parser = _parser(text)
        work = _work_limit(text) - _WORK_PER_URL * _count_urls(text)
        html = parser.render(text, {"below": below, "links": links, "work": work})
    except _TooCostly:
        html = f'<pre tabindex="0">{escape(text)}</pre>'
    clean = nh3.clean(
        html,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes=_CLASSES,
        url_schemes={"http", "https", "mailto"},
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
    )
    return mark_safe(clean)  # noqa: S308 sanitised by nh3


class _Renderer(RendererHTML):
    """Render images as links, and make wide blocks scrollable with the keyboard."""

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


class _TooCostly(Exception):
    """Parsing a text takes more work than its length allows; it is shown as typed."""


class _BoundedInline(ParserInline):
    """Count the cells and paragraphs."""

    def parse(self, src: str, md: MarkdownIt, env: EnvType, tokens: list[Token]) -> list[Token]:
        _spend(env, _WORK_PER_STEP)
        return super().parse(src, md, env, tokens)


class _BoundedLinkify(LinkifyIt):  # type: ignore[misc]
    """Find bare URLs, but none that is very long or has many brackets, which take long to match."""

    def test(self, text: str) -> bool:
        return True  # match() does the same search

    def test_schema_at(self, text: str, name: str, position: int) -> int:
        word = _START_OF_WORD.match(text, position)
        if word is None or len(word[0]) > _MAX_BARE_URL or len(_BRACKET.findall(word[0])) > _MAX_BRACKETS:
            return 0
        return int(super().test_schema_at(text, name, position))


def _parse_link_destination(text: str, start: int, end: int) -> Any:
    """Parse a destination up to its third opening parenthesis, so that it is not read again for each link."""
    at = start - 1
    for _ in range(_MAX_PARENTHESES):
        at = text.find("(", at + 1, end)
        if at < 0:
            break
    return parseLinkDestination(text, start, end if at < 0 else at)


def _bounded(parser: MarkdownIt) -> MarkdownIt:
    """Make a parser count its work, and raise :class:`_TooCostly` once it exceeds ``env["work"]``."""
    parser.inline = _BoundedInline()
    parser.helpers = _HELPERS  # type: ignore[assignment]
    parser.inline.ruler.before("text", "work", _count_inline_step)
    ended_by_blocks = ["paragraph", "reference", "blockquote", "list"]
    parser.block.ruler.before("table", "work", _count_block_step, {"alt": ended_by_blocks})
    return parser


def _count_inline_step(state: StateInline, silent: bool) -> bool:
    """Run before the rules at a position; ``silent`` while the end of a link is looked for."""
    work = _WORK_PER_SIGN.get(state.src[state.pos], 0)
    if run := _EMPHASIS.match(state.src, state.pos):
        work *= len(run[0])  # each mark of the run becomes a token
    _spend(state.env, work + (_WORK_PER_LOOKAHEAD if silent else _WORK_PER_STEP))
    return False


def _count_block_step(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Run before the rules at a line; ``silent`` while the end of a block is looked for."""
    is_definition = not silent and state.src.startswith("[", state.bMarks[start] + state.tShift[start])
    work = _WORK_PER_LINE if silent else _WORK_PER_BLOCK
    _spend(state.env, work + (_WORK_PER_SIGN["<"] if is_definition else 0))
    return False


_LINKIFY = _BoundedLinkify(options={"fuzzy_link": False, "fuzzy_email": False})
_HELPERS = SimpleNamespace(
    parseLinkLabel=parseLinkLabel, parseLinkTitle=parseLinkTitle, parseLinkDestination=_parse_link_destination
)


def _work_limit(text: str, per_character: float = _WORK_PER_CHARACTER) -> int:
    return _MIN_WORK + int(per_character * len(text))


def _parse_table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a table unless it could have more cells, most of them missing in the text, than characters."""
    columns = state.src.count("|", state.bMarks[start], state.eMarks[min(start + 1, end - 1)])
    if columns * (end - start) > len(state.src) + _MIN_WORK:
        return False
    if silent or not table(state, start, end, True):
        return table(state, start, end, silent)
    first, last = state.bMarks[start], state.src.find("\n\n", state.bMarks[start])
    _spend(state.env, _WORK_PER_ROW * state.src.count("\n", first, last) + state.src.count("|", first, last))
    return table(state, start, end, False)


def _spend(env: EnvType, work: int) -> None:
    env["work"] -= work
    if env["work"] < 0:
        raise _TooCostly


def _parser(text: str) -> MarkdownIt:
    """Return a parser for a text. Bare URLs become links unless the text consists of their beginnings."""
    parser = MarkdownIt("commonmark", {"html": False, "linkify": True}, renderer_cls=_Renderer)
    _bounded(parser).enable(["table", "strikethrough", "linkify"])
    parser.block.ruler.at("table", _parse_table, {"alt": ["paragraph", "reference"]})
    if _count_urls(text) > _MIN_URLS + len(text) // _CHARACTERS_PER_URL:
        parser.disable("linkify")
    parser.validateLink = lambda url: bool(_SAFE_LINK.match(url))  # type: ignore[method-assign]
    parser.linkify = _LINKIFY
    parser.core.ruler.push("pages", _adapt_tokens)
    return parser


def _count_urls(text: str) -> int:
    return text.count("//") + text.count("mailto:")


def _adapt_tokens(state: StateCore) -> None:
    chars_left = _MIN_LINK_CHARS + _LINK_CHARS_PER_CHARACTER * len(state.src)
    _shift_headings(int(state.env["below"]), state.tokens)
    for token in state.tokens:
        if token.type in ("th_open", "td_open"):
            _align_by_class(token)
        elif token.type == "inline":
            _keep_deliberate_breaks(token)
            chars_left = _limit_links(token.children or [], chars_left)
            if not state.env["links"]:
                token.children = _links_to_text(token.children or [])


def _shift_headings(level: int, tokens: Sequence[Token]) -> None:
    """Put each heading one level below its parent, and the top ones below ``level``."""
    open_tags: list[str] = []  # the original tags of the heading and its parents
    for token in tokens:
        if token.type == "heading_open":
            open_tags = [tag for tag in open_tags if tag < token.tag] + [token.tag]
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(level + len(open_tags), 6)}"


def _limit_links(children: list[Token], chars: int) -> int:
    """Remove URLs and titles beyond a budget of characters, and those of images in links; return the rest."""
    depth = 0
    for child in children:
        depth += {"link_open": 1, "link_close": -1}.get(child.type, 0)
        chars -= sum(len(str(value)) for value in child.attrs.values())
        if chars < 0 or (child.type == "image" and depth):
            child.attrs.clear()
    return chars


def _links_to_text(children: Sequence[Token]) -> list[Token]:
    """Replace links and images by their text and their URL, once if the text is the URL."""
    found: list[Token] = []
    url = ""
    for child in children:
        if child.type == "link_open":
            url = "" if child.info == "auto" else str(child.attrs.get("href", ""))
        elif child.type == "link_close":
            found.append(_text_token(_url_in_parentheses(url)))
        elif child.type == "image":
            label = child.content or "image"
            found.append(_text_token(label + _url_in_parentheses(str(child.attrs.get("src", "")))))
        else:
            found.append(child)
    return found


def _url_in_parentheses(url: str) -> str:
    return f" ({url})" if url else ""


def _text_token(text: str) -> Token:
    return Token("text", "", 0, content=text)


def _align_by_class(token: Token) -> None:
    """Align by class: the content security policy allows no ``style`` attribute."""
    style: Any = token.attrs.pop("style", "")
    for side in ("center", "right"):
        if side in str(style):
            token.attrSet("class", f"md-{side}")


def _keep_deliberate_breaks(token: Token) -> None:
    """Keep the break after a line that had room for the next word, like "Fixes #1" and "key: value"."""
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


_PLAIN_PARSER = _bounded(MarkdownIt("commonmark", {"html": False})).enable("strikethrough").disable("linkify")
_MARKS = re.compile(r"[*_`~\[#>|\\&]|^[ \t]*(?:[-+=]|\d+[.)])|^(?: {4}|\t)", re.MULTILINE)
_TABLE_RULE = re.compile(r"^[ \t]*[|:-](?=[^|\n]*\|)[|: \t-]*$", re.MULTILINE)
# Titles are cut to a length, so the end of a mark or of a URL may be missing.
_CUT_LINK = re.compile(r"\[([^\[\]\n]*)\]\([^()\s]*(?=…\Z)")
_CUT_MARK = re.compile(r"(?<![\w*`])(?:\*\*|```(?=[^*`…]*…\Z)[\w+-]*|`)(?=[^\W_]| )([^*`…]*…)\Z")


@lru_cache(maxsize=1000)
def to_plain_text(text: str) -> str:
    """Return the text of each block on its own lines, without Markdown; links become their text."""
    if not _MARKS.search(text):
        return text
    try:
        tokens = _PLAIN_PARSER.parse(text, {"work": _work_limit(text, _PLAIN_WORK_PER_CHARACTER)})
    except _TooCostly:
        return text
    blocks, mark = [], ""
    for token in tokens:
        if token.type == "list_item_open":
            mark = f"{token.info}{token.markup} " if token.info else "- "
        elif token.type in ("fence", "code_block"):
            blocks.append(token.content.rstrip("\n"))
        elif token.type == "inline":
            blocks.append(mark + _inline_text(token.children or []))
            mark = ""
    plain = _TABLE_RULE.sub("", "\n".join(blocks))
    return _CUT_MARK.sub(r"\1", _CUT_LINK.sub(r"\1", plain))


def _inline_text(tokens: Sequence[Token]) -> str:
    literal = _literal_marks(tokens)
    pieces = []
    for index, token in enumerate(tokens):
        if token.type in ("softbreak", "hardbreak"):
            pieces.append("\n")
        elif token.type == "image":
            pieces.append(_inline_text(token.children or []))
        else:
            pieces.append(token.markup if index in literal else token.content)
    return "".join(pieces)


def _literal_marks(tokens: Sequence[Token]) -> set[int]:
    """Return the indexes of emphasis marks that are part of a name or formula: ``__init__``, ``2*3*4``."""
    literal: set[int] = set()
    opened: list[tuple[int, str, int]] = []  # index, the letter before it, and the spaces until there
    before, spaces = "", 0
    for index, token in enumerate(tokens):
        if token.type in ("em_open", "strong_open"):
            opened.append((index, before, spaces))
        elif token.type in ("em_close", "strong_close"):
            start, letter, earlier = opened.pop()
            after = tokens[index + 1].content[:1] if index + 1 < len(tokens) else ""
            is_name = token.markup == "__" and spaces == earlier
            if is_name or re.search(r"[\w/]", letter + after):
                literal |= {start, index}
        text = "\n" if token.type in ("softbreak", "hardbreak") else token.content
        before, spaces = text[-1:] or before, spaces + len(re.findall(r"\s", text))
    return literal
