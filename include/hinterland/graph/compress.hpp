// Packed neighbour lists. A list is sorted and cut into blocks of 32 neighbours; each block is an Elias-Fano sequence (Elias
// 1974, Fano 1971; for neighbour lists: Vigna, "Quasi-succinct indices", 2013) of the distances from its first neighbour, so
// any neighbour of any block is found without decoding another, by any lane.
//
// A list is a string of bits, from the lowest bit of a byte to the highest:
//
//   directory   for each block: its first neighbour, its number of low bits, and where its payload lies behind the directory
//   payloads    for each block of n neighbours: 2 (n - 1) high bits, then the low bits of neighbours 1 to n - 1
//
// Neighbour j > 0 is first + (high << low_bits | low): the high bits hold a one at place high + j - 1 for each j. All field
// widths follow from the number of vertices and from the degree; a list of one block has no position field. Lists begin at
// bytes and follow each other without gaps, so those of a group of vertices are one run of lines.
#pragma once

#include "hinterland/core/platform.hpp"
#include "hinterland/core/warp.hpp"

namespace hinterland::graph {

inline constexpr int kPackedBlock = 32;

// Zero bytes after the last list, at the end of a whole word: readers fetch up to two words after the one they need.
inline constexpr int64_t kPackedPadding = 12;

HINTERLAND_FN int64_t packed_bytes(int64_t list_bytes) { return ceil_div<int64_t>(list_bytes, 4) * 4 + kPackedPadding; }

HINTERLAND_FN int bit_length(int64_t value) { return 64 - stdlib::countl_zero(static_cast<uint64_t>(value)); }

// The place of the one that has `rank` ones below it: a binary search by counting.
HINTERLAND_FN int select_one(uint64_t bits, int rank) {
  uint32_t half = static_cast<uint32_t>(bits);
  int place = 0;
  const int below = stdlib::popcount(half);
  if (rank >= below) {
    rank -= below;
    place = 32;
    half = static_cast<uint32_t>(bits >> 32);
  }
  for (int width = 16; width > 0; width /= 2) {
    const int ones = stdlib::popcount(half & ((1u << width) - 1));
    if (rank >= ones) {
      rank -= ones;
      place += width;
      half >>= width;
    }
  }
  return place;
}

// The field widths of one list.
struct PackedShape {
  int64_t degree, blocks;
  int vertex_bits, low_field, position_bits;

  HINTERLAND_FN PackedShape(int64_t vertices, int64_t degree)
      : degree(degree),
        blocks(ceil_div<int64_t>(degree, kPackedBlock)),
        vertex_bits(max_of(bit_length(vertices - 1), 1)),
        low_field(vertex_bits < 32 ? 5 : 6),  // together at most 63: there are less than 2^57 vertices
        position_bits(blocks < 2 ? 0 : bit_length((blocks - 1) * (kPackedBlock - 1) * (vertex_bits + 2))) {}

  // The shape of one lane's list, for all: those of one graph differ by their degrees alone.
  HINTERLAND_FN PackedShape of_lane(int lane) const {
    PackedShape shape = *this;
    shape.degree = Warp::broadcast(degree, lane);
    shape.blocks = ceil_div<int64_t>(shape.degree, kPackedBlock);
    shape.position_bits = Warp::broadcast(position_bits, lane);
    return shape;
  }

  HINTERLAND_FN int entry_bits() const { return vertex_bits + low_field + position_bits; }
  HINTERLAND_FN int64_t directory_bits() const { return blocks * entry_bits(); }
  HINTERLAND_FN int size(int64_t block) const {
    return static_cast<int>(min_of<int64_t>(degree - block * kPackedBlock, kPackedBlock));
  }

  // As few low bits as leave high parts below n, of n neighbours that reach from the first to `range` further.
  HINTERLAND_FN static int low_bits(int64_t range, int n) {
    const int bits = min_of(max_of(bit_length(range) - bit_length(n - 1), 0), 63);
    return bits + ((range >> bits) > n - 1);
  }
  HINTERLAND_FN static int64_t payload_bits(int low_bits, int n) { return static_cast<int64_t>(n - 1) * (low_bits + 2); }
};

// Bits of a stream of 32-bit words, for a lane on its own; `at` counts bits from the stream's start. What reads bits for all
// lanes together (StagedBits) has the same calls.
template <class Words>
struct BitReader {
  Words words;

  // Whether this holds for one of those who read together.
  HINTERLAND_FN bool any(bool holds) const { return holds; }

  // A field of at most 63 bits; 0 for a lane that does not want one, whose `count` is any number.
  HINTERLAND_FN uint64_t operator()(int64_t at, int count, bool wanted = true) const {
    if (!wanted) return 0;
    const int64_t word = at / 32;
    const int skip = static_cast<int>(at % 32);
    uint64_t found = (static_cast<uint64_t>(words.read_alone(word + 1)) << 32 | words.read_alone(word)) >> skip;
    if (skip + count > 64) found |= static_cast<uint64_t>(words.read_alone(word + 2)) << (64 - skip);
    return found & ((uint64_t{1} << count) - 1);
  }

  // Several fields at once.
  template <int kFields>
  HINTERLAND_FN void read(const int64_t (&at)[kFields], const int (&count)[kFields], bool wanted,
                          uint64_t (&to)[kFields]) const {
    for (int k = 0; k < kFields; ++k) to[k] = (*this)(at[k], count[k], wanted);
  }
};

// One block, ready to be asked for neighbours. `bits` is a BitReader, or what reads fields as it does.
struct PackedBlock {
  int64_t first;    // its first neighbour
  int64_t payload;  // the bit of the stream where the high bits begin
  int low_bits, size;

  // Nothing of it is read if it is not wanted: for a lane whose neighbours read theirs.
  template <class Bits>
  HINTERLAND_FN PackedBlock(const Bits& bits, int64_t list_bit, const PackedShape& shape, int64_t block, bool wanted = true)
      : size(shape.size(block)) {
    const int64_t entry = list_bit + block * shape.entry_bits();
    const int start_bits = shape.vertex_bits + shape.low_field;
    const bool at_once = shape.entry_bits() < 64;
    const uint64_t start = bits(entry, at_once ? shape.entry_bits() : start_bits, wanted);
    first = static_cast<int64_t>(start & ((uint64_t{1} << shape.vertex_bits) - 1));
    low_bits = static_cast<int>(start >> shape.vertex_bits & ((uint64_t{1} << shape.low_field) - 1));
    uint64_t position = start >> start_bits;
    const bool follows = wanted && !at_once;
    if (bits.any(follows)) {
      const uint64_t read = bits(entry + start_bits, shape.position_bits, follows);
      if (follows) position = read;
    }
    payload = list_bit + shape.directory_bits() + static_cast<int64_t>(position);
  }

  template <class Bits>
  HINTERLAND_FN uint64_t high_bits(const Bits& bits) const {
    return bits(payload, 2 * (size - 1));
  }

  template <class Bits>
  HINTERLAND_FN int64_t low(const Bits& bits, int j) const {
    return static_cast<int64_t>(bits(payload + 2 * (size - 1) + static_cast<int64_t>(j - 1) * low_bits, low_bits));
  }

  HINTERLAND_FN int64_t value(int place, int64_t low, int j) const {
    return first + (static_cast<int64_t>(place - (j - 1)) << low_bits | low);
  }

  HINTERLAND_FN int64_t end() const { return payload + PackedShape::payload_bits(low_bits, size); }

  // Neighbour j of [0, size).
  template <class Bits>
  HINTERLAND_FN int64_t neighbor(const Bits& bits, int j) const {
    const int64_t at[] = {payload, payload + 2 * (size - 1) + static_cast<int64_t>(j - 1) * low_bits};
    const int count[] = {2 * (size - 1), low_bits};
    uint64_t found[2];
    bits.read(at, count, j != 0, found);
    return j == 0 ? first : value(select_one(found[0], j - 1), static_cast<int64_t>(found[1]), j);
  }

  // visit(j, neighbour) for all, in order, by one thread: a step from one to the next is cheaper than a search.
  template <class Bits, class Visit>
  HINTERLAND_FN void for_each(const Bits& bits, Visit&& visit) const {
    visit(0, first);
    uint64_t ones = high_bits(bits);
    for (int j = 1; j < size; ++j, ones &= ones - 1) visit(j, value(stdlib::countr_zero(ones), low(bits, j), j));
  }
};

// Appends bits to bytes, without touching the byte after the last. What does not fit into the bytes is lost.
class BitWriter {
 public:
  HINTERLAND_FN BitWriter(uint8_t* out, int64_t bytes) : out_(out), end_(out + bytes) {}

  HINTERLAND_FN void put(uint64_t value, int count) {
    for (; count > 32; count -= 32, value >>= 32) put(value & 0xffffffffu, 32);
    held_ |= value << bits_;
    bits_ += count;
    const bool fits = end_ - out_ >= bits_ / 8;
    for (; bits_ >= 8; bits_ -= 8, held_ >>= 8)
      if (fits) *out_++ = static_cast<uint8_t>(held_);
  }
  HINTERLAND_FN void finish() {
    if (bits_ > 0 && out_ < end_) *out_++ = static_cast<uint8_t>(held_);
  }

 private:
  uint8_t* out_;
  uint8_t* const end_;
  uint64_t held_ = 0;
  int bits_ = 0;
};

// How far neighbour j of a block is from its first one. Neighbours ascend; if they have changed meanwhile, any number.
template <class Id>
HINTERLAND_FN uint64_t distance(const Id* first, int j) {
  return static_cast<uint64_t>(static_cast<int64_t>(first[j])) - static_cast<uint64_t>(static_cast<int64_t>(first[0]));
}

// The low bits of a block of n neighbours, as many as have a field.
template <class Id>
HINTERLAND_FN int low_bits_of(const PackedShape& shape, const Id* first, int n) {
  return min_of(PackedShape::low_bits(static_cast<int64_t>(distance(first, n - 1)), n), shape.vertex_bits);
}

// Bytes of the packed form of `list`, or -1 if it does not ascend.
template <class Id>
HINTERLAND_FN int64_t packed_list_bytes(const PackedShape& shape, const Id* list) {
  bool ascends = true;
  for (int64_t i = 1; i < shape.degree; ++i) ascends &= list[i - 1] <= list[i];
  if (!ascends) return -1;
  int64_t bits = shape.directory_bits();
  for (int64_t block = 0; block < shape.blocks; ++block) {
    const Id* first = list + block * kPackedBlock;
    const int n = shape.size(block);
    bits += PackedShape::payload_bits(low_bits_of(shape, first, n), n);
  }
  return ceil_div<int64_t>(bits, 8);
}

// Writes the packed form of `list`, which ascends, to its own `bytes` bytes, whatever the list has become since they were
// counted.
template <class Id>
HINTERLAND_FN void pack_list(const PackedShape& shape, const Id* list, uint8_t* out, int64_t bytes) {
  BitWriter bits(out, bytes);
  int64_t position = 0;
  for (int64_t block = 0; block < shape.blocks; ++block) {
    const Id* first = list + block * kPackedBlock;
    const int n = shape.size(block), low_bits = low_bits_of(shape, first, n);
    bits.put(static_cast<uint64_t>(first[0]), shape.vertex_bits);
    bits.put(static_cast<uint64_t>(low_bits), shape.low_field);
    bits.put(static_cast<uint64_t>(position), shape.position_bits);
    position += PackedShape::payload_bits(low_bits, n);
  }
  for (int64_t block = 0; block < shape.blocks; ++block) {
    const Id* first = list + block * kPackedBlock;
    const int n = shape.size(block), low_bits = low_bits_of(shape, first, n);
    uint64_t high = 0;
    for (int j = 1; j < n; ++j) high |= uint64_t{1} << (((distance(first, j) >> low_bits) + j - 1) % 64);
    bits.put(high, 2 * (n - 1));
    const uint64_t mask = (uint64_t{1} << low_bits) - 1;
    for (int j = 1; j < n; ++j) bits.put(distance(first, j) & mask, low_bits);
  }
  bits.finish();
}

// Whether the `bytes` bytes at `list_bit` are the packed form of a list of `shape` whose neighbours ascend and are vertices.
// Looks at nothing outside them but the words that they share and the one after. visit(i, neighbour) for all on the way; those
// of a list that is not right may be anything.
template <class Words, class Visit>
HINTERLAND_FN bool packed_list_is_right(const BitReader<Words>& bits, int64_t list_bit, const PackedShape& shape,
                                        int64_t vertices, int64_t bytes, Visit&& visit) {
  int64_t end = shape.directory_bits(), before = 0;
  if (ceil_div<int64_t>(end, 8) > bytes) return false;
  for (int64_t k = 0; k < shape.blocks; ++k) {
    const PackedBlock block(bits, list_bit, shape, k);
    if (block.payload != list_bit + end || block.low_bits > shape.vertex_bits) return false;
    end = block.end() - list_bit;
    if (ceil_div<int64_t>(end, 8) > bytes) return false;
    if (stdlib::popcount(block.high_bits(bits)) != block.size - 1) return false;
    bool ascends = true;
    block.for_each(bits, [&](int j, int64_t neighbor) {
      ascends &= neighbor >= before && neighbor < vertices;
      before = neighbor;
      visit(k * kPackedBlock + j, neighbor);
    });
    if (!ascends) return false;
  }
  return ceil_div<int64_t>(end, 8) == bytes;
}

}  // namespace hinterland::graph
