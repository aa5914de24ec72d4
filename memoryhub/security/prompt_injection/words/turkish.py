"""Turkish. Pure data; see ``words/__init__.py``."""

from __future__ import annotations

WORDS: dict[str, str] = {
    "ignore": "unut, unutun, boşver, görmezden gel, görmezden gelin, yok say, yoksay",
    "ignoreend": """
        yok say, yok sayın, yoksay, yoksayın, unut, unutun, dikkate alma, dikkate almayın, uyma, uymayın,
        görmezden gel, görmezden gelin, göz ardı et, göz ardı edin, iptal, takip etme, dinleme, boşver,
        geçersiz, es geç""",
    "back": """
        önceki, daha önce, önce, yukarıdaki, yukarıda, şimdiye kadar, bundan önceki, evvelki,
        başlangıçta*, geçmiş""",
    "all": "tüm, bütün, her, hepsini, tümünü",
    "everything": "her şeyi, her şey, herşeyi, söylenenleri, hepsini, şeyi",
    "orders": "talimat*, komut*, yönerge*, emir*, emr*, prompt*, istem*, direktif*",
    "rules": "kural*, görev*, kısıtlama*",
    "matter": "metin*, metni, bağlam*, mesaj*, konuşma*, içerik*, yazı*",
    "told": "söylenen, verilen, söylenenleri, söylediklerimi, öğrendiğin",
    "you": "sen, sana, seni, siz, size",
    "your": "senin, sizin",
    "soft": "lütfen, şimdi, sadece, hemen",
    "and": "ve, veya, sonra",
    "fromnow": "bundan sonra, şu andan itibaren, bundan böyle, artık",
    "newtask": "yeni görev*, yeni talimat*, yeni komut*, gerçek soru*, asıl soru*, asıl görev*",
    "youractis": "yeni görevin, görevin, yeni göreviniz, amacın, yeni rolün",
    "answerend": "cevap ver*, yanıtla*, yaz, söyle, başlamalısın, vermek, cevap vermek, anlat, başla",
    "younow": "artık sen, sen artık, artık, bundan sonra sen, şimdi sen",
    "actas": "davran, gibi davran, rolünü oyna, hayal et, farz et, rol yap, mış gibi, gibi yap",
    "persona": "hacker*, terminal*, yapay zeka*, yapay zekasın, asistan*, insan*, karakter*, uzman*",
    "unbound": "sınırsız*, kısıtlamasız*, sansürsüz*, filtresiz*",
    "limits": "sınır*, kısıtlama*, kural*, filtre*, sansür*, ahlak*, etik*",
    "without": "hiçbir, yok, yokmuş, olmayan, olmadan",
    "output": "cevap, cevaba, cevabı, yanıt, yanıta, yanıtı, her cevaba, her yanıta",
    "showend": """
        göster, gösterin, yaz, söyle, tekrarla, paylaş, açıkla, yazdır, neler, nelerdir, nedir, listele""",
    "secretprompt": """
        sistem istemi*, sistem promptu*, sistem mesajı*, sistem talimat*, ilk talimat*, sistem komut*""",
    "secret": "parolayı, gizli kelime*, gizli kod*, şifreyi, gizli anahtar*, gizli parola*, parolan*",
    "received": "aldığın, aldığınız, verilen, sana verilen",
    "verbatim": "kelimesi kelimesine, aynen, harfi harfine, tamamını, olduğu gibi",
    "user": "kullanıcı*",
    "person": "kullanıcı*",
    "tellnot": "bahsetme, bahsetmeyin, söyleme, söylemeyin, belli etme, bildirme, haber verme",
    "sendend": "gönder, gönderin, yolla, yükle, paylaş, ilet",
    "bulk": "içeriğini, şifreleri, parolaları, dosya*, anahtar*, konuşma*",
    "meta": "filtre, gibi cümleleri, saldırgan, örnek, engelliyor, gibi cümle*",
}
