/**
 * Exact search in the index that `keras-msd index` wrote, in a browser or in Node.
 *
 *     const index = openIndex(files); // Uint8Arrays by name, as `FILES` lists them
 *     index.checkModel(card);
 *     const [vector] = await encoder.encode(["Wo ist die Katze?"]);
 *     const found = index.search(vector, 5, index.threshold?.cosine);
 */

export const FILES = [
  "index.json",
  "vectors.i8",
  "scales.f32",
  "texts.utf8",
  "ends.i64",
  "lines.i64",
];
const VERSION = 2;

/**
 * Open an index.
 *
 * @param {Object<string, Uint8Array>} files The whole files by name.
 * @returns {SentenceIndex}
 * @throws {Error} A file is missing or cut off, or the index is of another version.
 */
export function openIndex(files) {
  for (const name of FILES) {
    if (!files[name]) throw new Error(`The index lacks ${name}. Copy it anew.`);
  }
  const meta = JSON.parse(new TextDecoder().decode(files["index.json"]));
  if (meta.version !== VERSION) {
    throw new Error(`The index has version ${meta.version}, not ${VERSION}.`);
  }
  for (const [name, facts] of Object.entries(meta.files)) {
    const bytes = Number(facts.split(" ")[0]); // and the CRC-32
    if (files[name]?.length !== bytes) {
      throw new Error(`${name} of the index must have ${bytes} bytes. Copy it anew.`);
    }
  }
  return new SentenceIndex(meta, files);
}

class SentenceIndex {
  constructor(meta, files) {
    this.meta = meta;
    /** `{cosine, precision, recall, pairs, asked, set}`, or null. */
    this.threshold = meta.threshold;
    const { buffer, byteOffset, length } = files["vectors.i8"];
    this.codes = new Int8Array(buffer, byteOffset, length);
    // A copy begins where typed arrays of wide numbers may.
    const copy = (name) => files[name].slice().buffer;
    this.scales = new Float32Array(copy("scales.f32"));
    this.ends = Array.from(new BigInt64Array(copy("ends.i64")), Number);
    this.lines = Array.from(new BigInt64Array(copy("lines.i64")), Number);
    this.texts = files["texts.utf8"];
  }

  /** Throw unless the artefact with this card.json was made from the same encoder. */
  checkModel(card) {
    const own = card?.encoder?.fingerprint;
    if (own !== this.meta.encoder) {
      throw new Error("The index was built with another model. Build it with this one.");
    }
  }

  /**
   * Return `{text, cosine, file, line}` of the nearest chunks, nearest first.
   *
   * @param {Float32Array} query What the encoder gave, of any length.
   * @param {number} top Most chunks.
   * @param {number} threshold Lowest cosine.
   */
  search(query, top = 5, threshold = -1) {
    const { dim, rows } = this.meta;
    if (query.length !== dim) {
      throw new Error(`The index holds ${dim} numbers a vector, not ${query.length}.`);
    }
    const norm = Math.hypot(...query) || 1;
    const cosines = new Float64Array(rows);
    for (let row = 0, place = 0; row < rows; row += 1) {
      let sum = 0;
      for (let i = 0; i < dim; i += 1, place += 1) sum += this.codes[place] * query[i];
      cosines[row] = (sum * this.scales[row]) / norm;
    }
    return Array.from(cosines.keys())
      .filter((row) => cosines[row] >= threshold - 1e-6) // scales are float32
      .sort((a, b) => cosines[b] - cosines[a] || a - b)
      .slice(0, top)
      .map((row) => ({ cosine: cosines[row], ...this.chunk(row) }));
  }

  /** Return text, file and line of a row. */
  chunk(row) {
    const bytes = this.texts.subarray(row ? this.ends[row - 1] : 0, this.ends[row]);
    let last = 0;
    const file = this.meta.sources.find(({ chunks }) => (last += chunks) > row).name;
    return { text: new TextDecoder().decode(bytes), file, line: this.lines[row] };
  }
}
