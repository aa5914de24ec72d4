"""Prompts and searches in languages whose memories are in the same language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memoryhub.access.policy import Actor
from memoryhub.injection.requests import InjectionResult
from memoryhub.memories import create_memories
from memoryhub.memories.schemas import MemoryDraft
from memoryhub.models import Memory
from memoryhub.search.hybrid import search_memories

# Questions with the memory that answers each. Their words have the endings that they have in speech.
ANSWERS = {
    "polish": """
Kopia zapasowa bazy danych jest robiona co noc o trzeciej i przechowywana przez 30 dni.
? Jak długo przechowujemy kopie zapasowe bazy danych?
Nie wdrażamy w piątki po południu; wdrożenie idzie przez GitHub Actions.
? Czy wdrażamy w piątki po południu?
Kwoty na fakturach zaokrąglamy dopiero na końcu, bo zaokrąglanie każdej pozycji dawało błędne sumy.
? W jaki sposób zaokrąglamy kwotę faktury?
Token sesji wygasa po 15 minutach i jest odświeżany w tle.
? Po jakim czasie wygasają tokeny sesji?
Wybraliśmy Redis zamiast Memcached, ponieważ pamięć podręczna musi przetrwać restart.
? Dlaczego wybraliśmy Redisa jako pamięć podręczną?
Pliki dziennika usuwamy po 14 dniach ze względu na RODO.
? Kiedy usuwane są pliki dziennika?
Przyciski są niebieskie, a paleta kolorów jest w pliku theme.css.
? Jakiego koloru powinien być przycisk?
Wyszukiwanie w sklepie jest wolne, bo brakuje indeksu na nazwach produktów.
? Co spowalnia wyszukiwarkę w naszym sklepie?
""",
    "turkish": """
Veritabanının yedeği her gece saat üçte alınır ve 30 gün saklanır.
? Veritabanı yedeklerini ne kadar süre saklıyoruz?
Cuma günleri öğleden sonra yayına almıyoruz; dağıtım GitHub Actions ile yapılır.
? Bugün cuma, yeni sürümü yayına alabilir miyiz?
Fatura tutarlarını en sonda yuvarlıyoruz, çünkü her satırı yuvarlamak yanlış toplamlar veriyordu.
? Faturadaki tutarı nasıl yuvarlıyoruz?
Oturum belirteci 15 dakika sonra sona erer ve arka planda yenilenir.
? Oturum belirteçleri ne zaman sona eriyor?
Memcached yerine Redis seçtik, çünkü önbellek yeniden başlatmadan sonra da kalmalı.
? Önbellek için neden Redis'i seçtik?
Günlük dosyalarını KVKK nedeniyle 14 gün sonra siliyoruz.
? Günlük dosyaları ne zaman siliniyor?
Düğmeler mavidir, renk paleti theme.css dosyasındadır.
? Bir düğmenin rengi ne olmalı?
Mağazada arama yavaş, çünkü ürün adlarında dizin yok.
? Mağazadaki arama neden bu kadar yavaş?
""",
    "chinese": """
数据库备份每天凌晨三点进行，保留30天。
? 数据库的备份要保留多长时间？
周五下午不部署，部署通过 GitHub Actions 进行。
? 今天是周五，我们可以部署新版本吗？
发票金额最后才四舍五入，因为逐行舍入会得到错误的总额。
? 发票上的金额应该怎么四舍五入？
会话令牌在15分钟后过期，并在后台刷新。
? 会话的令牌什么时候会过期？
我们选择了 Redis 而不是 Memcached，因为缓存必须在重启后保留。
? 为什么我们的缓存选择了 Redis？
由于隐私法规，日志文件在14天后删除。
? 我们的日志文件什么时候会被删除？
按钮的颜色是蓝色，调色板在 theme.css 文件中。
? 请问页面上的按钮应该是什么颜色？
商店的搜索很慢，因为产品名称缺少索引。
? 为什么商店里的搜索这么慢？
""",
    "japanese": """
データベースのバックアップは毎晩3時に実行し、30日間保存します。
? データベースのバックアップはどのくらい保存していますか？
金曜日の午後はデプロイしません。デプロイは GitHub Actions で行います。
? 今日は金曜日ですが、デプロイしてもいいですか？
請求書の金額は最後に四捨五入します。行ごとに丸めると合計が合わなくなるためです。
? 請求書の金額はどうやって四捨五入しますか？
セッショントークンは15分で失効し、バックグラウンドで更新されます。
? セッショントークンはいつ失効しますか？
再起動後もキャッシュを残す必要があるため、Memcached ではなく Redis を選びました。
? キャッシュになぜ Redis を選んだのですか？
ログファイルは個人情報保護のため14日後に削除します。
? ログファイルはいつ削除されますか？
ボタンの色は青で、配色は theme.css にあります。
? ボタンの配色はどこにありますか？
商品名のインデックスがないため、店の検索が遅いです。
? 店の検索はなぜ遅いのですか？
""",
    "korean": """
데이터베이스 백업은 매일 새벽 3시에 실행되고 30일 동안 보관합니다.
? 데이터베이스 백업을 얼마나 오래 보관하나요?
금요일 오후에는 배포하지 않습니다. 배포는 GitHub Actions로 합니다.
? 오늘은 금요일인데 새 버전을 배포해도 되나요?
송장 금액은 마지막에 반올림합니다. 줄마다 반올림하면 합계가 틀립니다.
? 송장의 금액은 어떻게 반올림하나요?
세션 토큰은 15분 후에 만료되고 백그라운드에서 갱신됩니다.
? 세션 토큰이 언제 만료되나요?
재시작 후에도 캐시가 남아야 해서 Memcached 대신 Redis를 선택했습니다.
? 캐시로 왜 Redis를 선택했나요?
로그 파일은 개인정보 보호 때문에 14일 후에 삭제합니다.
? 로그 파일은 언제 삭제되나요?
버튼의 색은 파란색이고 색상표는 theme.css 파일에 있습니다.
? 버튼의 색은 무엇이어야 하나요?
상품 이름에 색인이 없어서 상점 검색이 느립니다.
? 상점에서 검색이 왜 이렇게 느린가요?
""",
    "arabic": """
يتم النسخ الاحتياطي لقاعدة البيانات كل ليلة ويحفظ لمدة 30 يوما.
? كم مدة الاحتفاظ بالنسخ الاحتياطي لقاعدة البيانات؟
لا ننشر الإصدارات يوم الجمعة بعد الظهر، والنشر يتم عبر GitHub Actions.
? هل يمكننا نشر إصدار جديد اليوم الجمعة؟
نقرب مبالغ الفواتير في النهاية فقط لأن تقريب كل سطر أعطى مجاميع خاطئة.
? كيف نقرب مبلغ الفاتورة؟
تنتهي صلاحية رمز الجلسة بعد 15 دقيقة ويجدد في الخلفية.
? متى تنتهي صلاحية رمز الجلسة؟
اخترنا Redis بدلا من Memcached لأن الذاكرة المؤقتة يجب أن تبقى بعد إعادة التشغيل.
? لماذا اخترنا Redis للذاكرة المؤقتة؟
نحذف ملفات السجل بعد 14 يوما بسبب قانون الخصوصية.
? متى يتم حذف ملفات السجل؟
الأزرار زرقاء، ولوحة الألوان موجودة في الملف theme.css.
? ما لون الأزرار في الصفحة؟
البحث في المتجر بطيء لأن أسماء المنتجات بلا فهرس.
? لماذا البحث في المتجر بطيء جدا؟
""",
    "hindi": """
डेटाबेस का बैकअप हर रात तीन बजे लिया जाता है और 30 दिन रखा जाता है।
? डेटाबेस का बैकअप कितने दिन रखा जाता है?
शुक्रवार की दोपहर के बाद हम तैनाती नहीं करते; तैनाती GitHub Actions से होती है।
? आज शुक्रवार है, क्या हम नया संस्करण तैनात कर सकते हैं?
बिल की राशि केवल अंत में पूर्णांकित होती है, क्योंकि हर पंक्ति को पूर्णांकित करने से योग गलत आता था।
? बिल की राशि कैसे पूर्णांकित की जाती है?
सत्र का टोकन 15 मिनट बाद समाप्त होता है और पृष्ठभूमि में नवीनीकृत होता है।
? सत्र का टोकन कब समाप्त होता है?
हमने Memcached की जगह Redis चुना, क्योंकि कैश पुनरारंभ के बाद भी रहना चाहिए।
? हमने कैश के लिए Redis क्यों चुना?
गोपनीयता कानून के कारण लॉग फ़ाइलें 14 दिन बाद हटाई जाती हैं।
? लॉग फ़ाइलें कब हटाई जाती हैं?
बटन नीले हैं और रंगों की सूची theme.css में है।
? पृष्ठ पर बटन का रंग क्या होना चाहिए?
दुकान में खोज धीमी है, क्योंकि उत्पादों के नामों पर सूचकांक नहीं है।
? दुकान में खोज इतनी धीमी क्यों है?
""",
    "russian": """
Резервная копия базы данных создаётся каждую ночь в три часа и хранится 30 дней.
? Как долго хранятся резервные копии базы данных?
По пятницам после обеда мы не выкатываем релизы; развёртывание идёт через GitHub Actions.
? Сегодня пятница, можно ли выкатывать новый релиз?
Суммы в счетах округляем только в конце, потому что округление каждой строки давало неверный итог.
? Как мы округляем сумму в счёте?
Токен сессии истекает через 15 минут и обновляется в фоне.
? Когда истекают токены сессии?
Мы выбрали Redis вместо Memcached, потому что кэш должен пережить перезапуск.
? Почему для кэша мы выбрали Redis?
Файлы журнала удаляем через 14 дней из-за закона о персональных данных.
? Когда удаляются файлы журнала?
Кнопки синие, палитра цветов находится в файле theme.css.
? Какого цвета должна быть кнопка?
Поиск в магазине медленный, потому что нет индекса по названиям товаров.
? Почему поиск в нашем магазине такой медленный?
""",
}
# Orders and remarks, and questions about something else.
OFF_TOPIC = {
    "polish": """
Kto wygrał wczoraj mecz piłki nożnej?
Przetłumacz ten list na hiszpański
Jaka będzie jutro pogoda w Krakowie?
Napisz wiersz o jesieni nad morzem
Dziękuję, kontynuuj
Uruchom testy jeszcze raz
Popraw ten błąd, proszę
Ile kosztuje bilet na pociąg do Gdańska?
Dlaczego to nie działa?
""",
    "turkish": """
Dün akşamki maçı kim kazandı?
Bu mektubu İspanyolcaya çevir
Yarın İstanbul'da hava nasıl olacak?
Deniz kenarında sonbahar hakkında bir şiir yaz
Teşekkürler, devam et
Testleri bir daha çalıştır
Lütfen bu hatayı düzelt
Ankara'ya tren bileti ne kadar?
Bu neden çalışmıyor?
""",
    "chinese": """
昨天的足球比赛谁赢了？
请把这封信翻译成西班牙语
明天北京的天气怎么样？
写一首关于海边秋天的诗
谢谢，请继续
再运行一次测试
请修复这个错误
去上海的火车票多少钱？
为什么这个不行？
""",
    "japanese": """
昨日のサッカーの試合は誰が勝ちましたか？
この手紙をスペイン語に翻訳してください
明日の東京の天気はどうですか？
海辺の秋についての詩を書いてください
ありがとう、続けてください
もう一度テストを実行して
このエラーを直してください
大阪までの電車の切符はいくらですか？
なぜ動かないのですか？
""",
    "korean": """
어제 축구 경기는 누가 이겼나요?
이 편지를 스페인어로 번역해 주세요
내일 서울 날씨가 어떤가요?
바닷가의 가을에 대한 시를 써 줘
고마워요, 계속해 주세요
테스트를 다시 실행해 줘
이 오류를 고쳐 주세요
부산까지 기차표가 얼마인가요?
왜 안 되나요?
""",
    "arabic": """
من فاز بمباراة كرة القدم أمس؟
ترجم هذه الرسالة إلى الإسبانية
كيف سيكون الطقس غدا في القاهرة؟
اكتب قصيدة عن الخريف قرب البحر
شكرا، تابع
شغل الاختبارات مرة أخرى
أصلح هذا الخطأ من فضلك
كم سعر تذكرة القطار إلى الإسكندرية؟
لماذا لا يعمل هذا؟
""",
    "hindi": """
कल फुटबॉल मैच कौन जीता?
इस पत्र का स्पेनिश में अनुवाद करो
कल दिल्ली में मौसम कैसा रहेगा?
समुद्र किनारे शरद ऋतु पर एक कविता लिखो
धन्यवाद, जारी रखो
परीक्षण फिर से चलाओ
कृपया यह त्रुटि ठीक करो
मुंबई की ट्रेन का टिकट कितने का है?
यह क्यों नहीं चलता?
""",
    "russian": """
Кто вчера выиграл футбольный матч?
Переведи это письмо на испанский
Какая завтра будет погода в Москве?
Напиши стихотворение об осени у моря
Спасибо, продолжай
Запусти тесты ещё раз
Исправь эту ошибку, пожалуйста
Сколько стоит билет на поезд до Казани?
Почему это не работает?
""",
}


def pairs(language: str) -> list[tuple[str, str]]:
    lines = ANSWERS[language].strip().splitlines()
    return list(zip(lines[::2], (line.removeprefix("? ") for line in lines[1::2]), strict=True))


@pytest.fixture
def store(db: None, actor: Actor) -> Callable[[str], None]:
    """``store("polish")`` stores the memories in a language, among many in English."""

    def fill(language: str) -> None:
        english = (f"Part {number} of the parser reads line {number} of the file." for number in range(200))
        texts = [*english, *(text for text, _ in pairs(language))]
        create_memories([MemoryDraft(content=text) for text in texts], actor)

    return fill


def shown(ask: Callable[..., InjectionResult], prompt: str) -> list[str]:
    return [one.candidate.memory.content for one in ask(prompt).shown]


@pytest.mark.parametrize("language", ANSWERS)
def test_a_question_brings_the_memory_that_answers_it(ask: Any, store: Any, language: str) -> None:
    store(language)
    found = {question: shown(ask, question)[:1] for _, question in pairs(language)}
    assert found == {question: [text] for text, question in pairs(language)}


@pytest.mark.parametrize("language", ANSWERS)
def test_a_search_finds_the_memory_that_answers_it_first(store: Any, language: str) -> None:
    store(language)
    results = {question: search_memories(Memory.objects.all(), question) for _, question in pairs(language)}
    found = {question: [hit.memory.content for hit in one.hits[:1]] for question, one in results.items()}
    assert found == {question: [text] for text, question in pairs(language)}


@pytest.mark.parametrize("language", OFF_TOPIC)
def test_an_order_or_another_subject_brings_nothing(ask: Any, store: Any, language: str) -> None:
    store(language)
    found = {prompt: shown(ask, prompt) for prompt in OFF_TOPIC[language].strip().splitlines()}
    assert not any(found.values()), found


def test_a_turkish_word_whose_stem_ends_in_y_is_found_with_other_endings(store: Any) -> None:
    store("turkish")
    [wanted] = create_memories(
        [MemoryDraft(content="Denetim olayları ayrı bir tabloya yazılır.")], Actor("user:ada")
    )
    results = search_memories(Memory.objects.all(), "Denetim olayı nereye yazılıyor, olaylar nerede?")
    assert results.hits[0].memory.uid == wanted.memory.uid
    assert "<mark>olayları</mark>" in results.hits[0].snippet
