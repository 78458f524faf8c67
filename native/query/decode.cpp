#include "query/decode.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>
#include <span>
#include <string_view>

#include "core/pool.hpp"
#include "core/utf8.hpp"
#include "hinterland/query/column.hpp"
#include "query/bits.hpp"
#include "query/hybrid.hpp"
#include "query/snappy.hpp"

namespace hinterland::native {

namespace {

enum Encoding : int64_t { kPlain = 0, kPlainDictionary = 2, kRle = 3, kRleDictionary = 8 };  // as parquet.thrift numbers them

constexpr int64_t kRowsOfTask = 1 << 16;  // that a thread decodes at a time, or a page more: chosen, not measured
constexpr int64_t kAtOnce = 1024;         // numbers that are unpacked before they are looked up

// Rows of a page whose values are wanted: bits from bit `at` on; or all rows.
struct Wanted {
  const uint64_t* words;  // null: all
  int64_t at;

  template <class Each>
  void each(int64_t from, int64_t to, const Each& take) const {
    for_rows(words, at + from, at + to, [&](int64_t row) { take(row - at); });
  }

  // The first one in [from, to), or `to`.
  int64_t next(int64_t from, int64_t to) const {
    for (int64_t bit = at + from; bit < at + to; bit = (bit / kWordRows + 1) * kWordRows) {
      const uint64_t word = words[bit / kWordRows] >> (bit % kWordRows);
      if (word != 0) return std::min(bit + std::countr_zero(word) - at, to);
    }
    return to;
  }
};

// Appends bits to a bitmap of zeros whose first and last byte other threads write, too.
class BitWriter {
 public:
  BitWriter(uint8_t* bits, int64_t at) : byte_(bits + at / 8), filled_(static_cast<int>(at % 8)), shared_(true) {}
  ~BitWriter() { flush(true); }
  BitWriter(const BitWriter&) = delete;
  BitWriter& operator=(const BitWriter&) = delete;

  void append_ones(int64_t count) {
    const int64_t first = std::min<int64_t>(count, 8 - filled_), bytes = (count - first) / 8, last = (count - first) % 8;
    append((1u << first) - 1, static_cast<int>(first));
    if (bytes > 0) std::memset(byte_, 0xff, static_cast<size_t>(bytes));
    byte_ += bytes;
    append((1u << last) - 1, static_cast<int>(last));
  }

  void append(uint64_t bits, int count) {  // up to 8
    pending_ |= static_cast<uint32_t>(bits) << filled_;
    filled_ += count;
    if (filled_ >= 8) flush(shared_);
  }

 private:
  void flush(bool shared) {
    if (filled_ == 0) return;
    const auto byte = static_cast<uint8_t>(pending_);
    if (shared) {
      std::atomic_ref<uint8_t>(*byte_).fetch_or(byte, std::memory_order_relaxed);
    } else {
      *byte_ = byte;
    }
    ++byte_, pending_ >>= 8, filled_ -= 8, shared_ = false;
  }

  uint8_t* byte_;
  int filled_;
  bool shared_;
  uint32_t pending_ = 0;
};

void append_bytes(uint8_t* bits, int64_t at, std::span<const uint8_t> bytes) {
  BitWriter to(bits, at);
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t eight;
    std::memcpy(&eight, bytes.data() + i, 8);
    to.append((eight * 0x0102040810204080) >> 56, 8);  // as word_of_bytes
  }
  for (; i < bytes.size(); ++i) to.append(bytes[i], 1);
}

// take(run, place of its first) for runs of so many numbers of `bits` bits.
template <class Take>
bool each_run(const uint8_t* begin, const uint8_t* end, int bits, int64_t count, const Take& take) {
  Hybrid from(begin, end, bits);
  NumberRun run;
  for (int64_t done = 0; done < count; done += run.count) {
    if (!from.next(count - done, run) || !take(run, done)) return false;
  }
  return true;
}

// take(numbers, count, place of the first) for some of a run's packed numbers after others.
template <class Take>
bool each_unpacked(const NumberRun& run, int64_t at, const Take& take) {
  uint32_t numbers[kAtOnce];
  for (int64_t done = 0; done < run.count; done += kAtOnce) {
    const int64_t some = std::min(run.count - done, kAtOnce);
    run.unpack(done, some, numbers);
    if (!take(numbers, some, at + done)) return false;
  }
  return true;
}

// Numbers of a bit, as bytes.
bool bits_as_bytes(const uint8_t* begin, const uint8_t* end, std::span<uint8_t> bytes) {
  return each_run(begin, end, 1, static_cast<int64_t>(bytes.size()), [&](const NumberRun& run, int64_t at) {
    if (run.equal) {
      std::memset(bytes.data() + at, static_cast<int>(run.value & 1), static_cast<size_t>(run.count));
      return run.value <= 1;
    }
    return each_unpacked(run, at, [&](const uint32_t* numbers, int64_t count, int64_t to) {
      for (int64_t i = 0; i < count; ++i) bytes[to + i] = static_cast<uint8_t>(numbers[i]);
      return true;
    });
  });
}

// Entries of a dictionary, and codes as they are, where no entries are of use.
template <class T>
T entry_of(const T* dictionary, uint32_t code) {
  return dictionary[code];
}
uint32_t entry_of(const void*, uint32_t code) { return code; }

HINTERLAND_CLONES uint32_t greatest_of(const uint32_t* codes, int64_t count) {
  uint32_t greatest = 0;
  for (int64_t i = 0; i < count; ++i) greatest = std::max(greatest, codes[i]);
  return greatest;
}

template <class T, class Dictionary>
HINTERLAND_CLONES void entries_of(Dictionary dictionary, const uint32_t* __restrict codes, int64_t count, T* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] = entry_of(dictionary, codes[i]);
}

// Values that codes of a dictionary stand for: of wanted rows, one after another. What follows the last of them is not looked at.
template <class T, class Dictionary>
bool look_up_wanted(Hybrid from, int64_t count, Dictionary dictionary, int64_t entries, const Wanted& wanted, T* to) {
  NumberRun run;
  for (int64_t at = 0, row = wanted.next(0, count); row < count; at += run.count) {
    if (!from.next(count - at, run)) return false;
    for (; row < at + run.count; row = wanted.next(row + 1, count)) {
      const uint32_t code = run[row - at];
      if (code >= entries) return false;
      *to++ = entry_of(dictionary, code);
    }
  }
  return true;
}

// The same of all rows, or of wanted ones.
template <class T, class Dictionary>
bool look_up(const uint8_t* data, int64_t size, int64_t count, Dictionary dictionary, int64_t entries, const Wanted& wanted,
             T* to) {
  if (count == 0) return true;
  if (size < 1 || data[0] > 32) return false;
  if (wanted.words != nullptr)
    return look_up_wanted(Hybrid(data + 1, data + size, data[0]), count, dictionary, entries, wanted, to);
  return each_run(data + 1, data + size, data[0], count, [&](const NumberRun& run, int64_t at) {
    if (run.equal) {
      if (run.value >= entries) return false;
      std::fill_n(to + at, run.count, entry_of(dictionary, run.value));
      return true;
    }
    return each_unpacked(run, at, [&](const uint32_t* codes, int64_t some, int64_t first) {
      if (greatest_of(codes, some) >= entries) return false;
      entries_of(dictionary, codes, some, to + first);
      return true;
    });
  });
}

int64_t stored_bytes(const DecodeParams& p) {
  switch (p.physical) {
    case Physical::kInt32:
    case Physical::kFloat: return 4;
    case Physical::kInt64:
    case Physical::kDouble: return 8;
    case Physical::kInt96: return 12;
    case Physical::kFixed: return p.length;
    default: return 0;
  }
}

query::Decimal decimal_of(const uint8_t* highest_first, int64_t bytes) {
  __int128 value = static_cast<int8_t>(highest_first[0]);
  for (int64_t i = 1; i < bytes; ++i) value = value * 256 + highest_first[i];
  return {static_cast<int64_t>(value), static_cast<int64_t>(value >> 64)};
}

// Microseconds since 1970 of times of 96 bits: nanoseconds of a day, which Arrow wrote negative of times before 1970, and the
// day's Julian number.
Decoded microseconds(const DecodeParams& p, const uint8_t* data, int64_t count, uint64_t* to) {
  constexpr int64_t kDayOf1970 = 2440588, kDay = 86'400'000'000;
  for (int64_t i = 0; i < count; ++i, data += 12) {
    int64_t nanoseconds;
    int32_t day;
    std::memcpy(&nanoseconds, data, 8);
    std::memcpy(&day, data + 8, 4);
    const int64_t floor = nanoseconds / 1000 - (nanoseconds % 1000 < 0);
    const __int128 all = static_cast<__int128>(day - kDayOf1970) * kDay + floor;
    to[i] = static_cast<uint64_t>(all);
    if (all == static_cast<int64_t>(all)) continue;
    std::atomic_ref<int64_t>(*p.far).store(day, std::memory_order_relaxed);
    return Decoded::kFar;
  }
  return Decoded::kDone;
}

template <class From, class To>
void converted(const uint8_t* data, int64_t count, To* to) {
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, data + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
    if constexpr (std::is_same_v<To, query::Decimal>) {
      to[i] = {value, value < 0 ? -1 : 0};
    } else {
      to[i] = static_cast<To>(value);
    }
  }
}

bool is_ascii(const uint8_t* bytes, int64_t size) {
  uint8_t any = 0;
  for (int64_t i = 0; i < size; ++i) any |= bytes[i];
  return any < 0x80;
}

bool is_utf8(const uint8_t* at, const uint8_t* end) {
  while (at < end) {
    const int64_t bytes = utf8_bytes(at, end);
    if (bytes == 0) return false;
    at += bytes;
  }
  return true;
}

// Places of PLAIN texts of wanted rows, one after another. What is no UTF-8 is left to pyarrow, which says what is wrong.
Decoded place_plain(const DecodeParams& p, const uint8_t* data, int64_t size, int64_t count, const Wanted& wanted,
                    uint32_t* to) {
  const std::span literals(p.literals, static_cast<size_t>(p.literal_count));
  const bool ascii = is_ascii(data, size);  // lengths as well
  const auto next = [&](int64_t row) { return wanted.words == nullptr ? row : wanted.next(row, count); };
  int64_t left = size;
  for (int64_t row = 0, taken = next(0); taken < count; ++row) {
    uint32_t length;
    if (left < static_cast<int64_t>(sizeof(length))) return Decoded::kDamaged;
    std::memcpy(&length, data, sizeof(length));
    data += sizeof(length), left -= sizeof(length);
    if (length > left) return Decoded::kDamaged;
    if (row == taken) {
      if (!ascii && !is_utf8(data, data + length)) return Decoded::kOther;
      *to++ = static_cast<uint32_t>(place_of({reinterpret_cast<const char*>(data), length}, literals));
      taken = next(row + 1);
    }
    data += length, left -= length;
  }
  return Decoded::kDone;
}

// Values as they lie in a page, to what they are in memory: T is unsigned, of as many bytes.
template <class T>
Decoded plain(const DecodeParams& p, const uint8_t* data, int64_t size, int64_t count, T* to) {
  const int64_t each = stored_bytes(p);
  if (each <= 0 || each > 16) return Decoded::kOther;
  if (count > size / each) return Decoded::kDamaged;
  if constexpr (std::is_same_v<T, query::Decimal>) {
    if (p.physical == Physical::kInt32) return converted<int32_t>(data, count, to), Decoded::kDone;
    if (p.physical == Physical::kInt64) return converted<int64_t>(data, count, to), Decoded::kDone;
    if (p.physical != Physical::kFixed || p.decimal == 0) return Decoded::kOther;
    for (int64_t i = 0; i < count; ++i) to[i] = decimal_of(data + i * each, each);
  } else if (each == static_cast<int64_t>(sizeof(T))) {
    if (count > 0) std::memcpy(to, data, static_cast<size_t>(count * each));
  } else if (p.physical == Physical::kInt32 && sizeof(T) < 4) {
    converted<int32_t>(data, count, to);
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    return p.physical == Physical::kInt96 ? microseconds(p, data, count, to) : Decoded::kOther;
  } else {
    return Decoded::kOther;
  }
  return Decoded::kDone;
}

// The same of wanted rows, one after another.
template <class T>
Decoded plain(const DecodeParams& p, const uint8_t* data, int64_t size, int64_t count, const Wanted& wanted, T* to) {
  if (const Decoded any = plain(p, data, size, 0, to); any != Decoded::kDone) return any;
  const int64_t each = stored_bytes(p);
  if (count > size / each) return Decoded::kDamaged;
  if (p.physical == Physical::kInt96) {  // alone may fail
    Decoded all = Decoded::kDone;
    wanted.each(0, count, [&](int64_t row) { all = std::max(all, plain(p, data + row * each, each, 1, to++)); });
    return all;
  }
  wanted.each(0, count, [&](int64_t row) { plain(p, data + row * each, each, 1, to++); });
  return Decoded::kDone;
}

template <class Do>
Decoded with_width(int64_t width, const Do& do_it) {
  switch (width) {
    case 1: return do_it(uint8_t{});
    case 2: return do_it(uint16_t{});
    case 4: return do_it(uint32_t{});
    case 8: return do_it(uint64_t{});
    case 16: return do_it(query::Decimal{});
    default: return Decoded::kOther;
  }
}

// Values of rows that have one, spread to their rows: those of the last rows first, for what is there is the beginning.
template <class T>
void spread(T* values, int64_t from, std::span<const uint8_t> there) {
  for (auto row = static_cast<int64_t>(there.size()) - 1; row >= from; --row)
    values[row] = there[row] != 0 ? values[--from] : T{};
}

Decoded truth_values(const DecodeParams& p, const ParquetPage& page, const uint8_t* data, int64_t size, int64_t count,
                     std::span<const uint8_t> there, int64_t row) {
  std::vector<uint8_t> bytes(page.values);
  const std::span<uint8_t> found(bytes.data(), static_cast<size_t>(count));
  if (page.encoding == kPlain) {
    if (size < (count + 7) / 8) return Decoded::kDamaged;
    for (int64_t i = 0; i < count; ++i) bytes[i] = query::bit_at(data, i);
  } else if (page.encoding == kRle) {
    if (count > 0 && (size < 4 || !bits_as_bytes(data + 4, data + size, found))) return Decoded::kDamaged;
  } else {
    return Decoded::kOther;
  }
  if (!there.empty()) spread(bytes.data(), count, there);
  append_bytes(static_cast<uint8_t*>(p.values), row, bytes);
  return Decoded::kDone;
}

// The values of `count` rows of a page, of `wanted` ones.
template <class T>
Decoded fixed_values(const DecodeParams& p, const ParquetPage& page, const PageBytes& bytes, int64_t count,
                     const Wanted& wanted, T* to) {
  const auto [data, size] = bytes;
  if (page.encoding == kPlainDictionary || page.encoding == kRleDictionary) {
    const ChunkOfPages& chunk = p.chunks[page.chunk];
    bool good = false;
    if (p.physical != Physical::kBytes || p.literals != nullptr) {
      good = look_up(data, size, count, static_cast<const T*>(chunk.dictionary), chunk.entries, wanted, to);
    } else if constexpr (std::is_same_v<T, uint32_t>) {
      good = look_up(data, size, count, chunk.dictionary, chunk.entries, wanted, to);
    }
    return good ? Decoded::kDone : Decoded::kDamaged;
  }
  if (page.encoding != kPlain) return Decoded::kOther;
  if constexpr (std::is_same_v<T, uint32_t>) {
    if (p.literals != nullptr) return place_plain(p, data, size, count, wanted, to);
  }
  return wanted.words == nullptr ? plain(p, data, size, count, to) : plain(p, data, size, count, wanted, to);
}

// The values of a page, of which `count` rows have one; `there` says which rows these are, unless they are all.
Decoded values_of(const DecodeParams& p, int64_t number, const PageBytes& bytes, int64_t count,
                  std::span<const uint8_t> there) {
  const ParquetPage& page = p.pages[number];
  const Wanted wanted{p.wanted, p.wanted_at + page.row}, all{};
  const int64_t row = p.rows[number];
  if (p.physical == Physical::kBool) return truth_values(p, page, bytes.data, bytes.size, count, there, row);
  return with_width(p.width, [&](auto kind) {
    using T = decltype(kind);
    T* to = static_cast<T*>(p.values) + (p.wanted != nullptr ? p.kept[number] : row);
    if (there.empty()) return fixed_values(p, page, bytes, count, wanted, to);
    std::vector<T> room(p.wanted != nullptr ? page.values : 0);
    T* const values = p.wanted != nullptr ? room.data() : to;
    const Decoded outcome = fixed_values(p, page, bytes, count, all, values);
    if (outcome != Decoded::kDone) return outcome;
    spread(values, count, there);
    if (p.wanted != nullptr) wanted.each(0, page.values, [&](int64_t wanted_row) { *to++ = values[wanted_row]; });
    return outcome;
  });
}

// Definition levels, as bytes; nothing where all rows have a value.
Decoded levels_of(const DecodeParams& p, const ParquetPage& page, const uint8_t*& data, int64_t& size,
                  std::vector<uint8_t>& there) {
  const uint8_t* begin = p.file + page.at + page.head;
  int64_t bytes = page.levels;
  if (page.kind == kData) {
    if (page.levels != kRle) return Decoded::kOther;
    uint32_t written;
    if (size < 4) return Decoded::kDamaged;
    std::memcpy(&written, data, 4);
    begin = data + 4, bytes = written;
    if (bytes > size - 4) return Decoded::kDamaged;
    data += 4 + bytes, size -= 4 + bytes;
  } else if (bytes < 0 || bytes > page.bytes) {
    return Decoded::kDamaged;
  }
  NumberRun run;
  Hybrid first(begin, begin + bytes, 1);
  if (page.values == 0 || (first.next(page.values, run) && run.equal && run.value == 1 && run.count == page.values))
    return Decoded::kDone;
  there.resize(page.values);
  return bits_as_bytes(begin, begin + bytes, there) ? Decoded::kDone : Decoded::kDamaged;
}

enum Codec : int64_t { kUncompressed = 0, kSnappy = 1 };  // as parquet.thrift numbers them

// A page's bytes, decompressed to `room`, or as they lie in the file.
Decoded bytes_of(const DecodeParams& p, const ParquetPage& page, std::vector<uint8_t>& room, PageBytes& found) {
  const int64_t levels = page.kind == kDataV2 ? page.levels : 0, full = page.full - levels;
  found = {p.file + page.at + page.head + levels, page.bytes - levels};
  const int64_t codec = p.chunks[page.chunk].codec;
  if (codec == kUncompressed || page.compressed == 0 || (full == 0 && found.size == 0)) return Decoded::kDone;
  if (codec != kSnappy || full > kSnappyMost * found.size) return Decoded::kCompressed;
  room.resize(std::max(room.size(), static_cast<size_t>(full + kSnappyRoom)));
  if (!snappy_decompress(found.data, found.size, room.data(), full)) return Decoded::kCompressed;
  found = {room.data(), full};
  return Decoded::kDone;
}

Decoded decode_page(const DecodeParams& p, int64_t number, const PageBytes& bytes) {
  const ParquetPage& page = p.pages[number];
  auto [data, size] = bytes;
  const int64_t row = p.rows[number];
  std::vector<uint8_t> there;
  int64_t nulls = 0;
  if (p.optional != 0) {
    const Decoded outcome = levels_of(p, page, data, size, there);
    if (outcome != Decoded::kDone) return outcome;
    if (there.empty()) {
      BitWriter(p.valid, row).append_ones(page.values);
    } else {
      append_bytes(p.valid, row, there);
      nulls = std::count(there.begin(), there.end(), 0);
    }
  }
  p.nulls[number] = nulls;
  return values_of(p, number, {data, size}, page.values - nulls, there);
}

}  // namespace

Decoded parquet_decode(const DecodeParams& p, int64_t first, int64_t count, const PageBytes* bytes) {
  Decoded all = Decoded::kDone;
  std::vector<uint8_t> room;
  for (int64_t i = 0; i < count; ++i) {
    PageBytes stored;
    Decoded outcome = bytes != nullptr ? Decoded::kDone : bytes_of(p, p.pages[first + i], room, stored);
    if (outcome == Decoded::kDone) outcome = decode_page(p, first + i, bytes != nullptr ? bytes[i] : stored);
    if (outcome >= Decoded::kCompressed) return outcome;
    if (outcome == Decoded::kOther) all = outcome;
  }
  return all;
}

void parquet_decode_all(const DecodeParams* const* columns, int64_t count, Decoded* outcomes) {
  struct Task {
    int64_t column, first, count;
  };
  std::vector<Task> tasks;
  for (int64_t i = 0; i < count; ++i) {
    const DecodeParams& p = *columns[i];
    for (int64_t first = 0, page = 0; page < p.count; first = page) {
      for (int64_t rows = 0; page < p.count && rows < kRowsOfTask; ++page) rows += p.pages[page].values;
      tasks.push_back({i, first, page - first});
    }
  }
  std::fill_n(outcomes, count, Decoded::kDone);
  std::mutex lock;
  parallel_tasks(static_cast<int64_t>(tasks.size()), [&](int64_t i, int64_t) {
    const auto [column, first, pages] = tasks[i];
    const Decoded outcome = parquet_decode(*columns[column], first, pages, nullptr);
    const std::lock_guard guard(lock);
    outcomes[column] = std::max(outcomes[column], outcome);
  });
}

Decoded parquet_texts(const uint8_t* data, int64_t size, int64_t entries, int32_t* offsets, uint8_t* bytes) {
  int64_t at = 0, total = 0;
  for (int64_t i = 0; i < entries; ++i) {
    uint32_t length;
    if (size - at < 4) return Decoded::kDamaged;
    std::memcpy(&length, data + at, 4);
    at += 4;
    if (length > size - at) return Decoded::kDamaged;
    std::memcpy(bytes + total, data + at, length);
    offsets[i] = static_cast<int32_t>(total);
    at += length, total += length;
  }
  offsets[entries] = static_cast<int32_t>(total);
  return total <= INT32_MAX ? Decoded::kDone : Decoded::kDamaged;
}

}  // namespace hinterland::native
