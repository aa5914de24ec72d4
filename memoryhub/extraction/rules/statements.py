"""Sentence forms that state a fact, a preference or an event, and the names of people in them. No Django."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

CANDIDATE_THRESHOLD = 1.0


class Sign(NamedTuple):
    """A weighted pattern. An empty ``category`` supports any category; ``why`` is shown to people."""

    category: str
    weight: float
    why: str
    pattern: re.Pattern[str]


def any_of(*patterns: str, case: bool = False) -> re.Pattern[str]:
    """Compile alternatives into one pattern; ``case`` makes it case-sensitive."""
    return re.compile("|".join(patterns), 0 if case else re.IGNORECASE)


_NO_NAME = (
    r"(?!(?:I|We|You|They|He|She|It|This|That|The|These|Those|There|My|Our|Your|Who|What|If|When|And|But|So|Ok"
    r"|Please|Wir|Ich|Sie|Er|Es|Das|Die|Der|Yo|El|La|Nous|Je|One|Some|All|Each|Every|Nobody|Everyone)\b)"
)
NAME = _NO_NAME + r"[A-ZÄÖÜÉ][a-zäöüßéèáíóúñ]{1,20}(?:\s[A-ZÄÖÜÉ][a-zäöüßéèáíóúñ]{1,20}){0,2}"
# Verbs in the third person; plural nouns ("Python developers") do not match.
PERSON_VERBS = (
    r"(?:is|was|has|had|will|does|did|doesn'?t|won'?t|can|can'?t|must|owns|leads?|manages?|maintains?|runs|handles?|wants|needs"
    r"|left|joined|wrote|works|worked|takes|took|knows|lives|lived|prefers?|decides?|reviews?|writes|keeps|chairs|signs"
    r"|approves|likes?|loves?|hates?|plays|started|starts|studies|studied|teaches|comes|goes|moved|moves|joins|leaves"
    r"|speaks|uses|drives|cooks|sings|sells|buys|pays|builds|organi[sz]es|looks\safter|reports\sto|sits|eats|drinks"
    r"|coordinates|supervises|responds|enjoys|graduated|grew|was\sborn|ist|hat|wohnt|arbeitet|leitet|heißt|est|a|habite|travaille"
    r"|es|vive|trabaja)"
)
# A role or a thing in the position of a name.
_ROLE = (
    r"(?!(?:User|Users|Human|Person|Customer|Client|Developer|Someone|Somebody|Name|Also|Now|Here|Currently"
    r"|Their|His|Her)\b)"
)
_SUBJECT = re.compile(rf"(?:^|[.!?\n]\s*)(?:[-*]\s)?{_ROLE}(?P<name>{NAME})(?:\s\w+ly)?\s{PERSON_VERBS}\b")
_INTRODUCED = re.compile(
    rf"\b(?:[Mm]y\sname\sis|[Nn]ame\s?(?:is|:)|[Cc]all\sme|(?:is|am|are)\s(?:called|named)|I\sam|I'm|[Ii]ch\sheiße|[Mm]e\sllamo|[Jj]e\sm'appelle)\s"
    rf"(?P<name>{NAME})"
)
_MAX_SEARCHED_CHARS = 4000


def find_names(text: str) -> set[str]:
    """Return the first names (casefolded) of the people that a text is about."""
    start = text[:_MAX_SEARCHED_CHARS]
    found = [one["name"] for pattern in (_SUBJECT, _INTRODUCED) for one in pattern.finditer(start)]
    return {_fold_name(name.split()[0]) for name in found}


def name_different_people(one: str, other: str) -> bool:
    """Return whether both texts name people and have none in common."""
    mine, theirs = find_names(one), find_names(other)
    return bool(mine and theirs) and not mine & theirs


def _fold_name(name: str) -> str:
    decomposed = unicodedata.normalize("NFKD", name.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


CLAIM_WEIGHT = 0.7
_COUNT = (
    r"(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|\d+|no|only|about|around|over|some|several)"
)
_ADVERB = r"(?:\w+ly\s|just\s|also\s|even\s|already\s|now\s|always\s|usually\s|often\s|both\s|all\s)?"
# Things of the moment or of the conversation itself.
_NOT_TRANSIENT = (
    r"(?!(?:\S+\s){0,3}(?:questions?|problems?|issues?|ideas?|doubts?|thoughts?|look|feeling|guess|point|moment|bug|errors?|try"
    r"|hunch|favou?r|chance|great|lot|bit|list|function|table|file|script|code|string|array|column|dataframe|class|method|draft)\b)"
)
CONCRETE = re.compile(
    r"(?<=[a-zäöüß,;:)]\s)(?!I\b|I')[A-ZÄÖÜ][\w-]*|\d|`[^`]+`|\w[_/@]\w|\w\.[a-z]|[a-z][A-Z]|\b[A-Z]{2,}"
    r"|\b(?:two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|thirty|hundred|half|daily|weekly|monthly|yearly)\b"
)
# First person, present tense, without verbs of the moment, of thinking and of asking.
_NOT_MOMENTARY = (
    r"(?!(?:need|want|think|know|mean|guess|hope|agree|wonder|believe|feel|try|see|get|got|click|tap|open|call|say|said|ask|asked|just"
    r"|remember|forget|forgot|assume|suppose|suspect|notice|noticed|find|hear|heard|thought|knew|understand|understood|appreciate|bet"
    r"|can|can't|cannot|could|couldn't|would|wouldn't|will|won't|shall|should|shouldn't|might|may|must|do|don't|did|didn't|am|was|were|had"
    r"|have|haven't|hadn't|saw|tried|wanted|needed|looked|really|totally|definitely|also|never|always|promise|swear|wish|love|like|imagine)\b)"
)
# Capitalised sentence openers that are no names.
_PERSON_SUBJECT = (
    r"(?!(?:\w+ing|Glad|Wish|Its|Just|Once|Then|Now|Those|Also|Here|Family|How|Why|Both|Another|Any|No|Not|Yes|Only|Such|Thank\w*"
    r"|Hope\w*|Got|Nice|Sorry|Next|Last|Today|Yesterday|Tomorrow|Still|Maybe|Everything|Nothing|Something|Anything|Someone|Anyone"
    r"|His|Her|Their|After|Before|Since|While|Because|As|For|In|On|At|With|From|To|By|People|Users|Whatever|Where|Life)\b)"
    + NAME
)
_PAST = (
    r"(?:adopted|bought|sold|opened|closed|launched|released|shipped|migrated|moved|switched|upgraded|replaced|dropped|hired"
    r"|lost|won|finished|completed|graduated|passed|joined|left|quit|retired|married|signed(?:\sup)?|booked|ordered|organi[sz]ed|attended"
    r"|visited|travel?led|met|founded|published|recorded|painted|learned|learnt|taught|applied|received|rolled\sout|grew\sup|was\sborn"
    r"|got\s(?:married|engaged|divorced|promoted|hired|a|an|my|our|the|two|new)|had\s(?:a|an|our|my)|took\s(?:up|part|over|my|our|a)|started|began|went|ran|made|built|wrote"
    r"|created|tried|raised|earned|read|watched|tested|presented|celebrated|discovered|increased|reduced|improved|extended|deployed|enrolled|accepted|scheduled|submitted|registered|subscribed|secured|allocated|volunteered)"
)
_SOON = (
    r"(?:moving|getting|leaving|switching|starting|training|preparing|applying|hiring|building|writing|learning|taking|planning|launching"
    r"|flying|travel?ling|having|expecting|hosting|running|migrating|opening|selling|buying|renovating|working|aiming|saving|organi[sz]ing|reading|using|earning)"
)

CLAIM_SIGNS: tuple[Sign, ...] = (
    # Statements about oneself.
    Sign(
        "profile",
        CLAIM_WEIGHT,
        "states something of themself",
        any_of(
            rf"^i\s{_ADVERB}{_NOT_MOMENTARY}[a-z]+(?<!ed)\s\S+",
            rf"\b(?:i'm|i\sam|we're|we\sare)\s{_ADVERB}{_SOON}\b(?!\s(?:trouble|issues?|problems|a\shard\stime|on\s(?:it|this|that)\b))",
            r"\bi(?:'ve|\shave)\sbeen\s\w+ing\b(?!\s(?:about|to)\b)",
            r"\b(?:i\sused\sto|i\s(?:grew\sup|was\sborn)|(?:my|our)\smain\s\w+)\b",
        ),
    ),
    Sign(
        "profile",
        1.0,
        "says what they have or are",
        any_of(
            r"\bi(?:'m|\sam)\s(?:\w+\s)?(?:\d\d(?!\d)(?=\W*$|\syears|\sand|,)|lactose|gluten|diabetic|pregnant|married|divorced|single|retired|deaf|blind|dyslexic|intolerant"
            r"|coeliac|celiac|asthmatic|colou?r-?blind|kosher|halal|pescatarian|self-employed|freelanc\w+|unemployed)\b",
            r"\bi(?:'m|\sam)\s(?:currently\s)?(?:in|doing)\smy\s\w+",
            rf"\b(?:i|we)(?:'ve\sgot|\shave|\sown|\skeep)\s{_COUNT}\s{_NOT_TRANSIENT}\w+",
            r"\bmy\s(?:left\s|right\s|bad\s|lower\s)?(?:knees?|back|shoulder|ankle|hip|wrist|eyes|hearing|blood\spressure|asthma|diabetes)\b",
            r"\b(?:because\sof|due\sto)\smy\s\w+|\bi\scan(?:'t|not)\s(?:have|eat|drink|do|work|use)\s\w+",
            r"\b(?:i|we)\shave\sto\s(?:avoid|watch|stay|keep|use|comply|support|be)\b",
        ),
    ),
    # Statements about people and things.
    Sign(
        "entities",
        1.0,
        "says what somebody is or does",
        any_of(
            rf"(?:^|[a-z,;:]\s){_PERSON_SUBJECT}(?:\s(?:from|in|at|of)\s\w+)?\s(?:\w+ly\s)?(?!is\b|was\b|can\b|can't\b|will\b|a\b|es\b|est\b|did\b)"
            rf"{PERSON_VERBS}\s\S+",
            rf"[a-z,;:]\s{_PERSON_SUBJECT}\s(?:is|was|will|can|can't)\s\S+|^{_PERSON_SUBJECT}\s(?:will\s(?!be\b)|can't\s|is\s(?:\w+ing|\d+|in|at|on|from|taking)\b)",
            rf"(?:^|[a-z,;:]\s){_PERSON_SUBJECT},\s(?:my|our|the|an?|who)\s[^,]{{2,40}},\s[a-z]+\s\w+",
            rf"\b(?:belongs?|reports?)\sto\s{_PERSON_SUBJECT}|\b(?:ask|ping|talk\sto|contact)\s{_PERSON_SUBJECT}\s(?:for|about|if|when|before)\b",
            case=True,
        ),
    ),
    Sign(
        "entities",
        1.0,
        "says something of what is theirs",
        any_of(
            rf"\b(?:my|our)\s{_NOT_TRANSIENT}(?!(?:name|understanding|opinion|mind|mistake|bad)\b)(?:[\w'-]+\s){{1,3}}(?:is|are|has|have|runs?|uses?|lives?|goes|gives?|starts?|ends?|works?|was|were|does|doesn't"
            r"|can't|won't|needs?|wants?|comes?|plays?|keeps?|belongs?|costs?|expires?|depends?|relies|pays?|turns|turned)\s\S+",
            r"^(?:(?:the|our|my)\s)?(?:budget|goal|target|limit|stack|backend|frontend|database|audience|schedule|constraint|requirement|priority|linter|formatter|ci|deploy\w*)\b"
            r".{0,40}\b(?:is|are|runs?|uses?|has|must)\b\s\S+",
            r"\bthere\sare\s(?:\w+|\d+)\sof\sus\b|\bit(?:'s|\sis)\s(?:deployed|hosted|written|built|managed|maintained|owned|stored|located|based)\s(?:on|in|with|by|at)\b",
            r"\b(?:is|are|gets?|runs)\s(?:deployed|hosted|built|backed\sup|stored|maintained|owned|managed)\s(?:on|in|with|by|at|to|as|under|every|via)\b",
            r"^we\s(?:also\s|only\s|mostly\s)?(?:sell|host|offer|serve|support|rent|target|ship|pay)\s\w+",
            r"\bnobody\s(?:here\s|else\s|on\s\w+\s)?(?:has|can|is)\s\w+",
            r"\b(?:she|he|it)(?:'s|\sis)\scalled\s\w+|,\sa\s(?:dog|cat|puppy|kitten|toddler|baby)\b",
        ),
    ),
    Sign(
        "entities",
        CLAIM_WEIGHT,
        "states what something is",
        any_of(
            r"^we\s(?:use|have|run|support|sell|store|keep|only|work|build|do|own|make|deploy|are|'re|also)\s\S+",
            r"^(?!(?:it|this|that|those|these|there|here|you|they|he|she|i|what|which|so|if|when|once|before|after|while|how|why)\b)(?:[\w'()/.-]+\s){1,5}(?:will|must|can|can't|won't|doesn't|don't|belongs?|comes?|starts?|ends?|takes?|holds?|contains?|supports?|owns?|does|was|were)\s\S+",
        ),
    ),
    Sign(
        "entities",
        1.0,
        "says what something is, in another language",
        any_of(
            r"\bwir\s(?:nutzen|verwenden|haben|betreiben|arbeiten\smit|sind)\s(?!uns\b|gerade\b|ein\sproblem|das\sproblem|beschlossen|entschieden|vereinbart)\w+",
            r"\b(?:ist|sind|bin)\s(?:\w+\s)?(?:zuständig|verantwortlich)\b|\bkümmert\ssich\sum\b",
            r"\b(?:mein|unser)e?\s(?!frage|problem)\w+\s(?:ist|sind|hat|läuft|heißt|wohnt|arbeitet|mag|isst)\s\w+",
            r"\bich\shabe\s(?:eine?n?|zwei|drei)\s(?!(?:kurze\s|kleine\s)?(?:frage|problem|idee|fehler|bitte))\w+",
            r"(?:我们(?:使用|用|有)|我(?:住在|有一)|(?:使って|利用して)います|に(?:住んで|勤めて)います|で働いています)",
            r"\b(?:usamos|tenemos|trabajamos\scon|utilizamos)\s(?!un\sproblema)\w+|\b(?:mi|nuestr[oa])\s(?!pregunta)\w+\s(?:es|está|se\sllama|tiene|vive)\s\w+",
            r"\b(?:nous\sutilisons|on\sutilise|nous\savons)\s(?!un\sproblème|décidé)\w+|\b(?:mon|ma|notre)\s(?!question)\w+\s(?:est|a|s'appelle|habite)\s\w+"
            r"|\best\sresponsable\s(?:de|du|des)\b|\bs'occupe\s(?:de|du|des)\b",
        ),
    ),
    Sign(
        "patterns",
        0.3,
        "says how it is done",
        any_of(
            r"\b(?:is|are)\s(?:\w+ly\s)?\w+(?:ed|en|wn|pt|lt|t)\s(?:in|with|as|by|under|via|using|per|from|into|through)\s\w+|\b(?:go|goes|live|lives)\s(?:in|under|into|on)\s\S+",
            r"^(?:\w+\s){1,2}(?:are|is)\s\w+-(?:driven|based|only|first|free|style)\b",
        ),
    ),
    # Lasting instructions for the agent.
    Sign(
        "patterns",
        1.0,
        "forbids or demands it for good",
        any_of(
            r"^(?:so\s|and\s|please\s|pls\s)*(?:don'?t|do\snot)\s(?:ever\s)?(?:touch|use|commit|push|install|edit|modify|mention|break|introduce|rely|auto-?\w+|guess|invent)\b",
            r"\bso\s(?:please\s|pls\s)*(?:don'?t|do\snot|no|never|keep|use|avoid|prefer)\s\w+",
            r"\b(?:use|with|write|in|run|is|are|say|call)\s(?:\S+\s){0,2}\S+,\s(?:not|never)\s\S+|^\S+,\s(?:not|never)\s\S+$",
            r"^(?:please\s)?(?:run|check|update|add|ask|tell|show|write|include|start|end|put|test|explain|give)\s(?:\S+\s){0,8}(?:after|before|with|for|in|on|to)\s(?:each|every|all|any)\s\w+",
            r"\bask\s(?:me\s|us\s)?(?:first|before)\b|\bcheck\swith\s(?:me|us)\sbefore\b|^(?:ask|tell|warn)\sme\s(?:before|when|if)\b",
            r"^(?:no|avoid|only)\s(?!.*\b(?:last\snight|so\sfar|yet|since)\b)(?!(?:problem|worries|idea|need|thanks|way|one|luck|errors?|output|change|difference|more|longer|doubt|wonder|it|the|a)\b)(?:[\w-]+\s){0,2}[\w-]+(?:\s(?:in|please|at|during|for|on)\b|,\s|\.?$|\sand\s)",
            r"\b(?:at\s(?:most|least)|no\smore\sthan|max(?:imum|\.)?|min(?:imum|\.)?|under|up\sto|within)\s(?:\d+|one|two|three|four|five|ten|twenty)\s(?!(?:of|more)\b)\w+.{0,20}$",
            r"^(?:commits?|commit\smessages|branch(?:es|\snames)?|titles?|tests?|names?|files?|errors?|comments?|docs|docstrings?|messages?|variables?|functions?)\s(?:are|is|in|go|start|end|must|use|live|have|with|without)\s\S+",
        ),
    ),
    Sign(
        "preferences",
        1.0,
        "says what suits them",
        any_of(
            r"\b(?:works?|suits?|is\s(?:best|better|easier|fine))\s(?:best\s|better\s|well\s)?(?:for\s)?me\b(?!\s(?:now|too|either))|\bmy\s(?:main\s)?(?:hobb(?:y|ies)|passion|goal|dream|aim)\b",
            r"\bi(?:'m|\sam)\s(?:really\s|so\s|very\s|quite\s|totally\s)?(?:passionate\sabout|interested\sin|into|drawn\sto|obsessed\swith|keen\son|afraid\sof|scared\sof|fond\sof|a\s(?:big|huge)\sfan\sof)\s(?!it\b|this\b|that\b)\w+",
            r"\bone\sof\smy\s(?:favou?rites?|faves)\b|\b(?:i\salso\senjoy|i(?:'ve|\shave)\salways\s(?:loved|liked|wanted|hated))\b",
        ),
    ),
    # Past and future events.
    Sign(
        "events",
        CLAIM_WEIGHT,
        "tells what happened",
        any_of(
            rf"\b(?:i|we|he|she|they|who)(?:'ve|\shave|\shas|'d)?\s(?:just\s|recently\s|finally\s|also\s|even\s|actually\s|already\s|once\s|both\s|only\s)*{_PAST}\b",
            rf"\bmy\s(?:\w+\s){{1,2}}{_PAST}\b",
        ),
    ),
    Sign(
        "events",
        1.0,
        "tells news",
        any_of(
            r"\b(?:i|we)(?:'ve|\shave)?\s(?:just|recently|finally)\s(?:launched|opened\s(?:a|my|our)\s(?!ticket|issue|pr\b|pull)|bought|sold|adopted|joined|moved|quit|got\s(?:a|my|our|engaged|married|promoted)"
            r"|started\s(?:a|my|our|at|as|learning|taking|playing|going|working)|finished\s(?:my|our)|won|hired|enrolled|signed\sup|graduated|switched|retired)\b"
        ),
    ),
    Sign(
        "events",
        CLAIM_WEIGHT,
        "tells what happened",
        any_of(rf"\b{_PERSON_SUBJECT}\s(?:just\s|recently\s)?{_PAST}\b", rf"^{_PAST}\s\S+", case=True),
    ),
    Sign(
        "events",
        1.0,
        "tells a decision",
        any_of(
            r"\b(?:we|i)(?:'ll|\swill)\s(?:go\swith|stick\s(?:to|with)|opt\sfor|settle\s(?:on|for)|choose|take)\s(?!(?:it|that|this|a\slook|note|care)\b)\w+"
        ),
    ),
    Sign(
        "events",
        CLAIM_WEIGHT,
        "says what will be",
        any_of(
            r"\b(?:(?:we|they|she|he)(?:'ll|\swill)|(?:we|i|they)(?:'re\sgoing\sto|'m\sgoing\sto|\sare\sgoing\sto|'m\sgonna|'re\sgonna))\s(?!(?:bed\b|lunch\b|dinner\b|sleep\b|eat\b|be\sback|try|see|let|ask|check|look|think|have\sto|need|do|keep|get\sback)\b)\w+",
            r"\b(?:launch|release|meeting|exam|wedding|flight|move|review|migration|demo|appointment|company|contract|trip|party|concert|race|school|job|course|sprint)\b.{0,40}\b(?:comes?|starts?|ends?|begins?|runs\sout|expires?|happens?|is|are|takes\splace)\b",
        ),
    ),
)
