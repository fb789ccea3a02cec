// Exact search in the index that `keras-msd index` wrote, on iOS, macOS or Linux.
// An example to copy. It was not compiled or run where it was written.
//
//     let index = try SentenceIndex(folder: url)
//     let vector = try embed("Wo ist die Katze?")  // by the artefact of the same encoder
//     let found = try index.search(vector, top: 5, threshold: index.threshold ?? -1)

import Foundation

struct IndexError: Error, CustomStringConvertible {
    let description: String
}

struct Found {
    let cosine: Double
    let text: String
    let file: String
    let line: Int64
}

final class SentenceIndex {
    private struct Facts: Decodable { let bytes: Int }
    private struct Source: Decodable { let name: String; let chunks: Int }
    private struct Threshold: Decodable { let cosine: Double? }
    private struct Meta: Decodable {
        let version: Int
        let dim: Int
        let rows: Int
        let encoder: String
        let threshold: Threshold?
        let sources: [Source]
        let files: [String: Facts]
    }

    private let meta: Meta
    private let codes: Data
    private let scales: Data
    private let texts: Data
    private let ends: Data
    private let lines: Data

    /// Cosine above which two sentences of different languages mean the same.
    var threshold: Double? { meta.threshold?.cosine }

    init(folder: URL) throws {
        let json = try Data(contentsOf: folder.appendingPathComponent("index.json"))
        let meta = try JSONDecoder().decode(Meta.self, from: json)
        guard meta.version == 1 else {
            throw IndexError(description: "The index has another version.")
        }
        func map(_ name: String) throws -> Data {
            let file = folder.appendingPathComponent(name)
            let data = try Data(contentsOf: file, options: .alwaysMapped)
            guard let facts = meta.files[name], data.count == facts.bytes else {
                throw IndexError(description: "\(name) is cut off. Copy the index anew.")
            }
            return data
        }
        self.meta = meta
        codes = try map("vectors.i8")
        scales = try map("scales.f32")
        texts = try map("texts.utf8")
        ends = try map("ends.i64")
        lines = try map("lines.i64")
    }

    /// Throws unless the artefact whose card.json says this fingerprint of its encoder
    /// was made from the encoder of the index.
    func check(encoderFingerprint: String) throws {
        guard encoderFingerprint == meta.encoder else {
            throw IndexError(description: "The index was built with another model.")
        }
    }

    /// Returns the nearest chunks, nearest first; `query` may have any length.
    func search(_ query: [Float], top: Int = 5, threshold: Double = -1) throws -> [Found] {
        let dim = meta.dim
        guard query.count == dim else {
            throw IndexError(description: "The index holds \(dim) numbers a vector.")
        }
        let square = query.reduce(0.0) { $0 + Double($1) * Double($1) }
        let norm = square > 0 ? square.squareRoot() : 1
        var cosines = [Double](repeating: 0, count: meta.rows)
        codes.withUnsafeBytes { bytes in
            for row in 0..<meta.rows {
                var sum = 0.0
                for i in 0..<dim {
                    sum += Double(Int8(bitPattern: bytes[row * dim + i])) * Double(query[i])
                }
                let scale = Float(bitPattern: number(scales, row, UInt32.self))
                cosines[row] = sum * Double(scale) / norm
            }
        }
        return (0..<meta.rows)
            .filter { cosines[$0] >= threshold - 1e-6 }  // scales are float32
            .sorted { cosines[$0] != cosines[$1] ? cosines[$0] > cosines[$1] : $0 < $1 }
            .prefix(top)
            .map { chunk($0, cosines[$0]) }
    }

    private func chunk(_ row: Int, _ cosine: Double) -> Found {
        let start = row == 0 ? 0 : Int(number(ends, row - 1, Int64.self))
        let bytes = texts.subdata(in: start..<Int(number(ends, row, Int64.self)))
        var place = 0
        var last = meta.sources[0].chunks
        while last <= row {
            place += 1
            last += meta.sources[place].chunks
        }
        return Found(
            cosine: cosine,
            text: String(decoding: bytes, as: UTF8.self),
            file: meta.sources[place].name,
            line: number(lines, row, Int64.self)
        )
    }

    private func number<T: FixedWidthInteger>(_ data: Data, _ row: Int, _: T.Type) -> T {
        data.withUnsafeBytes {
            T(littleEndian: $0.loadUnaligned(fromByteOffset: row * MemoryLayout<T>.size, as: T.self))
        }
    }
}
