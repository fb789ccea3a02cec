"""What every artefact is proved on: sentences in many languages, and graded pairs."""

import functools

from keras_msd.data.made import LANGUAGES, made_pairs, made_sts

Row = tuple[float, str, str]

MADE_LINES = 20  # in eight languages each
GRADED_LINES = 36  # six of each level of similarity
MADE_SET = f"made sentences in {len(LANGUAGES) + 1} languages, within and across them"

# Scripts, accents, marks, digits, emoji, control tokens as text, nothing, and a
# sentence that is too long for any encoder.
SENTENCES = (
    "The ferry leaves at seven, whatever the weather.",
    "Two children are building a tower out of wooden blocks.",
    "Die Fähre legt um sieben ab, bei jedem Wetter; Größe: 3,5 Meter.",
    "Le garçon a déjà mangé, mais sa sœur préfère attendre.",
    "¿Dónde está la estación? ¡A cinco minutos, señora!",
    "Perché non andiamo al mare, finché c'è il sole?",
    "De trein naar Zwolle vertrekt over tien minuten.",
    "İstanbul'da yağmur yağıyor, şemsiyeni unutma.",
    "Zażółć gęślą jaźń.",
    "Поезд отправляется в полдень.",
    "القطار يصل عند الظهر.",
    "火车中午到达。",
    "電車は正午に着きます。",
    "기차는 정오에 도착합니다.",
    "रेलगाड़ी दोपहर को पहुँचती है।",
    "O comboio chega ao meio-dia, não é?",
    "Vlak přijíždí v poledne, ale my už tu čekáme hodinu.",
    "Tåget kommer klockan tolv, så vi hinner äta först.",
    "Juna saapuu keskipäivällä.",
    "A vonat délben érkezik, addig igyunk egy kávét.",
    "Trenul ajunge la prânz și pleacă peste o oră.",
    "Το τρένο φτάνει το μεσημέρι.",
    "הרכבת מגיעה בצהריים.",
    "Поїзд прибуває опівдні, тож поспішаймо.",
    "Влакът пристига на обяд.",
    "รถไฟมาถึงตอนเที่ยง",
    "Tàu hỏa đến lúc giữa trưa.",
    "Kereta api tiba pada tengah hari.",
    "قطار ظهر می‌رسد.",
    "Treni inafika saa sita mchana.",
    "Traukinys atvyksta vidurdienį.",
    "Vlak stiže u podne, ne brini.",
    "Call 0800 123-456 or write to info@example.org (24/7)!",
    "The invoice of 1,249.50 € is due on 2024-02-29.",
    "def add(a, b): return a + b  # a comment, not a sentence",
    "Good luck 🍀 and see you soon 👋🏽",
    "A [SEP] and a </s> are only words here.",
    "ＦＵＬＬ ｗｉｄｔｈ and ﬁne ligatures ½ ™",
    "   many    blanks   \tand a tab ",
    "WHY ARE YOU SHOUTING? because i can",
    "ok",
    "?",
    "",
    "all the way down the long and winding road " * 40,
)


def proof_sentences() -> list[str]:
    """Return some 200 distinct sentences: `SENTENCES` and made ones."""
    made = made_pairs(MADE_LINES * len(LANGUAGES), split="dev")
    texts = [text for pair in made for text in (pair.source, pair.target)]
    return list(dict.fromkeys([*SENTENCES, *texts]))


@functools.cache
def graded_rows() -> tuple[Row, ...]:
    """Return `(gold, sentence 1, sentence 2)` of made sentences, gold from 0 to 5.

    Both sentences are of one language, or the first is English.
    """
    rows = made_sts(GRADED_LINES)
    english = rows["en"]
    alone = [row for own in rows.values() for row in own]
    across = [
        (gold, first, second)
        for code, own in rows.items()
        if code != "en"
        for (_, first, _), (gold, _, second) in zip(english, own, strict=True)
    ]
    return (*alone, *across)
