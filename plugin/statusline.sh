#!/bin/sh
# Prints what memory did in a session, for the status line of Claude Code, which sends its JSON on standard input.
# Prints nothing if the hub does not answer in time. Needs a POSIX shell, curl and MEMORYHUB_TOKEN.

exec 2>/dev/null
input=$(cat)
url=${MEMORYHUB_URL:-http://127.0.0.1:8000}
[ -n "$MEMORYHUB_TOKEN" ] || exit 0
# The token is in curl's standard input, not in the list of processes.
printf 'header = "%s"\n' "Authorization: Bearer $MEMORYHUB_TOKEN" 'Content-Type: application/json' |
    curl --config - --silent --fail --max-time 0.25 --data-binary "$input" "${url%/}/api/v1/hooks/claude-code/status" |
    sed -n 's/.*"line":"\([^"]*\)".*/\1/p'
