// Visiting edges of compressed lists: visit.hpp's overloads for PackedCsr. Elements of a window are counted as in plain lists,
// and each lane finds its own (compress.hpp), so the lists of a group are still one run of lines, read from front to back.
#pragma once

#include "hinterland/graph/compress.hpp"
#include "hinterland/graph/visit.hpp"

namespace hinterland {

// A graph whose lists are packed. `slots` and `hot_edges` of GraphWords, if there, are pages of the packed lists' words.
template <class EdgeType, class WeightType = NoWeight>
struct PackedCsr {
  using Edge = EdgeType;
  using Weight = WeightType;
  static constexpr bool kWeighted = !stdlib::is_same_v<Weight, NoWeight>;

  int64_t num_vertices, num_edges;
  const int64_t* offsets;
  const int64_t* packed_offsets;
  BitReader<TieredSource<uint32_t>> bits;
  TieredSource<Weight> weights;
  const Edge* heads;
  int64_t heads_per_vertex;
  int64_t num_isolated;

  HINTERLAND_FN explicit PackedCsr(const GraphWords& words)
      : num_vertices(words.num_vertices),
        num_edges(words.num_edges),
        offsets(words.offsets),
        packed_offsets(words.packed_offsets),
        bits{{static_cast<const uint32_t*>(words.packed), static_cast<const uint32_t*>(words.hot_edges), words.slots}},
        weights{static_cast<const Weight*>(words.weights), nullptr, nullptr},
        heads(static_cast<const Edge*>(words.heads)),
        heads_per_vertex(words.heads_per_vertex),
        num_isolated(words.num_isolated) {}

  HINTERLAND_FN bool has(int64_t vertex) const {
    return static_cast<uint64_t>(vertex) < static_cast<uint64_t>(num_vertices);
  }
  HINTERLAND_FN int64_t degree(int64_t vertex) const { return offsets[vertex + 1] - offsets[vertex]; }
  // Bytes of the packed lists' bytes [begin, end) that are kept on the GPU.
  HINTERLAND_FN int64_t cached(int64_t begin, int64_t end) const {
    if (bits.words.slots == nullptr) return 0;
    constexpr int64_t kPageBytes = kPageEdges * static_cast<int64_t>(sizeof(uint32_t));
    int64_t found = 0;
    for (int64_t page = begin / kPageBytes; page * kPageBytes < end; ++page)
      if (bits.words.slots[page] >= 0)
        found += min_of(end, (page + 1) * kPageBytes) - max_of(begin, page * kPageBytes);
    return found;
  }
  HINTERLAND_FN PointerSource<uint8_t> bytes() const { return {reinterpret_cast<const uint8_t*>(bits.words.home)}; }
};

// Where the packed list of a vertex lies in the stream, in bytes; nowhere if its offsets are broken, and then no neighbour of it
// is found.
struct PackedBounds {
  int64_t begin = 0, end = 0;

  template <class Graph>
  HINTERLAND_FN PackedBounds(const Graph& graph, int64_t vertex, bool active) {
    if (!active) return;
    begin = graph.packed_offsets[vertex];
    end = graph.packed_offsets[vertex + 1];
    if (begin < 0 || begin > end || end > graph.packed_offsets[graph.num_vertices]) begin = end = 0;
  }
};

// Finds neighbours of packed lists. A lane among others looks for one at a time; a warp's only lane, which goes through lists
// in order, decodes a block at once and keeps it.
template <class Graph>
class PackedFinder {
 public:
  HINTERLAND_FN explicit PackedFinder(const Graph& graph) : graph_(graph) {}

  // Neighbour i of a list, or -1 if the list does not lie within its bytes.
  HINTERLAND_FN int64_t operator()(const PackedShape& shape, int64_t begin, int64_t end, int64_t i) {
    if (8 * begin + shape.directory_bits() > 8 * end) return -1;
    const int64_t number = i / kPackedBlock;
    const int j = static_cast<int>(i % kPackedBlock);
    if constexpr (Warp::kWidth == 1) {
      if (begin != held_list_ || number != held_block_) {
        const PackedBlock block(graph_.bits, 8 * begin, shape, number);
        if (!fits(block, shape, end)) return -1;
        block.for_each(graph_.bits, [&](int place, int64_t neighbor) {
          held_[place] = static_cast<typename Graph::Edge>(neighbor);
        });
        held_list_ = begin;
        held_block_ = number;
      }
      return held_[j];
    } else {
      const PackedBlock block(graph_.bits, 8 * begin, shape, number);
      return fits(block, shape, end) ? block.neighbor(graph_.bits, j) : -1;
    }
  }

 private:
  HINTERLAND_FN static bool fits(const PackedBlock& block, const PackedShape& shape, int64_t end) {
    return block.low_bits <= shape.vertex_bits && block.end() <= 8 * end;
  }

  const Graph& graph_;
  typename Graph::Edge held_[Warp::kWidth == 1 ? kPackedBlock : 1];
  int64_t held_list_ = -1, held_block_ = -1;
};

// What reading a list block by block moves, in whole sectors: those of the directory and of the payloads, each once
// (but for the one that both may share).
class PackedTraffic {
 public:
  template <class Graph>
  HINTERLAND_FN PackedTraffic(const Graph& graph, const PackedBounds& list)
      : bytes_(graph.bytes()), list_(list), entries_(sector(list.begin)), payloads_(entries_) {}

  // What blocks [first, last] add to the blocks before.
  template <class Graph>
  HINTERLAND_FN int64_t add(const Graph& graph, const PackedShape& shape, int64_t first, int64_t last) {
    const int64_t list_bit = 8 * list_.begin, list_end = 8 * list_.end;
    if (list_bit + shape.directory_bits() > list_end) return 0;
    const int64_t before = entries_ + payloads_;
    int64_t skipped = move(entries_, list_bit + first * shape.entry_bits(), list_bit + (last + 1) * shape.entry_bits());
    if (payloads_ < entries_) skipped += entries_ - payloads_, payloads_ = entries_;
    skipped += move(payloads_, PackedBlock(graph.bits, list_bit, shape, first).payload,
                    min_of(PackedBlock(graph.bits, list_bit, shape, last).end(), list_end));
    return (entries_ + payloads_ - before - skipped) * kSectorBytes;
  }

 private:
  HINTERLAND_FN int64_t sector(int64_t byte) const {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(bytes_.base + byte) / kSectorBytes);
  }
  // Moves the end of what was read to the end of bits [begin, end). Returns the sectors that it passes over unread.
  HINTERLAND_FN int64_t move(int64_t& until, int64_t begin, int64_t end) const {
    if (begin >= end) return 0;
    const int64_t skipped = max_of(sector(begin / 8) - until, int64_t{0});
    until = max_of(until, sector((end - 1) / 8) + 1);
    return skipped;
  }

  PointerSource<uint8_t> bytes_;
  PackedBounds list_;
  int64_t entries_, payloads_;  // the sectors before these have been read, or are none of the list's
};

// Elements are places in lists, not in lines: a run begins at a chunk, wherever it lies.
struct Elements {
  struct Span {
    int64_t begin;
    HINTERLAND_FN int64_t aligned_begin() const { return begin; }
    HINTERLAND_FN int64_t sector_bytes() const { return 0; }
  };
  HINTERLAND_FN Span span(int64_t begin, int64_t) const { return {begin}; }
};

struct PackedLists : Lists {
  PackedBounds packed;  // of this lane's list
};

template <class Edge, class Weight>
HINTERLAND_FN PackedLists lists_of(const PackedCsr<Edge, Weight>& graph, int64_t vertex, bool active, StepCounts& counts) {
  const ListBounds list(graph, vertex, active, counts);
  PackedLists lists{Lists(Elements{}, list.begin, list.end, active), PackedBounds(graph, vertex, active)};
  lists.bytes = Lists(graph.bytes(), lists.packed.begin, lists.packed.end, active).bytes;
  if constexpr (PackedCsr<Edge, Weight>::kWeighted) lists.bytes += Lists(graph.weights, list.begin, list.end, active).bytes;
  return lists;
}

template <class Edge, class Weight, class Visitor>
HINTERLAND_FN void visit_chunks(const PackedCsr<Edge, Weight>& graph, const PackedLists& lists, int64_t vertex, int64_t from,
                                int64_t to, Visitor& visitor, StepCounts& counts) {
  using Graph = PackedCsr<Edge, Weight>;
  PackedFinder<Graph> find(graph);
  if (from == 0) {  // who begins the lists counts for those that go on
    counts.bytes += lists.bytes;
    counts.cached += graph.cached(lists.packed.begin, lists.packed.end);
  }
  const Window window(lists, from, to);
  const int32_t length = static_cast<int32_t>(to - from) * Warp::kWidth;
  for (int32_t place = Warp::lane(); place - Warp::lane() < length; place += kChunksInFlight * Warp::kWidth) {
    EdgeBatch<Edge, Weight> batch;
    for (int k = 0; k < kChunksInFlight; ++k) {
      const Window::Element element = window.at(place + k * Warp::kWidth);
      const int64_t owner = Warp::broadcast(vertex, element.owner);
      const int64_t first = Warp::broadcast(lists.begin, element.owner), last = Warp::broadcast(lists.end, element.owner);
      const int64_t begin = Warp::broadcast(lists.packed.begin, element.owner);
      const int64_t end = Warp::broadcast(lists.packed.end, element.owner);
      batch.from[k] = element.valid ? owner : -1;
      batch.to[k] = 0;
      if (!element.valid) continue;
      const int64_t found = find(PackedShape(graph.num_vertices, last - first), begin, end, element.index - first);
      if constexpr (Graph::kWeighted) batch.weight[k] = graph.weights.read(element.index);
      if (graph.has(found)) {
        batch.to[k] = static_cast<Edge>(found);
      } else {
        counts.bad = min_of(counts.bad, owner);
        batch.from[k] = -1;
      }
    }
    visitor(batch);
  }
}

template <class Edge, class Weight>
HINTERLAND_FN int64_t nth_neighbor(const PackedCsr<Edge, Weight>& graph, int64_t vertex, int64_t j, bool active,
                                   StepCounts& counts) {
  if (j < graph.heads_per_vertex) return active ? static_cast<int64_t>(graph.heads[j * graph.num_vertices + vertex]) : -1;
  const ListBounds list(graph, vertex, active, counts);
  if (list.begin + j >= list.end) return -1;
  const PackedShape shape(graph.num_vertices, list.end - list.begin);
  const PackedBounds packed(graph, vertex, true);
  // Lanes whose lists share a sector each count it.
  const int64_t moved = PackedTraffic(graph, packed).add(graph, shape, j / kPackedBlock, j / kPackedBlock);
  counts.bytes += moved;
  if (graph.cached(packed.begin, min_of(packed.begin + 1, packed.end)) != 0) counts.cached += moved;
  const int64_t found = PackedFinder<PackedCsr<Edge, Weight>>(graph)(shape, packed.begin, packed.end, j);
  if (graph.has(found)) return found;
  counts.bad = min_of(counts.bad, vertex);
  return -1;
}

template <class Edge, class Weight, class Look>
HINTERLAND_FN void look_through(const PackedCsr<Edge, Weight>& graph, int64_t vertex, int64_t from, int64_t end,
                                const Look& look, StepCounts& counts) {
  const int64_t begin = graph.offsets[vertex];
  const PackedShape shape(graph.num_vertices, graph.degree(vertex));
  const PackedBounds packed(graph, vertex, true);
  PackedFinder<PackedCsr<Edge, Weight>> find(graph);
  PackedTraffic traffic(graph, packed);
  int64_t uncounted = (from - begin) / kPackedBlock;
  int64_t chunk = from;
  for (int chunks = 1; chunk < end; chunk += chunks * Warp::kWidth, chunks = kChunksInFlight) {
    int64_t to[kChunksInFlight];
    for (int k = 0; k < kChunksInFlight; ++k) {
      const int64_t i = chunk + k * Warp::kWidth + Warp::lane();
      to[k] = -1;
      if (k >= chunks || i >= end) continue;
      to[k] = find(shape, packed.begin, packed.end, i - begin);
      if (!graph.has(to[k])) counts.bad = min_of(counts.bad, vertex), to[k] = -1;
    }
    const int64_t last = (min_of(chunk + chunks * Warp::kWidth, end) - 1 - begin) / kPackedBlock;
    if (last >= uncounted) {
      if (Warp::lane() == 0) {
        const int64_t moved = traffic.add(graph, shape, uncounted, last);
        counts.bytes += moved;
        // A list of several pages counts as its first one.
        if (graph.cached(packed.begin, min_of(packed.begin + 1, packed.end)) != 0) counts.cached += moved;
      }
      uncounted = last + 1;
    }
    if (look(to)) return;
  }
}

}  // namespace hinterland
