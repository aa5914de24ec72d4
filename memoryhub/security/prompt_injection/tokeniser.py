"""Conversion of a normalised text to a line of symbols, one for each word or sign. No Django.

The symbol of a word says which parts it can have in an order.

Rules are regular expressions over that line (see ``patterns``). It is about six times shorter than the text,
gaps in rules are bounded, and no repetition is nested, so the time is linear in the length of the text.

A command that does harm is one symbol: it destroys something, or sends secrets to another host. A sending
command must contain a secret *as the data that it sends*, and an address outside, both in one line. A key
that only opens the connection, as in ``ssh -i``, does not count.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from memoryhub.security.prompt_injection.lexicon import (
    BREAK,
    COLON,
    COMMA,
    LEXICON,
    LINE,
    MIN_JOINED_LENGTH,
    OTHER,
    QUOTE,
    SIGNS,
    UNKNOWN,
    WALL,
    PhraseNode,
    lexicon_keys,
    look_up_word,
    split_joined_words,
)
from memoryhub.security.prompt_injection.normalisation import NormalisedText

# Destructive commands. A match of _DESTRUCTIVE contains a match of _MAYBE_DESTRUCTIVE, which is faster.
_MAYBE_DESTRUCTIVE = re.compile(r"[|&;]|rm -|/dev/|mkfs|777|drop |delete from|push -|nc -")
_DESTRUCTIVE = re.compile(
    r"\brm[ ]-(?:rf|fr|r)[ ](?:--no-preserve-root[ ])?(?:/(?:\*|[ ]|\Z|\W)|~|\$home|\*)"
    r"|(?:curl|wget)[ ][^\n|]{1,200}(?:\||&&)[ ]?(?:sudo[ ])?(?:ba|z)?sh\b"
    r"|dd[ ]if=/dev/|mkfs\.|chmod[ ](?:-r[ ])?777[ ]/|git[ ]push[ ](?:--force|-f)\b(?!-)|\bnc[ ]-e[ ]"
    r"|drop[ ](?:table|database)[ ]\w|delete[ ]from[ ]\w{1,40}(?:;|[ ]where[ ]1)"
)
_HOME = (
    r"(?:~|\$\{?home\}?|/home/[\w.-]{1,40}|/root|/users/[\w.-]{1,40}|%userprofile%"
    r"|[a-z]:\\users\\[\w. -]{1,40})"
)
# Files that are always secret. A settings file (.env) may be copied to one's own server.
_KEY_FILES = (
    rf"(?:(?:{_HOME}[/\\])?\.(?:ssh|aws|gnupg|kube|netrc|pgpass|git-credentials|docker[/\\]config|azure|npmrc"
    r"|pypirc|(?:bash|zsh)_history)(?![\w-])(?:[/\\][\w./\\*-]{0,80})?(?<!\.pub)(?![\w./\\*-])"
    r"|/etc/(?:passwd|shadow|sudoers)\b|/proc/self/environ|\bid_(?:rsa|dsa|ecdsa|ed25519)\b(?!\.pub))"
)
_ENV = r"(?<!\w)\.env(?!\w|\.(?:example|sample|template|dist))(?:\.\w{1,20})?"
_SECRET = rf"(?:{_KEY_FILES}|[\w./~$-]{{0,60}}{_ENV})"
_DUMP = r"(?:\benv|\bprintenv|\bset|\bexport[ ]-p)"
_NET = (
    r"\b(?:curl|wget|nc|ncat|netcat|socat|telnet|ssh|ftp|http|https|httpie|sendmail|mail|openssl)(?:\.exe)?\b"
)
_REST = r"(?:[^\n|;&]|\\\n|&(?!&))"
_PIPED = rf"(?:\|{_REST}{{0,80}}?){{0,3}}?\|[ ]?(?:sudo[ ])?{_NET}{_REST}{{0,300}}"
_VALUE_PREFIX = r"(?:[\w.-]{1,30}=)?[@<]?[\"']?"
_LEAKS = re.compile(
    rf"\b(?:cat|base64|tar|zip|gzip|xxd|head|tail|less|grep|find|cp|type|get-content)[ ]{_REST}{{0,120}}?"
    rf"{_SECRET}{_REST}{{0,60}}?{_PIPED}"
    rf"|{_DUMP}[ ]?(?=\|){_PIPED}"
    rf"|\b(?:curl|wget)(?:\.exe)?[ ]{_REST}{{0,300}}?(?:-[a-z]{{0,4}}[dft]|--data(?:-\w{{1,10}})?|--form"
    rf"|--upload-file|--post-file|--body-file)[ =]?[\"']?{_VALUE_PREFIX}{_SECRET}{_REST}{{0,300}}"
    rf"|\b(?:iwr|irm|invoke-(?:webrequest|restmethod))[ ]{_REST}{{0,300}}?-(?:infile|body)[ ]{_REST}{{0,40}}?"
    rf"{_SECRET}{_REST}{{0,300}}"
    rf"|{_NET}[ ]{_REST}{{0,300}}?(?:\$\(|`|<\(?)[ ]?(?:cat[ ]|base64[ ](?:-w[ ]?0[ ])?|<[ ]?)?"
    rf"(?:{_SECRET}|{_DUMP}[ ]?[|)`])(?:[^\n;]|\\\n){{0,300}}"
    rf"|\b(?:scp|rsync|sftp|rclone|aws[ ]s3|gsutil|s3cmd)[ ]{_REST}{{0,120}}?(?<!-i[ ])(?<![\w/~.\\:])"
    rf"{_KEY_FILES}[ ]{_REST}{{0,200}}"
)
# Words of which a match of _LEAKS contains one: searching for them is faster.
_SENDER_WORDS = (
    *("curl", "wget", "nc ", "ncat", "netcat", "socat", "telnet", "ssh ", "scp ", "rsync", "sftp", "ftp "),
    *("invoke-", "iwr ", "irm ", "aws s3", "gsutil", "rclone", "s3cmd", "sendmail", "mail -", "openssl"),
)
_SECRET_WORDS = (
    *(".ssh", ".aws", ".gnupg", ".kube", ".netrc", ".pgpass", ".git-cred", ".docker", ".azure", ".npmrc"),
    *(".pypirc", "_history", "/etc/", "/proc/", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".env"),
    *("printenv", "env |", "env|", "$(env", "`env", "set |", "export -p"),
)
_LOCAL_HOST = (
    r"(?:localhost|127\.|0\.0\.0\.0|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|\[::1\]|host\.docker"
    r"|[\w.-]{1,60}\.(?:local|internal|lan)\b)"
)
_FILE = r"(?:json|txt|ya?ml|toml|tar|t?gz|zip|py|js|ts|sh|md|csv|sql|log|env|pub|pem|key|conf|cfg|html|xml)"
_OUTSIDE = re.compile(
    rf"(?:https?|ftp|s3|gs|sftp|rsync)://(?!{_LOCAL_HOST})[\w\[$]"
    rf"|(?:[ @\"'])(?!{_LOCAL_HOST})(?:[a-z0-9][a-z0-9-]{{0,60}}\.){{1,5}}(?!{_FILE}\b)[a-z]{{2,20}}"
    r"(?=[ :/\"'\n?`]|\Z)"
    rf"|[ @/](?!{_LOCAL_HOST})\d{{1,3}}(?:\.\d{{1,3}}){{3}}\b"
)


def find_destructive_commands(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of destructive commands in a normalised text."""
    if _MAYBE_DESTRUCTIVE.search(text):
        yield from (match.span() for match in _DESTRUCTIVE.finditer(text))


def find_leaking_commands(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of commands in a normalised text that send a secret to another host."""
    if any(word in text for word in _SENDER_WORDS) and any(word in text for word in _SECRET_WORDS):
        yield from (match.span() for match in _LEAKS.finditer(text) if _OUTSIDE.search(match.group()))


_SIGN_SYMBOLS = {"comma": COMMA, "colon": COLON, "quote": QUOTE}
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_MARKS = "\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963"
_WORD = rf"(?!h(?:tt|xx)ps?://|www\.)(?:[^\W{_CJK}]+|[{_MARKS}@$])+(?:'(?:t|re|ll|ve|s|m|d)\b)?"
_LEAD = r"[ \t>#*/|!\-]"  # marks of quotes, comments, lists and tables at line starts
_FIRST_LEAD = re.compile(f"{_LEAD}*")
_SYSTEM_ROLES = (
    r"system|developer|admin|administrator|root|operator"
    r"|(?:system|developer|admin)[ _-](?:message|prompt|notice|override)"
)
_OTHER_ROLES = r"user|human|assistant|ai|model|bot|chatbot|tool|function|instruction|response|input"
_PROSE = r"(?=[ \t]{0,4}\S{1,40}[ \t]+\S)"  # at least two words: after a single value the role is a setting
_DOMAINS = r"com|net|org|io|dev|xyz|ru|cn|top|info|biz|site|online|test|example|app"
# Text after the end of the memory block or of a tool result may start another role: it starts a line.
_CLOSING = re.compile(
    r"(</[ ]{0,3}(?:memory(?:[-_ ]?context)?|(?:tool|function|untrusted)[-_]\w{1,20})[ ]{0,3})>"
)
# A character of an address. An address does not end with the full stop of its sentence, and a sign before
# words is not part of it.
_NO_TEXT = r"(?!(?:[^\W\d_]|'){1,30}\s[^\W\d_])"
_ADDRESS = rf"""(?:[^\s<>"')\],;!|(\#=:。！？،؛।؟{_CJK}]|[,;!|(\#=:]{_NO_TEXT})"""
_NO_STOP = r"(?<![.,;:!?])"
_FILE_ENDING = r"py|md|txt|toml|json|ya?ml|html|js|ts|css|rst|cfg|ini|sh|rs|go|java|internal"
# A line that a tool adds to a commit message: "Claude-Session:" addresses no one if only an address or an id
# follows it. If the lines are joined to one paragraph, as in an abstract, such lines are at its end.
_MAYBE_TRAILER = re.compile(r"-(?:session|run|task|conversation|id|url):")
_TRAILER = re.compile(
    r"(?<![\w-])((?:[a-z]{2,20}-){1,3}(?:session|run|task|conversation|id|url):)"
    r"(?=[ ]?(?:https?://[^\s?]{1,200}|(?=[\w.-]*\d)[\w.-]{6,80}|[\w:/.-]{0,80}(?:…|\.\.\.))"
    r"\s*(?:\n|\Z|(?:[a-z]{2,20}-){1,3}[a-z]{2,20}:))"
)
# Words first: most of a text is words. The text gets a line end before it, so that every line starts with
# one.
_TOKEN = re.compile(
    rf"""[ ]?(?P<words>{_WORD}(?:[ ]{_WORD})*)|(?P<mark>\[instruction\ removed\])
    |(?P<rolesys>\n{_LEAD}{{0,8}}[\[(<*_"]{{0,3}}(?:{_SYSTEM_ROLES})[\])>*_"]{{0,3}}[ \t]{{0,3}}:(?!:){_PROSE}
        |\n\#{{1,6}}[ ](?:instruction|response|system|human|assistant|user)[ ]?:{_PROSE}
        |\n\#{{1,6}}[ ](?:system(?:[ ](?:prompt|message))?|(?:new[ ])?instructions?)[ ]?:?[ ]?(?=\n)
        |"role"\s{{0,3}}:\s{{0,3}}"(?:system|developer)"
        |<(?:system|system[-_ ](?:prompt|message|reminder))>|\[(?:system|system[ ]message|admin)\]|<<sys>>
        |<\|(?:im_start\|>|start_header_id\|>)?[ ]?(?:system|developer)(?:\|>)?)
    |(?P<roleuser>\n{_LEAD}{{0,8}}[\[(<*_"]{{0,3}}(?:{_OTHER_ROLES})[\])>*_"]{{0,3}}[ \t]{{0,3}}:(?!:){_PROSE}
        |<(?:user|assistant|human)>|\[/?inst\]|<start_of_turn>(?:user|model)
        |<\|(?:im_start\|>|start_header_id\|>)?[ ]?(?:user|assistant|human|model)(?:\|>)?)
    |(?P<tag></?(?:important|information|instructions?|attention|admin|context|document|data|result)>)
    |(?P<blank>\n[ \t>#*/|]*(?=\n)|[。！？।؟]+|(?!\.\.)[.!?;]+(?=["'”»)\]*_]*(?:\s|\Z)))
    |(?P<item>\n[ \t>]*(?:[-*+•]|\d{{1,3}}[.)])[ \t]+)
    |(?P<line>\n{_LEAD}*)
    |(?P<sample>\.env\.[a-z]+)
    |(?P<secretpath>(?:~|/home/\w+|/root)/\.(?:ssh|aws|netrc|config|gnupg|cursor|kube)[\w./-]*{_NO_STOP}
        |(?<!\w)\.(?:env(?!\.(?:example|sample|template|dist))|netrc|pgpass)\b|/etc/(?:passwd|shadow))
    |(?P<path>https?://(?:localhost|127\.|0\.0\.0\.0){_ADDRESS}*{_NO_STOP})
    |(?P<url>h(?:tt|xx)ps?://{_ADDRESS}+{_NO_STOP}|(?<!\w)www\.{_ADDRESS}+{_NO_STOP}|\.(?:{_DOMAINS})\b)
    |(?P<file>(?<![\w)])(?:~|\.{{1,2}})?/(?:[\w.~-]+/)*[\w.~-]+|\.(?:{_FILE_ENDING})\b)
    |(?P<cjk>[{_CJK}]+)
    |(?P<cell>[ \t]\|[ \t]|<!--|-->)
    |(?P<comma>[,،、(\[]|[ ]-[ ]|\.{{2,}})
    |(?P<colon>[:=]|->|=>)
    |(?P<quote>["“”„«»「」『』`]|(?<!\w)'|'(?!\w))""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class SymbolLine:
    """The symbols of a text, with the start and the end of each symbol in the normalised text."""

    symbols: str
    starts: list[int]
    ends: list[int]


def tokenise(plain: NormalisedText, original: str) -> SymbolLine:
    """Return the symbols of a normalised text. ``original`` is the text before normalisation."""
    return _Tokeniser(plain, original).tokenise()


class _Tokeniser:
    def __init__(self, plain: NormalisedText, original: str) -> None:
        self.plain, self.original = plain, original
        self.text = _CLOSING.sub("\\1\n", plain.text) if "</" in plain.text else plain.text
        self.symbols: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.words: list[tuple[str, int]] = []  # not yet looked up, each with its start
        prefix = _FIRST_LEAD.match(self.text)
        self.line_prefix = prefix.group().strip() if prefix else ""

    def tokenise(self) -> SymbolLine:
        words = self.words
        for match in _TOKEN.finditer(f"\n{self.text}"):
            kind = match.lastgroup
            if kind == "words":
                run = match["words"]
                start = match.end() - len(run) - 1
                for word in run.split(" "):
                    if len(word) < MIN_JOINED_LENGTH and "@" not in word:
                        words.append((word, start))
                    else:
                        self._add_unusual_word(word, start)
                    start += len(word) + 1
            elif kind == "line":
                self._add_line_end(match)
            elif kind != "mark":
                if words:
                    self._look_up_words()
                self._add_sign(kind or "", match)
        self._look_up_words()
        self._unite_commands()
        if _MAYBE_TRAILER.search(self.text):
            self._unite_trailers()
        return SymbolLine("".join(self.symbols), self.starts, self.ends)

    def _unite_commands(self) -> None:
        commands = (("danger", find_destructive_commands), ("leak", find_leaking_commands))
        for sign, find_commands in commands:
            for start, end in reversed(list(find_commands(self.text))):
                self._unite(SIGNS[sign], start, end)

    def _unite_trailers(self) -> None:
        """Replace the name of a commit trailer by one symbol without a meaning."""
        for trailer in reversed(list(_TRAILER.finditer(self.text))):
            self._unite(OTHER, *trailer.span(1))

    def _unite(self, symbol: str, start: int, end: int) -> None:
        """Replace all symbols between two places by one."""
        first, last = bisect_left(self.starts, start), bisect_left(self.starts, end)
        if first < last:
            self.symbols[first:last] = [symbol]
            self.ends[first:last] = [max(end, self.ends[last - 1])]
            self.starts[first:last] = [self.starts[first]]

    def _add(self, symbol: str, start: int, end: int) -> None:
        self.symbols.append(symbol)
        self.starts.append(start)
        self.ends.append(end)

    def _add_sign(self, kind: str, match: re.Match[str]) -> None:
        start, end = match.start() - 1, match.end() - 1
        if kind in _SIGN_SYMBOLS:
            self._add(_SIGN_SYMBOLS[kind], start, end)
        elif kind == "cjk":
            self._add_unspaced(match.group(), start)
        elif kind in ("blank", "item", "cell"):
            for symbol in BREAK if kind == "blank" else (BREAK, WALL, BREAK):
                self._add(symbol, max(start, 0), end)
            self.line_prefix = ""
        elif kind in ("rolesys", "roleuser"):
            if match.group()[0] == "\n":
                if start >= 0:
                    self._add(BREAK, start, start + 1)
                start += 1
            self._add(SIGNS[kind], start, end)
        else:
            self._add(SIGNS.get(kind, OTHER), start, end)

    def _add_line_end(self, match: re.Match[str]) -> None:
        """Treat a line end inside a sentence as a blank. Elsewhere a sentence may end there."""
        start, end = match.start() - 1, match.end() - 1
        if start < 0:
            return
        prefix = match.group().strip()
        before = self.text[start - 1 : start]
        place = self.plain.span(end, end + 1)[0] if end < len(self.text) else len(self.original)
        after = self.original[place : place + 1]
        continues = after.isalpha() and not after.isupper() and before not in ".:!?{}()=,;>"
        if prefix == self.line_prefix and continues:
            return
        self.line_prefix = prefix
        self._look_up_words()
        self._add(LINE, start, end)

    def _add_unusual_word(self, word: str, start: int) -> None:
        """Add a mail address, a long word, or the words of a joined word."""
        end = start + len(word)
        known = look_up_word(word) != UNKNOWN
        if "@" in word.strip("@") and not known:
            self._look_up_words()
            self._add(SIGNS["mail"], start, end)
            return
        parts = () if known or self.text[end : end + 1] == "(" else split_joined_words(word)
        for part in parts or (word,):
            self.words.append((part, start))
            start += len(part)

    def _look_up_words(self) -> None:
        """Add the symbols of the collected words. At each place the longest phrase of the lexicon counts."""
        words, symbols, starts, ends = self.words, self.symbols, self.starts, self.ends
        place, count = 0, len(words)
        while place < count:
            word, start = words[place]
            symbol, following, nodes = look_up_word(word)
            place += 1
            if nodes and place < count and not following.isdisjoint(lexicon_keys(words[place][0])):
                symbol, place = self._longest_phrase(symbol, nodes, place)
                word, last = words[place - 1]
                ends.append(last + len(word))
            else:
                ends.append(start + len(word))
            symbols.append(symbol)
            starts.append(start)
        words.clear()

    def _longest_phrase(self, symbol: str, nodes: tuple[PhraseNode, ...], place: int) -> tuple[str, int]:
        """Return the symbol of the longest phrase that continues from ``nodes``, and the place after it."""
        found = (symbol, place)
        while nodes and place < len(self.words):
            keys = lexicon_keys(self.words[place][0])
            nodes = tuple(node.following[key] for node in nodes for key in keys if key in node.following)
            place += 1
            for node in nodes:
                if node.symbol:
                    found = (node.symbol, place)
                    break
        return found

    def _add_unspaced(self, text: str, start: int) -> None:
        """Add Chinese or Japanese: the entries of the lexicon, and a filler for two other characters."""
        position = 0
        for known in LEXICON.unspaced.finditer(text):
            self._add_fillers(start + position, start + known.start())
            position = known.end()
            self._add(LEXICON.unspaced_symbols[known.group()], start + known.start(), start + position)
        self._add_fillers(start + position, start + len(text))

    def _add_fillers(self, start: int, end: int) -> None:
        for place in range(start, end, 2):
            self._add(OTHER, place, min(place + 2, end))
