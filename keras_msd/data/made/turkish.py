"""Turkish clauses: the verb last, its endings in vowel harmony."""

from keras_msd.data.made.forms import BOUND, Forms
from keras_msd.data.made.spelling import join

VOWELS = "aeıioöuü"
HIGH = dict(zip(VOWELS, "ıiıiuüuü", strict=True))
LOW = dict(zip(VOWELS, "aeaeaeae", strict=True))
VOICELESS = "fstkçşhp"


def clauses(words: Forms, tense: str, time: str, negated: bool) -> dict[str, str]:
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
    if tense == "p":
        verb = past(stem + "m" + LOW[last_vowel(stem)] if negated else stem)
    elif negated:
        verb = f"{stem}m{HIGH[last_vowel(stem)]}yor"
    else:
        verb = present
    middle = join(time, words.place, words.preposition, noun)
    return {
        "main": join(words.subject, middle, verb),
        "question": join(words.subject, middle, verb, f"m{HIGH[last_vowel(verb)]}"),
        "rest": join(middle, verb),
        "vp": join(middle, f"{stem}m{LOW[last_vowel(stem)]}k"),
    }


def last_vowel(word: str) -> str:
    """Return the vowel that endings agree with."""
    return next(letter for letter in reversed(word) if letter in VOWELS)


def past(stem: str) -> str:
    """Return the third person of the past: git -> gitti, ye -> yedi."""
    consonant = "t" if stem[-1] in VOICELESS else "d"
    return f"{stem}{consonant}{HIGH[last_vowel(stem)]}"
