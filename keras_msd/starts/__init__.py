"""Closed-form and grown starts: pure functions that a recipe may switch on."""

from keras_msd.starts.branch import branch_encoder, set_branch
from keras_msd.starts.closed_form import closed_form_encoder
from keras_msd.starts.dimension_reduction import reduce_dimensions
from keras_msd.starts.grow import grow_assistant, input_sums, join_tables
from keras_msd.starts.ridge import fit_ridge
from keras_msd.starts.student import start_student
from keras_msd.starts.svd import bottleneck, token_frequencies

__all__ = [
    "bottleneck",
    "branch_encoder",
    "closed_form_encoder",
    "fit_ridge",
    "grow_assistant",
    "input_sums",
    "join_tables",
    "reduce_dimensions",
    "set_branch",
    "start_student",
    "token_frequencies",
]
