#!/bin/sh
# Reports a hook of Claude Code to the hub. The hook's JSON comes on standard input.
#
#   send.sh event       posts the hook and prints the hub's answer
#   send.sh transcript  posts the part of the transcript that is new since the last call
#
# It waits at most 150 ms for the hub (an event) and never prints an error: a hub that is slow, away or
# damaged must not disturb the session. Events that the hub did not take wait, encrypted, in a spool, and are
# sent in the background, in order. Plain text stays in memory, so that no file is left when the script is
# killed, and a full disk stops no event. It needs a POSIX shell and curl, and openssl for the spool.

exec 2>/dev/null
export LC_ALL=C
umask 077

url=${MEMORYHUB_URL:-${CLAUDE_PLUGIN_OPTION_URL:-http://127.0.0.1:8000}}
token=${MEMORYHUB_TOKEN:-$CLAUDE_PLUGIN_OPTION_TOKEN}
event_seconds=${MEMORYHUB_HOOK_TIMEOUT:-0.15}
max_bytes=1040000 # the hub accepts requests of 1 MiB
max_messages=2000 # and so many messages
state=${XDG_STATE_HOME:-${HOME:+$HOME/.local/state}}
spool=${MEMORYHUB_SPOOL:-${state:+$state/memoryhub/spool}}
spool_kib=10240 # of each hub and token
hook_path=/hooks/claude-code
newline='
'

[ -n "$token" ] || exit 0
# Offsets, losses and root commits are files in this folder. Without it, events are sent all the same.
[ -n "$CLAUDE_PLUGIN_DATA" ] && mkdir -p "$CLAUDE_PLUGIN_DATA" && cd "$CLAUDE_PLUGIN_DATA" && has_data=1 || has_data=
trap 'exit 0' HUP INT TERM

# post PATH SECONDS [WAITING]: post standard input; print the answer and, on the last line, the HTTP status.
# WAITING: how many events are in the spool. The token is in curl's standard input, not in the list of processes.
# Without "Expect:", curl waits a second before it sends a large body.
post() {
    printf 'header = "%s"\n' "Authorization: Bearer $token" "Content-Type: application/json" "Expect:" \
        ${3:+"X-Memoryhub-Waiting: $3"} |
        curl --config - --silent --max-time "$2" --data-binary @/dev/fd/3 --write-out '\n%{http_code}' "${url%/}/api/v1$1"
} 3<&0

# post_event EVENT QUERY SECONDS [WAITING]: post an event. Set $status, empty if there was no answer, and $answer,
# empty if it is not of the hub, but of a proxy or of a network that wants a login.
post_event() {
    answer=$(printf '%s' "$1" | post "$hook_path?$2" "$3" "$4") || answer=
    status=${answer##*"$newline"}
    case $answer in
    '{'*) answer=${answer%"$newline"*} ;;
    *) answer= ;;
    esac
}

# is_final: whether the hub took or refused the posted event for good.
is_final() {
    case ${answer:+$status} in
    408 | 429) false ;;
    2?? | 4??) true ;;
    *) false ;;
    esac
}

# field NAME: the text of a field of the hook, as it is written in JSON.
field() {
    printf '%s\n' "$body" | sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p"
}

# first_field NAME: the same of the first such field, which is not one of a tool's input. It precedes that.
first_field() {
    printf '%.8192s\n' "$body" | awk -v name="$1" 'match($0, "\"" name "\": *\"[^\"]*\"") {
        text = substr($0, RSTART, RLENGTH - 1); sub(/^"[^"]*": *"/, "", text); print text; exit }'
}

# read_event: set $body. The hub refuses a larger event, such as one with a picture, and the shell would take
# seconds for it: of such an event, only what happened is sent, without the text.
read_event() {
    body=$(head -c "$((max_bytes + 1))")
    [ "${#body}" -gt "$max_bytes" ] || return
    cat >/dev/null # the agent gets no error for a closed pipe
    body=$(printf '%.65536s' "$body" | reduce_event)
}

# reduce_event: print the names and short texts of the beginning of an event. A long prompt or error is cut.
# The two texts of an edit are only of use together and whole.
reduce_event() {
    awk '
    function member(name, is_whole, text) {
        if (!match(event, "\"" name "\": *\"")) return ""
        text = substr(event, RSTART + RLENGTH, 20000)
        match(text, /^(\\(u[0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f]|[^u])|[^\\"])*/)
        if (substr(text, RLENGTH + 1, 1) != "\"") {
            if (is_whole) return ""
            text = substr(text, 1, RLENGTH)
            sub(/[\300-\377][\200-\277]*$/, "", text)
        } else text = substr(text, 1, RLENGTH)
        return ",\"" name "\":\"" text "\""
    }
    { event = event $0 }
    END {
        input = member("file_path", 1) member("notebook_path", 1) member("command", 0)
        before = member("old_string", 1)
        after = member("new_string", 1)
        if (before != "" && after != "") input = input before after
        text = member("hook_event_name", 1)
        text = text (text ~ /UserPromptSubmit/ ? member("prompt", 0) : member("error", 0))
        text = text member("session_id", 1) member("cwd", 1) member("tool_name", 1)
        print "{" substr(text, 2) ",\"tool_input\":{" substr(input, 2) "}}"
    }'
}

# find_repository: set $repository to the JSON of the repository of the working folder, empty without one: the
# name of its folder, the address of its remote without credentials, its first commit, and the path in it.
find_repository() {
    repository=
    folder=$(first_field cwd | sed 's/\\\\/\\/g')
    unset CDPATH GIT_DIR GIT_WORK_TREE GIT_COMMON_DIR GIT_INDEX_FILE GIT_OBJECT_DIRECTORY
    [ -d "$folder" ] && command -v git >/dev/null || return
    set -- "$(git -C "$folder" rev-parse --is-shallow-repository --show-prefix --git-common-dir)"
    is_shallow=${1%%"$newline"*}
    set -- "${1#*"$newline"}"
    subfolder=${1%%"$newline"*}
    shared=$(cd -P "$folder" && cd -P "${1#*"$newline"}" && pwd) # -P: ".." of a link is that of its target
    [ -n "$1" ] && [ -n "$shared" ] || return
    case $shared in
    */.git | */.bare) name=${shared%/*} ;;
    */.git/modules/*) name=$(git -C "$folder" rev-parse --show-toplevel) ;;
    *) name=${shared%.git} ;;
    esac
    remote=$(git -C "$folder" remote get-url origin ||
        git -C "$folder" remote get-url "$(git -C "$folder" remote | head -n 1)")
    case $remote in
    /* | .* | file:*) remote= ;; # a path of this machine
    *://*) remote=$(printf %s "$remote" | sed 's#^\([^:]*://\)[^/]*@#\1#') ;;
    *) remote=${remote##*@} ;;
    esac
    root=
    [ "$is_shallow" = true ] || find_root # a shallow clone does not have it
    repository="{$(name_member "${name##*/}")$(member remote "$remote")$(subfolder_member)\"root\":\"$root\"}"
}

# subfolder_member: print the path in the repository if the working folder ends in it, which makes it valid JSON.
subfolder_member() {
    case $(first_field cwd)/ in
    */"$subfolder") printf '"subfolder":"%s",' "${subfolder%/}" ;;
    esac
}

# member NAME TEXT: print a member of a JSON object, nothing for a text with unusual characters.
member() {
    case $2 in
    '' | *[!A-Za-z0-9._~/:+%\ -]*) ;;
    *) [ "${#2}" -gt 1000 ] || printf '"%s":"%s",' "$1" "$2" ;;
    esac
}

# name_member NAME: print the name of the repository. Other characters are certain to be valid JSON if they are
# a folder in the path that the agent wrote.
name_member() {
    case $1=$(first_field cwd)/ in
    *\\*=*) ;;
    *=*[/\\]"$1"[/\\]*) printf '"name":"%s",' "$1" ;;
    *) member name "$1" ;;
    esac
}

# find_root: set $root to the first commit. To find it takes long in a large repository: after a tenth of a
# second, the event goes without it, and the next one has it from the file.
find_root() {
    [ -n "$has_data" ] || return
    file=root.$(printf %s "$shared" | cksum | tr -dc 0-9)
    root=$(cat "$file") && git -C "$folder" cat-file -e "$root^{commit}" && return
    rm -f "$file"
    root=
    git -C "$folder" rev-parse -q --verify HEAD >/dev/null || return
    in_background save_root
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        root=$(cat "$file") && return
        sleep 0.01
    done
}

save_root() {
    first=$(git -C "$folder" rev-list --max-parents=0 --first-parent HEAD | tail -n 1)
    [ -z "$first" ] || { printf %s "$first" >"$file.part" && mv "$file.part" "$file"; }
}

# add_repository: write it into the body, so that a spooled event has it too.
add_repository() {
    find_repository
    [ -z "$repository" ] || body="{\"repository\":$repository,${body#*\{}"
}

send_event() {
    add_repository
    id=$(printf %s $(od -An -N8 -tx1 /dev/urandom))
    now=$(date -u +%Y-%m-%dT%H-%M-%SZ)
    find_spool
    list_spool
    if [ "$waiting" != 0 ] && is_report && keep_event; then
        status=queued
        in_background deliver
        return
    fi
    post_event "$body" "event_id=$id" "$event_seconds" "$waiting"
    if [ "$status" = 200 ] && [ -n "$answer" ]; then
        report_loss
        [ "$answer" = '{}' ] || printf '%s\n' "$answer"
        [ "$waiting" = 0 ] || in_background flush
    elif ! is_final && ! is_question; then
        keep_event
        in_background deliver
    fi
}

# is_question: whether the event only asks, so that a later answer would be of no use.
is_question() {
    [ "$(first_field hook_event_name)" = PreToolUse ]
}

# is_report: whether the event can wait for those before it. The hub needs them in order: it captures a repair
# from the failure before, and summarises what it has when the session ends.
is_report() {
    case $(first_field hook_event_name) in
    PostToolUse | PostToolUseFailure | PreCompact | SessionEnd) ;;
    *) false ;;
    esac
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

# keep_event: reserve the name now, so that the next event gets a later one; deliver encrypts in the background.
# A clock that was set back does not change the order.
keep_event() {
    for newest in "$spool"/20*Z-[0-9][0-9][0-9][0-9][0-9][0-9]-*; do :; done
    number=000000
    if [ -e "$newest" ]; then
        number=${newest##*Z-}
        newest=${newest##*/}
        newest=${newest%%Z-*}Z
        expr "x$newest" \> "x$now" >/dev/null && now=$newest
    fi
    number=$((1${number%%-*} % 1000000 + 1)) # the 1 keeps the shell from reading 000010 as octal
    kept=$spool/$now-$(printf %06d "$number")-$id
    [ -n "$spool" ] && mkdir -p "$spool" && true >"$kept.part"
}

# deliver: store the event and send the spool. If it cannot be stored, send it alone.
deliver() {
    if ! write_event; then
        post_event "$body" "$(query_of "$kept")" 20
        return
    fi
    trim_spool
    case $status in
    queued) flush ;;
    '') sleep 1 && flush ;; # the hub may still be working on it
    esac
}

write_event() {
    trap 'rm -f "$kept.part"' EXIT
    [ -f "$kept.part" ] && [ "${#body}" -le "$max_bytes" ] &&
        printf '%s' "$body" | MEMORYHUB_SPOOL_KEY=$token openssl enc -aes-256-cbc -pbkdf2 \
            -pass env:MEMORYHUB_SPOOL_KEY -out "$kept.part" && mv "$kept.part" "$kept"
}

# query_of FILE: print the query that delivers an event of the spool, nothing for another name.
query_of() {
    printf '%s\n' "${1##*/}" | sed -n \
        's/^\(.\{10\}\)T\(..\)-\(..\)-\(..Z\)-[0-9]*-\([0-9a-f]*\)$/event_id=\5\&at=\1T\2:\3:\4\&late=true/p'
}

# trim_spool: remove events older than 7 days, of other tokens too, and the oldest above the size limit.
trim_spool() {
    find "${spool%/*}" -maxdepth 2 -type f -name '20??-??-??T??-??-??Z-*' -mtime +6 -exec rm -f {} +
    for file in "$spool"/20*Z-*[0-9a-f]; do
        [ "$(du -sk "$spool" | cut -f 1)" -gt "$spool_kib" ] || return
        rm -f "$file"
    done
}

# flush: send the events of the spool in order, one sender at a time, until the hub does not take one. It skips
# up to ten that a proxy refuses, so that they do not block the others.
flush() {
    find "$spool/lock" -prune -mmin +5 -exec rmdir {} \;
    mkdir "$spool/lock" || return
    trap 'rmdir "$spool/lock"' EXIT
    trim_spool
    skipped=0
    while [ "$skipped" -le 10 ] && next_file "$skipped"; do
        touch "$spool/lock"
        query=$(query_of "$file")
        event=$(MEMORYHUB_SPOOL_KEY=$token openssl enc -d -aes-256-cbc -pbkdf2 -pass env:MEMORYHUB_SPOOL_KEY \
            -in "$file") && [ -n "$query" ] || event=
        if [ -n "$event" ]; then
            post_event "$event" "$query" 20 $((waiting - 1))
            case $answer$status in
            408 | 429) return ;;
            4??)
                skipped=$((skipped + 1))
                continue
                ;;
            esac
            is_final || return
        fi
        rm -f "$file"
        [ ! -e "$file" ] || return
    done
}

# next_file COUNT: set $file to the first event after so many, and $waiting.
next_file() {
    list_spool
    [ "$waiting" -gt "$1" ] || return
    skip=$1
    set -- "$spool"/20*Z-*[0-9a-f]
    shift "$skip"
    file=$1
}

# new_messages: print the messages of the transcript after the offset $sent, up to $size.
new_messages() {
    head -c "$size" "$path" | tail -c "+$((sent + 1))" | grep -E '^\{.*"type":"(user|assistant)".*\}$' |
        grep -v '"type":"tool_result"'
}

# Offsets of sent transcripts are in files SESSION.sent, numbers of messages that were left out in SESSION.lost.
send_transcript() {
    [ -n "$has_data" ] || return
    path=$(field transcript_path | sed 's/\\\\/\\/g')
    cwd=$(field cwd)
    find_repository
    session=$(field session_id | tr -dc 'A-Za-z0-9_-')
    [ -n "$session" ] && [ -f "$path" ] || return
    find . \( -name '*.sent' -o -name '*.lost' -o -name 'root.*' \) -mtime +60 -exec rm -f {} + -o -name 'event.*' -mtime +1 -exec rm -f {} +
    sent=$(cat "$session.sent" || echo 0)
    size=$(wc -c <"$path")
    [ "$size" -gt "$sent" ] || return

    found=$(new_messages | grep -c '')
    messages=$(new_messages | tail -n "$max_messages")
    if [ "${#messages}" -gt "$max_bytes" ]; then
        messages=$(printf '%s' "$messages" | tail -c "$max_bytes" | sed 1d)
    fi
    lost=$((found - $(printf '%s' "$messages" | grep -c '')))
    answer=$({
        printf '{"session_id":"%s","cwd":"%s",%s"messages":[' "$session" "$cwd" \
            "${repository:+\"repository\":$repository,}"
        printf '%s\n' "$messages" | paste -s -d , -
        printf ']}'
    } | post /extract 20) || return
    case ${answer##*"$newline"} in
    2??)
        echo "$((size))" >"$session.sent"
        [ "$lost" = 0 ] || echo "$lost" >"$session.lost"
        ;;
    esac
}

# report_loss: add to $answer, once, how many messages send_transcript left out. Claude Code shows it to the user.
report_loss() {
    [ -n "$has_data" ] || return
    set -- *.lost
    [ -e "$1" ] || return
    file=$(first_field session_id | tr -dc 'A-Za-z0-9_-').lost
    lost=$(tr -dc 0-9 <"$file")
    [ -n "$lost" ] || return
    loss="memoryhub: older messages left out at the compaction, which sends at most 1 MiB: $lost"
    case $answer in
    *'"systemMessage":'*) return ;; # the next answer has room
    '{}') answer="{\"systemMessage\":\"$loss\"}" ;;
    '{'*) answer="{\"systemMessage\":\"$loss\",${answer#?}" ;;
    *) return ;;
    esac
    rm -f "$file"
}

read_event
case $1 in
event) send_event ;;
transcript) send_transcript >/dev/null ;;
esac
exit 0
