#include "query/pages.hpp"

#include <cstddef>

#include "query/thrift.hpp"

namespace hinterland::native {

namespace {

constexpr int64_t kNoMorePages = 1 << 24;  // of a chunk or an index: more do not come of files that anybody wrote

ParquetPage unknown() {
  ParquetPage page{};
  page.kind = kOther, page.nulls = page.levels = page.least_at = page.greatest_at = -1;
  page.compressed = 1;
  return page;
}

// Fields 3, 5 and 6 of Statistics: min_value and max_value. The older min and max do not say how they were ordered.
template <class Part>
void statistics(Compact& from, Part& part) {
  from.fields([&](int64_t id, int type) {
    if (id == 3 && type == Compact::kInt64) return part.nulls = from.whole(), true;
    if (id == 5 && type == Compact::kBinary) return part.greatest_bytes = from.binary(&part.greatest_at), true;
    if (id == 6 && type == Compact::kBinary) return part.least_bytes = from.binary(&part.least_at), true;
    return false;
  });
}

void data_page(Compact& from, ParquetPage& page) {
  from.fields([&](int64_t id, int type) {
    if (id == 5 && type == Compact::kStruct) return statistics(from, page), true;
    if (type != Compact::kInt32 || id > 3) return false;
    (id == 1 ? page.values : id == 2 ? page.encoding : page.levels) = from.whole();
    return true;
  });
}

void data_page_v2(Compact& from, ParquetPage& page) {
  int64_t rows = -1, repeated = 0;
  from.fields([&](int64_t id, int type) {
    if (id == 7 && (type == Compact::kTrue || type == Compact::kFalse)) return page.compressed = type == Compact::kTrue, true;
    if (id == 8 && type == Compact::kStruct) return statistics(from, page), true;
    if (type != Compact::kInt32 || id < 1 || id > 6) return false;
    int64_t* const fields[]{&page.values, &page.nulls, &rows, &page.encoding, &page.levels, &repeated};
    *fields[id - 1] = from.whole();
    return true;
  });
  if (rows != page.values || repeated != 0) page.kind = kOther;  // of lists
}

void dictionary_page(Compact& from, ParquetPage& page) {
  from.fields([&](int64_t id, int type) {
    if (type != Compact::kInt32 || id > 2) return false;
    (id == 1 ? page.values : page.encoding) = from.whole();
    return true;
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
                           : id == 7  ? &chunk.bytes
                           : id == 9  ? &chunk.data_at
                           : id == 11 ? &chunk.dictionary_at
                                      : nullptr;
    if (field != nullptr) *field = from.whole();
    return field != nullptr;
  });
}

void column_chunk(Compact& from, ParquetChunk& chunk) {
  chunk.physical = chunk.codec = chunk.values = chunk.bytes = chunk.data_at = chunk.dictionary_at = -1;
  chunk.nulls = chunk.least_at = chunk.greatest_at = -1;
  from.fields([&](int64_t id, int type) {
    if (id == 1 && type == Compact::kBinary) return chunk.path_bytes = from.binary(&chunk.path_at), true;
    if (id == 8 || id == 9) chunk.encrypted = 1;
    if (id == 3 && type == Compact::kStruct) return chunk_metadata(from, chunk), true;
    if (id < 4 || id > 7 || (type != Compact::kInt64 && type != Compact::kInt32)) return false;
    int64_t* const fields[]{&chunk.offsets_at, &chunk.offsets_bytes, &chunk.bounds_at, &chunk.bounds_bytes};
    *fields[id - 4] = from.whole();
    return true;
  });
}

// Elements of a list, appended to pages as they are met: the one that each(i) is about. They may grow no further than kNoMorePages.
class Appended {
 public:
  explicit Appended(std::vector<ParquetPage>& pages) : pages_(pages), first_(pages.size()) {}

  ParquetPage& operator[](int64_t i) {
    while (pages_.size() <= first_ + static_cast<size_t>(i)) pages_.push_back(unknown());
    return pages_[first_ + static_cast<size_t>(i)];
  }

 private:
  std::vector<ParquetPage>& pages_;
  size_t first_;
};

// Bounds lie where they were found, from byte `from` of the file on.
void move_bounds(ParquetPage& page, int64_t from) {
  if (page.least_at >= 0) page.least_at += from;
  if (page.greatest_at >= 0) page.greatest_at += from;
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

bool parquet_page(const uint8_t* file, FileRange range, std::vector<ParquetPage>& pages) {
  Compact from(file + range.at, file + range.at + range.size);
  ParquetPage& page = pages.emplace_back(unknown());
  page.at = range.at, page.bytes = page.full = -1;
  from.fields([&](int64_t id, int type) {
    if (type == Compact::kInt32 && id <= 3) {
      (id == 1 ? page.kind : id == 2 ? page.full : page.bytes) = from.whole();
      return true;
    }
    if (type != Compact::kStruct) return false;
    if (id == 5) return data_page(from, page), true;
    if (id == 7) return dictionary_page(from, page), true;
    if (id == 8) return data_page_v2(from, page), true;
    return false;
  });
  if (page.bytes != page.full) page.compressed = 1;
  page.head = from.position();
  move_bounds(page, range.at);
  return from.ok() && page.bytes >= 0 && page.full >= 0 && page.values >= 0 && page.bytes <= range.size - page.head;
}

bool parquet_pages(const uint8_t* file, FileRange chunk, std::vector<ParquetPage>& pages) {
  const size_t before = pages.size();
  int64_t row = 0;
  for (int64_t done = 0; done < chunk.size;) {
    if (static_cast<int64_t>(pages.size() - before) == kNoMorePages) return false;
    if (!parquet_page(file, {chunk.at + done, chunk.size - done}, pages)) return false;
    ParquetPage& page = pages.back();
    page.row = row;
    if (page.kind != kDictionary) row += page.values;
    done += page.head + page.bytes;
  }
  return true;
}

bool parquet_offsets(const uint8_t* file, FileRange index, std::vector<ParquetPage>& pages) {
  Compact from(file + index.at, file + index.at + index.size);
  Appended found(pages);
  from.fields([&](int64_t id, int type) {
    if (id != 1 || type != Compact::kList) return false;
    from.list(Compact::kStruct, [&](int64_t i) {
      ParquetPage& page = found[i];
      from.fields([&](int64_t field, int kind) {
        if (field < 1 || field > 3 || (kind != Compact::kInt64 && kind != Compact::kInt32)) return false;
        (field == 1 ? page.at : field == 2 ? page.bytes : page.row) = from.whole();
        return true;
      });
    });
    return true;
  });
  return from.ok();
}

bool parquet_bounds(const uint8_t* file, FileRange index, std::vector<ParquetPage>& pages) {
  Compact from(file + index.at, file + index.at + index.size);
  const size_t before = pages.size();
  Appended found(pages);
  from.fields([&](int64_t id, int type) {
    if (type != Compact::kList) return false;
    if (id == 1) {
      from.list(Compact::kTrue, [&](int64_t i) { found[i].values = from.truth() ? 0 : 1; });
    } else if (id == 2) {
      from.list(Compact::kBinary, [&](int64_t i) { found[i].least_bytes = from.binary(&found[i].least_at); });
    } else if (id == 3) {
      from.list(Compact::kBinary, [&](int64_t i) { found[i].greatest_bytes = from.binary(&found[i].greatest_at); });
    } else if (id == 5) {
      from.list(Compact::kInt64, [&](int64_t i) { found[i].nulls = from.whole(); });
    } else {
      return false;
    }
    return true;
  });
  for (size_t i = before; i < pages.size(); ++i) move_bounds(pages[i], index.at);
  return from.ok();
}

}  // namespace hinterland::native
