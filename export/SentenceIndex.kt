// Exact search in the index that `keras-msd index` wrote, on Android or another JVM.
// An example to copy. On a JVM it was compiled, and finds what Python finds.
//
//     val index = SentenceIndex(File(folder))
//     val vector = embed("Wo ist die Katze?")   // by the artefact of the same encoder
//     val found = index.search(vector, top = 5, threshold = index.threshold ?: -1.0)
//
// Reads JSON by org.json, which Android has (elsewhere: org.json:json).

import java.io.File
import java.io.RandomAccessFile
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.channels.FileChannel
import kotlin.math.sqrt
import org.json.JSONObject

data class Found(val cosine: Double, val text: String, val file: String, val line: Long)

class SentenceIndex(private val folder: File) {
    private val meta = JSONObject(File(folder, "index.json").readText())
    private val dim: Int
    private val rows: Int
    private val codes: ByteBuffer
    private val scales: ByteBuffer
    private val texts: ByteBuffer
    private val ends: ByteBuffer
    private val lines: ByteBuffer

    /** Cosine above which two sentences of different languages mean the same, or null. */
    val threshold: Double?

    init {
        require(meta.getInt("version") == 1) { "The index has another version." }
        dim = meta.getInt("dim")
        rows = meta.getInt("rows")
        codes = map("vectors.i8")
        scales = map("scales.f32")
        texts = map("texts.utf8")
        ends = map("ends.i64")
        lines = map("lines.i64")
        val found = meta.optJSONObject("threshold")
        threshold = if (found == null || found.isNull("cosine")) null else found.getDouble("cosine")
    }

    /** Throws unless the artefact with this card.json was made from the same encoder. */
    fun checkModel(card: JSONObject) {
        val own = card.getJSONObject("encoder").getString("fingerprint")
        require(own == meta.getString("encoder")) { "The index was built with another model." }
    }

    /** Returns the nearest chunks, nearest first; `query` may have any length. */
    fun search(query: FloatArray, top: Int = 5, threshold: Double = -1.0): List<Found> {
        require(query.size == dim) { "The index holds $dim numbers a vector, not ${query.size}." }
        var square = 0.0
        for (x in query) square += x.toDouble() * x
        val norm = if (square > 0) sqrt(square) else 1.0
        val cosines = DoubleArray(rows)
        for (row in 0 until rows) {
            var sum = 0.0
            val start = row * dim
            for (i in 0 until dim) sum += codes.get(start + i).toDouble() * query[i]
            cosines[row] = sum * scales.getFloat(4 * row) / norm
        }
        return (0 until rows)
            .filter { cosines[it] >= threshold - 1e-6 } // scales are float32
            .sortedWith(compareByDescending<Int> { cosines[it] }.thenBy { it })
            .take(top)
            .map { chunk(it, cosines[it]) }
    }

    private fun chunk(row: Int, cosine: Double): Found {
        val start = if (row == 0) 0 else ends.getLong(8 * (row - 1)).toInt()
        val bytes = ByteArray(ends.getLong(8 * row).toInt() - start)
        for (i in bytes.indices) bytes[i] = texts.get(start + i)
        val sources = meta.getJSONArray("sources")
        var place = 0
        var last = sources.getJSONObject(0).getInt("chunks")
        while (last <= row) {
            place += 1
            last += sources.getJSONObject(place).getInt("chunks")
        }
        val name = sources.getJSONObject(place).getString("name")
        return Found(cosine, String(bytes, Charsets.UTF_8), name, lines.getLong(8 * row))
    }

    private fun map(name: String): ByteBuffer {
        val bytes = meta.getJSONObject("files").getJSONObject(name).getLong("bytes")
        val file = File(folder, name)
        require(file.length() == bytes) { "$name must have $bytes bytes. Copy the index anew." }
        return RandomAccessFile(file, "r").use {
            it.channel.map(FileChannel.MapMode.READ_ONLY, 0, bytes).order(ByteOrder.LITTLE_ENDIAN)
        }
    }
}
