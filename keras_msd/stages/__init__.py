"""Stages of training; `STAGES` maps a name to a class, imported on use."""

from importlib import import_module
from typing import Any

from keras_msd import checks

STAGES = {
    "teach_assistant": "keras_msd.stages.teach_assistant.TeachAssistant",
    "align_embedding": "keras_msd.stages.align_embedding.AlignEmbedding",
    "teach_student": "keras_msd.stages.teach_student.TeachStudent",
    "contrastive_learning": "keras_msd.stages.contrastive_learning.ContrastiveLearning",
    "teach_thin_deep": "keras_msd.stages.teach_thin_deep.TeachThinDeep",
    "regress_similarity": "keras_msd.stages.regress_similarity.RegressSimilarity",
}
OTHERS = (
    "keras_msd.stages.base.Stage",
    "keras_msd.stages.collapse_monitor.CollapseMonitor",
    "keras_msd.stages.optimizer.WarmUp",
    "keras_msd.stages.optimizer.make_optimizer",
)


def stage_class(name: str) -> Any:
    """Return the class that `STAGES` lists under `name`.

    Raises:
        InputError: No stage has that name.
    """
    checks.one_of(STAGES, name=name)
    return _load(STAGES[name])


def __getattr__(attribute: str) -> Any:
    for path in (*STAGES.values(), *OTHERS):
        if path.rpartition(".")[2] == attribute:
            return _load(path)
    raise AttributeError(f"module `{__name__}` has no attribute `{attribute}`")


def _load(path: str) -> Any:
    module, _, attribute = path.rpartition(".")
    return getattr(import_module(module), attribute)
