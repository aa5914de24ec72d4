"""German. Pure data; see ``words/__init__.py``."""

from __future__ import annotations

WORDS: dict[str, str] = {
    "ignore": """
        ignoriere, ignorier, ignorieren sie, ignoriert, missachte, missachten sie, vergiss, vergessen sie,
        vergesst, vergesse, übergehe, übergehen sie, überspringe, überspringen sie, setze dich über,
        setz dich über, setzen sie sich über, hör auf, höre auf, hören sie auf, umgehe, umgehen sie,
        verwirf, verwerfen sie, lass, pfeif auf""",
    "ignoreend": """
        vergisst, ignorierst, missachtest, ignorieren, missachten, vergessen, überspringen, verwerfen,
        außer acht, umgehen, hinweg, beiseite, löschen, übergehen""",
    "heed": """
        beachte, beachten sie, befolge, befolgen sie, folge, folgen sie, halte dich, berücksichtige, hör""",
    "neg": "nicht, nicht mehr, nie, keine",
    "back": """
        vorherig*, vorig*, bisherig*, bisher, zuvor, vorher, obig*, oben, früher*, vorangegangen*,
        bis jetzt, vorausgehend*, ursprünglich*, davor, vorhin, vorstehend*, am anfang, bestehend*,
        erwähnt*, weiter oben""",
    "all": "jeder, jedes, jeden, alle, allen, alles, sämtliche, jede, jegliche, ganzen, gesamten",
    "everything": "alles, was, allem, den ganzen, das ganze",
    "wholly": "alles",
    "for": "für",
    "dowhat": "was ich sage, was ich dir sage, tu was ich sage, was ich will",
    "instr": "anweisungen, instruktionen, prompttexte, vorgaben",
    "orders": """
        anweisung*, instruktion*, vorgabe*, richtlinie*, befehl*, prompt, prompts, anordnung*, anleitungen""",
    "rules": "regel, regeln, aufgabe, aufgaben, auftrag, aufträge, einschränkung*, beschränkung*",
    "matter": """
        aufgaben davor, text, texte, kontext, nachricht*, gespräch*, unterhaltung, informationen,
        dokument, inhalt*""",
    "told": "gesagt, erhalten, bekommen, gegeben, gelernt, gelesen, geschrieben, besprochen, gab, mitgeteilt",
    "void": """
        gelten nicht mehr, gilt nicht mehr, sind ungültig, sind aufgehoben, sind hinfällig, zählen nicht""",
    "you": "du, dir, dich, sie, ihr, euch, ihnen",
    "your": "dein, deine, deinen, deiner, deines, deinem, ihre, ihren, ihrer, ihr, eure",
    "me": "ich, mir, mich, mein, meine",
    "must": "musst, müssen, sollst, sollen, darfst, dürfen, wirst, werden",
    "ought": "musst, müssen, sollst, wirst, darfst",
    "authority": """
        ich bin der chef, ich bin dein chef, ich bin dein entwickler, ich bin der administrator,
        ich bin dein administrator, ich bin dein schöpfer""",
    "agent": "assistent, ki, sprachmodell*, modell, ki modell, chatbot",
    "machine": "ki, sprachmodell*, ki modell, chatbot",
    "soft": "bitte, jetzt, nun, nur, einfach, sofort, mal, doch, stattdessen",
    "and": "und, oder, dann",
    "subject": "der, die, das, er, sie, wir, ich, zu, modell, angreifer, haben",
    "fromnow": "ab jetzt, ab sofort, von nun an, von jetzt an, ab heute, ab diesem moment, fortan, künftig",
    "newtask": """
        neue aufgabe, neue anweisung*, neuer auftrag, neuen aufgabe, eigentliche frage,
        eigentliche aufgabe, neue rolle, neue instruktion*, neuer befehl, neue befehle, wirkliche aufgabe,
        wahre aufgabe, eigentliche auftrag, neuen anweisung*, neue regeln""",
    "othertask": """
        etwas anderes, etwas anderem, nächste aufgabe, nächsten aufgabe, neues thema, nächsten thema,
        andere aufgabe, weitere aufgabe, anderen auftrag, andere frage, anderes""",
    "wrong": """
        war falsch, war leider falsch, war gelogen, war nur ein test, war ein fehler, war ein test,
        ist falsch""",
    "praise": """
        super, gut gemacht, großartig, sehr gut, toll, prima, perfekt, danke, klasse, ausgezeichnet,
        fertig""",
    "youractis": """
        deine aufgabe, deine neue aufgabe, ihre aufgabe, ihre neue aufgabe, dein ziel, deine neue rolle""",
    "turnto": """
        konzentriere dich, konzentrieren sie sich, beginne neu, fang neu an, fokussiere dich, noch eine""",
    "is": "ist, lautet, besteht, sind, heißt",
    "answer": """
        antworte, antworten sie, antworten, sag, sage, sagen sie, schreibe, schreib, schreiben sie, gib,
        beantworte, beantwortest, beginnen, beginne, erzähle, erzählen, nenne, zeige, zeig, wiederhole,
        übersetze, bewerte, empfiehl, bewerten""",
    "output": "antwort, antworten, ausgabe",
    "exactly": "nur, genau, exakt, nur noch, das wort",
    "utter": "antworte, sag, sage, schreibe, schreib, wiederhole",
    "nowadverb": "jetzt, nun",
    "only": "nur, nichts außer, ausschließlich, nur noch, lediglich, das wort, den satz",
    "taskverb": "übersetze, übersetzen sie, beantworte, fasse zusammen, bewerte",
    "instead": "stattdessen, anstatt, statt, sondern, lieber",
    "nomatter": "egal was, ganz gleich was, egal",
    "younow": "du bist jetzt, du bist nun, du bist ab jetzt, sie sind jetzt, sie sind nun, jetzt bist du",
    "youare": "bist du, sind sie, du bist, sie sind, dein name ist",
    "iwant": "ich möchte dass du, ich will dass du, ich möchte dass sie, bitte, du sollst",
    "actas": """
        tu so, tue so, stell dir vor, spiele, spiel, verhalte dich wie, handle als, agiere als,
        spiele die rolle, wie ein, fungiere als, benimm dich, schlüpfe in die rolle, gib vor""",
    "persona": """
        hacker, terminal, linux terminal, ki, assistent, mensch, experte, charakter, figur, rolle, pirat""",
    "whatend": "lautet, lauten",
    "reveal": "verrate, verrat, verraten sie, nenne, nenn",
    "wish": "ich möchte, ich will, ich wünsche mir, ich hätte gern",
    "follow": "befolge, folge, befolgen sie",
    "these": "diese, diesen, dieser",
    "unbound": """
        ungefiltert*, uneingeschränkt*, unzensiert*, ohne moral, grenzenlos*, ohne filter, skrupellos*""",
    "limits": """
        regel, regeln, einschränkung*, beschränkung*, filter, zensur, moral, grenzen, ethik, gesetze,
        richtlinien""",
    "without": "ohne, keine, keinen, kein, frei von",
    "norefuse": """
        nie etwas ablehnt, alles beantwortet, beantwortest alles, nie ablehnt, lehnst nie,
        beantwortet alles""",
    "show": """
        zeig, zeige, zeigen sie, gib, geben sie, nenne, nennen sie, wiederhole, wiederholen sie, verrate,
        drucke, sag, sage, liste, schreibe, übersetze, verraten sie, offenbare, teile""",
    "arenot": "du bist kein, du bist keine, du bist nicht mehr, du bist nicht länger",
    "what": "was steht, was waren, was war, was sind, was ist, wie, welche, welcher, welches, wer",
    "secretprompt": """
        system prompt, systemprompt, systemanweisung*, systemnachricht, deines prompts, ausgangsprompt""",
    "ownprompt": """
        prompttext*, prompttexte, promptvorlage*, anweisungen, prompt, prompts, anweisung*, instruktion*,
        regeln, befehle, richtlinien, vorgaben, system prompt, systemprompt""",
    "secret": "passwort, kennwort, geheimwort, geheime, geheimen, schlüsselwort, geheimnis, losung",
    "received": """
        erhalten hast, bekommen hast, hast du bekommen, erhalten haben, hast du erhalten, gegeben hat,
        bekommen""",
    "wordsabove": """
        was oben steht, was oben stand, was davor steht, text vor dieser, text oben, vor dieser nachricht,
        text davor, text über dieser""",
    "verbatim": "wort für wort, wörtlich, vollständig, ganzen, genau, komplett, exakt",
    "nothing": "nichts, kein wort",
    "donot": "nicht, nichts, nie, niemals, nirgends, kein, keine",
    "tell": "sag, sage, erzähle, erzähl, erwähne, erwähnen, verrate, informiere, teile, melde, sagen",
    "user": "benutzer, nutzer, dem benutzer, dem nutzer, anwender, den benutzer, menschen",
    "person": "benutzer, nutzer, dem benutzer, dem nutzer, anwender, den benutzer, menschen",
    "secretly": "heimlich, still und leise, unbemerkt",
    "hide": "verheimliche, verschweige, verberge",
    "this": "dieser, diese, diesen, davon, dies, hiervon",
    "asusual": "als wäre nichts geschehen, als ob nichts, als wäre nichts",
    "send": "sende, schick, schicke, senden sie, leite, lade, übertrage, poste, maile, schicken sie, kopiere",
    "bulk": """
        inhalt*, passwörter, zugangsdaten, kennwörter, schlüssel, teilnehmerliste, umgebungsvariablen,
        datei, gespräch""",
    "sensitive": "alle passwörter, passwörter, zugangsdaten, umgebungsvariablen, kennwörter",
    "reader": """
        wenn du eine ki bist, falls du eine ki bist, an alle sprachmodelle, an die ki, liebe ki,
        wenn du das liest""",
    "run": """
        lösche, führe, installiere, schalte, deaktiviere, bewerte, schicke, sende, schreibe, antworte,
        empfiehl, gib""",
    "meta": """
        sätze wie, satz, sätze, filter, erkennt, angreifer, beispiel, texte wie, prompt injection,
        fordert, blockiert""",
}
