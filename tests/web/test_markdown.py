"""Content as HTML: readable, and safe whatever it holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.web.base.markdown import render
from tests.web.markup import PAYLOADS, Page, dangers


class TestSafety:
    @pytest.mark.parametrize("payload", PAYLOADS)
    def test_no_payload_becomes_markup(self, payload: str) -> None:
        assert dangers(render(payload)) == []

    @pytest.mark.parametrize("payload", PAYLOADS)
    def test_a_payload_within_a_link_or_a_heading_is_as_harmless(self, payload: str) -> None:
        assert dangers(render(f"# {payload}")) == []
        assert dangers(render(f"[{payload}](https://a.example)")) == []
        assert dangers(render(f"- > {payload}")) == []

    def test_html_shows_as_what_was_typed(self) -> None:
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
    def test_only_web_and_mail_addresses_become_links(self, link: str) -> None:
        assert Page(render(f"[words]({link}) <{link}>")).links() == []

    def test_links_tell_the_other_side_nothing(self) -> None:
        for text in (
            "[x](https://a.example)",
            "https://a.example",
            "<https://a.example>",
            "[x](mailto:a@b.example)",
        ):
            [link] = Page(render(text)).all("a")
            assert link["rel"] == "noopener noreferrer nofollow"

    def test_an_image_is_a_link_to_itself(self) -> None:
        html = render("![a chart](https://a.example/chart.png)")
        assert Page(html).links() == ["https://a.example/chart.png"]
        assert "a chart" in html

    def test_an_image_within_a_link_leaves_the_link(self) -> None:
        assert Page(render("[![badge](https://i.example/b.svg)](https://a.example)")).links() == [
            "https://a.example"
        ]

    @given(st.text())
    def test_any_text_renders_without_danger(self, text: str) -> None:
        assert dangers(render(text)) == []

    @given(
        st.lists(
            st.sampled_from([*"[]()<>!`*_~|\\\n\"'&#:", "a", "http://", "javascript:", " "]), max_size=60
        )
    )
    def test_any_run_of_signs_renders_without_danger(self, signs: list[str]) -> None:
        assert dangers(render("".join(signs))) == []


class TestBounds:
    @pytest.mark.parametrize(
        "sign", ["[", "![", "*a", ">", "`", "- ", "[](", "[[]](", "| a |\n|---|\n", "http://"]
    )
    def test_a_content_of_signs_alone_renders(self, sign: str) -> None:
        assert render(sign * (20_000 // len(sign)))

    def test_a_long_address_used_again_and_again_does_not_blow_the_page_up(self) -> None:
        text = f"[a]: https://a.example/{'x' * 20_000}\n\n" + "[a] " * 5_000
        html = render(text)
        assert len(html) < 1_000_000
        assert Page(html).links(), "the first ones are links"


class TestReading:
    def test_headings_stand_below_those_of_the_page(self) -> None:
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
    def test_headings_skip_no_level_whatever_they_begin_with(self, text: str, tags: list[str]) -> None:
        assert [tag for tag, _ in Page(render(text, below=3)).elements] == tags

    def test_code_keeps_its_lines_and_can_be_scrolled_with_the_keyboard(self) -> None:
        html = render("```python\nif x:\n    y\n```")
        assert '<pre tabindex="0"><code>if x:\n    y\n</code></pre>' in html

    def test_indented_code_is_code_too(self) -> None:
        assert '<pre tabindex="0"><code>SELECT 1\n</code></pre>' in render("text\n\n    SELECT 1\n")

    def test_tables_align_without_style_attributes(self) -> None:
        html = render("| a | b |\n|:-:|--:|\n| 1 | 2 |")
        assert '<td class="md-center">1</td>' in html
        assert '<td class="md-right">2</td>' in html
        assert "style" not in html

    def test_a_line_that_was_ended_on_purpose_stays_a_line(self) -> None:
        assert "<br>" in render("Closes #8\nRefs #9")

    def test_lines_that_an_editor_wrapped_flow_together(self) -> None:
        wrapped = "This line was wrapped at seventy-two columns by an editor, as commit\nmessages are."
        assert "<br>" not in render(wrapped)

    def test_bare_addresses_become_links(self) -> None:
        assert Page(render("see https://a.example/x?y=1&z=2.")).links() == ["https://a.example/x?y=1&z=2"]

    def test_names_with_dots_do_not(self) -> None:
        assert Page(render("edit settings.py and www.a.example")).links() == []
