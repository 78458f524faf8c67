// Where the pages of Parquet files lie, and what is known of each without decoding it (apache/parquet-format, README.md, PageIndex.md,
// parquet.thrift). Metadata may be damaged: functions say so by returning false, and read nothing beyond what they are given.
#pragma once

#include <cstdint>
#include <vector>

namespace hinterland::native {

// A column chunk, as the footer has it. Places are bytes of the file, but those of bounds and paths, which lie in the footer; -1: not
// known.
struct ParquetChunk {
  int64_t physical, codec;
  int64_t encodings;  // a bit for each that has been used, by its number
  int64_t values, bytes;
  int64_t data_at, dictionary_at;
  int64_t path_at, path_bytes;        // of the file in which it lies; no bytes: this one
  int64_t encrypted;                  // whether it is
  int64_t offsets_at, offsets_bytes;  // of its offset index; 0 where there is none
  int64_t bounds_at, bounds_bytes;    // of its column index
  int64_t nulls;
  int64_t least_at, least_bytes, greatest_at, greatest_bytes;
};

// A page, or what an index says of one. Places are bytes of the file; -1: not known.
struct ParquetPage {
  int64_t chunk;            // which of those that were looked into
  int64_t kind;             // kData, kDictionary, kDataV2; kOther has nothing that is read
  int64_t at, head, bytes;  // its header, the header's bytes, and those that follow
  int64_t full;             // bytes once decompressed
  int64_t row;              // its first
  int64_t values, nulls;
  int64_t encoding;
  int64_t levels;      // of version 1: the encoding of definition levels; of 2: their bytes, which come first, never compressed
  int64_t compressed;  // whether values are, also where a page of version 2 denies it, but has two sizes
  int64_t least_at, least_bytes, greatest_at, greatest_bytes;
};

enum ParquetPageKind : int64_t { kData = 0, kOther = 1, kDictionary = 2, kDataV2 = 3 };

// Chunks of all row groups, one after another; whether the file says that bounds are ordered as their types are.
bool parquet_footer(const uint8_t* bytes, int64_t size, std::vector<ParquetChunk>& chunks, bool& ordered);

// What lies in bytes [at, at + size) of a file.
struct FileRange {
  int64_t at, size;
};

// Headers of all pages of a chunk, one after another. These functions append; chunk numbers are left to the caller.
bool parquet_pages(const uint8_t* file, FileRange chunk, std::vector<ParquetPage>& pages);

// The header that is the first of these bytes.
bool parquet_page(const uint8_t* file, FileRange page, std::vector<ParquetPage>& pages);

// `at`, `bytes` (header included) and `row`, of an offset index.
bool parquet_offsets(const uint8_t* file, FileRange index, std::vector<ParquetPage>& pages);

// Bounds and nulls, of a column index; `values` is 0 of pages of nothing but nulls.
bool parquet_bounds(const uint8_t* file, FileRange index, std::vector<ParquetPage>& pages);

}  // namespace hinterland::native
