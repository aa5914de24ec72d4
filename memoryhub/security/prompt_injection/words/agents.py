"""Orders to an agent with tools, files and a user: all languages. Pure data; see ``words/__init__``."""

from __future__ import annotations

ENGLISH: dict[str, str] = {
    "whoever": "anyone, anybody, someone, somebody, they, people",
    "use": "use, call, invoke, execute, run, trigger",
    "tool": "tool, tools, function, functions, the tool, the function, mcp tool",
    "beforeanswer": """
        prior to answering, prior to responding, prior to replying, before answering, before you answer,
        before responding, before you respond, before replying, before you reply, before each answer,
        before every answer, before any answer, before each reply, before every reply, before each
        response, before every response, before your answer, before your reply, before giving an answer,
        before you say anything, before your next answer, before your next reply""",
    "toolname": """
        delete_*, remove_*, drop_*, send_*, execute_*, exec_*, run_*, write_*, wipe_*, erase_*, forget_*,
        purge_*, shell_*, upload_*, transfer_*, save_*, store_*, update_*, edit_*, overwrite_*, reset_*,
        clear_*""",
    "allfiles": """
        all files, all the files, all of the files, every file, each file, all documents, all my files,
        whole folder, whole directory, entire folder, entire directory, all source files""",
    "workdir": """
        working directory, current directory, current folder, this folder, this directory, working
        folder, home directory, home folder, project directory, project folder, workspace, documents
        folder, project root""",
    "cond": "when, if, whenever, once, every time",
    "asks": """
        asks, ask, asked, mentions, mention, wants to know, inquires, wonders, asks for, asks about,
        brings up, wants""",
    "link": "link, url, links, the link, website, web address",
    "insteadof": "instead of, rather than, in place of, in lieu of",
    "noneof": "none of, not one of",
    "holdsnomore": """
        count any more, counts any more, count anymore, counts anymore, apply any more, applies any more,
        apply anymore, applies anymore, apply any longer, applies any longer, count any longer, counts
        any longer, hold any more, holds any more, hold any longer, matter any more, matters any more,
        matter anymore, valid any more, valid any longer, valid anymore, binding any more, bind you any
        more, bind you any longer, bind you, bind you anymore, bind us any more, in force any more, in
        force any longer""",
    "void": """
        have no force any more, have ceased to apply, has ceased to apply, have no effect any more, have
        lost all force, no longer count, no longer counts, count no longer, count no more, don't count
        any more, do not count any more, no longer bind you, no longer hold, have lost their force, are
        no longer in force, apply no longer, apply no more""",
    "mind": "memory, mind, head, brain, thoughts",
    "yourmind": "your memory, your mind, your head, your brain, your context, your context window",
    "irevoke": """
        revoke, lift, rescind, waive, void, annul, abolish, suspend, cancel, withdraw, hereby revoke,
        hereby lift, nullify, repeal, declare void""",
    "boss": """
        supervisor, administrator, admin, superior, boss, overseer, operator, project owner, owner,
        developer, manager, director, commander""",
    "ascap": "as, in my role as, in my capacity as",
    "show": "render, regurgitate, relay, echo back",
    "nolonger": "any longer",
}

GERMAN: dict[str, str] = {
    "whoever": "jemand, man, einer",
    "tellneg": "nicht, nie, niemals",
    "use": "rufe, ruf, rufen sie, benutze, verwende, nutze, starte",
    "tool": "werkzeug, werkzeuge, werkzeugs, tool, tools, funktion",
    "beforeanswer": """
        bevor du antwortest, bevor sie antworten, vor jeder antwort, vor dem antworten, vor deiner
        antwort, bevor du irgendetwas antwortest, ehe du antwortest""",
    "allfiles": """
        alle dateien, jede datei, sämtliche dateien, den ganzen ordner, das ganze verzeichnis, alle
        dokumente""",
    "workdir": """
        arbeitsverzeichnis*, aktuellen verzeichnis, aktuellen ordner, diesem ordner, diesem verzeichnis,
        projektordner, projektverzeichnis, heimatverzeichnis, home verzeichnis, arbeitsordner""",
    "send": "lade, lad, laden sie, verschicke",
    "cond": "wenn, falls, sobald",
    "asks": "fragt, fragen, wissen will, erwähnt, sich erkundigt, bittet",
    "link": "link, verweis, adresse, webseite",
    "insteadof": "anstatt, anstelle, statt",
    "noneof": "keine der, keine dieser, keine von, keiner der, keines der, keine deiner",
    "holdsnomore": """
        gilt noch, gilt mehr, gelten noch, gilt jetzt noch, gilt länger, zählt noch, zählt mehr, ist noch
        gültig, ist mehr gültig, hat noch bestand, bindet dich noch""",
    "void": "zählen nicht mehr, zählt nicht mehr, binden dich nicht mehr, haben keine gültigkeit mehr",
    "mind": "gedächtnis, kopf, speicher, erinnerung",
    "discard": "lösche, löschen sie, streiche, tilge, entferne, wirf",
    "irevoke": "hebe, widerrufe, setze, annulliere, erkläre",
    "boss": "vorgesetzter, vorgesetzte, administrator, chef, betreiber, aufseher, vorgesetztem, leiter",
    "ascap": "als",
    "back": "oberhalb, darüber, obenstehend*, über dieser",
    "verbatim": "wortgetreu, wortwörtlich, im wortlaut",
    "collect": "lies, lese, öffne, lesen sie",
    "put": "füge, hänge, nimm, ergänze",
}

FRENCH: dict[str, str] = {
    "whoever": "quelqu un, on",
    "use": "appelle, appelez, utilise, utilisez, invoque, invoquez, lance, exécute",
    "tool": "outil, outils, l outil, fonction, la fonction",
    "beforeanswer": "avant de répondre, avant chaque réponse, avant ta réponse, avant toute réponse",
    "allfiles": "tous les fichiers, chaque fichier, tous les documents, tout le dossier",
    "workdir": """
        répertoire courant, répertoire de travail, dossier courant, dossier de travail, répertoire
        personnel, dossier actuel, ce dossier, répertoire du projet, dossier du projet""",
    "send": "téléverse, téléversez, mets en ligne, charge",
    "cond": "quand, lorsque, si, dès que, lorsqu",
    "asks": "demande, interroge, mentionne, pose, veut savoir, demandera",
    "link": "lien, un lien, le lien, adresse",
    "insteadof": "au lieu, plutôt que",
    "noneof": "aucune des, aucune de, aucun des, aucun de",
    "holdsnomore": """
        ne s applique plus, ne compte plus, n est plus valable, ne vaut plus, n est plus en vigueur, ne s
        applique désormais, ne tient plus""",
    "mind": "mémoire, tête, esprit",
    "discard": "efface, effacez, retire, enlève",
    "irevoke": "révoque, lève, annule, supprime, abroge",
    "boss": "superviseur, superviseure, administrateur, administratrice, chef, responsable, directeur",
    "ascap": "en tant que, en qualité de",
    "show": "reproduis, reproduisez, recopie, recopiez, restitue",
    "verbatim": "textuellement, à la lettre, tel quel",
    "back": "ci dessus, qui précède, au dessus",
    "collect": "lis, lisez, ouvre, récupère, prends",
    "put": "ajoute, inclus, insère, mets, intègre",
}

SPANISH: dict[str, str] = {
    "whoever": "alguien",
    "use": "llama, llame, usa, utiliza, invoca, ejecuta, use, utilice, invoque",
    "tool": "herramienta, herramientas, función, la herramienta, la función",
    "beforeanswer": "antes de responder, antes de contestar, antes de cada respuesta, antes de tu respuesta",
    "allfiles": "todos los archivos, todos los ficheros, cada archivo, todos los documentos, toda la carpeta",
    "workdir": """
        directorio de trabajo, directorio actual, carpeta actual, carpeta de trabajo, carpeta personal,
        esta carpeta, este directorio, directorio del proyecto, carpeta del proyecto""",
    "send": "sube, suba, carga",
    "cond": "cuando, si, cada vez que",
    "asks": "pregunte, pregunta, pida, pide, mencione, menciona, consulte, quiera saber",
    "link": "enlace, un enlace, este enlace, vínculo",
    "insteadof": "en lugar de, en vez de",
    "instead": "en su lugar, en cambio, en su defecto",
    "noneof": "ninguna de, ninguno de",
    "holdsnomore": """
        sigue vigente, sigue valiendo, vale ya, se aplica ya, cuenta ya, es válida ya, sigue siendo
        válida, sigue en vigor, se aplica más, está vigente ya, vale, cuenta, tiene validez""",
    "mind": "memoria, mente, cabeza",
    "discard": "borra, borre, elimina, elimine, suprime",
    "irevoke": "revoco, anulo, levanto, cancelo, suspendo, derogo",
    "boss": "supervisor, supervisora, administrador, administradora, jefe, jefa, responsable",
    "ascap": "como, en calidad de",
    "show": "reproduce, reproduzca, transcribe, copia",
    "collect": "lee, lea, abre, recoge",
    "put": "incluye, incluya, añade, agrega, inserta, inclúyelo",
}

PORTUGUESE: dict[str, str] = {
    "whoever": "alguém",
    "use": "chame, chama, use, utilize, invoque, execute, usa",
    "tool": "ferramenta, ferramentas, função, a ferramenta, a função",
    "beforeanswer": "antes de responder, antes de cada resposta, antes da sua resposta",
    "allfiles": "todos os arquivos, todos os ficheiros, cada arquivo, todos os documentos",
    "workdir": """
        diretório de trabalho, diretório atual, pasta atual, pasta de trabalho, pasta pessoal, esta
        pasta, diretório do projeto, pasta do projeto""",
    "send": "carregue, suba, faça upload",
    "cond": "quando, se, sempre que",
    "asks": "perguntar, pergunta, pedir, mencionar, pergunte, quiser saber",
    "link": "link, um link, ligação, este link",
    "insteadof": "em vez de, em lugar de, ao invés de",
    "instead": "em vez disso",
    "noneof": "nenhuma das, nenhuma de, nenhum dos",
    "holdsnomore": """
        vale mais, se aplica mais, conta mais, está em vigor, está mais em vigor, é mais válida, continua
        válida""",
    "mind": "memória, mente, cabeça",
    "discard": "apague, apaga, remova, exclua, elimine",
    "irevoke": "revogo, anulo, cancelo, suspendo, retiro",
    "boss": "supervisor, supervisora, administrador, chefe, responsável",
    "ascap": "como, na qualidade de",
    "show": "reproduza, transcreva, copie",
    "collect": "leia, abra, lê, pegue",
    "put": "inclua, adicione, insira, acrescente",
}

ITALIAN: dict[str, str] = {
    "whoever": "qualcuno",
    "use": "chiama, chiamate, usa, utilizza, invoca, esegui, richiama",
    "tool": "strumento, strumenti, funzione, lo strumento, la funzione",
    "beforeanswer": "prima di rispondere, prima di ogni risposta, prima della risposta",
    "allfiles": "tutti i file, ogni file, tutti i documenti, tutta la cartella",
    "workdir": """
        cartella corrente, directory corrente, cartella di lavoro, questa cartella, directory di lavoro,
        cartella del progetto, cartella attuale, della cartella""",
    "send": "carica, caricate, trasferisci",
    "cond": "quando, se, ogni volta che",
    "asks": "chiede, domanda, menziona, chiederà, vuole sapere",
    "link": "link, un link, collegamento",
    "insteadof": "invece di, al posto di, anziché",
    "noneof": "nessuna delle, nessuna di, nessuno dei",
    "holdsnomore": "vale più, conta più, si applica più, è più valida, è più in vigore, vale ancora",
    "mind": "memoria, mente, testa",
    "discard": "cancella, elimina, rimuovi",
    "irevoke": "revoco, annullo, sospendo, abolisco, tolgo",
    "boss": "supervisore, amministratore, capo, responsabile",
    "ascap": "come, in qualità di, in veste di",
    "show": "riproduci, trascrivi, riporta, ricopia",
    "collect": "leggi, apri, prendi, leggete",
    "put": "includi, aggiungi, inserisci, includilo, inseriscilo",
}

DUTCH: dict[str, str] = {
    "whoever": "iemand",
    "use": "roep, gebruik, voer",
    "tool": "tool, hulpmiddel, functie, de tool, de functie",
    "beforeanswer": "voordat je antwoordt, voor elk antwoord, voor ieder antwoord, vóór het antwoorden",
    "allfiles": "alle bestanden, elk bestand, ieder bestand, alle documenten",
    "workdir": "werkmap, huidige map, deze map, thuismap, projectmap, huidige directory",
    "send": "upload, laad",
    "cond": "wanneer, als, zodra",
    "asks": "vraagt, noemt, wil weten, vragen",
    "link": "link, een link, koppeling",
    "insteadof": "in plaats van",
    "noneof": "geen van de, geen enkele van de, geen enkele, geen van",
    "holdsnomore": """
        geldt nog, geldt meer, telt nog, telt meer, is nog geldig, is nog van kracht, geldt langer""",
    "mind": "geheugen, hoofd",
    "discard": "wis, verwijder, schrap",
    "irevoke": "herroep, hef, trek, schors",
    "boss": "supervisor, leidinggevende, beheerder, baas",
    "ascap": "als",
    "collect": "lees, open",
    "put": "voeg, neem, zet",
}

POLISH: dict[str, str] = {
    "whoever": "ktoś",
    "use": "wywołaj, użyj, uruchom",
    "tool": "narzędzi*, funkcj*",
    "beforeanswer": "zanim odpowiesz, przed odpowiedzią, przed każdą odpowiedzią",
    "allfiles": "wszystkie pliki, każdy plik, wszystkie dokumenty",
    "workdir": """
        katalogu roboczego, katalogu roboczym, bieżącego katalogu, bieżącym katalogu, tego folderu, tego
        katalogu, bieżącego folderu, katalogu domowego""",
    "send": "załaduj, wgraj",
    "cond": "gdy, kiedy, jeśli, jeżeli",
    "asks": "pyta, zapyta, spyta, pytają, wspomni",
    "link": "link, linkiem, linku, odnośnik*",
    "insteadof": "zamiast",
    "instead": "w zamian",
    "noneof": "żadna z, żadne z, żaden z",
    "holdsnomore": "nie obowiązuje, już nie obowiązuje, nie jest już ważna, nie liczy",
    "mind": "pamięci, pamięć, głowy",
    "discard": "usuń, wymaż, skasuj",
    "irevoke": "odwołuję, znoszę, anuluję, cofam",
    "boss": "przełożony, administrator, kierownik, nadzorca",
    "ascap": "jako",
    "collect": "przeczytaj, odczytaj, otwórz",
    "put": "dołącz, dodaj, wstaw",
}

RUSSIAN: dict[str, str] = {
    "whoever": "кто то, кто нибудь",
    "use": "вызови, вызовите, используй, используйте, запусти",
    "tool": "инструмент*, функци*",
    "beforeanswer": "перед ответом, прежде чем ответить, прежде чем отвечать, перед каждым ответом",
    "allfiles": "все файлы, каждый файл, все документы",
    "workdir": """
        рабочей папки, рабочей папке, рабочей директории, текущей папки, текущей папке, рабочего
        каталога, рабочем каталоге, домашней папки, текущего каталога""",
    "send": "загрузите, отправляй",
    "cond": "когда, если, каждый раз",
    "asks": "спрашивает, спросит, просит, упоминает, спросят",
    "link": "ссылк*",
    "insteadof": "вместо того",
    "noneof": "ни одно из, ни одна из, ни один из",
    "holdsnomore": """
        больше не действует, не действует, больше не действуют, не имеет силы, не действует больше""",
    "mind": "памяти, память, головы",
    "discard": "удали, удалите, сотри, сотрите, очисти",
    "irevoke": "отменяю, снимаю, аннулирую, отзываю",
    "boss": "руководитель, администратор, начальник, супервайзер, куратор",
    "ascap": "как, в качестве",
    "show": "перепиши, воспроизведи, процитируй, приведи, воспроизведите",
    "collect": "прочитай, прочти, открой",
    "put": "добавь, включи, вставь",
}

CHINESE: dict[str, str] = {
    "use": "调用, 使用, 运行",
    "tool": "工具, 函数",
    "beforeanswer": "回答之前, 回答前, 回复之前, 回复前, 答复前, 答复之前",
    "allfiles": "所有文件, 全部文件, 每个文件",
    "workdir": "工作目录, 当前目录, 当前文件夹, 主目录, 工作文件夹",
    "noneof": "没有一条",
    "void": "全部作废, 全都作废, 不再有效, 不再适用, 已失效, 全部失效",
    "mind": "记忆, 脑海",
    "discard": "删除, 清除, 抹去",
    "irevoke": "撤销, 取消, 解除, 废除",
    "boss": "主管, 管理员, 上司, 负责人",
    "ascap": "作为, 身为",
    "collect": "读取, 打开",
    "put": "加入, 包含, 写入, 附在",
}
