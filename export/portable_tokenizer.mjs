/**
 * A sentence encoder's tokenizer from its description, for browsers and Node.
 *
 * The same as portable_tokenizer.py, with the same ids; no packages needed. The
 * description is JSON that travels with an exported encoder: web/description.mjs takes
 * it out of an .onnx or a .tflite file.
 *
 *     const tokenizer = new PortableTokenizer(description);
 *     const rows = tokenizer.encode(["Wo ist die Katze?"]);
 */

import { CharacterMap } from "./character_map.mjs";

const IDS = ["pad_id", "start_id", "end_id", "unknown_id"];
const COMMON = { number: ["max_length", ...IDS], array: ["pieces"] };
const FLAGS = ["add_dummy_prefix", "remove_extra_whitespaces", "escape_whitespaces"];
const OWN = {
  unigram: { array: ["scores"], string: ["character_map"], boolean: FLAGS },
  wordpiece: {
    array: ["character_rules"],
    number: ["max_characters_per_word"],
    string: ["prefix"],
  },
};
const UNKNOWN_PENALTY = 10;
const LARGEST_SCORE = 100_000;
const BLANK = 0x20;
const encoder = new TextEncoder();
// Without ignoreBOM a first U+FEFF would be dropped.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Turns text into token ids. */
export class PortableTokenizer {
  /**
   * @param {Uint8Array} description What the exporter wrote, UTF-8 JSON.
   * @throws {Error} The description is damaged, or of another version.
   */
  constructor(description) {
    const fields = checked(description);
    /** Most ids per sentence; a longer one loses ids before its end id. */
    this.maxLength = fields.max_length;
    /** Id that fills a row at its right. */
    this.padId = fields.pad_id;
    this.startId = fields.start_id;
    this.endId = fields.end_id;
    try {
      this.model = new (fields.kind === "unigram" ? Unigram : WordPiece)(fields);
    } catch (error) {
      throw damaged(error.message);
    }
  }

  /**
   * Return the ids of each text, start and end included.
   *
   * @param {Iterable<string>} texts
   * @returns {number[][]}
   * @throws {Error} `texts` is one text, or one is no string or has a lone surrogate.
   */
  encode(texts) {
    if (typeof texts === "string") {
      throw new Error("`texts` must be a list of texts. Received one text.");
    }
    return Array.from(texts, (text) => {
      if (typeof text !== "string") {
        throw new Error(`A text must be a string. Received: ${String(text)}.`);
      }
      if (/\p{Surrogate}/u.test(text)) {
        throw new Error("A text has a lone surrogate, which UTF-8 cannot hold.");
      }
      const ids = this.model.ids(text).slice(0, this.maxLength - 2);
      return [this.startId, ...ids, this.endId];
    });
  }
}

/**
 * The likeliest split of a text into pieces, as SentencePiece finds it.
 *
 * A run of characters that no piece covers is one unknown id. Scores are added in 32
 * bits, as there; of two equal splits the one met first stays.
 *
 * Source: Kudo, ACL 2018 (arXiv:1804.10959).
 */
class Unigram {
  constructor(fields) {
    const { pieces, scores } = fields;
    if (pieces.length !== scores.length) throw new Error("a piece has no score");
    this.unknownId = fields.unknown_id;
    this.scores = Float32Array.from(scores);
    this.numbers = new Map();
    this.longest = new Map(); // UTF-16 units, by first character
    let lowest = Infinity;
    for (const [number, piece] of pieces.entries()) {
      // A piece without a score, such as "</s>", stands for no text.
      if (scores[number] === null) continue;
      if (!piece) throw new Error(`piece ${number} is empty`);
      this.numbers.set(piece, number);
      const first = piece.codePointAt(0);
      this.longest.set(first, Math.max(piece.length, this.longest.get(first) ?? 1));
      lowest = Math.min(lowest, this.scores[number]);
    }
    if (lowest === Infinity) throw new Error("no piece has a score");
    this.scores[this.unknownId] = lowest - UNKNOWN_PENALTY;
    this.map = new CharacterMap(fields.character_map);
    this.prefix = fields.add_dummy_prefix;
    this.squeeze = fields.remove_extra_whitespaces;
    this.blank = fields.escape_whitespaces ? "\u2581" : " ";
  }

  ids(original) {
    const text = this.normalise(original);
    const size = text.length;
    // Of the best split of the first n units: its score, where its last piece starts,
    // and the id of that piece.
    const best = new Float32Array(size + 1);
    const starts = new Int32Array(size + 1).fill(-1);
    const last = new Int32Array(size + 1);
    let reached = 0;
    for (let start = 0, width = 1; start < size; start += width) {
      const character = text.codePointAt(start);
      width = character > 0xffff ? 2 : 1;
      let soFar = best[start];
      if (Math.abs(soFar) > LARGEST_SCORE) {
        // Without effect on sums but for their rounding, which decides ties.
        for (let end = start; end <= reached; end += 1) {
          best[end] -= soFar;
        }
        soFar = 0;
      }
      const longest = Math.max(width, this.longest.get(character) ?? 1);
      const limit = Math.min(start + longest, size);
      for (let end = start + width; end <= limit; end += 1) {
        let number = this.numbers.get(text.slice(start, end));
        if (number === undefined) {
          if (end > start + width) continue;
          number = this.unknownId;
        }
        const score = Math.fround(soFar + this.scores[number]);
        if (starts[end] < 0 || score > best[end]) {
          best[end] = score;
          starts[end] = start;
          last[end] = number;
          reached = Math.max(reached, end);
        }
      }
    }
    const ids = [];
    for (let end = size; end > 0; end = starts[end]) {
      const again = last[end] === this.unknownId && ids.at(-1) === this.unknownId;
      if (!again) ids.push(last[end]);
    }
    return ids.reverse();
  }

  /** Return the text that is split, "▁" for a blank. */
  normalise(text) {
    const bytes = text && this.prefix ? [BLANK] : [];
    let afterBlank = this.squeeze;
    for (const part of this.map.parts(encoder.encode(text))) {
      let first = 0;
      while (afterBlank && part[first] === BLANK) first += 1;
      if (first === part.length) continue;
      for (let place = first; place < part.length; place += 1) bytes.push(part[place]);
      afterBlank = this.squeeze && part.at(-1) === BLANK;
    }
    const normalised = decoder.decode(Uint8Array.from(bytes));
    const escaped = normalised.replaceAll(" ", this.blank);
    if (!this.squeeze) return escaped;
    let end = escaped.length;
    while (escaped[end - 1] === this.blank) end -= 1;
    return escaped.slice(0, end);
  }
}

/**
 * Words split at blanks and punctuation, then into the longest known pieces.
 *
 * Source: Devlin et al., NAACL 2019 (arXiv:1810.04805).
 */
class WordPiece {
  constructor(fields) {
    this.numbers = new Map();
    for (const [number, piece] of fields.pieces.entries()) {
      // A row without a piece is a special token that text cannot spell.
      if (piece !== null) this.numbers.set(piece, number);
    }
    this.unknownId = fields.unknown_id;
    this.longest = fields.max_characters_per_word;
    this.prefix = fields.prefix;
    this.rules = fields.character_rules;
    let expected = 0; // the first rule starts there, each later one further on
    for (const [row, [start, before, , after]] of this.rules.entries()) {
      if (row === 0 ? start !== 0 : !(start >= expected)) {
        throw new Error("the character rules are not in order");
      }
      if (typeof before !== "string" || typeof after !== "string") {
        throw new Error(`character rule ${row} has no text`);
      }
      expected = start + 1;
    }
    if (expected === 0) throw new Error("there are no character rules");
  }

  ids(text) {
    const prepared = Array.from(text, (character) => this.prepared(character));
    const words = prepared.join("").split(" ").filter(Boolean);
    return words.flatMap((word) => this.word(word));
  }

  prepared(character) {
    const code = character.codePointAt(0);
    let [low, high] = [0, this.rules.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.rules[middle][0] <= code) low = middle;
      else high = middle;
    }
    const [, before, keep, after] = this.rules[low];
    return before + (keep ? character : "") + after;
  }

  word(word) {
    if (Array.from(word).length > this.longest) return [this.unknownId];
    const ids = [];
    for (let start = 0, end; start < word.length; start = end) {
      const prefix = start ? this.prefix : "";
      let number;
      for (end = word.length; end > start; end -= 1) {
        number = this.numbers.get(prefix + word.slice(start, end));
        if (number !== undefined) break;
      }
      if (number === undefined) return [this.unknownId];
      ids.push(number);
    }
    return ids;
  }
}

function checked(description) {
  let fields;
  try {
    fields = JSON.parse(decoder.decode(description));
  } catch (error) {
    throw damaged(error.message);
  }
  if (fields?.version !== 1) throw damaged("it is not of version 1");
  if (!Object.hasOwn(OWN, fields.kind)) throw damaged(`its kind is ${fields.kind}`);
  for (const wanted of [COMMON, OWN[fields.kind]]) {
    for (const [type, names] of Object.entries(wanted)) {
      const wrong = names.find((name) => typeOf(fields[name]) !== type);
      if (wrong) throw damaged(`\`${wrong}\` is no ${type}`);
    }
  }
  const wrong = IDS.find((name) => typeof fields.pieces[fields[name]] === "undefined");
  if (wrong) throw damaged(`\`${wrong}\` has no piece`);
  if (fields.max_length < 2) {
    throw damaged("`max_length` leaves no room for start and end");
  }
  return fields;
}

function typeOf(value) {
  return Array.isArray(value) ? "array" : typeof value;
}

function damaged(why) {
  return new Error(
    `The description of the tokenizer is damaged: ${why}. Export the encoder again.`,
  );
}
