"""Arabic clauses: the verb first, or after its subject; verbs agree in gender."""

from keras_msd.data.made.forms import Forms
from keras_msd.data.made.spelling import join


def clauses(words: Forms, tense: str, time: str, negated: bool) -> dict[str, str]:
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
    feminine = words.gender == "f"
    rest = join(words.preposition, words.object, words.place, time)
    if tense == "p" and negated:
        verb = f"لم {_prefixed(jussive, feminine)}"
    elif tense == "p":
        verb = feminine_past if feminine else past
    elif negated:
        verb = f"لا {_prefixed(present, feminine)}"
    else:
        verb = _prefixed(present, feminine)
    return {
        "main": join(verb, words.subject, rest),
        "sub": join(words.subject, verb, rest),
        "vp": join(_prefixed(present, feminine), rest),
    }


def _prefixed(present: str, feminine: bool) -> str:
    return f"ت{present[1:]}" if feminine else present
