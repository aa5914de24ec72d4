"""Languages of which only the setting aside of instructions is known. Pure data; see ``words/__init__``."""

from __future__ import annotations

CZECH: dict[str, str] = {
    "ignore": "ignoruj, ignorujte, zapomeň, zapomeňte, nedbej, pomiň, neřiď se",
    "back": "předchozí*, dřívější*, výše, dosavadní*, předešl*, doposud",
    "all": "všechny, všechno, veškeré, vše",
    "everything": "všechno, vše, co",
    "orders": "pokyn*, instrukc*, příkaz*, směrnic*, prompt",
    "told": "řečeno, řekli, dostal",
    "your": "tvé, své, svoje",
}

# Croatian, Serbian, Bosnian.
CROATIAN: dict[str, str] = {
    "ignore": """
        zaboravi, zaboravite, ignoriraj, ignorirajte, ignoriši, zanemari, zanemarite, preskoči, ne slijedi""",
    "back": "prethodn*, ranij*, gornj*, dosadašnj*, dosad*, prije",
    "all": "sve, sva, svih",
    "everything": "sve, što",
    "orders": "upute, uputa, instrukcij*, naredb*, smjernic*, uputstva, prompt",
    "rules": "pravila, zadatke, zadatak",
    "told": "rečeno, dobio, rekao",
    "your": "svoje, tvoje",
}

ROMANIAN: dict[str, str] = {
    "ignore": "ignoră, ignorați, uită, uitați, nu urma, nu ține cont, nu ține seama",
    "back": "anterioar*, precedent*, de mai sus, până acum, inițial*",
    "all": "toate, tot, orice",
    "everything": "tot, ce",
    "orders": "instrucțiun*, indicați*, ordin*, comenz*, prompt",
    "rules": "reguli, regulile, sarcini*",
    "told": "spus, dat, primit",
    "your": "tale, tău",
}

VIETNAMESE: dict[str, str] = {
    "ignore": "bỏ qua, quên, phớt lờ, không làm theo, đừng làm theo",
    "back": "trước đó, trước đây, ở trên, bên trên, phía trên, ban đầu, trước",
    "all": "tất cả, mọi, toàn bộ",
    "everything": "tất cả, mọi thứ, những gì",
    "orders": "hướng dẫn, chỉ dẫn, chỉ thị, lệnh, prompt",
    "rules": "quy tắc, nhiệm vụ",
    "told": "nói, nhận",
    "soft": "hãy, xin, vui lòng",
}

INDONESIAN: dict[str, str] = {
    "ignore": "abaikan, lupakan, jangan ikuti, kesampingkan, acuhkan",
    "back": "sebelumnya, di atas, sebelum, tadi, terdahulu, awal",
    "all": "semua, seluruh, segala, setiap",
    "everything": "semua, semuanya, apa",
    "orders": "instruksi, perintah, petunjuk, arahan, pedoman, prompt",
    "rules": "aturan, tugas",
    "told": "dikatakan, diberikan, diterima",
    "soft": "tolong, mohon, harap",
    "your": "anda, kamu, mu",
}

UKRAINIAN: dict[str, str] = {
    "ignore": "ігноруй, ігноруйте, забудь, забудьте, проігноруй, не звертай уваги, не виконуй, знехтуй",
    "back": "попередн*, раніше, вище, вищезазначен*, досі, початков*",
    "all": "усі, всі, все, усе, будь які",
    "everything": "все, усе, що",
    "orders": "інструкці*, вказівк*, команд*, наказ*, промпт*, настанов*",
    "rules": "правил*, завдання",
    "told": "казали, сказано, сказали",
    "your": "твої, свої, своїх",
}
