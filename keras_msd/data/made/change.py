"""Small changes of a meaning, for pairs that are alike to a degree."""

from dataclasses import replace
from typing import Any

from keras_msd.data.made.draw import Draw, allowed
from keras_msd.data.made.lexicon import table
from keras_msd.data.made.meaning import Event, Meaning
from keras_msd.data.made.sense import fits

# Part of an event: the table that has other words for it.
TABLES = {
    "subject": "subjects",
    "adjective": "adjectives",
    "verb": "verbs",
    "object": "objects",
    "place": "places",
}
PARTS = (*TABLES, "weather", "negated")
SAME_MODE_RATE = 0.8


def change(meaning: Meaning, draw: Draw) -> Meaning:
    """Return `meaning` in other words, with none to three of its parts changed."""
    for _ in range(int(draw.uniform() * 4)):
        part = draw.pick(PARTS)
        if part == "weather":
            meaning = _weather(meaning, draw)
        elif part == "negated":
            meaning = _negated(meaning)
        else:
            meaning = replace(meaning, event=_other(meaning, part, draw))
    return _reworded(meaning, draw)


def _other(meaning: Meaning, part: str, draw: Draw) -> Event:
    """Return the event with another word for `part`, or as it is if none fits."""
    event = meaning.event
    if part in ("object", "place") and getattr(event, part) is None:
        return event
    values: dict[str, Any] = {part: draw.pick(allowed(TABLES[part], held_out=True))}
    changed = replace(event, **values)
    return changed if fits(changed, meaning.tense) else event


def _weather(meaning: Meaning, draw: Draw) -> Meaning:
    if meaning.weather is None:
        return meaning
    return replace(meaning, weather=draw.pick(table("weather")))


def _negated(meaning: Meaning) -> Meaning:
    if meaning.tense == "i":
        return meaning
    event = replace(meaning.event, negated=not meaning.event.negated, place=None)
    return replace(meaning, event=event)


def _reworded(meaning: Meaning, draw: Draw) -> Meaning:
    """Put the meaning in a template of the same frame, mostly of the same mode."""
    mode = meaning.template.facts["mode"] if draw.uniform() < SAME_MODE_RATE else None
    fitting = [
        template
        for template in table("templates")
        if template.held_out
        and meaning.tense in template.facts["tense"]
        and template.facts["parts"] == meaning.template.facts["parts"]
        and mode in (None, template.facts["mode"])
    ]
    return replace(meaning, template=draw.pick(fitting))
