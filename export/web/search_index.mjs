/**
 * Print what an index has nearest to a query, `cosine TAB file:line TAB text`:
 *
 *     node search_index.mjs ARTEFACT INDEX "Wo ist die Katze?" 5
 *
 * ARTEFACT is the folder of an exported encoder with model.onnx and card.json, INDEX what
 * `keras-msd index` wrote with it or with its encoder. An index with a threshold shows
 * nothing below it.
 */

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { argv, exit } from "node:process";
import * as ort from "onnxruntime-web";
import { checkModel, createEncoder } from "./embed.mjs";
import { FILES, openIndex } from "./sentence_index.mjs";

const MODEL = "model.onnx";

async function main([folder, place, query, top = "5"]) {
  if (!query || !(Number(top) >= 1)) {
    throw new Error("Usage: node search_index.mjs ARTEFACT INDEX QUERY [TOP]");
  }
  const card = JSON.parse(await readFile(join(folder, "card.json"), "utf8"));
  const model = new Uint8Array(await readFile(join(folder, MODEL)));
  await checkModel(model, card, MODEL);
  const read = async (name) => [name, new Uint8Array(await readFile(join(place, name)))];
  const index = openIndex(Object.fromEntries(await Promise.all(FILES.map(read))));
  index.checkModel(card);
  const encoder = await createEncoder(model, ort);
  const [vector] = await encoder.encode([query]);
  const found = index.search(vector, Number(top), index.threshold?.cosine ?? -1);
  for (const { cosine, file, line, text } of found) {
    console.log(`${cosine.toFixed(4)}\t${file}:${line}\t${text}`);
  }
}

try {
  await main(argv.slice(2));
} catch (error) {
  console.error(error.message);
  exit(2);
}
