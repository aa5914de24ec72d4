"""What is read out of a text: the error that it names, its paragraphs, its prose."""

from memoryhub.capture.statements import error_of, paragraphs, prose


def test_wrapped_lines_of_a_document_are_read_as_one_paragraph():
    text = "# 2. One file\n\nStatus: accepted\n\nWe keep one file rather than many, since one\nis enough.\n"
    text += "\n```\ncode that runs on and on and on, too\n```\n"
    assert paragraphs(text) == "# 2. One file\nWe keep one file rather than many, since one is enough."


def test_the_last_error_line_names_the_failure():
    assert error_of("ValueError: first\nsome text\nKeyError: 'second'") == "KeyError: 'second'"
    assert error_of("all is well") == ""


def test_prose_is_kept_and_logs_and_code_are_not():
    text = (
        "2026-01-01 10:00 INFO started\nfor x in y: {\nThe cache is cleared whenever a token is revoked.\na=1"
    )
    assert prose(text) == "The cache is cleared whenever a token is revoked."


def test_the_error_of_a_failed_test_is_told_whole_and_with_the_test():
    output = (
        "E       AssertionError: assert ['harbour', 'attic', 'nordic'] == ['attic', 'harbour', 'nordic']\n"
        "E         Use -v to get more diff\ntests/test_report.py:30: AssertionError\n"
        "FAILED tests/test_report.py::test_top[a b-1] - AssertionError: assert ['harbour', ...\n1 failed"
    )
    told = "AssertionError: assert ['harbour', 'attic', 'nordic'] == ['attic', 'harbour', 'nordic']"
    assert error_of(output) == f"{told} in tests/test_report.py::test_top[a b-1]"
