"""Whoever reads is spoken to, or somebody else seems to speak. Pure data; see ``evidence/__init__.py``."""

from __future__ import annotations

from memoryhub.security.prompt_injection.evidence.row import Row

ADDRESSED: tuple[Row, ...] = (
    ("speaks to the model that reads this", 0.7, "", "{reader}"),
    ("speaks to the model that reads this", 1.0, "", "{reader} ~9 ({run}|{answer}|{whoshall}|{stop})"),
    ("speaks to the model that reads this", 0.6, "+then", "{reader} %9 ({run}|{answer}|{whoshall})"),
    ("a call for attention, then the model", 0.6, "", "{alert} ~3 {colon} ~2 {agent} ~3 {must}"),
    ("a call for attention to the model", 1.0, "", "{alert} ~3 {machine} ~3 {colon}"),
    ("calls the model and orders", 1.0, "", "(^|[\n/,:])({soft}|.)? ~1 {machine}[,:]{soft}*{run}"),
    (
        "calls the assistant and orders",
        0.7,
        "",
        "(^|[\n/,:])({soft}|.)?{assistant},{soft}*({run}|{ignore}|{discard})",
    ),
    (
        "calls the assistant and orders",
        0.5,
        "",
        "(^|[\n/,:])({soft}|.)?{agent},{soft}*({run}|{ignore}|{discard})",
    ),
    ("the model that reads this", 0.9, "", "{agent} ~1 {reading} ~1 {this}"),
    ("calls the assistant and orders", 0.9, "", "(^|[\n/]){assistant}, ~9 <youmust>"),
    ("says what the model must do", 0.5, "", "{machine} ~2 {ought} ~1 ({run}|{answer})"),
    ("says what the assistant must do", 0.4, "", "{agent} ~1 {must} ~2 ({run}|{answer})"),
    ("speaks as to a model", 0.5, "+as", "{as} ~1 {agent} ~4 <youmust>|{as} ~2 {agent}"),
)

ROLE: tuple[Row, ...] = (
    (
        "a system message to the model",
        1.0,
        "",
        "{rolesys} ~8 ({you}|{agent}) ~4 ({must}|{ought}|{unbound}|{answer}|{run}|{mode}|.)",
    ),
    ("a system message that orders", 0.9, "", "{rolesys} %1 {soft}*({run}|{show}|{answer}|{donot})"),
    ("a system message", 0.5, "", "{rolesys}"),
    (
        "a system message about rights",
        0.6,
        "+rights",
        "{rolesys} %9 ({noask}|{norefuse}|{limits} ~5 {off}|{void}|{authority})",
    ),
    (
        "a turn in which the model gives in",
        0.9,
        "",
        "{roleuser} ~8 ({ignore}|{tellout}) ~4 ({orders}|{rules}|{secret}|{secretprompt})",
    ),
    ("a turn of the conversation", 0.3, "", "{roleuser}"),
    ("a turn that answers another", 0.5, "", "{roleuser} %9 {roleuser}"),
)

NOTICE: tuple[Row, ...] = (
    (
        "an official notice that changes the rules",
        0.7,
        "",
        "({alert}|{machine}) ~6 ({limits}|{orders}|{mode}) ~6 {off}",
    ),
    ("claims authority", 0.6, "+who", "{authority}"),
    (
        "permits what is forbidden",
        0.7,
        "",
        "<youmust> ~6 {without} ~3 {limits}|{you} ~1 {must} ~2 {norefuse}",
    ),
)
