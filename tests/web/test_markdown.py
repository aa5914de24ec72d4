"""Markdown as safe HTML, and as plain text."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub.web.base import markdown
from memoryhub.web.base.markdown import render, to_plain_text
from tests.cost import cost_ratio, ordinary_text, repeat
from tests.web.markup import PAYLOADS, Page, find_dangers

COSTLY_PARTS = (
    *(
        "*a**",
        "_a_ ",
        "**a** ",
        "~~a~~ ",
        "_",
        "a_",
        "\\*",
        "`a`",
        "&amp;",
        "&#x41;www.a.b&copy;",
        "<a>",
        "]",
    ),
    *(
        "![",
        "[a](",
        "[](a",
        "[a][b]",
        "[a](https://b.c) ",
        "<http://a.b>",
        "<a@b.c>[a]",
        "http://a.b ",
        "http://",
    ),
    *("x.y](https://a.b/(aaaaaaaaaaaaaaaa://![", "[a]: b\n", "[a]: https://aaaaaaaaaa.example\n", "\n\n[a]"),
    *("- a\n", "> - ", "# a\n", "a\n\n", "a\n", "a\n---\n", "---\n", "```\n", "1. a\n", "&#~~~\n"),
    *("|", "|a", "a|b\n-|-\n", "| 1 | 2 | 3 |\n|-|-|-|\n", "-|--|-\n"),
)


class TestSafety:
    @pytest.mark.parametrize("payload", PAYLOADS)
    def test_payloads_do_not_become_markup(self, payload: str) -> None:
        assert find_dangers(render(payload)) == []

    @pytest.mark.parametrize("payload", PAYLOADS)
    def test_payloads_in_links_and_headings_do_not_become_markup(self, payload: str) -> None:
        assert find_dangers(render(f"# {payload}")) == []
        assert find_dangers(render(f"[{payload}](https://a.example)")) == []
        assert find_dangers(render(f"- > {payload}")) == []

    def test_html_shows_as_typed(self) -> None:
        assert (
            Page(render("<b>bold</b> <script>x</script>")).words.strip() == "<b>bold</b> <script>x</script>"
        )

    @pytest.mark.parametrize(
        "link",
        [
            "/logout/",
            "logout/",
            "#top",
            "//elsewhere.example",
            "ftp://a.example",
            "file:///etc/passwd",
            "x:y",
        ],
    )
    def test_only_web_and_mail_urls_become_links(self, link: str) -> None:
        assert Page(render(f"[words]({link}) <{link}>")).links() == []

    def test_links_send_no_referrer(self) -> None:
        for text in (
            "[x](https://a.example)",
            "https://a.example",
            "<https://a.example>",
            "[x](mailto:a@b.example)",
        ):
            [link] = Page(render(text)).all("a")
            assert link["rel"] == "noopener noreferrer nofollow"

    def test_image_becomes_a_link(self) -> None:
        html = render("![a chart](https://a.example/chart.png)")
        assert Page(html).links() == ["https://a.example/chart.png"]
        assert "a chart" in html

    def test_image_in_a_link_keeps_the_outer_link(self) -> None:
        assert Page(render("[![badge](https://i.example/b.svg)](https://a.example)")).links() == [
            "https://a.example"
        ]

    @given(st.text())
    def test_any_text_renders_safely(self, text: str) -> None:
        assert find_dangers(render(text)) == []

    @given(
        st.lists(
            st.sampled_from([*"[]()<>!`*_~|\\\n\"'&#:", "a", "http://", "javascript:", " "]), max_size=60
        )
    )
    def test_any_punctuation_renders_safely(self, signs: list[str]) -> None:
        assert find_dangers(render("".join(signs))) == []


class TestBounds:
    @pytest.mark.parametrize(
        "sign", ["[", "![", "*a", ">", "`", "- ", "[](", "[[]](", "| a |\n|---|\n", "http://"]
    )
    def test_punctuation_only_content_renders(self, sign: str) -> None:
        assert render(sign * (20_000 // len(sign)))

    def test_repeated_long_url_does_not_inflate_the_page(self) -> None:
        text = f"[a]: https://a.example/{'x' * 20_000}\n\n" + "[a] " * 600
        html = render(text)
        assert len(html) < 1_000_000
        assert Page(html).links(), "the first ones are links"

    @pytest.mark.parametrize("part", ["![", "[", "*a**)[", "http://(((([[[["])
    def test_text_that_is_costly_to_parse_shows_as_typed(self, part: str) -> None:
        text = part * (5_000 // len(part))
        assert render(text) == f'<pre tabindex="0">{text}</pre>'
        assert to_plain_text(text) == text

    def test_table_with_more_missing_cells_than_characters_shows_as_text(self) -> None:
        text = "|a" * 300 + "\n" + "|-" * 300 + "\n" + "|\n" * 1000
        assert "<table" not in render(text)

    def test_small_table_with_missing_cells_is_a_table(self) -> None:
        assert "<table" in render("|a|b|c|\n|-|-|-|\n|1|\n|2|\n")

    @pytest.mark.parametrize(
        "part",
        ["![", "[a](", "[a][b]", "*a**", "a|b\n-|-\n", "|a", "http://a.b", "&#~~~\n", "> - ", "[a]: b\n"],
    )
    def test_hostile_text_takes_linear_time(self, part: str) -> None:
        short, long = (part * (length // len(part)) for length in (1500, 12_000))
        assert cost_ratio(render, long, short, enough=16) <= 16

    @pytest.mark.parametrize("convert", [render, to_plain_text.__wrapped__])
    @pytest.mark.parametrize("part", COSTLY_PARTS)
    def test_hostile_text_takes_at_most_five_times_as_long_as_ordinary_text(
        self, part: str, convert: Callable[[str], str]
    ) -> None:
        ordinary = ordinary_text(12_000)
        assert cost_ratio(convert, repeat(part, 12_000), ordinary, enough=5) <= 5

    def test_long_word_after_a_code_fence_takes_linear_time(self) -> None:
        hostile = "a ```" + "a" * 12_000
        assert cost_ratio(to_plain_text.__wrapped__, hostile, ordinary_text(12_000), enough=5) <= 5

    @pytest.mark.slow
    @given(st.lists(st.sampled_from([*COSTLY_PARTS, *"*_~`[]()!<>&|#-\n\\ a"]), min_size=1, max_size=6))
    @settings(max_examples=60, deadline=None)
    def test_mixed_parts_take_at_most_five_times_as_long_as_ordinary_text(self, parts: list[str]) -> None:
        ordinary = ordinary_text(12_000)
        for convert in (render, to_plain_text.__wrapped__):
            assert cost_ratio(convert, repeat("".join(parts), 12_000), ordinary, enough=5) <= 5

    def test_long_table_of_text_is_a_table(self) -> None:
        row = "| memory.db | the database of the store | yes | 0600 |\n"
        assert "<table" in render("| File | Content | In a backup | Mode |\n|-|-|-|-|\n" + row * 200)

    def test_long_list_of_sentences_is_a_list(self) -> None:
        assert render("- The worker retries three times.\n" * 300).count("<li>") == 300

    def test_url_with_many_brackets_is_text(self) -> None:
        assert Page(render("https://a.example/" + "(" * 20)).links() == []

    def test_link_to_a_url_with_parentheses_is_a_link(self) -> None:
        url = "https://a.example/Set_(mathematics)"
        assert Page(render(f"[set]({url}) {url}")).links() == [url, url]

    def test_list_of_urls_stays_a_list_of_links(self) -> None:
        text = "\n".join(f"- https://docs.internal/guide/page-{n}.html" for n in range(100))
        assert len(Page(render(text)).links()) == 100


class TestReadability:
    def test_headings_are_below_those_of_the_page(self) -> None:
        html = render("# one\n\n## two\n\n###### six")
        assert [tag for tag, _ in Page(html).elements] == ["h3", "h4", "h5"]

    @pytest.mark.parametrize(
        ("text", "tags"),
        [
            ("## two\n\n### three\n\n## two", ["h4", "h5", "h4"]),
            ("#### four\n\n## two\n\n###### six\n\n### three\n\n# one", ["h4", "h4", "h5", "h5", "h4"]),
            ("# 1\n\n## 2\n\n### 3\n\n#### 4\n\n##### 5", ["h4", "h5", "h6", "h6", "h6"]),
            ("Setext\n---\n\n> # quoted", ["h4", "blockquote", "h4"]),
        ],
    )
    def test_headings_skip_no_level(self, text: str, tags: list[str]) -> None:
        assert [tag for tag, _ in Page(render(text, below=3)).elements] == tags

    def test_code_keeps_its_lines_and_can_be_scrolled_with_the_keyboard(self) -> None:
        html = render("```python\nif x:\n    y\n```")
        assert '<pre tabindex="0"><code>if x:\n    y\n</code></pre>' in html

    def test_indented_code_is_code(self) -> None:
        assert '<pre tabindex="0"><code>SELECT 1\n</code></pre>' in render("text\n\n    SELECT 1\n")

    def test_tables_align_without_style_attributes(self) -> None:
        html = render("| a | b |\n|:-:|--:|\n| 1 | 2 |")
        assert '<td class="md-center">1</td>' in html
        assert '<td class="md-right">2</td>' in html
        assert "style" not in html

    def test_deliberate_line_breaks_are_kept(self) -> None:
        assert "<br>" in render("Closes #8\nRefs #9")

    def test_wrapped_lines_flow_together(self) -> None:
        wrapped = "This line was wrapped at seventy-two columns by an editor, as commit\nmessages are."
        assert "<br>" not in render(wrapped)

    def test_bare_urls_become_links(self) -> None:
        assert Page(render("see https://a.example/x?y=1&z=2.")).links() == ["https://a.example/x?y=1&z=2"]

    def test_names_with_dots_do_not_become_links(self) -> None:
        assert Page(render("edit settings.py and www.a.example")).links() == []


def test_headings_are_below_the_given_level() -> None:
    assert markdown.render("# One", below=3) == "<h4>One</h4>\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We *convert* once.", "We convert once."),
        ("built in **1983**, sold", "built in 1983, sold"),
        ("***both*** at once", "both at once"),
        ("**a *b* c** and **`d`**", "a b c and d"),
        ("**over\ntwo lines**", "over\ntwo lines"),
        ("_never_ and __not at all__", "never and not at all"),
        ("~~gone~~ kept", "gone kept"),
        ("call `run()` or ``go``", "call run() or go"),
        ("# Title\n\n> said\n> again", "Title\nsaid\nagain"),
        ("* one\n+ two\n- three", "- one\n- two\n- three"),
        ("one\n\n---\n\ntwo", "one\ntwo"),
        ("a | b\n--|--\n1 | 2", "a | b\n\n1 | 2"),
        ('see [b](https://example.org "A title") now', "see b now"),
        ("see [the *plan*](https://example.org/x_y_z) now", "see the plan now"),
        ("![a map](map.png)", "a map"),
        ("before\n```go\nx := *p\n```\nafter", "before\nx := *p\nafter"),
        ("before ```go x := *p``` after", "before go x := *p after"),
    ],
)
def test_plain_text_has_words_without_markup(text: str, expected: str) -> None:
    assert to_plain_text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "2 * 3 * 4 = 24, and 2*3*4 too",
        "snake_case, __init__, _private and __all__",
        "f(*args, **kwargs) or **kwargs alone",
        "src/*.py and tests/*.py, **/*.md",
        "char *a, int *b",
        "#42 is not a heading, and 1 > 0",
        "a [list] (of things)",
        "a ` alone",
        "",
    ],
)
def test_ambiguous_characters_are_kept(text: str) -> None:
    assert to_plain_text(text) == text


def test_code_is_kept_literally() -> None:
    assert to_plain_text("`*args, **kwargs*` and `__x y__`") == "*args, **kwargs* and __x y__"
    assert to_plain_text("```\n# not *a* heading\n[x](y)\n```") == "# not *a* heading\n[x](y)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the **plan is…", "the plan is…"),
        ("call `run and…", "call run and…"),
        ("see [the plan](https://exam…", "see the plan…"),
        ("so: ```go func main…", "so:  func main…"),
        ("so:\n```go\nfunc *main", "so:\nfunc *main"),
        ("passing **kwargs and more", "passing **kwargs and more"),
    ],
)
def test_mark_whose_end_was_cut_off_is_removed(text: str, expected: str) -> None:
    assert to_plain_text(text) == expected


@given(st.text("*_`~[]()<>#|!- \nab…\\", max_size=60))
def test_no_letter_is_lost_or_added_outside_of_urls(text: str) -> None:
    text = text.replace("(", "").replace("`", "")  # URLs and names of languages are omitted
    assert [c for c in to_plain_text(text) if c in "ab<"] == [c for c in text if c in "ab<"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", ["**a ", "*a", "`a ``b ", "[a", "```a\n", "__a ", "> ", "> # ", "- ", "![](", "*a*"]
)
def test_hostile_text_takes_linear_time(piece: str) -> None:
    def spent(times: int) -> float:
        began = time.process_time()
        to_plain_text(piece * times)
        return time.process_time() - began

    assert spent(20_000) < 60 * max(spent(1_000), 0.005)
