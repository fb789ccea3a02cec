/**
 * SentencePiece's replacements: of those that fit at a place, the longest counts.
 *
 * Source: Aoe, IEEE TSE 15 (9), 1989; units as darts-clone packs them.
 */
export class CharacterMap {
  /**
   * @param {string} base64 Size of a double array of bytes; the array, 32-bit units;
   *     the replacements, each with a zero at its end. Empty: nothing is replaced.
   */
  constructor(base64) {
    const content = Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
    this.units = new Uint32Array(0);
    if (content.length === 0) return;
    const view = new DataView(content.buffer);
    const size = content.length < 4 ? 0 : view.getUint32(0, true);
    if (size === 0 || size % 1024 || 4 + size >= content.length || content.at(-1)) {
      throw new Error("the character map is cut off");
    }
    this.replacements = content.subarray(4 + size);
    this.units = new Uint32Array(size / 4);
    for (let row = 0; row < this.units.length; row += 1) {
      const unit = view.getUint32(4 + 4 * row, true);
      const bad =
        unit >>> 31
          ? (unit & 0x7fffffff) >= this.replacements.length
          : ((row ^ offset(unit)) | 255) >= this.units.length;
      if (bad) throw new Error(`the character map is wrong at unit ${row}`);
      this.units[row] = unit;
    }
  }

  /** Yield what becomes of the parts of a text, in UTF-8. */
  *parts(text) {
    for (let place = 0, length; place < text.length; place += length) {
      let part;
      [part, length] = this.longest(text, place);
      if (length === 0) {
        length = 1;
        part = text.subarray(place, place + 1);
      }
      yield part;
    }
  }

  longest(text, place) {
    if (this.units.length === 0) return [text, 0];
    let [node, length, start] = [offset(this.units[0]), 0, 0];
    for (let end = place; end < text.length; end += 1) {
      node ^= text[end];
      const unit = this.units[node];
      if ((unit & 0x800000ff) !== text[end]) break;
      node ^= offset(unit);
      if (unit & 256) {
        length = end + 1 - place;
        start = this.units[node] & 0x7fffffff;
      }
    }
    const stop = this.replacements.indexOf(0, start);
    return [this.replacements.subarray(start, stop), length];
  }
}

/** Return the distance, by exclusive or, from a unit to those that follow it. */
function offset(unit) {
  return (unit >>> 10) << ((unit & 512) >> 6);
}
