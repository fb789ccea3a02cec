"""The tokenizer for the JVM, compiled for Java 8 and run on a JDK."""

import json
import shutil
import subprocess

import portable_cases
import pytest

from keras_msd.export import loaders_folder
from keras_msd.export.litert_files import with_tokenizer
from keras_msd.export.portable import describe

JAVAC, JAVA = shutil.which("javac"), shutil.which("java")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (JAVAC and JAVA), reason="a JDK is not installed"),
]

# Prints, for each folder, one line of ids a text; or what went wrong.
RUN = """
import java.nio.ByteBuffer;
import java.nio.file.*;
import java.util.Arrays;

public class Run {
  public static void main(String[] folders) throws Exception {
    StringBuilder shown = new StringBuilder();
    for (String folder : folders) {
      Path path = Paths.get(folder);
      try {
        byte[] file = Files.readAllBytes(path.resolve("file"));
        PortableTokenizer tokenizer = folder.startsWith("model")
            ? PortableTokenizer.fromModel(ByteBuffer.wrap(file))
            : new PortableTokenizer(file);
        for (String line : Files.readAllLines(path.resolve("texts"))) {
          StringBuilder text = new StringBuilder();
          for (int at = 0; at < line.length(); at += 4) {
            text.append((char) Integer.parseInt(line.substring(at, at + 4), 16));
          }
          shown.append(Arrays.toString(tokenizer.encode(text.toString()))).append("\\n");
        }
      } catch (IllegalArgumentException error) {
        shown.append("\\"" + error.getMessage().replaceAll("[\\"\\\\\\\\\\n]", " "));
        shown.append("\\"\\n");
      }
    }
    Files.write(Paths.get("shown"), shown.toString().getBytes("UTF-8"));
  }
}
"""


@pytest.fixture(scope="module")
def java(tmp_path_factory):
    """Return a function from (file, texts) cases to what each text gives."""
    classes = tmp_path_factory.mktemp("classes")
    (classes / "Run.java").write_text(RUN)
    sources = [str(loaders_folder() / "PortableTokenizer.java"), classes / "Run.java"]
    command = [JAVAC, "--release", "8", "-Xlint:-options", "-d", classes, *sources]
    subprocess.run(command, check=True)

    def run(cases, folder, kind="description"):
        names = [f"{kind}_{number}" for number in range(len(cases))]
        for name, (content, texts) in zip(names, cases, strict=True):
            (folder / name).mkdir(parents=True)
            (folder / name / "file").write_bytes(content)
            units = [text.encode("utf-16-be", "surrogatepass") for text in texts]
            lines = "".join(one.hex() + "\n" for one in units)
            (folder / name / "texts").write_text(lines)
        subprocess.run([JAVA, "-cp", classes, "Run", *names], cwd=folder, check=True)
        lines = (folder / "shown").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    return run


def test_ids_equal_those_of_python(java, tmp_path):
    models = [*portable_cases.unigrams(), portable_cases.wordpiece(tmp_path / "w")]
    texts = [portable_cases.texts(number) for number in range(len(models))]
    given = list(zip(models, texts, strict=True))
    cases = [(describe(model, 5000), listed) for model, listed in given]
    found = java(cases, tmp_path / "cases")
    assert found == [row for model, one in given for row in model.encode(one, 5000)]


def test_damaged_descriptions_and_texts_are_refused(java, tmp_path):
    whole = [
        describe(next(portable_cases.unigrams()), 16),
        describe(portable_cases.wordpiece(tmp_path / "w"), 16),
    ]
    damages = [case for one in whole for case in portable_cases.damages(one)]
    cases = [(content, ["a"]) for content, _ in damages]
    found = java(cases, tmp_path / "cases")
    for (_, reason), message in zip(damages, found, strict=True):
        assert message.startswith("The description of the tokenizer is damaged: ")
        assert reason in message
    (message,) = java([(whole[0], ["a\ud800b"])], tmp_path / "surrogate")
    assert "lone surrogate" in message


def test_the_tokenizer_is_found_in_a_model_file(java, tmp_path):
    tokenizer = next(portable_cases.unigrams())
    network, description = b"\x1c\0\0\0TFL3" + bytes(500), describe(tokenizer, 16)
    file = with_tokenizer(network, description)
    texts = portable_cases.CORPUS[:5]
    files = [file, portable_cases.stored(network, description), b"TFL3" * 99, b""]
    files += [file[:600] + file[700:], portable_cases.of_wrong_size(file)]
    cases = [(content, texts) for content in files]
    found = java(cases, tmp_path / "cases", "model")
    assert found[:5] == found[5:10] == tokenizer.encode(texts, 16)
    assert found[10:12] == ["The model carries no tokenizer."] * 2
    assert len(found) == 14 and all(isinstance(it, str) for it in found[10:])
