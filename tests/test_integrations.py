"""LangChain's own standard tests for embeddings."""

import pytest

langchain = pytest.importorskip("langchain_tests.integration_tests")
unit = pytest.importorskip("langchain_tests.unit_tests")

from keras_msd.integrations.langchain import MSDEmbeddings  # noqa: E402
from keras_msd.testing import tiny_encoder  # noqa: E402


class Ours:
    @property
    def embeddings_class(self):
        return MSDEmbeddings

    @property
    def embedding_model_params(self):
        return {"model": tiny_encoder()}


class TestLangChainUnit(Ours, unit.EmbeddingsUnitTests):
    pass


class TestLangChain(Ours, langchain.EmbeddingsIntegrationTests):
    pass
