/** The tokenizer's description inside a model file. */

const decoder = new TextDecoder();
const MOST_BYTES = 50_000_000;

/**
 * Return the description that an .onnx or a .tflite file carries. For a .tflite file the
 * browser needs `DecompressionStream`, as all do since 2023.
 *
 * @param {Uint8Array} model The whole file.
 * @returns {Promise<Uint8Array>} For `PortableTokenizer`.
 * @throws {Error} The file is damaged or carries no description.
 */
export async function readDescription(model) {
  let found;
  try {
    found = isTflite(model) ? await fromZip(model, "tokenizer.json") : fromOnnx(model);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new Error("The model file is cut off or of another kind. Copy it anew.");
  }
  if (!found) throw new Error("The model file carries no tokenizer. Export it again.");
  return found;
}

function isTflite(model) {
  return decoder.decode(model.subarray(4, 8)) === "TFL3";
}

/** An .onnx file is a protobuf message; its field 14 holds pairs of key and value. */
function fromOnnx(model) {
  for (const [field, value] of messageFields(model)) {
    if (field !== 14) continue;
    const pair = new Map(messageFields(value));
    if (decoder.decode(pair.get(1)) === "tokenizer") return pair.get(2);
  }
  return undefined;
}

/** Yield number and bytes of each field of a message that is not a plain number. */
function* messageFields(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let place = 0;
  const readNumber = () => {
    let [value, factor, byte] = [0, 1, 0x80];
    while (byte & 0x80) {
      byte = view.getUint8(place);
      value += (byte & 0x7f) * factor;
      factor *= 0x80;
      place += 1;
    }
    return value;
  };
  while (place < bytes.length) {
    const key = readNumber();
    const type = key % 8;
    if (type === 0) readNumber();
    else if (type === 2) {
      const size = readNumber();
      if (place + size > bytes.length) throw new RangeError("field");
      yield [Math.floor(key / 8), bytes.subarray(place, place + size)];
      place += size;
    } else throw new RangeError("type");
  }
}

/** A .tflite file has a zip archive at its end. */
async function fromZip(bytes, name) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const number = (place) => view.getUint32(place, true);
  const short = (place) => view.getUint16(place, true);
  let end = bytes.length - 22;
  while (number(end) !== 0x06054b50) end -= 1;
  let place = end - number(end + 12); // the directory stands right before its end
  const shift = place - number(end + 16); // what stands before the archive
  for (let entry = 0; entry < short(end + 10); entry += 1) {
    const nameSize = short(place + 28);
    if (decoder.decode(bytes.subarray(place + 46, place + 46 + nameSize)) === name) {
      const local = number(place + 42) + shift;
      const start = local + 30 + short(local + 26) + short(local + 28);
      const content = bytes.subarray(start, start + number(place + 20));
      return short(place + 10) === 0 ? content : inflated(content, number(place + 24));
    }
    place += 46 + nameSize + short(place + 30) + short(place + 32);
  }
  return undefined;
}

/** Return the `size` bytes that were compressed; throw a RangeError for others. */
async function inflated(content, size) {
  if (size > MOST_BYTES) throw new RangeError("size");
  const found = new Uint8Array(size);
  let place = 0;
  const parts = new Blob([content])
    .stream()
    .pipeThrough(new DecompressionStream("deflate-raw"))
    .getReader();
  try {
    for (let part = await parts.read(); !part.done; part = await parts.read()) {
      found.set(part.value, place);
      place += part.value.length;
    }
  } catch {
    throw new RangeError("content");
  }
  if (place !== size) throw new RangeError("content");
  return found;
}
