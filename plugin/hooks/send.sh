#!/bin/sh
# Reports a hook of Claude Code to the hub. The hook's JSON comes on standard input.
#
#   send.sh event       posts the hook and prints the hub's answer
#   send.sh transcript  posts the part of the transcript that is new since the last call
#
# It gives up after a quarter of a second (an event) and never prints an error: a hub that is slow, away or
# damaged must not disturb the session. Events that the hub did not take wait, encrypted, in a spool, and are
# sent after the next one that it takes. It needs a POSIX shell and curl, and openssl for the spool.

exec 2>/dev/null
export LC_ALL=C
umask 077

url=${MEMORYHUB_URL:-${CLAUDE_PLUGIN_OPTION_URL:-http://127.0.0.1:8000}}
token=${MEMORYHUB_TOKEN:-$CLAUDE_PLUGIN_OPTION_TOKEN}
event_seconds=${MEMORYHUB_HOOK_TIMEOUT:-0.25}
max_bytes=1040000 # the hub accepts requests of 1 MiB
max_messages=2000 # and so many messages
state=${XDG_STATE_HOME:-${HOME:+$HOME/.local/state}}
spool=${MEMORYHUB_SPOOL:-${state:+$state/memoryhub/spool}}
spool_kib=10240 # of each hub and token
hook_path=/hooks/claude-code
newline='
'

[ -n "$token" ] && [ -n "$CLAUDE_PLUGIN_DATA" ] && mkdir -p "$CLAUDE_PLUGIN_DATA" && cd "$CLAUDE_PLUGIN_DATA" || exit 0
body=$(mktemp event.XXXXXX) || exit 0
trap 'rm -f "$body"' EXIT
trap 'exit 0' HUP INT TERM

# post PATH SECONDS FILE [WAITING]: post a file; print the answer and, on the last line, the HTTP status. WAITING:
# how many events are in the spool. The token is in curl's standard input, not in the list of processes.
# Without "Expect:", curl waits a second before it sends a large body.
post() {
    printf 'header = "%s"\n' "Authorization: Bearer $token" "Content-Type: application/json" "Expect:" \
        ${4:+"X-Memoryhub-Waiting: $4"} |
        curl --config - --silent --max-time "$2" --data-binary "@$3" --write-out '\n%{http_code}' "${url%/}/api/v1$1"
}

# is_final STATUS: whether the hub took or refused the event for good.
is_final() {
    case $1 in
    408 | 429) false ;;
    2?? | 4??) true ;;
    *) false ;;
    esac
}

# field NAME: the text of a field of the hook, as it is written in JSON.
field() {
    sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" "$body"
}

send_event() {
    id=$(printf %s $(od -An -N8 -tx1 /dev/urandom))
    now=$(date -u +%Y-%m-%dT%H-%M-%SZ)
    find_spool
    list_spool
    answer=$(post "$hook_path?event_id=$id" "$event_seconds" "$body" "$waiting") || answer=
    status=${answer##*"$newline"}
    answer=${answer%"$newline"*}
    if [ "$status" = 200 ]; then
        [ "$answer" = '{}' ] || printf '%s\n' "$answer"
        [ "$waiting" = 0 ] || in_background flush
    elif [ -n "$spool" ] && ! is_final "$status" && ! grep -q '"hook_event_name": *"PreToolUse"' "$body"; then
        keep_event
    fi
}

# in_background FUNCTION: run it while the agent goes on, which waits for open files.
in_background() {
    (
        trap '' HUP
        "$1"
    ) </dev/null >/dev/null &
}

# The spool is a folder for each hub and token, because only that token opens its files. A file is
# TIME-NUMBER-ID, so that the order of names is the order of events.
find_spool() {
    case $spool in
    /*)
        set -- $(printf '%s' "$url $token" | cksum)
        spool=$spool/$1
        ;;
    *) spool= ;;
    esac
}

# list_spool: set $waiting to the number of events. One that is being written ends in .part.
list_spool() {
    waiting=0
    [ -n "$spool" ] || return
    set -- "$spool"/20*Z-*[0-9a-f]
    [ -e "$1" ] || return
    waiting=$#
}

# keep_event: reserve the name now, so that the next event gets a later one; encrypt in the background.
keep_event() {
    [ -d "$spool" ] || mkdir -p "$spool" || return
    number=000000
    for newest in "$spool"/20*Z-[0-9][0-9][0-9][0-9][0-9][0-9]-*; do
        [ ! -e "$newest" ] || number=${newest##*Z-}
    done
    number=$((1${number%%-*} % 1000000 + 1)) # the 1 keeps the shell from reading 000010 as octal
    kept=$spool/$now-$(printf %06d "$number")-$id
    true >"$kept.part" || return
    trap - EXIT
    in_background write_event
}

write_event() {
    trap 'rm -f "$body" "$kept.part"' EXIT
    [ "$(wc -c <"$body")" -le "$max_bytes" ] || return
    MEMORYHUB_SPOOL_KEY=$token openssl enc -aes-256-cbc -pbkdf2 -pass env:MEMORYHUB_SPOOL_KEY -in "$body" \
        -out "$kept.part" && mv "$kept.part" "$kept" && trim_spool
}

# trim_spool: remove events older than 7 days, of other tokens too, and the oldest above the size limit.
trim_spool() {
    find "${spool%/*}" -maxdepth 2 -type f -name '20??-??-??T??-??-??Z-*' -mtime +6 -exec rm -f {} +
    for file in "$spool"/20*Z-*[0-9a-f]; do
        [ "$(du -sk "$spool" | cut -f 1)" -gt "$spool_kib" ] || return
        rm -f "$file"
    done
}

# flush: send the events of the spool in order, one sender at a time. It stops when the hub does not take one.
flush() {
    find "$spool/lock" -prune -mmin +5 -exec rmdir {} \;
    mkdir "$spool/lock" || return
    trap 'rmdir "$spool/lock"' EXIT
    trim_spool
    for file in "$spool"/20*Z-*[0-9a-f]; do
        [ -f "$file" ] || continue
        touch "$spool/lock"
        query=$(printf '%s\n' "${file##*/}" | sed -n \
            's/^\(.\{10\}\)T\(..\)-\(..\)-\(..Z\)-[0-9]*-\([0-9a-f]*\)$/event_id=\5\&at=\1T\2:\3:\4\&late=true/p')
        # In memory, so that no plain text is on the disk.
        event=$(MEMORYHUB_SPOOL_KEY=$token openssl enc -d -aes-256-cbc -pbkdf2 -pass env:MEMORYHUB_SPOOL_KEY \
            -in "$file") && [ -n "$query" ] || event=
        if [ -n "$event" ]; then
            list_spool
            status=$(printf '%s' "$event" | post "$hook_path?$query" 20 /dev/fd/3 $((waiting - 1)) 3<&0) || return
            is_final "${status##*"$newline"}" || return
        fi
        rm -f "$file"
    done
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
    answer=$(post /extract 20 "$body") || return
    case ${answer##*"$newline"} in 2??) echo "$((size))" >"$session.sent" ;; esac
}

cat >"$body"
case $1 in
event) send_event ;;
transcript) send_transcript >/dev/null ;;
esac
exit 0
