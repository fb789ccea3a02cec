"""Spanish, French and Italian clauses."""

import re

from keras_msd.data.made.forms import BOUND, Forms
from keras_msd.data.made.spelling import elide, join

# Under a negation French puts "de" for these articles, and Italian nothing.
ARTICLES = {
    "es": (re.compile(r"^$"), ""),
    "fr": (re.compile(r"^(?:un |une |du |des |de la |de l')"), "de "),
    "it": (re.compile(r"^(?:del |dello |della |dell'|dei |degli |delle )"), ""),
}


def clauses(
    words: Forms, tense: str, time: str, negated: bool, language: str
) -> dict[str, str]:
    """Return `main`, `question` (verb first) and `vp` (infinitive first).

    Args:
        words: Forms `[present, infinitive, past]`, in French and Italian `[present,
            infinitive, auxiliary, participle]`, and the other parts. `~` in a
            participle stands for the ending that agrees with the subject.
        tense: `p` is the preterite or perfect, `i` the infinitive; present otherwise.
        time: Stands last, may be empty.
        negated: Whether the event does not take place.
        language: `es`, `fr` or `it`.
    """
    present, infinitive, *past = words.verb
    noun = words.object
    if negated and words.object_class not in BOUND:
        article, instead = ARTICLES[language]
        noun = article.sub(instead, noun)
    rest = join(words.preposition, noun, words.place, time)
    endings = {"es": ("", ""), "fr": ("", "e"), "it": ("o", "a")}[language]
    past = [word.replace("~", endings[words.gender == "f"]) for word in past]
    finite, *participle = past if tense == "p" else [present]
    if negated and language == "fr":
        finite = f"ne {finite} pas"
    elif negated:
        finite = f"{'no' if language == 'es' else 'non'} {finite}"
    found = {
        "main": join(words.subject, finite, *participle, rest),
        "question": join(finite, *participle, words.subject, rest),
        "vp": join(infinitive, rest),
    }
    if language == "fr":
        found = {key: elide(text) for key, text in found.items()}
    return found
