"""A meaning becomes a sentence of a language.

The tables give the forms of words; each language has one function that puts them in
order, `(words, tense, time, negated) -> clauses by name`. The templates name the
clauses.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from keras_msd.data.made.meaning import Event, Meaning

SLOT = re.compile(r"\{(\w+)\}")
AGREEMENT = re.compile(r"\[([^]]+)\]")
# Objects that are bound to their verb: "to school", "(play) football".
BOUND = {"sport", "instrument", "near", "far"}
# Slots that a cell of the table of weather fills, in its order; others have just `W`.
WEATHER = {
    "en": ("W", "Wwhen"),
    "ar": ("W", "Wsub", "Wwhen"),
    "de": ("W", "Winverted", "Wsub"),
    "nl": ("W", "Winverted", "Wsub"),
    "tr": ("W", "Wbecause", "Wwhen"),
}


class Forms(NamedTuple):
    """Words of an event in one language, ready to be put in order.

    Attributes:
        language: The code.
        subject: Noun phrase, with article and adjective.
        gender: `m` or `f`, of the subject in this language.
        verb: Forms in the order of the language's column.
        preposition: Stands before the object, may be empty.
        prefix: Of a separable verb, may be empty.
        object: Noun phrase in the case that the verb wants, may be empty.
        negative_object: The object after a negation as the table has it, may be empty.
        object_class: First class of the object, empty without one.
        place: May be empty.
    """

    language: str
    subject: str
    gender: str
    verb: list[str]
    preposition: str
    prefix: str
    object: str
    negative_object: str
    object_class: str
    place: str


def render(meaning: Meaning, language: str) -> str:
    """Return the sentence that says `meaning` in `language`."""
    time = meaning.time.cells[language] if meaning.time else ""
    inner = time if "t" in meaning.template.facts["parts"] else ""
    slots, gender = _clauses(meaning.event, meaning.tense, inner, language)
    slots["T"] = time
    if meaning.second is not None:
        other, _ = _clauses(meaning.second, meaning.tense, "", language)
        slots |= {f"{key}2": text for key, text in other.items()}
    if meaning.weather is not None:
        cells = meaning.weather.cells[language].split("/")
        slots |= zip(WEATHER.get(language, ("W",)), cells, strict=True)
    pattern = meaning.template.cells[language]
    pattern = AGREEMENT.sub(lambda match: _choose(match[1], gender), pattern)
    text = SLOT.sub(lambda match: slots[match[1]], pattern)
    return _sentence(_elide(text) if language == "fr" else text, language)


def _clauses(
    event: Event, tense: str, time: str, language: str
) -> tuple[dict[str, str], str]:
    words = _forms(event, language)
    clauses = GRAMMARS[language](words, tense, time, event.negated)
    return clauses | {"S": words.subject}, words.gender


def _forms(event: Event, language: str) -> Forms:
    """Look up the words of `event`."""
    subject, gender = _subject(event, language)
    verb, preposition, prefix = [], "", ""
    for token in event.verb.cells[language].split():
        token = token.replace("_", " ")
        if token.startswith("+"):
            preposition = token[1:]
        elif token.startswith("~"):
            prefix = token[1:]
        else:
            verb.append(token)
    plain, negative, kind = "", "", ""
    if event.object is not None:
        plain, _, negative = event.object.cells[language].partition("/")
        kind = event.object.listed("classes")[0]
    place = event.place.cells[language] if event.place else ""
    nouns = (plain, negative, kind, place)
    return Forms(language, subject, gender, verb, preposition, prefix, *nouns)


def _subject(event: Event, language: str) -> tuple[str, str]:
    noun = event.subject.cells[language]
    gender = event.subject.facts["gender"]
    if noun.startswith(("m:", "f:")):
        gender, _, noun = noun.partition(":")
    if event.adjective is None:
        return noun, gender
    adjective = _choose(event.adjective.cells[language], gender)
    if language == "tr":
        return f"{adjective} {noun}", gender
    if language in ("en", "de", "nl"):
        article, _, rest = noun.partition(" ")
        return f"{article} {adjective} {rest}", gender
    return f"{noun} {adjective}", gender


def _choose(text: str, gender: str) -> str:
    """Take the masculine or the feminine of `masculine/feminine`."""
    masculine, _, feminine = text.partition("/")
    return feminine if gender == "f" and feminine else masculine


def _join(*parts: str) -> str:
    """Join the parts that are not empty with spaces."""
    return " ".join(part for part in parts if part)


def _sentence(text: str, language: str) -> str:
    """Return `text` with single spaces and a capital first letter."""
    text = " ".join(text.split())
    for index, letter in enumerate(text):
        if letter.isalpha():
            capital = "İ" if language == "tr" and letter == "i" else letter.upper()
            return text[:index] + capital + text[index + 1 :]
    return text


def _english(words: Forms, tense: str, time: str, negated: bool) -> dict[str, str]:
    """Return `main`, `question` and `vp` (after "to").

    Args:
        words: Forms `[base, third person, -ing, past]` and the other parts.
        tense: `n` progressive, `h` present, `p` past, `i` infinitive alone.
        time: Stands last, may be empty.
        negated: Whether the event does not take place.
    """
    base, third, progressive, past = words.verb
    rest = _join(words.preposition, words.object, words.place, time)
    auxiliary, verb, finite = {
        "n": ("is", progressive, f"is {progressive}"),
        "h": ("does", base, third),
        "p": ("did", base, past),
        "i": ("", base, ""),
    }[tense]
    denial = "not" if negated else ""
    if negated:
        finite = f"{auxiliary} not {verb}"
    return {
        "main": _join(words.subject, finite, rest),
        "question": _join(auxiliary, words.subject, denial, verb, rest),
        "vp": _join(base, rest),
    }


NO = {"de": "kein", "nl": "geen"}
NOT = {"de": "nicht", "nl": "niet"}
INDEFINITE = {"de": "ein", "nl": "een"}
DEFINITE = {"de": ("der ", "die ", "das ", "den "), "nl": ("de ", "het ")}


def _german_dutch(words: Forms, tense: str, time: str, negated: bool) -> dict[str, str]:
    """Return `main`, `inverted`, `sub` (finite verb last) and `vp` (infinitive last).

    Args:
        words: Forms `[finite, infinitive, auxiliary, participle]` and the other parts.
        tense: `p` is the perfect, `i` the infinitive; present otherwise.
        time: Stands after the finite verb, may be empty.
        negated: Whether the event does not take place.
    """
    present, infinitive, auxiliary, participle = words.verb
    goal = _join(words.preposition, words.object)
    middle = _join(time, words.place, _denied(words, goal) if negated else goal)
    if tense == "p":
        finite, end, last = auxiliary, participle, f"{participle} {auxiliary}"
        if words.language == "nl":
            last = f"{auxiliary} {participle}"
    else:
        finite, end, last = present, words.prefix, words.prefix + present
    return {
        "main": _join(words.subject, finite, middle, end),
        "inverted": _join(finite, words.subject, middle, end),
        "sub": _join(words.subject, middle, last),
        "vp": _join(middle, infinitive),
    }


def _denied(words: Forms, goal: str) -> str:
    language, noun, kind = words.language, words.object, words.object_class
    no, denial = NO[language], NOT[language]
    if not noun:
        return denial
    if words.preposition or kind in ("near", "far"):
        return _join(denial, goal)
    if words.negative_object:
        return words.negative_object
    if noun.startswith(INDEFINITE[language]):
        tail = noun.removeprefix(INDEFINITE[language])
        return no + (tail if language == "de" else f" {tail.strip()}")
    if noun.startswith(DEFINITE[language]):
        return f"{noun} {denial}"
    if language == "nl":
        return f"{no} {noun}"
    return f"{denial} {noun}" if kind in BOUND else f"{noun} {denial}"


ELISION = re.compile(r"\b(d|n|qu)e (?=[aeiouéèêâîœ])", re.IGNORECASE)
# Under a negation French puts "de" for these articles, and Italian nothing.
ARTICLES = {
    "es": (re.compile(r"^$"), ""),
    "fr": (re.compile(r"^(?:un |une |du |des |de la |de l')"), "de "),
    "it": (re.compile(r"^(?:del |dello |della |dell'|dei |degli |delle )"), ""),
}
ENDINGS = {"es": ("", ""), "fr": ("", "e"), "it": ("o", "a")}  # of a participle


def _romance(words: Forms, tense: str, time: str, negated: bool) -> dict[str, str]:
    """Return `main`, `question` (verb first) and `vp` (infinitive first).

    Args:
        words: Forms `[present, infinitive, past]`, in French and Italian `[present,
            infinitive, auxiliary, participle]`, and the other parts. `~` in a
            participle stands for the ending that agrees with the subject.
        tense: `p` is the preterite or perfect, `i` the infinitive; present otherwise.
        time: Stands last, may be empty.
        negated: Whether the event does not take place.
    """
    language, noun = words.language, words.object
    present, infinitive, *past = words.verb
    if negated and words.object_class not in BOUND:
        article, instead = ARTICLES[language]
        noun = article.sub(instead, noun)
    rest = _join(words.preposition, noun, words.place, time)
    ending = ENDINGS[language][words.gender == "f"]
    past = [word.replace("~", ending) for word in past]
    finite, *participle = past if tense == "p" else [present]
    if negated and language == "fr":
        finite = f"ne {finite} pas"
    elif negated:
        finite = f"{'no' if language == 'es' else 'non'} {finite}"
    clauses = {
        "main": _join(words.subject, finite, *participle, rest),
        "question": _join(finite, *participle, words.subject, rest),
        "vp": _join(infinitive, rest),
    }
    if language == "fr":
        clauses = {name: _elide(text) for name, text in clauses.items()}
    return clauses


def _elide(text: str) -> str:
    """Return French text with `de`, `ne` and `que` shortened before a vowel."""
    return ELISION.sub(r"\1'", text)


VOWELS = "aeıioöuü"
HIGH = dict(zip(VOWELS, "ıiıiuüuü", strict=True))
LOW = dict(zip(VOWELS, "aeaeaeae", strict=True))
VOICELESS = "fstkçşhp"


def _turkish(words: Forms, tense: str, time: str, negated: bool) -> dict[str, str]:
    """Return `main`, `question`, `rest` (all but the subject) and `vp`.

    Args:
        words: Forms `[stem, third person of the present in -yor]` and the other parts.
        tense: `p` is the past in -di, `i` the infinitive; otherwise present in -yor.
        time: Stands after the subject, may be empty.
        negated: Whether the event does not take place.
    """
    stem, present = words.verb
    noun = words.object
    if negated and words.object_class not in BOUND:
        noun = noun.removeprefix("bir ")
    negative = f"{stem}m{LOW[_last_vowel(stem)]}"
    if tense == "p":  # git -> gitti, ye -> yedi
        base = negative if negated else stem
        consonant = "t" if base[-1] in VOICELESS else "d"
        verb = f"{base}{consonant}{HIGH[_last_vowel(base)]}"
    elif negated:
        verb = f"{stem}m{HIGH[_last_vowel(stem)]}yor"
    else:
        verb = present
    middle = _join(time, words.place, words.preposition, noun)
    return {
        "main": _join(words.subject, middle, verb),
        "question": _join(words.subject, middle, verb, f"m{HIGH[_last_vowel(verb)]}"),
        "rest": _join(middle, verb),
        "vp": _join(middle, f"{negative}k"),
    }


def _last_vowel(word: str) -> str:
    """Return the vowel that endings agree with."""
    return next(letter for letter in reversed(word) if letter in VOWELS)


def _arabic(words: Forms, tense: str, time: str, negated: bool) -> dict[str, str]:
    """Return `main` (verb first), `sub` (subject first) and `vp` (after "that").

    Args:
        words: Forms `[past, present]`, then, where they are irregular, the feminine
            past and the present after "did not"; and the other parts.
        tense: `p` is the past; present otherwise. The subjunctive looks like it.
        time: Stands last, may be empty.
        negated: Whether the event does not take place.
    """
    past, present, *irregular = words.verb
    feminine_past, jussive = irregular or (f"{past}ت", present)
    if words.gender == "f":
        past, present, jussive = feminine_past, f"ت{present[1:]}", f"ت{jussive[1:]}"
    rest = _join(words.preposition, words.object, words.place, time)
    if tense == "p":
        verb = f"لم {jussive}" if negated else past
    else:
        verb = f"لا {present}" if negated else present
    return {
        "main": _join(verb, words.subject, rest),
        "sub": _join(words.subject, verb, rest),
        "vp": _join(present, rest),
    }


GRAMMARS: dict[str, Callable[[Forms, str, str, bool], dict[str, str]]] = {
    "en": _english,
    "ar": _arabic,
    "de": _german_dutch,
    "es": _romance,
    "fr": _romance,
    "it": _romance,
    "nl": _german_dutch,
    "tr": _turkish,
}
