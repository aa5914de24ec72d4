"""Commands that by themselves do harm: they destroy, or carry secrets to another host. Pure.

What is looked for in a command that sends: something secret *as what is sent* (a key that only opens the
connection, as in ``ssh -i``, is none), and an address outside. Both in one line.

A normalised text as a line of symbols, one for what each word or sign may play in an order. Pure.

Rules are regular expressions over that line (``rules.py``). It is about six times shorter than its text,
gaps in rules are bounded, and nothing nests, so that reading and judging take time linear in the length of
the text.
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

# Commands that nobody runs by mistake and survives.
_MAYBE_DANGER = re.compile(r"[|&;]|rm -|/dev/|mkfs|777|drop |delete from|push -|nc -")
_DANGER = re.compile(
    r"\brm[ ]-(?:rf|fr|r)[ ](?:--no-preserve-root[ ])?(?:/(?:\*|[ ]|\Z|\W)|~|\$home|\*)"
    r"|(?:curl|wget)[ ][^\n|]{1,200}(?:\||&&)[ ]?(?:sudo[ ])?(?:ba|z)?sh\b"
    r"|dd[ ]if=/dev/|mkfs\.|chmod[ ](?:-r[ ])?777[ ]/|git[ ]push[ ](?:--force|-f)\b(?!-)|\bnc[ ]-e[ ]"
    r"|drop[ ](?:table|database)[ ]\w|delete[ ]from[ ]\w{1,40}(?:;|[ ]where[ ]1)"
)
_HOME = (
    r"(?:~|\$\{?home\}?|/home/[\w.-]{1,40}|/root|/users/[\w.-]{1,40}|%userprofile%"
    r"|[a-z]:\\users\\[\w. -]{1,40})"
)
# Whose sight alone gives somebody away; a settings file (.env) may be copied to one's own server.
_KEYS = (
    rf"(?:(?:{_HOME}[/\\])?\.(?:ssh|aws|gnupg|kube|netrc|pgpass|git-credentials|docker[/\\]config|azure|npmrc"
    r"|pypirc|(?:bash|zsh)_history)(?![\w-])(?:[/\\][\w./\\*-]{0,80})?(?<!\.pub)(?![\w./\\*-])"
    r"|/etc/(?:passwd|shadow|sudoers)\b|/proc/self/environ|\bid_(?:rsa|dsa|ecdsa|ed25519)\b(?!\.pub))"
)
_ENV = r"(?<!\w)\.env(?!\w|\.(?:example|sample|template|dist))(?:\.\w{1,20})?"
_SECRET = rf"(?:{_KEYS}|[\w./~$-]{{0,60}}{_ENV})"
_DUMP = r"(?:\benv|\bprintenv|\bset|\bexport[ ]-p)"
_NET = (
    r"\b(?:curl|wget|nc|ncat|netcat|socat|telnet|ssh|ftp|http|https|httpie|sendmail|mail|openssl)(?:\.exe)?\b"
)
_REST = r"(?:[^\n|;&]|\\\n|&(?!&))"
_PIPED = rf"(?:\|{_REST}{{0,80}}?){{0,3}}?\|[ ]?(?:sudo[ ])?{_NET}{_REST}{{0,300}}"
_GIVEN = r"(?:[\w.-]{1,30}=)?[@<]?[\"']?"
_LEAKS = re.compile(
    rf"\b(?:cat|base64|tar|zip|gzip|xxd|head|tail|less|grep|find|cp|type|get-content)[ ]{_REST}{{0,120}}?"
    rf"{_SECRET}{_REST}{{0,60}}?{_PIPED}"
    rf"|{_DUMP}[ ]?(?=\|){_PIPED}"
    rf"|\b(?:curl|wget)(?:\.exe)?[ ]{_REST}{{0,300}}?(?:-[a-z]{{0,4}}[dft]|--data(?:-\w{{1,10}})?|--form"
    rf"|--upload-file|--post-file|--body-file)[ =]?[\"']?{_GIVEN}{_SECRET}{_REST}{{0,300}}"
    rf"|\b(?:iwr|irm|invoke-(?:webrequest|restmethod))[ ]{_REST}{{0,300}}?-(?:infile|body)[ ]{_REST}{{0,40}}?"
    rf"{_SECRET}{_REST}{{0,300}}"
    rf"|{_NET}[ ]{_REST}{{0,300}}?(?:\$\(|`|<\(?)[ ]?(?:cat[ ]|base64[ ](?:-w[ ]?0[ ])?|<[ ]?)?"
    rf"(?:{_SECRET}|{_DUMP}[ ]?[|)`])(?:[^\n;]|\\\n){{0,300}}"
    rf"|\b(?:scp|rsync|sftp|rclone|aws[ ]s3|gsutil|s3cmd)[ ]{_REST}{{0,120}}?(?<!-i[ ])(?<![\w/~.\\:]){_KEYS}"
    rf"[ ]{_REST}{{0,200}}"
)
# A cheap look before the search.
_SENDERS = (
    *("curl", "wget", "nc ", "ncat", "netcat", "socat", "telnet", "ssh ", "scp ", "rsync", "sftp", "ftp "),
    *("invoke-", "iwr ", "irm ", "aws s3", "gsutil", "rclone", "s3cmd", "sendmail", "mail -", "openssl"),
)
_SECRETS = (
    *(".ssh", ".aws", ".gnupg", ".kube", ".netrc", ".pgpass", ".git-cred", ".docker", ".azure", ".npmrc"),
    *(".pypirc", "_history", "/etc/", "/proc/", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".env"),
    *("printenv", "env |", "env|", "$(env", "`env", "set |", "export -p"),
)
_NEAR = (
    r"(?:localhost|127\.|0\.0\.0\.0|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|\[::1\]|host\.docker"
    r"|[\w.-]{1,60}\.(?:local|internal|lan)\b)"
)
_FILE = r"(?:json|txt|ya?ml|toml|tar|t?gz|zip|py|js|ts|sh|md|csv|sql|log|env|pub|pem|key|conf|cfg|html|xml)"
_OUTSIDE = re.compile(
    rf"(?:https?|ftp|s3|gs|sftp|rsync)://(?!{_NEAR})[\w\[$]"
    rf"|(?:[ @\"'])(?!{_NEAR})(?:[a-z0-9][a-z0-9-]{{0,60}}\.){{1,5}}(?!{_FILE}\b)[a-z]{{2,20}}"
    r"(?=[ :/\"'\n?`]|\Z)"
    rf"|[ @/](?!{_NEAR})\d{{1,3}}(?:\.\d{{1,3}}){{3}}\b"
)


def find_destructive_commands(text: str) -> Iterator[tuple[int, int]]:
    """Where commands that destroy stand in a normalised text."""
    if _MAYBE_DANGER.search(text):
        yield from (match.span() for match in _DANGER.finditer(text))


def find_leaking_commands(text: str) -> Iterator[tuple[int, int]]:
    """Where commands stand that send something secret to another host."""
    for word in _SENDERS:
        if word in text:
            break
    else:
        return
    if any(word in text for word in _SECRETS):
        for match in _LEAKS.finditer(text):
            if _OUTSIDE.search(match.group()):
                yield match.span()


_SIMPLE = {"comma": COMMA, "colon": COLON, "quote": QUOTE}
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_MARKS = "\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963"
_WORD = rf"(?!h(?:tt|xx)ps?://|www\.)(?:[^\W{_CJK}]+|[{_MARKS}@$])+(?:'(?:t|re|ll|ve|s|m|d)\b)?"
_LEAD = r"[ \t>#*/|!\-]"  # what quotes, comments, lists and tables put before a line
_LEADING = re.compile(f"{_LEAD}*")
_SYSTEM_ROLES = (
    r"system|developer|admin|administrator|root|operator"
    r"|(?:system|developer|admin)[ _-](?:message|prompt|notice|override)"
)
_OTHER_ROLES = r"user|human|assistant|ai|model|bot|chatbot|tool|function|instruction|response|input"
_PROSE = r"(?=[ \t]{0,4}\S{1,40}[ \t]+\S)"  # two words at least: a value alone is no turn
_DOMAINS = r"com|net|org|io|dev|xyz|ru|cn|top|info|biz|site|online|test|example|app"
# Who closes the block, or what a tool said, goes on as somebody else: a line begins there.
_CLOSING = re.compile(
    r"(</[ ]{0,3}(?:memory(?:[-_ ]?context)?|(?:tool|function|untrusted)[-_]\w{1,20})[ ]{0,3})>"
)
# What may stand in an address: it does not end with the full stop of the sentence around it, and a sign that
# words follow is no longer part of it.
_NO_TEXT = r"(?!(?:[^\W\d_]|'){1,30}\s[^\W\d_])"
_ADDRESS = rf"""(?:[^\s<>"')\],;!|(\#=:。！？،؛।؟{_CJK}]|[,;!|(\#=:]{_NO_TEXT})"""
_NO_STOP = r"(?<![.,;:!?])"
_FILE_ENDING = r"py|md|txt|toml|json|ya?ml|html|js|ts|css|rst|cfg|ini|sh|rs|go|java|internal"
# A line that a tool adds to a commit message: "Claude-Session:" calls nobody where nothing but an address or
# an id follows it. Joined to one paragraph, as in an abstract, such lines stand at its end.
_MAYBE_TRAILER = re.compile(r"-(?:session|run|task|conversation|id|url):")
_TRAILER = re.compile(
    r"(?<![\w-])((?:[a-z]{2,20}-){1,3}(?:session|run|task|conversation|id|url):)"
    r"(?=[ ]?(?:https?://[^\s?]{1,200}|(?=[\w.-]*\d)[\w.-]{6,80}|[\w:/.-]{0,80}(?:…|\.\.\.))"
    r"\s*(?:\n|\Z|(?:[a-z]{2,20}-){1,3}[a-z]{2,20}:))"
)
# Words first: most of a text is words. It is read with a line end before it, so that every line has one.
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
    """The line of symbols of a text, with each symbol's start and end in the normalised text."""

    symbols: str
    starts: list[int]
    ends: list[int]


def tokenise(plain: NormalisedText, original: str) -> SymbolLine:
    """The reading of a normalised text; ``original`` is what it was made from."""
    return _Tokeniser(plain, original).read()


class _Tokeniser:
    def __init__(self, plain: NormalisedText, original: str) -> None:
        self.plain, self.original = plain, original
        self.text = _CLOSING.sub("\\1\n", plain.text) if "</" in plain.text else plain.text
        self.symbols: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.words: list[tuple[str, int]] = []
        lead = _LEADING.match(self.text)
        self.mark = lead.group().strip() if lead else ""

    def read(self) -> SymbolLine:
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
                        self._odd_word(word, start)
                    start += len(word) + 1
            elif kind == "line":
                self._line(match)
            elif kind != "mark":
                if words:
                    self._flush()
                self._sign(kind or "", match)
        self._flush()
        self._mark_commands()
        if _MAYBE_TRAILER.search(self.text):
            self._mark_trailers()
        return SymbolLine("".join(self.symbols), self.starts, self.ends)

    def _mark_commands(self) -> None:
        """A harmful command is one sign, whatever it is made of."""
        for sign, spans in (
            ("danger", find_destructive_commands(self.text)),
            ("leak", find_leaking_commands(self.text)),
        ):
            for start, end in reversed(list(spans)):
                self._unite(SIGNS[sign], start, end)

    def _mark_trailers(self) -> None:
        """The name of a commit's trailer is one word, whoever is named in it."""
        for trailer in reversed(list(_TRAILER.finditer(self.text))):
            self._unite(OTHER, *trailer.span(1))

    def _unite(self, symbol: str, start: int, end: int) -> None:
        """All that is read between two places becomes one symbol."""
        first, last = bisect_left(self.starts, start), bisect_left(self.starts, end)
        if first < last:
            self.symbols[first:last] = [symbol]
            self.ends[first:last] = [max(end, self.ends[last - 1])]
            self.starts[first:last] = [self.starts[first]]

    def _emit(self, symbol: str, start: int, end: int) -> None:
        self.symbols.append(symbol)
        self.starts.append(start)
        self.ends.append(end)

    def _sign(self, kind: str, match: re.Match[str]) -> None:
        start, end = match.start() - 1, match.end() - 1
        if kind in _SIMPLE:
            self.symbols.append(_SIMPLE[kind])
            self.starts.append(start)
            self.ends.append(end)
        elif kind == "cjk":
            self._unspaced(match.group(), start)
        elif kind in ("blank", "item", "cell"):
            for symbol in BREAK if kind == "blank" else (BREAK, WALL, BREAK):
                self._emit(symbol, max(start, 0), end)
            self.mark = ""
        elif kind in ("rolesys", "roleuser"):
            if match.group()[0] == "\n":
                if start >= 0:
                    self._emit(BREAK, start, start + 1)
                start += 1
            self._emit(SIGNS[kind], start, end)
        else:
            self._emit(SIGNS.get(kind, OTHER), start, end)

    def _line(self, match: re.Match[str]) -> None:
        """A line end inside a sentence is no more than a blank; elsewhere a sentence may end there."""
        start, end = match.start() - 1, match.end() - 1
        if start < 0:
            return
        mark = match.group().strip()
        before = self.text[start - 1 : start]
        place = self.plain.span(end, end + 1)[0] if end < len(self.text) else len(self.original)
        after = self.original[place : place + 1]
        if mark == self.mark and after.isalpha() and not after.isupper() and before not in ".:!?{}()=,;>":
            return
        self.mark = mark
        self._flush()
        self._emit(LINE, start, end)

    def _odd_word(self, word: str, start: int) -> None:
        """A mail address, or words written as one."""
        end = start + len(word)
        known = look_up_word(word) != UNKNOWN
        if "@" in word.strip("@") and not known:
            self._flush()
            self._emit(SIGNS["mail"], start, end)
            return
        parts = () if known or self.text[end : end + 1] == "(" else split_joined_words(word)
        for part in parts or (word,):
            self.words.append((part, start))
            start += len(part)

    def _flush(self) -> None:
        """Words up to a sign: the longest phrase of the lexicon at each place."""
        words, symbols, starts, ends = self.words, self.symbols, self.starts, self.ends
        place, count = 0, len(words)
        while place < count:
            word, start = words[place]
            symbol, following, nodes = look_up_word(word)
            place += 1
            if nodes and place < count and not following.isdisjoint(lexicon_keys(words[place][0])):
                symbol, place = self._longest(symbol, nodes, place)
                word, last = words[place - 1]
                ends.append(last + len(word))
            else:
                ends.append(start + len(word))
            symbols.append(symbol)
            starts.append(start)
        words.clear()

    def _longest(self, symbol: str, nodes: tuple[PhraseNode, ...], place: int) -> tuple[str, int]:
        """The longest phrase that goes on from ``nodes``: its symbol, and the place after it."""
        found = (symbol, place)
        while nodes and place < len(self.words):
            names = lexicon_keys(self.words[place][0])
            nodes = tuple(node.following[name] for node in nodes for name in names if name in node.following)
            place += 1
            for node in nodes:
                if node.symbol:
                    found = (node.symbol, place)
                    break
        return found

    def _unspaced(self, text: str, start: int) -> None:
        """Chinese and Japanese: what the lexicon knows, and a filler for every two characters between."""
        position = 0
        for known in LEXICON.unspaced.finditer(text):
            self._filler(start + position, start + known.start())
            position = known.end()
            self._emit(LEXICON.unspaced_symbols[known.group()], start + known.start(), start + position)
        self._filler(start + position, start + len(text))

    def _filler(self, start: int, end: int) -> None:
        for place in range(start, end, 2):
            self._emit(OTHER, place, min(place + 2, end))
