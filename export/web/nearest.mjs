/**
 * Print the sentences nearest to a query, `cosine TAB sentence`, nearest first:
 *
 *     node nearest.mjs ARTEFACT "Wo ist die Katze?" sentences.txt 5
 *
 * ARTEFACT is the folder of an exported encoder with model.onnx and card.json, the
 * sentences file UTF-8, one sentence a line.
 */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { argv, exit } from "node:process";
import * as ort from "onnxruntime-web";
import { checkModel, createEncoder, nearest } from "./embed.mjs";

const MODEL = "model.onnx";

async function main([folder, query, sentences, top = "5"]) {
  if (!sentences || !(Number(top) >= 1)) {
    throw new Error("Usage: node nearest.mjs ARTEFACT QUERY SENTENCES [TOP]");
  }
  const card = JSON.parse(await readFile(join(folder, "card.json"), "utf8"));
  const model = new Uint8Array(await readFile(join(folder, MODEL)));
  await checkModel(model, card, MODEL);
  const lines = (await readFile(sentences, "utf8")).split("\n");
  const texts = lines.map((line) => line.trim()).filter(Boolean);
  if (texts.length === 0) throw new Error(`${sentences} holds no sentence.`);
  const encoder = await createEncoder(model, ort);
  for (const { text, cosine } of await nearest(encoder, query, texts, Number(top))) {
    console.log(`${cosine.toFixed(4)}\t${text}`);
  }
}

try {
  await main(argv.slice(2));
} catch (error) {
  console.error(error.message);
  exit(2);
}
