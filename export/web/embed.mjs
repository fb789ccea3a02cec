/**
 * Sentences to vectors with an exported .onnx file, in a browser or in Node.
 *
 *     import * as ort from "onnxruntime-web";
 *     const encoder = await createEncoder(modelBytes, ort);
 *     const vectors = await encoder.encode(["Wo ist die Katze?"]);
 */

import { PortableTokenizer } from "../portable_tokenizer.mjs";
import { readDescription } from "./description.mjs";

const BATCH = 32;

/**
 * Load an exported encoder.
 *
 * @param {Uint8Array} model The whole .onnx file; the tokenizer travels in it.
 * @param {object} ort onnxruntime-web, or another runtime with the same interface.
 * @returns {Promise<{tokenizer: PortableTokenizer, encode: Function}>} `encode(texts)`
 *     gives one Float32Array a text.
 * @throws {Error} The file is of another kind.
 */
export async function createEncoder(model, ort) {
  const tokenizer = new PortableTokenizer(await readDescription(model));
  const session = await ort.InferenceSession.create(model);

  async function encode(texts) {
    const rows = tokenizer.encode(texts);
    const vectors = new Array(rows.length);
    // Sentences of like length share a batch, so that little padding is computed.
    const order = [...rows.keys()].sort((a, b) => rows[a].length - rows[b].length);
    for (let first = 0; first < order.length; first += BATCH) {
      const batch = order.slice(first, first + BATCH);
      const inputs = padded(
        batch.map((row) => rows[row]),
        tokenizer.padId,
        ort,
      );
      const output = (await session.run(inputs))[session.outputNames[0]];
      const dim = output.dims[1];
      for (const [place, row] of batch.entries()) {
        vectors[row] = output.data.slice(place * dim, (place + 1) * dim);
      }
    }
    return vectors;
  }
  return { tokenizer, encode };
}

function padded(rows, padId, ort) {
  const length = Math.max(...rows.map((row) => row.length));
  const ids = new Int32Array(rows.length * length).fill(padId);
  const mask = new Int32Array(rows.length * length);
  for (const [number, row] of rows.entries()) {
    ids.set(row, number * length);
    mask.fill(1, number * length, number * length + row.length);
  }
  const tensor = (data) => new ort.Tensor("int32", data, [rows.length, length]);
  return { token_ids: tensor(ids), padding_mask: tensor(mask) };
}

/**
 * Throw unless a model file is the one that its card describes.
 *
 * @param {Uint8Array} model The whole file.
 * @param {object} card What card.json beside it says.
 * @param {string} name The file's name in the card.
 * @throws {Error} It is another file, or the page came over plain http, where browsers
 *     offer no checksums.
 */
export async function checkModel(model, card, name) {
  if ((await sha256(model)) !== card?.files?.[name]?.sha256) {
    throw new Error(`${name} is not the file that card.json describes. Copy it anew.`);
  }
}

async function sha256(bytes) {
  if (!globalThis.crypto?.subtle) {
    throw new Error("Checksums need https or localhost. Serve the page that way.");
  }
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Return `{text, row, cosine}` for the `top` texts that are nearest to a query. */
export async function nearest(encoder, query, texts, top = 5) {
  const [wanted, ...vectors] = await encoder.encode([query, ...texts]);
  return texts
    .map((text, row) => ({ text, row, cosine: cosine(wanted, vectors[row]) }))
    .sort((a, b) => b.cosine - a.cosine)
    .slice(0, top);
}

function cosine(one, other) {
  const dot = (a, b) => a.reduce((sum, value, place) => sum + value * b[place], 0);
  return dot(one, other) / Math.sqrt(dot(one, one) * dot(other, other) || 1);
}
