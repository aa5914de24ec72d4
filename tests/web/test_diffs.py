"""Comparisons of texts: complete, marked by words, bounded in time and size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.web.base import diffs
from memoryhub.web.base.diffs import DiffLine, DiffPiece, DiffRow, compare, compare_words
from tests.cost import cost_ratio, ordinary_text

LINES = st.lists(
    st.sampled_from(["alpha", "beta gamma", "beta delta", "", "x = 1", "x = 2"]), max_size=12
).map("\n".join)


def plain(side: DiffLine | None) -> str:
    return "".join(piece.text for piece in side.pieces) if side else ""


def marked(pieces: tuple[DiffPiece, ...]) -> list[str]:
    return [piece.text for piece in pieces if piece.changed]


def lines(text: str) -> list[str]:
    found = text.split("\n")
    return found[:-1] if len(found) > 1 and not found[-1] else found


def kinds(rows: list[DiffRow]) -> list[str]:
    return [row.kind for row in rows]


class TestCompleteness:
    @given(LINES, LINES)
    def test_each_side_is_the_whole_text_in_order(self, old: str, new: str) -> None:
        rows = compare(old, new, context=1000)
        if lines(old) == lines(new):
            assert kinds(rows) in ([], ["ends"])
            return
        assert [plain(row.old) for row in rows if row.old] == lines(old)
        assert [plain(row.new) for row in rows if row.new] == lines(new)

    @given(LINES, LINES)
    def test_line_numbers_increase_on_both_sides(self, old: str, new: str) -> None:
        rows = compare(old, new, context=1000)
        for numbers in ([r.old.number for r in rows if r.old], [r.new.number for r in rows if r.new]):
            assert numbers == list(range(1, len(numbers) + 1))

    @given(LINES, LINES)
    def test_rows_and_folds_cover_the_old_text(self, old: str, new: str) -> None:
        rows = compare(old, new)
        covered = sum(row.count if row.kind == "folded" else bool(row.old) for row in rows)
        assert covered == (len(lines(old)) if lines(old) != lines(new) else 0)

    @given(st.text(max_size=40), st.text(max_size=40))
    def test_words_of_both_sides_are_preserved(self, old: str, new: str) -> None:
        left, right = compare_words(old, new)
        assert "".join(piece.text for piece in left) == old
        assert "".join(piece.text for piece in right) == new

    def test_equal_texts_have_no_rows(self) -> None:
        assert compare("the same\ntext", "the same\ntext") == []

    @pytest.mark.parametrize("new", ["one\ntwo", "one\r\ntwo", "one\rtwo\n"])
    def test_line_ends_alone_change_no_line(self, new: str) -> None:
        assert kinds(compare("one\ntwo\n", new)) == ["ends"]


class TestReadability:
    def test_changed_line_is_paired_with_its_new_version_and_words_are_marked(self) -> None:
        [row] = compare("the old word here", "the new word here")
        assert row.kind == "changed"
        assert row.old
        assert row.new
        assert marked(row.old.pieces) == ["old"]
        assert marked(row.new.pieces) == ["new"]

    def test_line_added_before_a_changed_one_is_not_paired_with_it(self) -> None:
        rows = compare("keep this sentence as it was", "something else entirely\nkeep this sentence as it is")
        assert kinds(rows) == ["added", "changed"]

    def test_unrelated_lines_are_removed_and_added(self) -> None:
        assert kinds(compare("alpha beta", "gamma delta epsilon")) == ["removed", "added"]

    def test_characters_of_scripts_without_spaces_are_marked_one_by_one(self) -> None:
        left, right = compare_words("设置二十秒的超时", "设置三十秒的超时")
        assert (marked(left), marked(right)) == (["二"], ["三"])

    def test_distant_lines_are_folded_and_near_ones_shown(self) -> None:
        text = "\n".join(f"line {n}" for n in range(20))
        rows = compare(text, text.replace("line 10", "row 10 is another"))
        assert (kinds(rows)[0], rows[0].count) == ("folded", 7)
        assert (kinds(rows)[-1], rows[-1].count) == ("folded", 6)
        assert kinds(rows).count("same") == 2 * diffs.CONTEXT_LINES

    def test_single_line_is_not_folded(self) -> None:
        text = "\n".join("abcde")
        assert "folded" not in kinds(compare(text, text.replace("e", "f")))


class TestBounds:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("a\n" * 40_000, "b\n" * 40_000),
            ("a\nb\n" * 20_000, "b\na\n" * 20_000),
            ("word " * 20_000, "ward " * 20_000),
            (" ".join("ab" * 300) + "\n" * 30, " ".join("ba" * 300) + "\n" * 30),
        ],
    )
    def test_slow_texts_are_compared_within_bounds(self, old: str, new: str) -> None:
        rows = compare(old, new)
        assert 0 < len(rows) <= 1_001

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("a\n" * 6000, "b\n" * 6000),
            ("a b\n" * 3000, "b a\n" * 3000),
            ("a b " * 3000, "b a " * 3000),
            (
                "\n".join(f"line {n} x" for n in range(1000)),
                "\n".join(f"line {n} {n % 2}" for n in range(1000)),
            ),
            (
                "\n".join(f"{n} {n + 1} {n + 2} " * 25 for n in range(40)),
                "\n".join(f"{n} " * 70 for n in range(40)),
            ),
            ("\n".join(f"l{n}" for n in range(1500)), "\n".join(f"l{n * 7 % 1500}" for n in range(1500))),
        ],
    )
    def test_hostile_texts_take_at_most_five_times_as_long_as_ordinary_texts(
        self, old: str, new: str
    ) -> None:
        text = ordinary_text(12_000)
        ordinary = (text, text.replace(" the ", " a "))
        assert cost_ratio(lambda texts: compare(*texts), (old, new), ordinary, enough=5) <= 5

    def test_omitted_rows_are_counted(self) -> None:
        rows = compare("\n".join(f"a{n}" for n in range(3000)), "\n".join(f"b {n}" for n in range(3000)))
        assert rows[-1].kind == "cut"
        assert len(rows) - 1 + rows[-1].count == 6000
