/**
 * Search in an index or in lines of text, without a page: what index.html rests on.
 *
 *     const finder = createFinder(ort);
 *     await finder.take(files); // model.onnx, card.json, what `keras-msd index` wrote
 *     const { found, threshold } = await finder.find("Wo ist die Katze?");
 */

import { checkModel, createEncoder, nearest } from "./embed.mjs";
import { FILES, openIndex } from "./sentence_index.mjs";

export const MODEL = "model.onnx";
export const CARD = "card.json";

/**
 * Return a finder without a model.
 *
 * `take(files)` takes Uint8Arrays by name, all of an index together; whatever else is
 * among them is passed over. `take` throws, and keeps what it had, where a file is
 * damaged, or model, card and index do not belong together. `useText(lines)` has `find`
 * search these instead of an index.
 */
export function createFinder(ort) {
  let [model, encoder, card, index, lines] = [null, null, null, null, []];

  async function take(files) {
    const next = { model, encoder, card, index };
    if (files[MODEL]) {
      next.model = files[MODEL];
      next.encoder = await createEncoder(next.model, ort);
      next.card = null; // that of the model before
    }
    if (files[CARD]) {
      next.card = JSON.parse(new TextDecoder().decode(files[CARD]));
      if (next.model) await checkModel(next.model, next.card, MODEL);
    }
    if (FILES.some((name) => files[name])) next.index = openIndex(files);
    if (next.index && next.encoder) {
      if (!next.card) {
        throw new Error(`With an index give ${CARD} too: it says which model it is of.`);
      }
      next.index.checkModel(next.card);
    }
    ({ model, encoder, card, index } = next);
  }

  function useText(texts) {
    index = null;
    lines = texts.map((text, row) => ({ text, line: row + 1 }));
    lines = lines.filter(({ text }) => text.trim());
  }

  /** Return the nearest of all, `{text, cosine, file, line, above}`, nearest first. */
  async function find(query, top = 5) {
    const known = [index?.threshold, card?.threshold];
    const threshold = known.find((one) => Number.isFinite(one?.cosine)) ?? null;
    const lowest = (threshold?.cosine ?? -1) - 1e-6; // scales are float32
    const near = index ? await inIndex(query, top) : await inText(query, top);
    const found = near.map((one) => ({ ...one, above: one.cosine >= lowest }));
    return { found, threshold };
  }

  async function inIndex(query, top) {
    const [vector] = await encoder.encode([query]);
    return index.search(vector, top);
  }

  async function inText(query, top) {
    const texts = lines.map(({ text }) => text);
    const near = await nearest(encoder, query, texts, top);
    return near.map(({ row, ...one }) => ({ ...one, file: "", line: lines[row].line }));
  }

  return {
    take,
    useText,
    find,
    get ready() {
      return Boolean(encoder);
    },
    get count() {
      return index?.meta.rows ?? lines.length;
    },
    get sources() {
      return index?.meta.sources.map(({ name }) => name) ?? null;
    },
  };
}

/**
 * Fetch model, card and index that stand on a server.
 *
 * @param {string} model Address of a model.onnx; card.json is looked for beside it.
 * @param {?string} index Address of the folder of an index.
 * @param {string} base What both addresses are relative to.
 * @returns {Promise<Object<string, Uint8Array>>} For `take`.
 */
export async function fetchFiles(model, index, base) {
  const place = new URL(model, base);
  const folder = index && new URL(index.replace(/\/*$/, "/"), base);
  const ofIndex = (folder ? FILES : []).map((name) => [name, new URL(name, folder)]);
  const read = async ([name, url]) => {
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
    return [name, new Uint8Array(await answer.arrayBuffer())];
  };
  const files = Object.fromEntries(await Promise.all([[MODEL, place], ...ofIndex].map(read)));
  const card = await fetch(new URL(CARD, place));
  if (card.ok) files[CARD] = new Uint8Array(await card.arrayBuffer());
  return files;
}
