"""Weighted patterns that support or exclude a sentence as a candidate. No database access.

A sentence becomes a candidate from a total of 1.0. Patterns are bounded, so matching is linear in the
sentence.
"""

from __future__ import annotations

from collections.abc import Iterator

from memoryhub.extraction.rules.statements import CLAIM_SIGNS, CLAIM_WEIGHT, NAME, Sign, any_of

_KIN = (
    r"(?:wife|husband|partner|girlfriend|boyfriend|brother|sister|son|daughter|mother|father|mom|mum|dad"
    r"|grandmother|grandfather|aunt|uncle|niece|nephew|cousin|neighbou?r|flatmate|roommate|co-?host|co-?founder|teacher|coach"
    r"|professor|therapist|accountant|lawyer|parents|kids?|child(?:ren)?|friend|boss|manager|lead|supervisor|advisor|mentor|buddy|colleague|cto|ceo"
    r"|team|company|client|customer|employer|kund(?:e|in)|landlord|doctor|dog|cat|frau|mann|chefin?|kollegin?|bruder"
    r"|schwester|freundin?|gestora?|jef[ea]|hermano|hermana|mujer|marido|socio|socia|équipe|patron|collègue)"
)
_MONTH = (
    r"(?:jan(?:uary|uar)?|feb(?:ruary|ruar)?|march|märz|april|may|mai|june|juni|july|juli|aug(?:ust)?"
    r"|sept?(?:ember)?|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?)"
)
DATE = any_of(
    rf"\b\d{{1,2}}(?:st|nd|rd|th|\.)?\s(?:of\s)?{_MONTH}\b",
    rf"\b{_MONTH}\s\d{{1,2}}\b",
    rf"\b(?:until|till|by|in|since|from|on|bis|ab|zum)\s{_MONTH}\b",
    r"\b(?:next|this|on)\s(?:mon|tues|wednes|thurs|fri|satur|sun)day\b",
    r"\b(?:on|every)\s(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b",
    r"\b20\d\d-\d\d-\d\d\b|\b\d{1,2}[./]\d{1,2}[./](?:20)?\d\d\b",
    r"\b(?:next|last|this)\s(?:week(?:end)?|month|quarter|year|spring|summer|autumn|fall|winter|night)\b|\bQ[1-4]\b",
    r"\b(?:yesterday|tomorrow)\b|\blast\s(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\bon\sthe\s\d{1,2}(?:st|nd|rd|th)\b",
    r"\b(?:\d+|an?|two|three|four|five|six|a\sfew|a\scouple\sof)\s(?:day|week|month|year)s?\sago\b|\bin\s(?:two|three|four|five|six|\d+)\s(?:day|week|month)s\b",
    r"\bsince\s(?:i\swas|20\d\d|19\d\d|\w+day)\b|\bfor\s(?:\d+|two|three|four|five|six|ten|many|several)\s(?:weeks|months|years)\b",
    r"\bevery\s(?:(?:second|other|third|first)\s)?(?:day|morning|evening|night|week(?:end)?|month|quarter|year|(?:mon|tues|wednes|thurs|fri|satur|sun)day)s?\b",
)

HOW_TO_WRITE = any_of(
    r"^(?:please\s|could\syou\s|can\syou\s)?(?:write|use|name|format|keep|call|spell|quote)\s"
    r"(?!the\s|this\s|that\s|it\s|a\s|an\s|me\s)(?:\w+\s)?\w+s\s(?:in|with|without|as|to)\b",
    r"\b(?:after|before|in|with|to)\s(?:each|every|all)\s(?:of\s)?(?:(?:my|your|the)\s)?(?:messages?|answers?|replies|commits?|mails?|sentences?)\b",
    r"\bwhenever\s(?:you|i|we)\b|\beach\stime\s(?:you|i|we)\b",
    r"\bi\s(?:write|use|speak)\s(?:british|american|uk|us)\senglish\b",
)

# A lasting property: present tense, about a named thing.
STATED_PROPERTY = any_of(
    r"^(?!(?:it|this|that|there|here|you|i|he|she|they|what|which|so|if|when)\b)(?!.*\b(?:now|today|yesterday|currently|just|still|again)\b)"
    r"(?:[\w'()/.-]+\s){1,6}(?:is|are|isn't|aren't|runs?|uses?|has|have|lives?|goes|stays?|deducts?|costs?|works?|needs?|means?)\s"
)
SIGNS: tuple[Sign, ...] = (
    # Preferences: likes, wishes and dislikes of one person.
    Sign(
        "preferences",
        1.0,
        "says what they prefer",
        any_of(
            r"\bi(?:'d| would)?\s(?:(?:much|really|also|always|strongly|usually)\s)?(?:prefer|rather)\b",
            r"\bi\s(?:(?:really|absolutely|also)\s)?(?:like|love|enjoy)\s(?!to\s(?:know|ask|see)\b|it\b|that\b|this\b|your?\b|the\s(?:way|idea|thought|look|colou?rs?)\b|how\b|when\b|what\b)",
            r"\bi\s(?:(?:really|absolutely)\s)?(?:hate|dislike|detest|can(?:'t|not)\sstand|avoid)\b",
            r"\bi\sdon'?t\s(?:like|drink|eat|smoke|want\syou\sto|want\sto\s(?:see|be))\b",
            r"\bi\s(?:learn|work|think|read|write|focus)\s(?:\w+\s){0,2}(?:best|better)\b",
            r"\bi\s(?:always|rarely|hardly\sever|can\snever|never)\s(?!know|understand|seen|saw|said|heard|thought|had|have|get|got)\w+",
            r"\bmy\s(?:favou?rite|preference|preferred)\b|\bi(?:'m|\sam)\s(?:more\s)?(?:of\s)?an?\s\S+\s(?:learner|person|type)\b",
            r"^no\s\S+(?:\s\S+)?\splease\b|^(?:bitte\s)?keine?\s\w+.{0,60}\bbitte\b|^bitte\skeine?\s\w+",
            r"\bich\s(?:bevorzuge|mag|hasse|möchte\s(?:immer|keine?|lieber|nie)|will\s(?:immer|keine?|nie)|trinke|esse)\b",
            r"\b(?:prefiero|me\sgusta|no\sme\sgusta|odio|me\sencanta|je\spréfère|je\sdéteste|j'aime)\b",
            r"(?:が好き|が嫌い|の方がいい|喜欢|不喜欢|更喜欢)",
        ),
    ),
    Sign(
        "preferences",
        1.0,
        "asks for it always or never",
        any_of(
            r"^(?:please\s|pls\s|but\s|and\s)*(?:always|never|don'?t\sever|stop)\s(?!good|great|nice|fun|up\b|happy|say\b|a\b|so\b|mind\b|been\b)\w+",
            r"\bplease\s(?:always|never|don'?t\s(?:ever|send|add|use|write|call|explain))\b",
            r",\s(?:always|never)\s\w+(?:\s\w+)?$",
            r"^don'?t\s(?:\S+\s){1,12}unless\b",
            r"^(?:no|not)\s(?:an?\s|the\s)?\S+(?:\s\S+){0,3}\splease\b|\bnobody\s(?:wants|likes)\b",
            r"\bthat'?s\show\si\b|\bplease\s(?:without|with\sno|in)\s\w+",
            r"\bas\salways\b|^use\s(?:plain|simple|easy|formal|informal)\s\w+",
            r"\bplease\s(?:log|store|put|keep|save|write|track|name|tag)\s(?:all|every|each|any)\b",
            r"\bis\s(?:a\smust|non-negotiable|a\sno-go|off\slimits)\b|\bonly\s\S+.{0,40}\binstead\sof\b",
            r"\b(?:answer|reply|respond|talk|explain)\b.{0,40}\b(?:in\s[A-Z]\w+|short|brief\w*|concise\w*)\b",
            r"\b(?:from\snow\son|in\s(?:the\s)?future|going\sforward|next\stime)\b",
            r"\b(?:bitte|antworte|schreib|nutze|verwende)\b.{0,40}\b(?:immer|nie|niemals|stets)\b",
            r"\b(?:ab\sjetzt|künftig|in\szukunft|de\sahora\sen\sadelante|désormais|dorénavant)\b",
            r"^(?:por\sfavor\s|s'il\ste\splaît\s)?(?:siempre|nunca|toujours|jamais)\s\w+",
            r"(?:今後は|これからは|いつも.{1,30}ください|以后|总是|每次都)",
        ),
    ),
    Sign("preferences", 1.0, "says how it is to be written", HOW_TO_WRITE),
    # Patterns: how work is done here.
    Sign(
        "patterns",
        1.0,
        "says how things are done here",
        any_of(
            r"\b(?:we|our\steam|everyone|everybody)\s(?:always|never|only|usually|generally|normally|do\snot|don'?t|no\slonger)\s(?!have|know|need|think|want)\w+",
            r"\bwe\s(?:use|publish|send|meet|record|bill|store|log|host|release|deploy|test|write|name|format|build|version|track|review|merge|tag|ship)\s.{0,80}"
            r"\b(?:for|by|with|not|instead|because|via|through|on|from|every|in)\b",
            r"\bwe\s\w+\s.{1,80}\b(?:every|once\sa|twice\sa)\s(?:day|night|week|month|quarter|sprint|year)\b",
            r"\bno\s(?!(?:errors?|problems?|issues?|idea|output|response|luck|need|reason|difference|changes?|results?|one|way|more)\b)\w+\s"
            r"(?:after|before|in|on|at|without|during|outside)\s\w+",
            r"\b(?:a|our|the)\s(?:house\s)?(?:rule|policy)\b",
            r"\b(?:our|the)\s(?:brand|house)\s(?:voice|style)\b",
            r"\bin\sour\s(?:team|company|project|repo|repository|codebase|organi[sz]ation|shop)\b",
            r"\bwe\s(?:keep|write|make|do)\s(?:them|it|this|that|everything)\s\w+",
            r"\b(?:as\sa\s(?:rule|convention)|our\s(?:convention|policy|rule|process)|by\sconvention|the\srule\sis)\b",
            r"^(?!(?:it|that|this|you|they|there|she|he|i|which)\b)(?:\S+\s){1,6}(?:must(?!\s(?:have\sbeen|be\s(?:so|really|a|an|very|hard|tough|great|nice))\b)|must\snot|mustn'?t|has\sto|have\sto)\s(?:be|include|have|start|end|use|go|contain|never|always|not|stay|come|run|pass)\b",
            r"\b(?:titles?|names?|branches|commits?|messages|files|labels)\s(?:start|begin|end|are\sprefixed)\b",
            r"\b(?:is|are)\s(?:banned|forbidden|prohibited|read-only|deprecated|frozen|mandatory|not\sallowed|verboten|interdit|prohibido)\b",
            r"\b\w+s?\s(?:never|always|only)\s(?:goes?|runs?|belongs?|lives?|gets?|uses?|pushes|writes?|happens?)\s\w+",
            r"\bno\s(?:\w+\s){1,3}for\s(?:the\s)?(?:\w+\s){1,3}any\s?more\b|\bgoes\sinto\sthe\s\S+",
            r"\b(?:every|all|each)\s(?:\w+\s){1,4}(?:is|are|must|has|have|goes|go)\b.{3,}",
            r"\bno\s(?:\w+\s){1,4}(?:any\s?more|allowed|without)\b",
            r"\bwir\s(?:\w+\s){0,4}(?:immer|nie|niemals|nur|grundsätzlich|normalerweise)\b",
            r"\b(?:siempre|nunca|solo)\s(?:usamos|hacemos|publicamos)\b|\bon\s(?:utilise|fait)\stoujours\b",
            r"(?:必ず(?!.{0,20}ください)|毎回|必须|一定要|从不)",
        ),
    ),
    # Profile: facts about the user.
    Sign(
        "profile",
        1.0,
        "says who they are",
        any_of(
            r"\bmy\sname\sis\b|\bcall\sme\s[A-Z]",
            r"\bi(?:'m|\sam)\s(?:a|an|the|one\sof)\s(?!bit\b|little\b|big\sfan\b)\w+",
            r"\bi(?:'m|\sam)\s(?:from|based\sin|new\s(?:to|here|at|in)|responsible\sfor|in\scharge\sof|allergic|vegan"
            r"|vegetarian|left-handed|color-?blind|colour-?blind|studying|learning|writing\s(?:my|a)|working\s(?:on|as|at|for|in)"
            r"|making\s\w+|building\s\w+)\b",
            r"\bi\s(?:just\s|recently\s)?(?:joined|moved\sto)\b|\bi\s(?:work|live|study|teach)\s(?:at|for|as|in|on|with|from)\b",
            r"\bi\s(?:mostly|mainly|usually|normally|primarily|only)\s(?:write|use|work|code|program|speak)\b",
            r"\bi(?:'ve|\shave)\s(?:never|been|worked|used)\s(?!told|asked|trying|looking|thinking|waiting)\w+",
            r"\bi\s(?:maintain|own|run|lead|manage|coordinate|organi[sz]e|supervise|teach|look\safter)\s(?:a|an|the|my|this|our)\b",
            r"\bich\s(?:bin|heiße|arbeite|wohne|komme\saus|studiere|leite)\s(?!mir|gerade|nicht\ssicher|sicher)",
            r"\b(?:soy|me\sllamo|vivo\sen|trabajo\s(?:en|como|para)|tengo\suna?\s\w+\s(?:de|en))\b",
            r"\bje\s(?:suis|m'appelle|travaille|vis)\b|(?:私は.{1,30}です|と申します|我是|我叫|我在.{1,20}工作)",
        ),
    ),
    Sign(
        "profile",
        1.0,
        "names themself",
        any_of(rf"\b[Ii](?:'m|\sam)\s{NAME}(?=[,.!]|\s(?:from|and|of)\b|$)", case=True),
    ),
    # Entities: facts about people, projects and things.
    Sign(
        "entities",
        1.0,
        "says something about a person",
        any_of(
            rf"\b{NAME}\s(?:\w+ly\s)?(?:owns?|leads?|manages?|maintains?|runs|handles?|wants?|needs?|left|joined"
            r"|wrote|did|does|works|takes?\scare|took\sover|knows|lives|prefers|decides|reviews|is\s(?:responsible|in\scharge"
            r"|allergic|the\s\w+|our\s\w+|my\s\w+|on\s(?:leave|holiday|vacation)|a\s\w+|an\s\w+|vegan|vegetarian))\b",
            rf"\b(?:[Mm]y|[Oo]ur|[Mm]eine?|[Uu]nsere?|[Mm]i|[Nn]uestr[oa]|[Mm]on|[Mm]a|[Nn]otre)\s(?:\w+\s)?{_KIN}\b.{{0,60}}"
            r"\b(?:is|are|has|have|was|wants?|needs?|likes?|hates?|loves?|eats?|doesn'?t|can'?t|cannot|never|lives?|works?|does|says|called|named|ist|hat|heißt|will|zahlt|möchte|mag|braucht|arbeitet"
            r"|se\sllama|es|necesita|quiere|est|veut)\b",
            rf"\bmy\s{_KIN}(?:\sis)?\s{NAME}|\bthe\s{NAME}s\s(?:bring|want|have|are|live)\b",
            case=True,
        ),
    ),
    Sign(
        "entities",
        1.0,
        "says what something is",
        any_of(
            r"\b(?:the|our|my|this)\s(?:\S+\s){1,4}(?:is\s(?:called|named|owned|hosted|written|the\s(?:source|owner|main|only|default))"
            r"|runs\son|lives\s(?:in|on|at)|belongs\sto|consists\sof|points\sto|comes\sfrom|is\scalled)\b",
            r"\bit(?:'s|\sis)\scalled\s\w+",
            r"\b(?:is|are)\sthe\s(?:single\s)?source\sof\struth\b",
            r"\bwe(?:'re|\sare)\s(?:a|an|two|three|four|five|six|seven|eight|nine|ten|\d{1,4})\s\w+",
            r"\bwe\s(?:don'?t\shave|have\s(?:no|nobody|only|one|two|three|\d+))\b",
            r"\b(?:leadership|management|legal|finance|marketing|sales|support|security|the\s(?:board|client|customer|team|reviewers?|boss))\s(?:\w+ly\s)?"
            r"(?:likes?|wants?|hates?|prefers?|needs?|insists?|requires?|expects?)\b",
            r"\b(?:the|my|our)\s(?:balcony|flat|house|garden|office|car|server|laptop|machine|printer|phone)\s(?:faces|has|is|runs|stands)\b",
            r"\bnobody\s(?:\S+\s){0,5}(?:knows|uses|has|owns)\b",
            r"\b(?:doesn'?t|does\snot|don'?t)\s(?:sign|support|send|allow|accept|return|validate)\b.{3,60}\bonly\b",
        ),
    ),
    Sign(
        "profile",
        1.0,
        "says what they do",
        any_of(
            r"^i\s(?!(?:see|get|need|want|think|know|mean|have|tried|try|run|click|tap|open|call)\b)[a-z]+(?<!ed)\s(?:an?|my|our|the)\s"
            r"(?:\S+\s){0,3}(?:weekly|daily|monthly|every|each|regularly|for\sa\sliving)\b",
            r"^i\s(?!(?:see|get|need|want|think|know|mean|have)\b)[a-z]+(?<!ed)\s(?:an?|my|our|the)?\s?(?:weekly|daily|monthly|small|own)\b",
        ),
    ),
    Sign(
        "entities",
        0.5,
        "says what somebody is about to do",
        any_of(r"\b(?:he|she|they)(?:'s|'re|\sis|\sare)\s\w+ing\b"),
    ),
    Sign("entities", 0.3, "names somebody", any_of(rf"(?<=[a-z,]\s){NAME}\b", case=True)),
    # Events: decisions and plans.
    Sign(
        "events",
        1.0,
        "tells a decision",
        any_of(
            r"\b(?:we|i|they|the\steam)(?:'ve|\shave|\shad)?\s(?:just\s|also\s|finally\s|now\s)?"
            r"(?:decided|agreed|chose|settled\son|opted|committed\sto|voted)\b(?!\s*\?)",
            r"\b(?:we|i)(?:'re|\sare|'m|\sam)\sgoing\swith\b",
            r"\blet'?s\s(?:use|go\swith|keep|stick\s(?:to|with)|not|drop|switch\sto|move\sto|stay\swith|take)\s(?!that\b|it\b|this\b)\w+",
            r"\b(?!what|this|that|which|how)\w+\sit\sis\b(?=\W*$|\.|,|\s(?:then|with))",
            r"\b(?:the|our)\s\w+\s(?:has\s|have\s)?(?:just\s|finally\s)?(?:decided|agreed|voted|chose)\b|\bagreed,\s\w+|\bdecision:\s|\bit(?:'s|\sis|\swas)\sdecided\b|\bthe\sdecision\s(?:is|was)\b",
            r"\b(?:entschieden|beschlossen|vereinbart)\b|\bhemos\s(?:decidido|acordado)\b|\bdecidimos\b"
            r"|\bnous\savons\sdécidé\b|\bon\sa\sdécidé\b",
            r"(?:ことにしました|ことにした|に決めた|決定しました|决定了|我们决定)",
        ),
    ),
    Sign(
        "events",
        1.0,
        "says when something is due",
        any_of(
            rf"\b(?:until|ends?|ended|opens?|closes?|launch(?:es)?|starts?|begins?|expires?|due|moves?|from)\b.{{0,25}}\b{_MONTH}\b",
            rf"\b(?:exam|interview|meeting|launch|release|wedding|appointment|review|conference|demo|flight|go-live|surgery|move)\s(?:is|was|will\sbe|takes\splace)\b.{{0,40}}"
            rf"(?:\d{{1,2}}(?:st|nd|rd|th|\.)?\s(?:of\s)?{_MONTH}|{_MONTH}\s\d|\bnext\s\w+|\bon\s\w+day|\bin\s{_MONTH})",
            r"\b(?:the\s|our\s|my\s)?deadline\s(?:is|was|moved)\b|\bis\sdue\s(?:on|by|in)\b",
        ),
    ),
    Sign(
        "events",
        0.5,
        "says what will be done",
        any_of(
            r"\bwe(?:'ll|\swill|'re\sgoing\sto|\sare\sgoing\sto)\s(?:switch|move|use|keep|drop|migrate|release|launch|go\slive"
            r"|retire|shut|start|stop|replace|ship|deploy|freeze)\b"
        ),
    ),
    Sign(
        "events",
        0.5,
        "says what they are about to do",
        any_of(
            r"\b(?:i'm|i\sam|we're|we\sare)\s(?:planning|travell?ing|moving|getting|starting|going\sto|flying)\b"
        ),
    ),
    Sign("events", 0.5, "names a day", DATE),
    # Any category.
    Sign("", CLAIM_WEIGHT, "says how something is", STATED_PROPERTY),
    Sign(
        "",
        0.5,
        "says it by the way, to be known",
        any_of(
            r"\b(?:btw|by\sthe\sway|fyi|for\scontext|for\sthe\srecord|just\sso\syou\sknow|keep\sin\smind|note\sthat|übrigens|por\scierto|au\sfait)\b"
        ),
    ),
    Sign(
        "",
        0.5,
        "asks to remember it",
        any_of(
            r"\b(?:remember\s(?:that|to|this|:)|remind\sme\sthat|make\sa\snote|note\s(?:down|this)|don'?t\sforget"
            r"|merk(?:e)?\sdir|vergiss\snicht|recuerda|apunta|retiens|覚えて|记住)"
        ),
    ),
)

# Signs of no statement, or of a one-time statement.
COUNTER_SIGNS = any_of(
    r"\b(?:maybe|perhaps|not\ssure|might|i\sthink\s(?:i|we)\s(?:might|could|should)|i\sguess|what\sif|could\salso|i\swonder"
    r"|one\sday|think\sabout\sit|i'?ll\sask|i\shope|if\s(?:we|i|you)\s(?:could|would|had)"
    r"|vielleicht|nicht\ssicher|quizás|peut-être|たぶん|也许)\b"
)
# Moods, compliments and talk about the conversation: statements without lasting facts.
NOT_A_CLAIM = any_of(
    r"\b(?:sounds|looks|looking|feels|seems)\s(?:\w+\s)?(?:good|great|awesome|amazing|cool|fun|nice|right|like|fine|perfect)\b"
    r"|\b(?:wow|haha|lol|congrats|congratulations|good\sluck|having\s(?:some\s)?(?:trouble|issues)|tried\b.{1,120}\bbut|let\sme\sknow|make\ssure|be\ssure|take\scare|see\syou|talk\s(?:soon|later)|thanks?(?:\syou)?\sfor|can'?t\swait)\b"
    r"|\b(?:you(?:'re|\sare|'ve|\shave|'ll)|your)\b|\b(?:that|it|this|those|they)(?:'s|\sis|\swas|\smust)\s(?:so|really|such|very|a\sgreat|great|nice|awesome|amazing)\b"
    r"|\bagain\b|\blines?\s\d+|\b(?:my|the|this)\s(?:files?|output|results?|script|code|strings?|values?|list|array|columns?|error|log)\s(?:is|are|has|have)\b"
    r"|\b(?:above|below|following|attached|here)\b|\b(?:this|that)\s(?:error|line|test|function|method|query|code|message|part|bit|sentence|paragraph)\b"
)
REQUEST = any_of(
    r"^(?:please\s|pls\s|can\syou\s|could\syou\s|would\syou\s|let\sme\s|show\s|tell\s|give\s|make\s|add\s|fix\s|check\s"
    r"|run\s|open\s|create\s|send\s|look\s|try\s|do\s|commit\s|release\s|deploy\s|help\s|explain\s|list\s|write\s|put\s"
    r"|remove\s|rename\s|rewrite\s|update\s|i\sneed\s(?:help|you)\b|i\swant\s(?:to|you)\b|i'?d\slike\s|hazlo\b)"
)
OFF_THE_RECORD = any_of(
    r"\b(?:don'?t|do\snot|never)\s(?:write|note|store|save|remember|keep|record|log)\s(?:it|this|that|them)\b"
    r"|\boff\sthe\srecord\b|\bforget\s(?:that|this|what\si)\b|\bbetween\sus\b"
    r"|\bnicht\s(?:aufschreiben|speichern|merken)\b|\bno\slo\sguardes\b"
)
ACKNOWLEDGED = any_of(
    r"^(?:got\sit|noted|understood|i'?ll\s(?:keep|remember|bear)|makes\ssense|good\sto\sknow|thanks,?\sthat'?s\sgood\sto\sknow"
    r"|all\sright|(?!here|there|what|so|that|how)\w+\sit\sis\b|ist\snotiert|notiert|gut\szu\swissen|mache\sich|entendido|de\sacuerdo|compris|c'est\snoté|覚えておきます|わかりました|好的)"
)
# Remarks of an assistant about the task at hand, not about the world.
POINTED_OUT = any_of(
    r"\b(?:one\sthing\sto\s(?:be\saware\sof|know|watch)|be\saware\sthat|gotcha|caveat|surprisingly|worth\snoting)\b"
)
ASKED_FOR_FACTS = any_of(
    r"\b(?:anything\s(?:else\s)?(?:\S+\s){0,5}(?:know|consider|special)|restrictions|requirements|constraints|preferences"
    r"|tell\sme\s(?:more|about)|who\s(?:is|are)\b|what\s(?:is|are)\syour|which\s\S+\sdo\syou)\b.{0,60}\?"
)


_GENERAL_SIGNS = tuple(sign for sign in SIGNS if not sign.category)


def find_signs(text: str) -> Iterator[Sign]:
    """Return the signs of a sentence."""
    return (sign for sign in (*SIGNS, *CLAIM_SIGNS) if sign.pattern.search(text))


def find_general_signs(text: str) -> Iterator[Sign]:
    """Return the signs that support any category."""
    return (sign for sign in _GENERAL_SIGNS if sign.pattern.search(text))
