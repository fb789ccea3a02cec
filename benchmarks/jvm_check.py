"""Compare the ids of export/PortableTokenizer.java with Python's on real sentences.

    python benchmarks/jvm_check.py tiny12 small12 --data DATA

Takes sentences in 13 languages from all files of `<data>/parallel`, and
needs a JDK. Writes benchmarks/results/jvm_check.json. Exit code 1: an id
differs.
"""

import argparse
import json
import shutil
import struct
import subprocess
import sys
import tempfile
from itertools import chain
from pathlib import Path

from corpora import LANGUAGES, sentences

from keras_msd.checks import InputError
from keras_msd.export import loaders_folder
from keras_msd.export.portable import describe
from keras_msd.io.files import write_json
from keras_msd.load import folder_of
from keras_msd.models.encoder_folder import read_folder

RESULT = Path(__file__).with_name("results") / "jvm_check.json"
RUN = """
import java.io.*;
import java.nio.file.*;

public class Run {
  public static void main(String[] names) throws Exception {
    PortableTokenizer tokenizer =
        new PortableTokenizer(Files.readAllBytes(Paths.get("description")));
    DataInputStream texts = new DataInputStream(
        new BufferedInputStream(new FileInputStream("texts")));
    DataOutputStream ids = new DataOutputStream(
        new BufferedOutputStream(new FileOutputStream("ids")));
    for (int left = texts.readInt(); left > 0; left--) {
      byte[] bytes = new byte[texts.readInt()];
      texts.readFully(bytes);
      String text = new String(bytes, "UTF-8");
      int[] row = tokenizer.encode(text);
      ids.writeInt(row.length);
      for (int id : row) ids.writeInt(id);
    }
    ids.close();
  }
}
"""


def main() -> int:
    """Check all encoders, print a line for each and write the result file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("encoders", nargs="+", help="what load_encoder takes")
    parser.add_argument("--data", type=Path, required=True, help="the data folder")
    parser.add_argument("--count", type=int, default=20_000, help="of sentences")
    options = parser.parse_args()
    javac, java = shutil.which("javac"), shutil.which("java")
    if not (javac and java):
        raise InputError("A JDK is not installed. Install one, then try again.")
    texts = sentences(options.data / "parallel", options.count)
    rows = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "Run.java").write_text(RUN)
        source = loaders_folder() / "PortableTokenizer.java"
        command = [javac, "--release", "8", "-Xlint:-options", "-d", name]
        subprocess.run([*command, str(source), str(folder / "Run.java")], check=True)
        encoded = [text.encode() for text in texts]
        parts = chain.from_iterable((struct.pack(">I", len(t)), t) for t in encoded)
        content = struct.pack(">I", len(texts)) + b"".join(parts)
        (folder / "texts").write_bytes(content)
        for encoder in options.encoders:
            config, _, tokenizer = read_folder(folder_of(encoder))
            description = describe(tokenizer, config.max_length)
            (folder / "description").write_bytes(description)
            subprocess.run([java, "-cp", ".", "Run"], cwd=folder, check=True)
            expected = tokenizer.encode(texts, config.max_length)
            content = (folder / "ids").read_bytes()
            numbers = struct.unpack(f">{len(content) // 4}I", content)
            wrong, place = 0, 0
            for row in expected:
                end = place + 1 + numbers[place]
                wrong += list(numbers[place + 1 : end]) != row
                place = end
            rows[encoder] = {
                "sentences": len(texts),
                "ids": sum(map(len, expected)),
                "sentences_that_differ": wrong,
            }
            print(encoder, json.dumps(rows[encoder]))
    version = subprocess.check_output([javac, "-version"], text=True).strip()
    write_json(RESULT, {"languages": LANGUAGES, "jdk": version, "encoders": rows})
    return int(any(row["sentences_that_differ"] for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
