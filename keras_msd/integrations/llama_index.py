"""LlamaIndex: an encoder as `BaseEmbedding`."""

from pathlib import Path
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from pydantic import PrivateAttr

from keras_msd.arrays import TextEncoder
from keras_msd.load import load_encoder


class MSDEmbedding(BaseEmbedding):
    """Embeds texts for LlamaIndex, as vectors of length one.

    Args:
        model: An encoder or artefact, or what `load_encoder` takes, such as "tiny12".
        **fields: Those of `BaseEmbedding`, such as `embed_batch_size`.
    """

    _model: TextEncoder = PrivateAttr()

    def __init__(self, model: TextEncoder | str | Path, **fields: Any) -> None:
        loaded = model if isinstance(model, TextEncoder) else load_encoder(model)
        super().__init__(**{"model_name": f"{model}"} | fields)
        self._model = loaded

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        vectors = self._model.encode_document(texts, normalize=True, progress=False)
        return vectors.tolist()

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        vector = self._model.encode_query(query, normalize=True, progress=False)
        return vector.tolist()

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)
