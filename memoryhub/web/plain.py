"""A memory's text as a list shows it: without the marks of Markdown. Pure; what comes back is text, not HTML.

It is no parser on purpose: where a mark could be meant as it stands, it stays (``2 * 3``, ``snake_case``,
``__init__``, ``**kwargs``, ``src/*.py``). What stands inside code stays letter by letter.
"""

from __future__ import annotations

import re

# Python 3.11.2 (Debian 12) misreads a possessive loop with a backreference in it: that of emphasis is none.
# A line break inside a paragraph; no emphasis reaches beyond.
_BREAK = r"\n(?![ \t]*(?:\n|[#>*+-]))"
_MARKED = re.compile(
    rf"""
      ^[ \t]*(?P<fence>`{{3,}}|~{{3,}})[^\n`]*\n(?P<block>(?s:.*?))(?:\n[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)
    | (?P<tick>`{{1,3}})(?P<code>[^`\n]++)(?P=tick)
    | `{{3,}}[\w+-]*                                        # of a block within a line
    | ^[ \t]*[-*_|:=](?:[ \t]*[-*_|:=]){{2,}}[ \t]*$         # a rule, or what is under a table's head
    | ^(?:[ \t]*(?:\#{{1,6}}(?=[ \t])|>))+[ \t]*             # before a heading or a quotation
    | ^[ \t]*[*+](?P<item>[ \t])
    | !?\[(?P<label>[^\[\]\n]*)\](?:\([^()\s]*(?:[ \t]"[^"\n]*")?\)|\([^()\s]*(?=…\Z))
    | (?<![\w*/\\.])(?P<star>\*{{1,3}})(?=[\w"'(\[`“‘«¿¡])(?P<strong>(?:(?!(?P=star))[^\n]|{_BREAK})+)
      (?<=[^\s*])(?P=star)(?![\w*/])
    | (?<![\w/\\.])(?P<line>__?)(?=[^\W_])(?P<weak>(?:[^_\n]|{_BREAK})++)(?<=\S)(?P=line)(?!\w)
    | (?<![\w~])~~(?=\S)(?P<gone>[^~\n]++)(?<=\S)~~(?![\w~])
    | (?<![\w*`])(?:\*\*|`)(?=[^\W_])(?P<cut>[^*`…]*+…)\Z     # what would close it has been cut off
    """,
    re.VERBOSE | re.MULTILINE,
)


def plain(text: str) -> str:
    """The text without marks of emphasis, code, headings, quotations and rules; of links the words stay."""
    return _MARKED.sub(_bare, text)


def _bare(found: re.Match[str]) -> str:
    parts = found.groupdict()
    code = parts["block"] or parts["code"]
    if code is not None:
        return code
    if parts["item"]:
        return "- "
    if parts["line"] == "__" and not re.search(r"\s", parts["weak"]):
        return found[0]  # a name, as of Python's own methods
    inner = next((parts[name] for name in ("label", "strong", "weak", "gone", "cut") if parts[name]), "")
    return plain(inner)
