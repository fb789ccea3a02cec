"""A meaning becomes a sentence of a language."""

import re

from keras_msd.data.made import arabic, english, german_dutch, romance, turkish
from keras_msd.data.made.forms import choose, forms
from keras_msd.data.made.lexicon import Entry
from keras_msd.data.made.meaning import Event, Meaning
from keras_msd.data.made.spelling import elide, sentence

SLOT = re.compile(r"\{(\w+)\}")
AGREEMENT = re.compile(r"\[([^]]+)\]")
WEATHER = {
    "en": ("W", "Wwhen"),
    "ar": ("W", "Wsub", "Wwhen"),
    "de": ("W", "Winverted", "Wsub"),
    "nl": ("W", "Winverted", "Wsub"),
    "tr": ("W", "Wbecause", "Wwhen"),
}


def render(meaning: Meaning, language: str) -> str:
    """Return the sentence that says `meaning` in `language`."""
    time = meaning.time.cells[language] if meaning.time else ""
    inner = time if "t" in meaning.template.facts["parts"] else ""
    slots, gender = _event(meaning.event, meaning.tense, inner, language)
    slots["T"] = time
    if meaning.second is not None:
        other, _ = _event(meaning.second, meaning.tense, "", language)
        slots |= {f"{key}2": text for key, text in other.items()}
    if meaning.weather is not None:
        slots |= _weather(meaning.weather, language)
    pattern = meaning.template.cells[language]
    pattern = AGREEMENT.sub(lambda found: choose(found.group(1), gender), pattern)
    text = SLOT.sub(lambda found: slots[found.group(1)], pattern)
    if language == "fr":
        text = elide(text)
    return sentence(text, language)


def _event(
    event: Event, tense: str, time: str, language: str
) -> tuple[dict[str, str], str]:
    words = forms(event, language)
    if language == "en":
        found = english.clauses(words, tense, time, event.negated)
    elif language in ("de", "nl"):
        found = german_dutch.clauses(words, tense, time, event.negated, language)
    elif language == "tr":
        found = turkish.clauses(words, tense, time, event.negated)
    elif language == "ar":
        found = arabic.clauses(words, tense, time, event.negated)
    else:
        found = romance.clauses(words, tense, time, event.negated, language)
    return found | {"S": words.subject}, words.gender


def _weather(weather: Entry, language: str) -> dict[str, str]:
    names = WEATHER.get(language, ("W",))
    return dict(zip(names, weather.cells[language].split("/"), strict=True))
