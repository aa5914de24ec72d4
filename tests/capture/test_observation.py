"""What is seen of a call of a tool: its kind, its files, the message of a commit."""

import pytest

from memoryhub.capture.observation import commit_message, kind_of, observe


@pytest.mark.parametrize(
    ("tool", "kind"),
    [
        ("Read", "read"),
        ("Edit", "write"),
        ("Bash", "run"),
        ("Grep", "search"),
        ("WebFetch", "ask"),
        ("Odd", "other"),
    ],
)
def test_tools_are_known_by_name(tool, kind):
    assert kind_of(tool) == kind
    assert kind_of(f"mcp__server__{tool}") == kind


def test_files_are_read_from_the_input_and_relative_to_the_folder():
    seen = observe(
        "Edit", {"file_path": "/home/ada/shop/src/tax.py", "new_string": "x"}, {}, "/home/ada/shop"
    )
    assert seen.files_modified == ("src/tax.py",)
    assert observe("Read", {"file_path": "a.py"}, "text").files_read == ("a.py",)


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m 'Round once per rate' -m 'Because cents got lost.'",
        "git add -A && git commit -m 'Round once per rate' -m 'Because cents got lost.'",
        "git commit -F - <<'END'\nRound once per rate\n\nBecause cents got lost.\nEND",
        "git add . && git commit -qF - <<'X' && git log\nRound once per rate\n\nBecause cents got lost.\nX",
        "cat > a <<'EOF'\nText\nEOF\ngit -C a commit -qam 'Round once per rate' -m 'Because cents got lost.'",
        "git commit -qm 'Round once per rate' -m 'Because cents got lost.' && python -m pytest",
        "git commit -m 'Round once per rate' -m 'Because cents got lost.' && cat > a <<END\nText\nEND",
        "git commit -m \"$(cat <<'EOF'\nRound once per rate\n\nBecause cents got lost.\n\n"
        'Co-Authored-By: A Model <a@example.org>\nEOF\n)"',
    ],
)
def test_a_commit_message_is_what_its_author_wanted_to_tell(command):
    assert commit_message(command) == "Round once per rate\n\nBecause cents got lost."
