// What the footer of a Parquet file says of its chunks (apache/parquet-format, parquet.thrift). It may be damaged.
#pragma once

#include <cstdint>
#include <vector>

namespace hinterland::native {

// A column chunk. Places are bytes of the file, but those of bounds and paths, which lie in the footer; -1: not known.
struct ParquetChunk {
  int64_t physical, codec;
  int64_t encodings;  // a bit for each that has been used, by its number
  int64_t values;
  int64_t full, bytes;  // of its pages, decompressed and as they are stored
  int64_t data_at, dictionary_at;
  int64_t path_at, path_bytes;  // of the file in which it lies; no bytes: this one
  int64_t encrypted;            // whether it is
  int64_t nulls;
  int64_t least_at, least_bytes, greatest_at, greatest_bytes;
  int64_t index_at, index_bytes;  // of where its pages lie
};

// Chunks of all row groups, one after another; whether the file says that bounds are ordered as their types are. False where it
// is
// damaged: nothing beyond `size` bytes is read.
bool parquet_footer(const uint8_t* bytes, int64_t size, std::vector<ParquetChunk>& chunks, bool& ordered);

}  // namespace hinterland::native
