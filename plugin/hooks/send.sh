#!/bin/sh
# Reports a hook of Claude Code to the hub. The hook's JSON comes on standard input.
#
#   send.sh event       posts the hook and prints the hub's answer
#   send.sh transcript  posts the part of the transcript that is new since the last call
#
# It gives up after a quarter of a second (an event) and never prints an error: a hub that is slow, away or
# damaged must not disturb the session. It needs a POSIX shell and curl.

exec 2>/dev/null
export LC_ALL=C
umask 077

url=${MEMORYHUB_URL:-${CLAUDE_PLUGIN_OPTION_URL:-http://127.0.0.1:8000}}
token=${MEMORYHUB_TOKEN:-$CLAUDE_PLUGIN_OPTION_TOKEN}
event_seconds=${MEMORYHUB_HOOK_TIMEOUT:-0.25}
max_bytes=1040000 # the hub accepts requests of 1 MiB
max_messages=2000 # and so many messages

[ -n "$token" ] && [ -n "$CLAUDE_PLUGIN_DATA" ] && mkdir -p "$CLAUDE_PLUGIN_DATA" && cd "$CLAUDE_PLUGIN_DATA" || exit 0
body=$(mktemp event.XXXXXX) || exit 0
trap 'rm -f "$body"' EXIT
trap 'exit 0' HUP INT TERM

# post PATH SECONDS: post the file $body. The token is in curl's standard input, not in the list of processes.
# Without "Expect:", curl waits a second before it sends a large body.
post() {
    printf 'header = "%s"\n' "Authorization: Bearer $token" "Content-Type: application/json" "Expect:" |
        curl --config - --silent --fail --max-time "$2" --data-binary "@$body" "${url%/}/api/v1$1"
}

# field NAME: the text of a field of the hook, as it is written in JSON.
field() {
    sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" "$body"
}

send_event() {
    answer=$(post /hooks/claude-code "$event_seconds") || return
    [ "$answer" = '{}' ] || printf '%s\n' "$answer"
}

# Offsets of sent transcripts are in files SESSION.sent.
send_transcript() {
    path=$(field transcript_path | sed 's/\\\\/\\/g')
    cwd=$(field cwd)
    session=$(field session_id | tr -dc 'A-Za-z0-9_-')
    [ -n "$session" ] && [ -f "$path" ] || return
    find . -name '*.sent' -mtime +60 -exec rm -f {} + -o -name 'event.*' -mtime +1 -exec rm -f {} +
    sent=$(cat "$session.sent" || echo 0)
    size=$(wc -c <"$path")
    [ "$size" -gt "$sent" ] || return

    messages=$(head -c "$size" "$path" | tail -c "+$((sent + 1))" | grep -E '^\{.*"type":"(user|assistant)".*\}$' |
        grep -v '"type":"tool_result"' | tail -n "$max_messages")
    if [ "${#messages}" -gt "$max_bytes" ]; then
        messages=$(printf '%s' "$messages" | tail -c "$max_bytes" | sed 1d)
    fi
    {
        printf '{"session_id":"%s","cwd":"%s","messages":[' "$session" "$cwd"
        printf '%s\n' "$messages" | paste -s -d , -
        printf ']}'
    } >"$body"
    post /extract 20 && echo "$((size))" >"$session.sent"
}

cat >"$body"
case $1 in
event) send_event ;;
transcript) send_transcript >/dev/null ;;
esac
exit 0
