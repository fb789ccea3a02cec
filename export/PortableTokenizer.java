import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;

/**
 * A sentence encoder's tokenizer from its description, for Android and every JVM.
 *
 * <p>The same as portable_tokenizer.py, with the same ids. It needs Java 8 or Android and
 * no library. Put the line `package ...;` of your own code on top. An object may be used
 * by several threads at once.
 *
 * <pre>
 * PortableTokenizer tokenizer = PortableTokenizer.fromModel(model); // a .tflite file
 * int[] ids = tokenizer.encode("Wo ist die Katze?");
 * </pre>
 */
public final class PortableTokenizer {
  private static final String[] IDS = {"pad_id", "start_id", "end_id", "unknown_id"};
  private static final float UNKNOWN_PENALTY = 10;
  private static final float LARGEST_SCORE = 100_000;
  private static final char BLANK = '\u2581';
  private static final String ENTRY = "tokenizer.json";
  private static final int MOST_BYTES = 50_000_000;

  /** Most ids per sentence; a longer one loses ids before its end id. */
  public final int maxLength;

  /** Id that fills a row at its right. */
  public final int padId;

  private final int startId;
  private final int endId;
  private final Model model;

  /** Splits a text into ids, without start and end. */
  private interface Model {
    Ints ids(String text);
  }

  /**
   * @param description What the exporter wrote, UTF-8 JSON.
   * @throws IllegalArgumentException The description is damaged, or of another version.
   */
  public PortableTokenizer(byte[] description) {
    try {
      Object content = new Json(decoded(description)).whole();
      Map<?, ?> fields = content instanceof Map ? (Map<?, ?>) content : new HashMap<>();
      if (!Double.valueOf(1).equals(fields.get("version"))) {
        throw new IllegalArgumentException("it is not of version 1");
      }
      Object kind = fields.get("kind");
      if (!"unigram".equals(kind) && !"wordpiece".equals(kind)) {
        throw new IllegalArgumentException("its kind is " + kind);
      }
      maxLength = number(fields, "max_length");
      int pieces = list(fields, "pieces").size();
      for (String name : IDS) {
        if (number(fields, name) < 0 || number(fields, name) >= pieces) {
          throw new IllegalArgumentException("`" + name + "` has no piece");
        }
      }
      if (maxLength < 2) {
        throw new IllegalArgumentException(
            "`max_length` leaves no room for start and end");
      }
      padId = number(fields, "pad_id");
      startId = number(fields, "start_id");
      endId = number(fields, "end_id");
      model = "unigram".equals(kind) ? new Unigram(fields) : new WordPiece(fields);
    } catch (RuntimeException | CharacterCodingException error) {
      throw new IllegalArgumentException(
          "The description of the tokenizer is damaged: "
              + error.getMessage()
              + ". Export the encoder again.",
          error);
    }
  }

  /**
   * Return the tokenizer in a `litert` file, whose end is a zip archive.
   *
   * @param file The bytes of model.tflite; its position and limit do not change.
   * @throws IllegalArgumentException No tokenizer is in it, or a damaged one.
   */
  public static PortableTokenizer fromModel(ByteBuffer file) {
    try {
      return new PortableTokenizer(entry(file.duplicate().order(ByteOrder.LITTLE_ENDIAN)));
    } catch (IndexOutOfBoundsException error) {
      throw new IllegalArgumentException("The model is cut off. Take a whole copy.", error);
    }
  }

  /**
   * Return the ids of a text, start and end included.
   *
   * @throws IllegalArgumentException The text has a lone surrogate.
   */
  public int[] encode(String text) {
    if (!StandardCharsets.UTF_8.newEncoder().canEncode(text)) {
      throw new IllegalArgumentException(
          "A text has a lone surrogate, which UTF-8 cannot hold.");
    }
    Ints ids = model.ids(text);
    int count = Math.min(ids.size, maxLength - 2);
    int[] row = new int[count + 2];
    row[0] = startId;
    System.arraycopy(ids.values, 0, row, 1, count);
    row[count + 1] = endId;
    return row;
  }

  /**
   * The likeliest split of a text into pieces, as SentencePiece finds it.
   *
   * <p>A run of characters that no piece covers is one unknown id. Scores are added in 32
   * bits, as there; of two equal splits the one met first stays.
   *
   * <p>Source: Kudo, ACL 2018 (arXiv:1804.10959).
   */
  private static final class Unigram implements Model {
    private final Map<String, Integer> numbers = new HashMap<>();
    private final Map<Integer, Integer> longest = new HashMap<>(); // by first character
    private final float[] scores;
    private final int unknown;
    private final CharacterMap map;
    private final boolean prefix;
    private final boolean squeeze;
    private final char blank;

    Unigram(Map<?, ?> fields) {
      List<?> pieces = list(fields, "pieces");
      List<?> given = list(fields, "scores");
      if (pieces.size() != given.size()) {
        throw new IllegalArgumentException("a piece has no score");
      }
      unknown = number(fields, "unknown_id");
      scores = new float[given.size()];
      float lowest = Float.POSITIVE_INFINITY;
      for (int id = 0; id < scores.length; id++) {
        // A piece without a score, such as "</s>", stands for no text.
        if (given.get(id) == null) continue;
        scores[id] = ((Double) given.get(id)).floatValue();
        String piece = (String) pieces.get(id);
        numbers.put(piece, id);
        int first = piece.codePointAt(0);
        Integer known = longest.get(first);
        longest.put(first, Math.max(piece.length(), known == null ? 1 : known));
        lowest = Math.min(lowest, scores[id]);
      }
      if (numbers.isEmpty()) throw new IllegalArgumentException("no piece has a score");
      scores[unknown] = lowest - UNKNOWN_PENALTY;
      map = new CharacterMap(bytes(value(fields, "character_map", String.class)));
      prefix = value(fields, "add_dummy_prefix", Boolean.class);
      squeeze = value(fields, "remove_extra_whitespaces", Boolean.class);
      blank = value(fields, "escape_whitespaces", Boolean.class) ? BLANK : ' ';
    }

    @Override
    public Ints ids(String original) {
      String text = normalised(original);
      int size = text.length();
      // Of the best split of the first n units: its score, where its last piece starts,
      // and the id of that piece.
      float[] best = new float[size + 1];
      int[] starts = new int[size + 1];
      int[] last = new int[size + 1];
      Arrays.fill(starts, -1);
      int reached = 0;
      for (int start = 0, width; start < size; start += width) {
        int character = text.codePointAt(start);
        width = Character.charCount(character);
        float soFar = best[start];
        if (Math.abs(soFar) > LARGEST_SCORE) {
          // Without effect on sums but for their rounding, which decides ties.
          for (int end = start; end <= reached; end++) best[end] -= soFar;
          soFar = 0;
        }
        Integer known = longest.get(character);
        int limit = Math.min(start + Math.max(width, known == null ? 1 : known), size);
        for (int end = start + width; end <= limit; end++) {
          Integer found = numbers.get(text.substring(start, end));
          if (found == null && end > start + width) continue;
          int id = found == null ? unknown : found;
          float score = soFar + scores[id];
          if (starts[end] < 0 || score > best[end]) {
            best[end] = score;
            starts[end] = start;
            last[end] = id;
            reached = Math.max(reached, end);
          }
        }
      }
      Ints ids = new Ints();
      for (int end = size; end > 0; end = starts[end]) {
        boolean again = ids.size > 0 && ids.values[ids.size - 1] == unknown;
        if (last[end] != unknown || !again) ids.add(last[end]);
      }
      for (int low = 0, high = ids.size - 1; low < high; low++, high--) {
        int other = ids.values[low];
        ids.values[low] = ids.values[high];
        ids.values[high] = other;
      }
      return ids;
    }

    /** Return the text that is split, "▁" for a blank. */
    private String normalised(String text) {
      byte[] given = text.getBytes(StandardCharsets.UTF_8);
      Bytes found = new Bytes(given.length + 1);
      if (prefix && given.length > 0) found.add((byte) ' ');
      boolean afterBlank = squeeze;
      for (int place = 0; place < given.length; ) {
        Match match = map.longest(given, place);
        boolean replaced = match.length > 0;
        byte[] from = replaced ? map.content : given;
        int first = replaced ? match.start : place;
        int end = first + 1;
        if (replaced) for (end = first; from[end] != 0; end++) {}
        place += replaced ? match.length : 1;
        while (afterBlank && first < end && from[first] == ' ') first++;
        if (first == end) continue;
        for (int at = first; at < end; at++) found.add(from[at]);
        afterBlank = squeeze && from[end - 1] == ' ';
      }
      String whole = new String(found.values, 0, found.size, StandardCharsets.UTF_8);
      whole = whole.replace(' ', blank);
      int end = whole.length();
      while (squeeze && end > 0 && whole.charAt(end - 1) == blank) end--;
      return whole.substring(0, end);
    }
  }

  /**
   * SentencePiece's replacements: of those that fit at a place, the longest counts.
   *
   * <p>The content is the size of a double array of bytes; the array, 32-bit units; the
   * replacements, each with a zero at its end. Empty: nothing is replaced.
   *
   * <p>Source: Aoe, IEEE TSE 15 (9), 1989; units as darts-clone packs them.
   */
  private static final class CharacterMap {
    final byte[] content;
    private final int[] units;
    private final int replacements;

    CharacterMap(byte[] content) {
      this.content = content;
      ByteBuffer view = ByteBuffer.wrap(content).order(ByteOrder.LITTLE_ENDIAN);
      int size = content.length < 4 ? 0 : view.getInt();
      replacements = 4 + size;
      units = new int[Math.max(size, 0) / 4];
      if (content.length == 0) return;
      boolean whole = size > 0 && size % 1024 == 0 && replacements < content.length;
      if (!whole || content[content.length - 1] != 0) {
        throw new IllegalArgumentException("the character map is cut off");
      }
      for (int row = 0; row < units.length; row++) {
        int unit = view.getInt();
        boolean bad =
            unit < 0
                ? (unit & 0x7fffffff) >= content.length - replacements
                : ((row ^ offset(unit)) | 255) >= units.length;
        if (bad) {
          throw new IllegalArgumentException("the character map is wrong at unit " + row);
        }
        units[row] = unit;
      }
    }

    /** Return how many bytes of a text are replaced at a place, and by what. */
    Match longest(byte[] text, int place) {
      Match match = new Match();
      if (units.length == 0) return match;
      int node = offset(units[0]);
      for (int end = place; end < text.length; end++) {
        int one = text[end] & 255;
        node ^= one;
        int unit = units[node];
        if ((unit & 0x800000ff) != one) break;
        node ^= offset(unit);
        if ((unit & 256) != 0) {
          match.length = end + 1 - place;
          match.start = replacements + (units[node] & 0x7fffffff);
        }
      }
      return match;
    }

    private static int offset(int unit) {
      return (unit >>> 10) << ((unit & 512) >> 6);
    }
  }

  /**
   * Words split at blanks and punctuation, then into the longest known pieces.
   *
   * <p>Source: Devlin et al., NAACL 2019 (arXiv:1810.04805).
   */
  private static final class WordPiece implements Model {
    private final Map<String, Integer> numbers = new HashMap<>();
    private final int unknown;
    private final int longest;
    private final String prefix;
    private final int[] starts;
    private final String[] before;
    private final boolean[] keep;
    private final String[] after;

    WordPiece(Map<?, ?> fields) {
      List<?> pieces = list(fields, "pieces");
      for (int id = 0; id < pieces.size(); id++) {
        // A row without a piece is a special token that text cannot spell.
        if (pieces.get(id) != null) numbers.put((String) pieces.get(id), id);
      }
      unknown = number(fields, "unknown_id");
      longest = number(fields, "max_characters_per_word");
      prefix = value(fields, "prefix", String.class);
      List<?> rules = list(fields, "character_rules");
      int count = rules.size();
      starts = new int[count];
      before = new String[count];
      keep = new boolean[count];
      after = new String[count];
      for (int row = 0; row < count; row++) {
        List<?> rule = (List<?>) rules.get(row);
        starts[row] = whole(rule.get(0));
        before[row] = (String) rule.get(1);
        keep[row] = (Boolean) rule.get(2);
        after[row] = (String) rule.get(3);
        if (row == 0 ? starts[0] != 0 : starts[row] <= starts[row - 1]) {
          throw new IllegalArgumentException("the character rules are not in order");
        }
      }
      if (count == 0) throw new IllegalArgumentException("there are no character rules");
    }

    @Override
    public Ints ids(String text) {
      StringBuilder prepared = new StringBuilder();
      for (int place = 0; place < text.length(); ) {
        int character = text.codePointAt(place);
        int found = Arrays.binarySearch(starts, character);
        int rule = found < 0 ? -found - 2 : found;
        prepared.append(before[rule]);
        if (keep[rule]) prepared.appendCodePoint(character);
        prepared.append(after[rule]);
        place += Character.charCount(character);
      }
      Ints ids = new Ints();
      for (String word : prepared.toString().split(" ")) {
        if (!word.isEmpty()) add(word, ids);
      }
      return ids;
    }

    private void add(String word, Ints ids) {
      int size = ids.size;
      boolean known = word.codePointCount(0, word.length()) <= longest;
      for (int start = 0; known && start < word.length(); ) {
        String before = start > 0 ? prefix : "";
        int end = word.length();
        Integer id = null;
        for (; end > start; end--) {
          id = numbers.get(before + word.substring(start, end));
          if (id != null) break;
        }
        known = id != null;
        if (known) ids.add(id);
        start = end;
      }
      if (!known) {
        ids.size = size;
        ids.add(unknown);
      }
    }
  }

  /** JSON, as the exporter writes it: maps, lists, strings, doubles, booleans, null. */
  private static final class Json {
    private final String text;
    private int place;

    Json(String text) {
      this.text = text;
    }

    Object whole() {
      Object found = value();
      if (skip() != 0) throw wrong();
      return found;
    }

    private Object value() {
      switch (skip()) {
        case '{':
          Map<String, Object> map = new HashMap<>();
          for (boolean first = true; more('}', first); first = false) {
            if (skip() != '"') throw wrong();
            String name = string();
            if (skip() != ':') throw wrong();
            place++;
            map.put(name, value());
          }
          return map;
        case '[':
          List<Object> list = new ArrayList<>();
          for (boolean first = true; more(']', first); first = false) list.add(value());
          return list;
        case '"':
          return string();
        default:
          int start = place;
          while (place < text.length() && ",:]} \n\r\t".indexOf(text.charAt(place)) < 0) {
            place++;
          }
          String word = text.substring(start, place);
          if (word.equals("null")) return null;
          if (word.equals("true") || word.equals("false")) return word.equals("true");
          return Double.valueOf(word);
      }
    }

    /** Tell whether another entry follows, and step to it; the bracket is here. */
    private boolean more(char end, boolean first) {
      if (first) place++;
      char next = skip();
      if (next == end) {
        place++;
        return false;
      }
      if (first) return true;
      if (next != ',') throw wrong();
      place++;
      return true;
    }

    private char skip() {
      while (place < text.length() && " \n\r\t".indexOf(text.charAt(place)) >= 0) place++;
      return place < text.length() ? text.charAt(place) : 0;
    }

    private String string() {
      StringBuilder found = new StringBuilder();
      for (place++; text.charAt(place) != '"'; place++) {
        char one = text.charAt(place);
        if (one == '\\') {
          one = text.charAt(++place);
          int known = "bfnrt".indexOf(one);
          if (known >= 0) one = "\b\f\n\r\t".charAt(known);
          if (one == 'u') {
            one = (char) Integer.parseInt(text.substring(place + 1, place + 5), 16);
            place += 4;
          }
        }
        found.append(one);
      }
      place++;
      return found.toString();
    }

    private IllegalArgumentException wrong() {
      return new IllegalArgumentException("it is no JSON at character " + place);
    }
  }

  private static final class Match {
    int start;
    int length;
  }

  private static final class Ints {
    int[] values = new int[16];
    int size;

    void add(int value) {
      if (size == values.length) values = Arrays.copyOf(values, 2 * size);
      values[size++] = value;
    }
  }

  private static final class Bytes {
    byte[] values;
    int size;

    Bytes(int room) {
      values = new byte[room];
    }

    void add(byte value) {
      if (size == values.length) values = Arrays.copyOf(values, 2 * size);
      values[size++] = value;
    }
  }

  private static <T> T value(Map<?, ?> fields, String name, Class<T> kind) {
    Object found = fields.get(name);
    if (!kind.isInstance(found)) {
      throw new IllegalArgumentException("`" + name + "` is no " + kind.getSimpleName());
    }
    return kind.cast(found);
  }

  private static List<?> list(Map<?, ?> fields, String name) {
    return value(fields, name, List.class);
  }

  private static int number(Map<?, ?> fields, String name) {
    return whole(value(fields, name, Double.class));
  }

  private static int whole(Object value) {
    double number = (Double) value;
    if (number != Math.rint(number)) {
      throw new IllegalArgumentException(number + " is no whole number");
    }
    return (int) number;
  }

  private static String decoded(byte[] content) throws CharacterCodingException {
    CharBuffer text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(content));
    return text.toString();
  }

  /** Return the bytes of base64; java.util.Base64 is missing before Android 8. */
  private static byte[] bytes(String text) {
    String digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    int size = text.length();
    while (size > 0 && text.charAt(size - 1) == '=') size--;
    byte[] found = new byte[size * 6 / 8];
    int bits = 0;
    for (int place = 0; place < size; place++) {
      int digit = digits.indexOf(text.charAt(place));
      if (digit < 0) throw new IllegalArgumentException("the character map is no base64");
      bits = bits << 6 | digit;
      int full = (place + 1) * 6 / 8;
      if (full > place * 6 / 8) found[full - 1] = (byte) (bits >> (place + 1) * 6 % 8);
    }
    return found;
  }

  /** Return the entry of the zip archive at the end of a file. */
  private static byte[] entry(ByteBuffer file) {
    int end = file.limit() - 22; // of the archive's list, where no comment follows
    while (end >= 0 && file.getInt(end) != 0x06054b50) end--;
    if (end < 0) throw new IllegalArgumentException("The model carries no tokenizer.");
    int place = file.getInt(end + 16);
    for (int left = file.getShort(end + 10) & 0xffff; left > 0; left--) {
      int size = file.getInt(place + 20);
      int name = file.getShort(place + 28) & 0xffff;
      int rest = (file.getShort(place + 30) & 0xffff) + (file.getShort(place + 32) & 0xffff);
      int start = file.getInt(place + 42);
      byte[] letters = read(file, place + 46, name);
      if (ENTRY.equals(new String(letters, StandardCharsets.UTF_8))) {
        start += 30 + (file.getShort(start + 26) & 0xffff) + (file.getShort(start + 28) & 0xffff);
        byte[] content = read(file, start, size);
        if (file.getShort(place + 10) == 0) return content;
        return inflated(content, file.getInt(place + 24));
      }
      place += 46 + name + rest;
    }
    throw new IllegalArgumentException("The model carries no tokenizer.");
  }

  /** Return the bytes that were compressed; it throws where they are not as many. */
  private static byte[] inflated(byte[] content, int size) {
    if (size < 0 || size > MOST_BYTES) throw new IndexOutOfBoundsException("of " + size);
    byte[] found = new byte[size];
    Inflater inflater = new Inflater(true);
    inflater.setInput(content);
    try {
      if (inflater.inflate(found) == size) return found;
    } catch (DataFormatException error) {
      throw new IllegalArgumentException("The tokenizer in the model is damaged.", error);
    } finally {
      inflater.end();
    }
    throw new IndexOutOfBoundsException("of " + size);
  }

  private static byte[] read(ByteBuffer file, int start, int size) {
    if (start < 0 || size < 0 || size > file.limit() - start) {
      throw new IndexOutOfBoundsException("at " + start);
    }
    byte[] found = new byte[size];
    ByteBuffer part = file.duplicate();
    part.position(start);
    part.get(found);
    return found;
  }
}
