"""LangChain: an encoder as `Embeddings`."""

from pathlib import Path

from langchain_core.embeddings import Embeddings

from keras_msd.arrays import TextEncoder
from keras_msd.load import load_encoder


class MSDEmbeddings(Embeddings):
    """Embeds texts for LangChain, as vectors of length one.

    Args:
        model: An encoder or artefact, or what `load_encoder` takes, such as "tiny12".
    """

    def __init__(self, model: TextEncoder | str | Path) -> None:
        self.model: TextEncoder = (
            model if isinstance(model, TextEncoder) else load_encoder(model)
        )

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of documents."""
        vectors = self.model.encode_document(texts, normalize=True, progress=False)
        return vectors.tolist()

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        vector = self.model.encode_query(text, normalize=True, progress=False)
        return vector.tolist()
