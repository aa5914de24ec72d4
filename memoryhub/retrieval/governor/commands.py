"""Commands that by themselves do harm: they destroy, or carry secrets to another host. Pure.

What is looked for in a command that sends: something secret *as what is sent* (a key that only opens the
connection, as in ``ssh -i``, is none), and an address outside. Both in one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

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


def dangers(text: str) -> Iterator[tuple[int, int]]:
    """Where commands that destroy stand in a normalised text."""
    if _MAYBE_DANGER.search(text):
        yield from (match.span() for match in _DANGER.finditer(text))


def leaks(text: str) -> Iterator[tuple[int, int]]:
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
