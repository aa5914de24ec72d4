"""Sessions of routine work, of which nothing is stored."""

from __future__ import annotations

import pytest

from memoryhub.models import Memory

READING = [
    ("Bash", {"command": command}, {"stdout": output})
    for command, output in [
        ("git status", "On branch main\nnothing to commit, working tree clean"),
        ("git log --oneline", "3f2a91c Add the export\n77aa001 Fix a typo in the report"),
        ("ls -la", "total 20\n-rw-r--r-- 1 ada ada 210 app.py"),
        ("make lint", "Fixed 2 errors (2 fixed, 0 remaining)."),
        ("ruff check --fix .", "Found 3 errors (3 fixed, 0 remaining)."),
        ("ruff format .", "4 files reformatted, 210 files left unchanged"),
        ("pytest -q", "210 passed in 12.31s"),
        ("npm test", "Tests: 12 passed, 12 total"),
        ("npm install", "added 210 packages, and audited 211 packages in 4s\nfound 0 vulnerabilities"),
        ("npm audit fix", "fixed 2 of 4 vulnerabilities in 1220 scanned packages"),
        ("pip install -r requirements.txt", "Successfully installed django-5.2 sqlparse-0.5"),
        ("apt-get install jq", "Setting up jq (1.6-2.1) ...\n1 upgraded, 0 newly installed."),
        ("docker compose up -d", "Container shop-db-1  Started\nContainer shop-web-1  Started"),
        ("docker compose build", "Removed intermediate container 1f2e3d\nSuccessfully built 77aa"),
        ("eslint --fix src", "2 problems (0 errors, 2 warnings)"),
        ("mypy .", "Success: no issues found in 120 source files"),
        ("git commit -qam wip", ""),
        ("git push", "To github.com:ada/shop.git\n   3f2a91c..77aa001  main -> main"),
        ("git checkout -b tidy", "Switched to a new branch 'tidy'"),
        ("python manage.py migrate", "Running migrations:\n  Applying shop.0007_tz... OK"),
        ("mkdir -p build/out", ""),
        ("curl -s localhost:8000/healthz", '{"status": "ok"}'),
        ("make", "gcc -c app.c\ngcc -o app app.o"),
        ("cargo build", "Compiling shop v0.1.0\nFinished dev profile in 3.2s"),
        ("go vet ./...", ""),
        ("grep -rn tz src", "src/rows.py:14: tz = row['tz']"),
    ]
]
EDITS = [
    ("Edit", {"file_path": f"src/part{at}.py", "old_string": "a = 1", "new_string": line}, {"filePath": "x"})
    for at, line in enumerate(
        [
            "# Parse the date and add it to the rows of the report.\na = 2",
            "# Returns: the list of users that signed in last week.\na = 3",
            "def total(rows):\n    return sum(row.amount for row in rows)",
            "# TODO rename this variable when the other branch is merged\na = 4",
        ]
    )
]
FLAKY = [
    ("Bash", {"command": "curl api.test"}, {"stdout": "ConnectionError: the host did not answer"}),
    ("Bash", {"command": "curl api.test"}, {"stdout": "id,name\n1,shoe"}),
    (
        "Bash",
        {"command": "pytest -q tests/test_tax.py"},
        {"stdout": "E   NameError: name 'tax' is not defined"},
    ),
]


@pytest.mark.parametrize(
    "calls",
    [[*READING, *EDITS], [*EDITS, *reversed(READING)], [*FLAKY[:2], *READING, *EDITS[:2]]],
    ids=["checks then edits", "edits then checks", "a flaky host"],
)
def test_routine_work_is_not_stored(agent_session, calls):
    for name, given, response in calls:
        agent_session.tool(name, given, response)
    assert [memory.content for memory in Memory.objects.all()] == []
