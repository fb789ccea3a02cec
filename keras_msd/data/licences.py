"""Licences of public corpora, as the cards of exported encoders state them."""

LICENCES = {
    "europarl": (
        "no known copyright restrictions; the European Parliament asks to be named"
    ),
    "news-commentary": "none stated by OPUS; WMT publishes it for research",
    "opensubtitles": "none stated by OPUS, which asks to link to opensubtitles.org",
    "tatoeba": "CC BY 2.0 FR (Tatoeba's contributors)",
    "ted2020": "CC BY-NC-ND 4.0 (TED Talks Usage Policy): no commercial use",
    "wikimatrix": "CC BY-SA (Wikipedia)",
}
