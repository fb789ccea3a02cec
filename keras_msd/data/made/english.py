"""English clauses."""

from keras_msd.data.made.forms import Forms
from keras_msd.data.made.spelling import join


def clauses(words: Forms, tense: str, time: str, negated: bool) -> dict[str, str]:
    """Return `main`, `question` and `vp` (after "to").

    Args:
        words: Forms `[base, third person, -ing, past]` and the other parts.
        tense: `n` progressive, `h` present, `p` past, `i` infinitive alone.
        time: Stands last, may be empty.
        negated: Whether the event does not take place.
    """
    base, third, progressive, past = words.verb
    rest = join(words.preposition, words.object, words.place, time)
    auxiliary, verb = {
        "n": ("is", progressive),
        "h": ("does", base),
        "p": ("did", base),
        "i": ("", base),
    }[tense]
    if negated:
        finite = f"{auxiliary} not {verb}"
    else:
        finite = {"n": f"is {progressive}", "h": third, "p": past, "i": ""}[tense]
    denial = "not" if negated else ""
    return {
        "main": join(words.subject, finite, rest),
        "question": join(auxiliary, words.subject, denial, verb, rest),
        "vp": join(base, rest),
    }
