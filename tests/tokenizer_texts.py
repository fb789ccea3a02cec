"""Texts on which tokenizers are known to disagree, and many random ones."""

import random
import unicodedata

SENTENCES = [
    "The cat sleeps on the old chair, doesn't it?",
    "Die Katze schläft auf der Straße; das Mädchen liest.",
    "Le garçon a mangé une crêpe à l'hôtel.",
    "İstanbul'da ılık bir IŞIK var, iyi günler.",
    "Ο ΔΡΟΜΟΣ ΕΙΝΑΙ ΜΑΚΡΥΣ και ο σκύλος κοιμάται.",
    "Быстрая лиса прыгает через ёлку; Йод и щётка.",
    "القطة تنام على الكرسي، أليس كذلك؟ السَّلَامُ",
    "แมวนอนบนเก้าอี้ในสวน",
    "猫は椅子の上で寝ています。今日は2024年です",
    "我们早上喝咖啡,然后去火车站。",
    "고양이가 의자 위에서 잠을 잔다",
    "Người phụ nữ đọc một cuốn sách dài.",
    "कुत्ता पार्क में दौड़ता है।",
]

SYLLABLES = [
    "ka lo mi ther sch ein tion gué ña çã stø",
    "ли ща ёр ный ост",
    "كت مد سل الم",
    "の です 学校 東京 中国 北京",
    "กา แม น้ำ ไทย",
]


def corpus(count: int = 400) -> list[str]:
    """Return the sentences and lines of made words, enough to learn pieces from."""
    draw = random.Random(3)
    lines = []
    for index in range(count):
        syllables = SYLLABLES[index % len(SYLLABLES)].split()
        words = [
            "".join(draw.choices(syllables, k=draw.randint(1, 3))) for _ in "12345"
        ]
        lines.append(" ".join(words))
    return SENTENCES + lines


CORPUS = corpus()

TRICKY = [
    "",
    " ",
    " \t\n \u3000 ",
    "  two  blanks   here  ",
    "ß ẞ Straße STRASSE",
    "ﬁ ﬀ ﬃ ﬅ œuvre Æon ǅ Ĳ",
    "Ａｂｃ１２３ ① ½ ² ℃ ㎏ ㈱ ™ …",
    "e\u0301 é \u0301a n\u0303 ñ \u1e9b\u0323",
    "가각 \u1100\u1161\u11a8",
    "👩\u200d👩\u200d👧\u200d👦 👍🏽 🇩🇪 ❤\ufe0f",
    "a\u200db \u200c \u200e \u2060 x\ufeffy so\u00adft",
    "nul\x00here \x01\x02 \x7f \x1c\x1d tab\there\r\nend\x0b\x0c",
    "line\u2028next\u2029par\u00a0nbsp\u2009thin",
    "bad \ufffd \U0010ffff \ue000 \u0378",
    "[SEP] [CLS] [PAD] [MASK] [UNK] [unused5]",
    "</s> <s> <pad> <unk> <mask>",
    "a</s>b[SEP]c",
    "next\x85line",
    "ﬁ\u0301 ①\u20e3 Ǳ\u0327 ½\ufe0f",
    "▁under ▁ score▁ _ __",
    "##ing ## #hash @user http://a.b/c?d=e&f=g",
    "a" * 100,
    "a" * 101,
    "б" * 100 + " " + "б" * 101,
    "x" * 5000,
    "日" * 300,
    "word " * 400,
    "..... ….. ‥ ¿¡«»„“”‘’–—",
    "$1,234.56 -7.5e-3 +3 50% №5 §2",
]


def made_texts(count: int = 250) -> list[str]:
    """Return the sentences, the tricky texts and random mixtures of characters."""
    draw = random.Random(5)
    near = sorted({c for text in SENTENCES + TRICKY for c in text})
    far = [chr(c) for c in range(0x20, 0x20000) if not 0xD800 <= c < 0xE000]
    texts = SENTENCES + TRICKY
    for index in range(count):
        pool = far if index % 2 else near
        texts.append("".join(draw.choices(pool, k=draw.randint(1, 40))))
    return texts


def has_combining(text: str) -> bool:
    """Tell whether any character of `text` joins the one before it."""
    joins = ("Mn", "Mc", "Me", "Cf", "Cn", "Lm", "Sk")
    return any(unicodedata.category(character) in joins for character in text)
