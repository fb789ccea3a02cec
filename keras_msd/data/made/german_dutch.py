"""German and Dutch clauses: the finite verb second, first or last."""

from keras_msd.data.made.forms import BOUND, Forms
from keras_msd.data.made.spelling import join

NO = {"de": "kein", "nl": "geen"}
NOT = {"de": "nicht", "nl": "niet"}
INDEFINITE = {"de": "ein", "nl": "een"}
DEFINITE = {"de": ("der ", "die ", "das ", "den "), "nl": ("de ", "het ")}


def clauses(
    words: Forms, tense: str, time: str, negated: bool, language: str
) -> dict[str, str]:
    """Return `main`, `inverted`, `sub` (finite verb last) and `vp` (infinitive last).

    Args:
        words: Forms `[finite, infinitive, auxiliary, participle]` and the other parts.
        tense: `p` is the perfect, `i` the infinitive; present otherwise.
        time: Stands after the finite verb, may be empty.
        negated: Whether the event does not take place.
        language: `de` or `nl`.
    """
    present, infinitive, auxiliary, participle = words.verb
    goal = _negative(words, language) if negated else _goal(words)
    middle = join(time, words.place, goal)
    if tense == "p":
        finite, end, last = auxiliary, participle, f"{participle} {auxiliary}"
        if language == "nl":
            last = f"{auxiliary} {participle}"
    else:
        finite, end, last = present, words.prefix, words.prefix + present
    return {
        "main": join(words.subject, finite, middle, end),
        "inverted": join(finite, words.subject, middle, end),
        "sub": join(words.subject, middle, last),
        "vp": join(middle, infinitive),
    }


def _goal(words: Forms) -> str:
    return join(words.preposition, words.object)


def _negative(words: Forms, language: str) -> str:
    no, denial = NO[language], NOT[language]
    noun, kind = words.object, words.object_class
    if not noun:
        return denial
    if words.preposition or kind in ("near", "far"):
        return join(denial, _goal(words))
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
