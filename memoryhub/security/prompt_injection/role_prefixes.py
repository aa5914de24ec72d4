"""Role prefixes: "assistant: Certainly!" reads like a turn of a conversation. No Django.

An agent must not take a line of a memory for a turn of its own conversation. ``strip_role_prefixes`` removes
"assistant:" and the like from line starts. In "user: postgres" the word is content, so only the colon
changes.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from memoryhub.security.prompt_injection.normalisation import FOREIGN, fold_character, normalise

_BEGINNING = 12  # symbols of a turn that decide whether it is speech
_BEGINNING_CHARS = 300
_MIN_JUDGED, _CHARS_PER_JUDGED = 20, 100  # lines of a text that are tested for speech

_SPEAKERS = frozenset({"assistant", "human"})  # never the name of a setting
_TITLED = ("system", "user", "ai", "model", "assistant", "human")
_NOUNS = ("message", "prompt", "response", "reply", "output", "turn", "input", "answer")
_ROLES = sorted(
    {"system", "user", "developer", "ai", "model", "bot", "chatbot", "admin", "operator", "tool", "function"}
    | {f"{role}-{noun}" for role in ("system", "developer") for noun in ("message", "prompt")}
    | {f"{role} {noun}" for role in _TITLED for noun in _NOUNS}
    | _SPEAKERS,
    key=len,
    reverse=True,
)
_INVISIBLE = "\u200b"  # replaces every invisible character in a folded text
_BLANK = f"[ {_INVISIBLE}]"
_LINE_ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
_COLONS = "：﹕︓\u02d0\u0589\u05c3\u2236\ua789"  # full-width ones, and letters and signs that look like one
_ROLE = "|".join(f"{_INVISIBLE}*+".join(role) for role in _ROLES).replace("-", "[ _-]")
# "assistant (final)"
_NOTE = rf"{_BLANK}{{0,3}}\([^():：\n]{{1,20}}\)"

# The markup of turns in templates of Llama and Mistral, which is not part of a name such as "[install]".
_BRACKETED = r"\[/?(?:inst|system_prompt|available_tools|tool_(?:calls|results|content))\]"
_TURN_MARKUP = rf"(?:{_BRACKETED}|<</?sys>>|</?(?:inst|sys)>)"
_HTML_TAG = rf"</?(?!(?:{_ROLE})[ />])[a-z][a-z0-9]{{0,9}} ?/?>"
# Anything but letters may come before a role at the start of a line, and also "a)", "iv.", "[x]" and HTML
# tags. A quotation mark after the role makes it a key of JSON. "system::load", "tool:post" and "system://"
# are names.
# "(?>(?:…)*)" instead of "(?:…)*+", which never matches in Python 3.11.2.
_PREFIX = re.compile(
    rf"(?P<lead>(?>(?:\[instruction removed\]|{_TURN_MARKUP}|{_HTML_TAG}|[\W\d_]"
    r"|[^\W\d_](?=[.)\]])|[ivx]{1,4}(?=[.)]))*))"
    rf"(?P<role>{_ROLE}|(?<=### )(?:instruction|response|input))(?:{_NOTE})?"
    rf"(?>(?:{_HTML_TAG}|[*_~\])}}> {_INVISIBLE}])*)"
    rf"(?P<colon>[:：](?!//|:++\w|(?<=tool:)\w|(?<=function:)\w)[:：]*+)[*_~\])}}>]*+{_BLANK}*+"
)
_LINE = re.compile(r"[^\n]+")
# "List<User>" is code.
_ROLE_TAG = re.compile(
    rf"(?:(?<!\w)|(?=<[ /]*+system))<{_BLANK}{{0,3}}/?{_BLANK}{{0,3}}(?:{_ROLE})(?=[ />])[^<>\n]{{0,80}}>?"
    rf"|<[a-z][\w:-]{{0,20}} [^<>\n]{{0,80}}?\b(?:role|from|speaker|author)[ ]?=[ ]?"
    rf"[\"']?(?:{_ROLE})(?=[\"' />])[^<>\n]{{0,80}}>?"
)
_CHAT_TOKEN = re.compile(
    rf"(?:<(?:\|[a-z]{{2}}[^|<>:：\n]{{0,38}}+\||/?(?:start|end)_of_turn)>|<</?sys>>|{_BRACKETED})"
    rf"(?P<roles>(?>(?:{_BLANK}*+(?:{_ROLE})\b)*))"
)


def strip_role_prefixes(text: str) -> str:
    """Return the text without role prefixes at line starts, role tags, and roles after chat tokens.

    The whole prefix goes before speech ("system: you are"), before another prefix, and if only a speaker can
    be meant ("assistant:"). Elsewhere "=" replaces its colon. Stripping a stripped text changes nothing. The
    time is linear in the length of the text.
    """
    folded = _fold(text)
    if ":" in folded or "：" in folded:
        text, folded = _refold(_strip_lines(text, folded), text, folded)
    if "<" in folded or "[" in folded:
        text, folded = _refold(_without_chat_tokens(text, folded), text, folded)
        text = _without_role_tags(text, folded)
    return text


def _refold(new: str, text: str, folded: str) -> tuple[str, str]:
    """Return a new text and its folded form, which is known if the text did not change."""
    return (new, folded if new == text else _fold(new))


def _strip_lines(text: str, folded: str) -> str:
    pieces, position = [], 0
    judged = max(_MIN_JUDGED, len(text) // _CHARS_PER_JUDGED)
    for line in _LINE.finditer(folded):
        if first := _PREFIX.match(line.group()):
            start, end = line.span()
            pieces += [text[position:start], _strip_line(text[start:end], first, judge=judged > 0)]
            position, judged = end, judged - 1
    return "".join([*pieces, text[position:]])


def _strip_line(line: str, first: re.Match[str], judge: bool) -> str:
    """Return a line without its prefix. ``judge``: remove it before speech, too, instead of its colon."""
    last = first
    while following := _PREFIX.match(first.string, last.end()):
        last = following
    role = first["role"].replace(_INVISIBLE, "")
    rest = line[last.end() :]
    if first is not last or role.split(" ")[0] in _SPEAKERS or (judge and _is_speech(rest)):
        return line[: len(_without_opening_marks(first["lead"]))] + rest
    start, end = first.span("colon")
    if not rest:
        return line[:start] + line[end:]
    joined = line[end].isalnum()
    return f"{line[:start].rstrip()} ={' ' if joined else ''}{line[end:]}"


def _without_opening_marks(lead: str) -> str:
    """Return the text before a prefix without emphasis, brackets and quotation marks; list marks stay."""
    lead = lead.rstrip("*_~[({<")
    bare = lead.rstrip(f" {_INVISIBLE}")
    if re.search(f"(?:{_TURN_MARKUP}|{_HTML_TAG})$", bare):
        return lead
    return bare.rstrip(f"> {_INVISIBLE}") if bare.endswith(">") else lead


def _is_speech(text: str) -> bool:
    """Whether the text addresses someone, asks a question or gives an order."""
    from memoryhub.security.prompt_injection.tokeniser import tokenise  # loads the lexicon

    text = text[:_BEGINNING_CHARS]
    beginning = tokenise(normalise(text), text).symbols[:_BEGINNING].partition("\n")[0]
    speech = _symbols("you", "your", "me", "soft", "what")
    order = _symbols("answer", "show", "run", "ignore", "donot")
    return not speech.isdisjoint(beginning) or beginning[:1] in order


@cache
def _symbols(*parts: str) -> frozenset[str]:
    """Return the symbols that a reading has for words of these parts."""
    from memoryhub.security.prompt_injection.lexicon import LEXICON

    return frozenset().union(*(LEXICON.members[part] for part in parts))


def _without_chat_tokens(text: str, folded: str) -> str:
    """Give chat tokens other brackets and remove the roles after them."""
    characters = list(text)
    for match in _CHAT_TOKEN.finditer(folded):
        start, end = match.span("roles")
        doubled = match.group().startswith("<<")
        characters[match.start() : match.start() + 1 + doubled] = ["‹", *[""] * doubled]
        characters[start - 1 - doubled : start] = [*[""] * doubled, "›"]
        characters[start:end] = [""] * (end - start)
    return "".join(characters)


def _without_role_tags(text: str, folded: str) -> str:
    """Give role tags other brackets."""
    characters = list(text)
    for match in _ROLE_TAG.finditer(folded):
        characters[match.start()] = "‹"
        if folded[match.end() - 1] == ">":
            characters[match.end() - 1] = "›"
    return "".join(characters)


def _fold(text: str) -> str:
    """Return a text of the same length in plain lower-case letters, in which all line ends are alike."""
    return text.translate(_FOLDED)


class _Folding(dict[int, int | str]):
    """A table for ``str.translate``, filled on demand with characters that Unicode assigns."""

    def __missing__(self, code: int) -> int | str:
        character = chr(code)
        if unicodedata.category(character) in ("Cn", "Co", "Cs"):
            return _INVISIBLE
        folded = _folded(character)
        self[code] = code if folded == character else folded  # a number needs less memory
        return self[code]


_FOLDED = _Folding()


def _folded(character: str) -> str:
    """Return one character for any character."""
    if character in _LINE_ENDS:
        return "\n"
    if character.isspace():
        return " "
    if character in _COLONS:
        return "："
    if character in "‹›":
        return "<" if character == "‹" else ">"
    category = unicodedata.category(character)
    if not character.isascii() and category in ("Ps", "Pe"):
        return "(" if category == "Ps" else ")"
    plain = character.lower() if character.isascii() else fold_character(character)
    if not plain or category == "Cc":
        return _INVISIBLE
    return FOREIGN.get(plain, plain) if len(plain) == 1 else "\ufffd"
