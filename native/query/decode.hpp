// Values of Parquet's pages (apache/parquet-format, Encodings.md): PLAIN and dictionaries of values of fixed width, as Arrow lays them
// out; and texts, by the codes of their dictionary or by their places among literals.
#pragma once

#include "query/pages.hpp"
#include "query/texts.hpp"

namespace hinterland::native {

enum class Physical : int64_t {
  kBool,
  kInt32,
  kInt64,
  kInt96,
  kFloat,
  kDouble,
  kBytes,
  kFixed
};  // as parquet.thrift numbers them

// What is one chunk's own.
struct ChunkOfPages {
  int64_t codec;           // as parquet.thrift numbers them
  const void* dictionary;  // entries, as in memory, of kBytes their places; null where there is none, or codes are asked for
  int64_t entries;
};

// Column chunks of row groups that follow one another, while they are decoded. Several threads decode pages of them.
struct DecodeParams {
  const ParquetPage* pages;
  int64_t count;  // of pages
  const ChunkOfPages* chunks;
  const uint8_t* file;
  Physical physical;
  int64_t length;    // of values of kFixed, bytes
  int64_t width;     // of a value in memory, bytes; of kBool it is a bit, of kBytes a code of the dictionary or a place, int32
  int64_t decimal;   // whether kFixed holds numbers, the first byte the highest
  int64_t optional;  // whether there are definition levels, of one bit
  const int64_t* rows;  // of each page: the row of what is decoded that its first one becomes
  int64_t* nulls;       // of each page, how many rows have no value: written
  void* values;
  uint8_t* valid;          // bits, zero at first; null unless optional
  const uint64_t* wanted;  // a bit for each row whose value is wanted, of which the others are left out; null where all are
  int64_t wanted_at;       // the bit of the first chunk's first row, from which pages' rows count
  const int64_t* kept;     // of each page, if some are wanted: how many values before its first; no bits are decoded so
  const TextLiteral* literals;  // among which texts are placed (place_of), or counted; null where they get codes
  int64_t literal_count;
  int64_t* far;  // where kFar: gets a time's Julian day
};

// kOther: of an encoding that is not decoded here. kCompressed: by a codec that is not known here, or wrongly. kFar: a time of 96
// bits is beyond 64 bits of microseconds.
enum class Decoded : int64_t { kDone, kOther, kCompressed, kFar, kDamaged };

struct PageBytes {
  const uint8_t* data;  // what followed the header, decompressed, and of version 2 without the levels
  int64_t size;
};

// Values of `count` pages, or entries of dictionaries: of `bytes`, or, where it is null, as they are stored. After what is damaged
// or compressed nothing is decoded.
Decoded parquet_decode(const DecodeParams& params, int64_t first, int64_t count, const PageBytes* bytes);

// All pages of several columns, as they are stored, by all threads; `outcomes` gets the worst of each column's, in their order.
void parquet_decode_all(const DecodeParams* const* columns, int64_t count, Decoded* outcomes);

// Entries of a dictionary of texts: `offsets` gets entries + 1, `bytes` up to `size`.
Decoded parquet_texts(const uint8_t* data, int64_t size, int64_t entries, int32_t* offsets, uint8_t* bytes);

}  // namespace hinterland::native
