#include "query/footer.hpp"

#include "query/thrift.hpp"

namespace hinterland::native {

namespace {

// Fields 3, 5 and 6 of Statistics: min_value and max_value. The older min and max do not say how they were ordered.
void statistics(Compact& from, ParquetChunk& part) {
  from.fields([&](int64_t id, int type) {
    if (id == 3 && type == Compact::kInt64) return part.nulls = from.whole(), true;
    if (id == 5 && type == Compact::kBinary) return part.greatest_bytes = from.binary(&part.greatest_at), true;
    if (id == 6 && type == Compact::kBinary) return part.least_bytes = from.binary(&part.least_at), true;
    return false;
  });
}

void chunk_metadata(Compact& from, ParquetChunk& chunk) {
  from.fields([&](int64_t id, int type) {
    if (id == 2 && type == Compact::kList) {
      from.list(Compact::kInt32, [&](int64_t) {
        const int64_t encoding = from.whole();
        chunk.encodings |= int64_t{1} << (encoding < 0 || encoding > 62 ? 62 : encoding);
      });
      return true;
    }
    if (id == 12 && type == Compact::kStruct) return statistics(from, chunk), true;
    if (type != Compact::kInt32 && type != Compact::kInt64) return false;
    int64_t* const field = id == 1    ? &chunk.physical
                           : id == 4  ? &chunk.codec
                           : id == 5  ? &chunk.values
                           : id == 6  ? &chunk.full
                           : id == 7  ? &chunk.bytes
                           : id == 9  ? &chunk.data_at
                           : id == 11 ? &chunk.dictionary_at
                                      : nullptr;
    if (field != nullptr) *field = from.whole();
    return field != nullptr;
  });
}

void column_chunk(Compact& from, ParquetChunk& chunk) {
  chunk.physical = chunk.codec = chunk.values = chunk.full = chunk.bytes = chunk.data_at = chunk.dictionary_at = -1;
  chunk.nulls = chunk.least_at = chunk.greatest_at = chunk.index_at = -1;
  from.fields([&](int64_t id, int type) {
    if (id == 1 && type == Compact::kBinary) return chunk.path_bytes = from.binary(&chunk.path_at), true;
    if (id == 8 || id == 9) chunk.encrypted = 1;
    if (id == 3 && type == Compact::kStruct) return chunk_metadata(from, chunk), true;
    if (id == 4 && type == Compact::kInt64) return chunk.index_at = from.whole(), true;
    if (id == 5 && type == Compact::kInt32) return chunk.index_bytes = from.whole(), true;
    return false;
  });
}

}  // namespace

bool parquet_footer(const uint8_t* bytes, int64_t size, std::vector<ParquetChunk>& chunks, bool& ordered) {
  Compact from(bytes, bytes + size);
  ordered = false;
  const auto row_group = [&](int64_t id, int type) {
    if (id != 1 || type != Compact::kList) return false;
    from.list(Compact::kStruct, [&](int64_t) { column_chunk(from, chunks.emplace_back()); });
    return true;
  };
  from.fields([&](int64_t id, int type) {
    if (type != Compact::kList) return false;
    if (id == 4) return from.list(Compact::kStruct, [&](int64_t) { from.fields(row_group); }), true;
    ordered |= id == 7;
    return false;
  });
  return from.ok();
}

}  // namespace hinterland::native
