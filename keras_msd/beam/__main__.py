"""Run the pipeline: `python -m keras_msd.beam PAIRS... --tokenizer T --table FOLDER`.

Other options are passed to Beam, such as `--runner DataflowRunner`.
"""

import argparse
from collections.abc import Sequence
from functools import partial

from keras_msd.beam.pipeline import clean_texts, write_store, write_table
from keras_msd.checks import InputError, require
from keras_msd.choices import MAX_LENGTH
from keras_msd.data.readers import read_pairs
from keras_msd.tokenizers.loading import load_tokenizer

LIMITS = "limit-per-file", "limit-per-language", "dirty-rows", "seed"
HELP = "as of `TextTable.build`"


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the arguments and run the pipeline."""
    parser = argparse.ArgumentParser(
        prog="python -m keras_msd.beam",
        description=(__doc__ or "").splitlines()[0],
        allow_abbrev=False,  # an option of Beam may begin with one of ours
    )
    add = parser.add_argument
    add("pairs", nargs="+", help="as of `msd.data.read_pairs`, such as gs://b/*.tsv.gz")
    add("--language", help="of the translations, where no name says it")
    add("--tokenizer", help="folder that `save` wrote; with --table")
    add("--table", help="new folder of token ids and texts")
    add("--max-length", type=int, default=MAX_LENGTH, help="most token ids of a text")
    add("--guide", help="as of `msd.load_teacher`; with --store")
    add("--dim", type=int, help="the guide's width")
    add("--store", help="new folder of vectors")
    add("--side", default="source", help="whose texts the guide reads")
    add("--shards", type=int, default=16, help="of the store")
    for name in LIMITS:
        add(f"--{name}", type=int, default=argparse.SUPPRESS, help=HELP)
    given, others = parser.parse_known_args(arguments)
    for one, other in (("table", "tokenizer"), ("store", "guide")):
        if (getattr(given, one) is None) != (getattr(given, other) is None):
            parser.error(f"--{one} and --{other} go together")
    if given.table is None and given.store is None:
        parser.error("give --table, --store or both")
    try:
        _run(given, others)
    except InputError as error:
        parser.error(str(error))


def _run(given: argparse.Namespace, others: list[str]) -> None:
    beam = require("apache_beam", "beam", "A pipeline")
    settings = require("apache_beam.options.pipeline_options", "beam", "A pipeline")
    pairs = read_pairs(given.pairs, language=given.language)
    names = [name.replace("-", "_") for name in LIMITS]
    limits = {name: getattr(given, name) for name in names if name in given}
    with beam.Pipeline(options=settings.PipelineOptions(others)) as pipeline:
        texts = clean_texts(pipeline, pairs, **limits)
        if given.table:
            tokenizer = load_tokenizer(given.tokenizer)
            write_table(texts, tokenizer, given.table, given.max_length)
        if given.store:
            from keras_msd.load import load_teacher  # workers without a guide need less

            guide = partial(load_teacher, given.guide, dim=given.dim)
            write_store(texts, guide, given.store, given.side, given.shards)


if __name__ == "__main__":
    main()
