from keras_msd.export.artefact import (
    Artefact as Artefact,
)
from keras_msd.export.artefact import (
    export as export,
)
from keras_msd.export.artefact import (
    load_artefact as load_artefact,
)
from keras_msd.export.artefact import push_to_hub as push_to_hub
from keras_msd.export.card import read_card as read_card
from keras_msd.export.formats import (
    FORMATS as FORMATS,
)
from keras_msd.export.formats import Format as Format
from keras_msd.export.formats import loaders_folder as loaders_folder
from keras_msd.export.formats import (
    quantizations as quantizations,
)
from keras_msd.export.proof import THRESHOLDS as THRESHOLDS
from keras_msd.export.proof import ExportError as ExportError
