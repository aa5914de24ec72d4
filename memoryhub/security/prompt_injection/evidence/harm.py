"""Something is kept from the user, sent away or destroyed. Pure data; see ``evidence/__init__.py``."""

from __future__ import annotations

from memoryhub.security.prompt_injection.evidence.row import Row

SECRECY: tuple[Row, ...] = (
    ("keeps it from the user", 1.1, "!", "{donot} _2 {tell} _3 {person}(?!{to}|{what})"),
    (
        "keeps it from the user",
        1.0,
        "",
        "{donot} _3 {tell} _2 {user} ~4 {this}|{secretly} ~4 {donot} ~1 {tell} ~2 {user}",
    ),
    ("keeps it from the user", 1.1, "", "{user} ~8 {tellnot}|{this} ~6 {user} ~4 {tellnot}"),
    (
        "keeps it from the user",
        1.0,
        "!",
        "{tell} ~3 {user} ~3 {nothing} ~3 {this}|{tell} ~2 {nothing} ~3 {this} ~3 {user}"
        "|{tell} ~2 {nothing} ~2 {user}",
    ),
    (
        "keeps it from the user",
        1.0,
        "!",
        "{donot} _4 {user} _2 {tell}(?!{user})|{tell} ~2 {user} ~2 {nothing}",
    ),
    (
        "hides it from the user",
        1.0,
        "!",
        "{hide} ~1 {this} ~1 {deed} ~4 {from} ~2 {user}"
        "|{hide} ~1 {yourdeed} ~3 {from} ~2 {user}|{hide} ~4 {hidden} ~2 {from} ~2 {user}",
    ),
    (
        "does it in secret",
        0.5,
        "!",
        "{run} ~6 {secretly}|{secretly} ~1 {run}|{secretly} ~8 {donot} ~2 {tell}",
    ),
    ("the user must not learn of it", 1.0, "", "{user} ~1 {donot} ~1 {tell} ~2 {you}"),
    ("forbids to speak of it", 1.0, "!", "{donot} _2 {tell} _3 {this} ~3 ({orders}|{matter})"),
    (
        "forbids to speak of it",
        0.9,
        "",
        "<youmust> ~2 {donot} ~1 {tell} ~3 {you}|{donot} ~2 {tell} ~2 {you} ~4 {received}",
    ),
    ("forbids to speak of what was done", 0.9, "!", "{donot} . ~2 {yourdeed}"),
    ("keeps it from the user", 1.1, "!", "{tell} {tellneg} ~3 {user}"),
    ("says nothing to anybody", 0.4, "+rest", "{tellnot}(\n|$)"),
    ("says nothing to the user", 0.5, "+rest", "{donot} ~3 {user}"),
    ("carries on as if nothing happened", 0.6, "+rest", "{asusual}"),
)

EXFILTRATION: tuple[Row, ...] = (
    (
        "sends private data away",
        1.1,
        "!",
        "{send} ~9 ({sensitive}|{secretpath}|{bulk}) ~12 ({url}|{mail}|{public})",
    ),
    ("sends private data away", 0.6, "!", "{send} ~9 ({url}|{mail}) ~9 ({sensitive}|{secretpath})"),
    (
        "collects private data and sends it away",
        1.0,
        "!",
        "{collect} ~9 ({sensitive}|{bulk}|{secretpath}|{somedata}) ~6 {and} ~1 {send} ~9"
        " ({url}|{mail}|{public})",
    ),
    (
        "collects private data and sends it away",
        1.0,
        "!",
        "{collect} ~9 ({sensitive}|{bulk}|{secretpath}) ~6 {to} ~2 ({url}|{public})",
    ),
    (
        "sends private data away",
        1.0,
        "",
        "({bulk}|{secretpath}|{sensitive}) ~6 {and} ~1 {send} ~4 ({url}|{mail}|{public})"
        "|({bulk}|{secretpath}|{sensitive}) ~9 {sendend}",
    ),
    ("sends private data away", 1.0, "", "({url}|{mail}) ~6 ({bulk}|{secretpath}|{sensitive}) ~4 {sendend}"),
    (
        "reads private data, and in another sentence sends it away",
        1.0,
        "!",
        "{collect} ~6 ({secretpath}|{sensitive}|{bulk}) ~3 %5 {send} ~1 ({it}|{them}|{what} {you} .)"
        " ~4 ({url}|{mail}|{public})",
    ),
    ("sends data away", 0.4, "!", "{send} ~6 {somedata} ~9 ({url}|{mail}|{public})"),
    (
        "collects private data",
        0.5,
        "!+what",
        "({send}|{collect}) ~5 {user} ~2 ({bulk}|{sensitive}|{somedata})|({send}|{collect}) ~5 {secretpath}",
    ),
    ("collects secrets", 0.4, "!+what", "({send}|{collect}) ~5 {sensitive}"),
    ("to an address", 0.4, "!+where", "{send} ~9 ({url}|{mail}|{public})"),
    (
        "uses a tool to send",
        0.6,
        "!+tool",
        "{use} ~3 {tool} ~9 {send} ~9 ({url}|{mail})|{send} ~4 {secretpath} %6 ({url}|{mail})",
    ),
    ("sends something encoded", 0.6, "", "{base64} ~6 {send} ~4 {url}"),
    ("fetches orders from an address", 1.1, "!", "{visit} ~4 {url} ~3 {anddo}"),
    ("puts data into an address", 0.9, "", "({bulk}|{sensitive}|{them}) ~9 {public} ~9 {url}"),
    ("whenever the model works, sends", 0.7, "+when", "{whenever} ~6 {send} ~9 ({url}|{mail})"),
    ("a command that sends secrets away", 1.2, "", "{leak}"),
    ("sends all files away", 1.1, "!", "{send} ~2 {allfiles} ~5 {workdir} ~5 ({url}|{mail}|{public})"),
    ("sends all files away", 1.1, "!", "{send} ~2 {allfiles} ~6 ({url}|{mail}) ~4 {before}"),
    ("sends all files away", 1.1, "", "{workdir} ~4 {allfiles} ~3 {send} ~6 {url}"),
    (
        "a secret file is to be put into the answer",
        0.5,
        "+tag",
        "{tag} %6 {collect} ~4 ({secretpath}|{sensitive})|{collect} ~3 {secretpath} ~4 {in}? ~4 {output}",
    ),
)

DESTRUCTIVE: tuple[Row, ...] = (
    ("orders the model to do harm", 1.1, "", "({machine}|{assistant}) ~1 [,:]{soft}* ~1 {run} ~6 {harm}"),
    (
        "orders the model to do harm",
        1.0,
        "",
        "{agent} ~1 {ought} ~2 {run} ~6 {harm}|{agent} ~1 {must} ~2 {run} ~6 {harm}",
    ),
    ("orders the model to do harm", 1.0, "!", "{run} ~9 {harm} ~9 ({machine}|{assistant})"),
    ("orders a destructive command", 0.5, "!", "{run} ~5 {danger}"),
    (
        "orders a destructive command",
        1.0,
        "",
        "<youmust> ~3 {run} ~4 {danger}|({machine}|{roleuser}|{rolesys}) ~9 {danger}"
        "|{use} ~3 {tool} ~5 {danger}",
    ),
    ("has a tool used", 0.5, "!+tool", "{use} ~3 {tool} ~1 {to} ~1 ({run}|{send})"),
    ("in a system file", 0.3, "+where", "{run} ~3 {secretpath}"),
    ("urges to do harm", 0.8, "", "{alert} ~1 {colon} ~1 {run} ~3 {harm}"),
    ("orders harm", 0.6, "", "<youmust> ~2 {run} ~7 {harm}|{before} ~9 {run} ~6 {harm}"),
    ("orders a dangerous act", 0.4, "!", "{wreck} ~4 {harm}"),
    ("without asking", 0.7, "+ask", "{noask}"),
    ("without asking", 0.5, "+ask", "{unasked}"),
    ("without asking", 0.4, "+act", "{run} ~9 {noask}|{noask} %9 {run}"),
    ("without asking", 0.3, "+act", "{run} ~9 {unasked}"),
    (
        "has a tool called before the answer",
        1.1,
        "",
        "{beforeanswer} ~3 {use} ~4 ({toolname}|{tool})|{beforeanswer} ~4 {use} ~3 {toolname}",
    ),
    ("has a tool called before the answer", 1.1, "!", "{use} ~4 ({toolname}|{tool}) ~7 {beforeanswer}"),
    ("has a tool called for everything", 0.6, "!", "{use} ~2 {tool} ~1 {toolname} ~4 {all}"),
    ("has a tool called for everything", 0.5, "!", "{use} ~2 {toolname} ~4 {all}"),
    (
        "has a tool called with what is private",
        0.9,
        "!",
        "{use} ~2 {toolname} ~3 {user} ~3 ({bulk}|{somedata})",
    ),
)
