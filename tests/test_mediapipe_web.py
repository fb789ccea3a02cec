"""A model for MediaPipe, run by its package for the web in headless Chromium.

npm install --no-save @mediapipe/tasks-text
"""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from random_encoder import random_encoder
from test_export_litert_text import TEXTS, cosines, embed
from tokenizer_texts import CORPUS

from keras_msd.export import litert as exporter
from keras_msd.tokenizers.sentencepiece import train_unigram

ROOT = Path(__file__).parents[1]
PACKAGES = Path(os.environ.get("NODE_PATH", ROOT / "node_modules"))
TASKS = PACKAGES / "@mediapipe" / "tasks-text"
CHROMIUM = shutil.which("chromium")
PAGE = """
<!doctype html>
<script type="module">
import { FilesetResolver, TextEmbedder } from "./tasks/text_bundle.mjs";
async function answer() {
  const files = await FilesetResolver.forTextTasks("/web/tasks/wasm");
  const embedder = await TextEmbedder.createFromModelPath(files, "model.tflite");
  const texts = await (await fetch("texts.json")).json();
  const embed = (text) => embedder.embed(text).embeddings[0].floatEmbedding;
  return { vectors: texts.map((text) => Array.from(embed(text))) };
}
const found = await answer().catch((error) => ({ error: String(error) }));
await fetch("/result", { method: "POST", body: JSON.stringify(found) });
</script>
"""


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.skipif(
    not TASKS.is_dir(), reason="the npm package @mediapipe/tasks-text is not there"
)
def test_mediapipe_for_the_web_gives_the_same_vectors(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from javascript_check import in_chromium

    made = random_encoder(train_unigram(CORPUS, 400), hidden_dim=32)
    web = tmp_path / "app" / "web"
    exporter.write_text(made, web, None)
    shutil.copytree(TASKS, web / "tasks")
    (web / "texts.json").write_text(json.dumps(TEXTS))
    (web / "check.html").write_text(PAGE)
    answer = in_chromium(tmp_path / "app", tmp_path / "profile")
    vectors = np.array(answer["vectors"])
    in_python = [one.embedding for one in embed(web / "model.tflite", TEXTS)]
    assert cosines(np.array(in_python), vectors).min() >= 0.9999
    assert cosines(made.encode(TEXTS), vectors).min() >= 0.9999
