// Visiting edges of compressed lists: visit.hpp's overloads for PackedCsr. Elements of a window are counted as in plain lists,
// and each lane finds its own (compress.hpp), so the lists of a group are still one run of lines, read from front to back.
#pragma once

#include "hinterland/graph/compress.hpp"
#include "hinterland/graph/visit.hpp"

namespace hinterland::graph {

// A graph whose lists are packed. `slots` and `hot_edges` of GraphWords, if there, are pages of the packed lists' words.
template <class EdgeType, class WeightType = NoWeight>
struct PackedCsr {
  using Edge = EdgeType;
  using Weight = WeightType;
  static constexpr bool kWeighted = !stdlib::is_same_v<Weight, NoWeight>;

  int64_t num_vertices, num_edges;
  Offsets offsets, packed_offsets;
  BitReader<TieredSource<uint32_t>> bits;
  TieredSource<Weight> weights;
  const Edge* heads;
  int64_t heads_per_vertex;
  int64_t num_isolated;
  int64_t packed_end;

  HINTERLAND_FN explicit PackedCsr(const GraphWords& words)
      : num_vertices(words.num_vertices),
        num_edges(words.num_edges),
        offsets(words.offsets),
        packed_offsets(words.packed_offsets),
        bits{{static_cast<const uint32_t*>(words.packed), static_cast<const uint32_t*>(words.hot_edges), words.slots}},
        weights{static_cast<const Weight*>(words.weights), nullptr, nullptr},
        heads(static_cast<const Edge*>(words.heads)),
        heads_per_vertex(words.heads_per_vertex),
        num_isolated(words.num_isolated),
        packed_end(words.packed_end) {}

  HINTERLAND_FN bool has(int64_t vertex) const { return static_cast<uint64_t>(vertex) < static_cast<uint64_t>(num_vertices); }
  HINTERLAND_FN int64_t degree(int64_t vertex) const { return unchecked_degree(offsets, vertex); }
  // Bytes of the packed lists' bytes [begin, end) that are kept on the GPU.
  HINTERLAND_FN int64_t cached(int64_t begin, int64_t end) const {
    if (bits.words.slots == nullptr) return 0;
    constexpr int64_t kPageBytes = kPageEdges * static_cast<int64_t>(sizeof(uint32_t));
    int64_t found = 0;
    for (int64_t page = begin / kPageBytes; page * kPageBytes < end; ++page)
      if (bits.words.slots[page] >= 0) found += min_of(end, (page + 1) * kPageBytes) - max_of(begin, page * kPageBytes);
    return found;
  }
  HINTERLAND_FN memory::PointerSource<uint8_t> bytes() const { return {reinterpret_cast<const uint8_t*>(bits.words.home)}; }
};

// Where the packed list of a vertex lies in the stream, in bytes; nowhere if its offsets are broken, and then no neighbour of it
// is found.
struct PackedBounds {
  int64_t begin = 0, end = 0;

  HINTERLAND_FN PackedBounds(int64_t begin, int64_t end) : begin(begin), end(end) {}

  template <class Graph>
  HINTERLAND_FN PackedBounds(const Graph& graph, int64_t vertex, bool active) {
    if (!active) return;
    begin = graph.packed_offsets[vertex];
    end = graph.packed_offsets[vertex + 1];
    if (begin < 0 || begin > end || end > graph.packed_end) begin = end = 0;
  }
};

// Bits of a stream, of which a warp has copied some lines to its scratch memory: lines of a directory, and lines of payloads.
// Fields lie across lanes in any way, so lanes that read them where the stream lies would request parts of lines at random
// times; a link moves nearly as many whole lines a second as parts.
template <class FarBits>
class StagedBits {
 public:
  // A stream of `bytes` bytes and the padding.
  HINTERLAND_FN StagedBits(const FarBits& far, int64_t bytes)
      : far_(far), last_word_(packed_bytes(bytes) / static_cast<int64_t>(sizeof(uint32_t)) - 1) {}

  // Copies the lines that hold bits [begin, end), as many as there is place for. All lanes call these together.
  HINTERLAND_FN void stage_entries(int64_t begin, int64_t end) { entries_ = copy(begin, end, 0, kEntryLines); }
  HINTERLAND_FN void stage_payloads(int64_t begin, int64_t end) {
    payloads_ = copy(begin, end, kEntryLines, Warp::kScratchWords / kLineWords - kEntryLines);
  }

  // As BitReader.
  HINTERLAND_FN uint64_t operator()(int64_t at, int count) const {
    const int64_t word = at / 32;
    const bool among_payloads = payloads_.has(word);
    if (!among_payloads && !entries_.has(word)) return far_(at, count);
    const uint32_t* const near =
        Warp::scratch() + (among_payloads ? kEntryLines * kLineWords + payloads_.place(word) : entries_.place(word));
    const int skip = static_cast<int>(at % 32);
    const uint64_t low = (static_cast<uint64_t>(near[1]) << 32 | near[0]) >> skip;
    const uint64_t high = static_cast<uint64_t>(near[2]) << (63 - skip) << 1;
    return (low | high) & ((uint64_t{1} << count) - 1);
  }

 private:
  static constexpr int kLineWords = kLineBytes / static_cast<int>(sizeof(uint32_t));
  static constexpr int kEntryLines = 4;
  static constexpr int kInFlight = 4;  // lines that are requested before the first is stored

  // What of the stream is staged: words from `first` on, `count` of them with two more behind.
  struct Piece {
    int64_t first = 0;
    int count = 0;

    HINTERLAND_FN bool has(int64_t word) const { return static_cast<uint64_t>(word - first) < static_cast<uint64_t>(count); }
    HINTERLAND_FN int place(int64_t word) const { return static_cast<int>(word - first); }
  };

  HINTERLAND_FN Piece copy(int64_t begin, int64_t end, int to_line, int most) const {
    // Readers fetch up to two words after the one they need.
    const int64_t first = far_.words.span(begin / 32, end / 32).aligned_begin(), past = (end - 1) / 32 + 3;
    const int lines = static_cast<int>(min_of<int64_t>(ceil_div<int64_t>(past - first, kLineWords), most));
    uint32_t* const to = Warp::scratch() + to_line * kLineWords + Warp::lane();
    Warp::sync();  // nobody reads what was there any more
    for (int line = 0; line < lines; line += kInFlight) {
      uint32_t words[kInFlight];
      for (int k = 0; k < kInFlight; ++k) {
        const int64_t word = first + (line + k) * kLineWords + Warp::lane();
        words[k] = line + k < lines ? far_.words.read(min_of(max_of(word, int64_t{0}), last_word_)) : 0;
      }
      for (int k = 0; k < kInFlight; ++k)
        if (line + k < lines) to[(line + k) * kLineWords] = words[k];
    }
    Warp::sync();
    return {first, lines * kLineWords - 2};
  }

  FarBits far_;
  int64_t last_word_;
  Piece entries_, payloads_;
};

// Finds neighbours of packed lists. A lane among others looks for one at a time, in what the warp has staged; a warp's only
// lane, which goes through lists in order, decodes a block at once and keeps it.
template <class Graph>
class PackedFinder {
 public:
  // Neighbours that are staged together, of one list or of several that lie end to end.
  static constexpr int kStaged = 16 * Warp::kWidth;

  HINTERLAND_FN explicit PackedFinder(const Graph& graph) : graph_(graph), bits_(bits_of(graph)) {}

  // Stages neighbours first to last of each lane's list, if it has any; lists follow each other as lanes do. All lanes call it
  // together. What is not staged is found all the same.
  HINTERLAND_FN void stage([[maybe_unused]] const PackedShape& shape, [[maybe_unused]] const PackedBounds& list,
                           [[maybe_unused]] bool has, [[maybe_unused]] int64_t first, [[maybe_unused]] int64_t last) {
    if constexpr (Warp::kWidth > 1) {
      const int64_t list_bit = 8 * list.begin, list_end = 8 * list.end;
      has = has && list_bit + shape.directory_bits() <= list_end;
      const uint32_t lanes = Warp::ballot(has);
      if (lanes == 0) return;
      const int front = stdlib::countr_zero(lanes), back = 31 - stdlib::countl_zero(lanes);
      const int64_t elements = Warp::sum(has ? last - first + 1 : 0);
      const int64_t first_block = first / kPackedBlock, last_block = last / kPackedBlock;
      // The first list's entries. Those of the others lie between the payloads.
      bits_.stage_entries(Warp::broadcast(list_bit + first_block * shape.entry_bits(), front),
                          Warp::broadcast(list_bit + (last_block + 1) * shape.entry_bits(), front));
      int64_t begin = 0, end = list_end;
      if (Warp::lane() == front) begin = PackedBlock(bits_, list_bit, shape, first_block).payload;
      if (Warp::lane() == back && last + 1 < shape.degree) end = PackedBlock(bits_, list_bit, shape, last_block).end();
      begin = Warp::broadcast(begin, front);
      end = Warp::broadcast(end, back);
      // Not where other lists or a long directory lie between: more than the neighbours would take as they are.
      const int64_t most = 8 * (elements * static_cast<int64_t>(sizeof(typename Graph::Edge)) + kLineBytes);
      if (begin < end && end - begin <= most) bits_.stage_payloads(begin, end);
    }
  }

  // Neighbour i of a list, or -1 if the list does not lie within its bytes.
  HINTERLAND_FN int64_t operator()(const PackedShape& shape, const PackedBounds& list, int64_t i) {
    if (8 * list.begin + shape.directory_bits() > 8 * list.end) return -1;
    const int64_t number = i / kPackedBlock;
    const int j = static_cast<int>(i % kPackedBlock);
    if constexpr (Warp::kWidth == 1) {
      if (list.begin != held_list_ || number != held_block_) {
        const PackedBlock block(bits_, 8 * list.begin, shape, number);
        if (!fits(block, shape, list.end)) return -1;
        block.for_each(bits_, [&](int place, int64_t neighbor) { held_[place] = static_cast<typename Graph::Edge>(neighbor); });
        held_list_ = list.begin;
        held_block_ = number;
      }
      return held_[j];
    } else {
      const PackedBlock block(bits_, 8 * list.begin, shape, number);
      return fits(block, shape, list.end) ? block.neighbor(bits_, j) : -1;
    }
  }

 private:
  using FarBits = decltype(Graph::bits);
  using Bits = stdlib::conditional_t<Warp::kWidth == 1, FarBits, StagedBits<FarBits>>;

  HINTERLAND_FN static Bits bits_of(const Graph& graph) {
    if constexpr (Warp::kWidth == 1)
      return graph.bits;
    else
      return {graph.bits, graph.packed_end};
  }
  HINTERLAND_FN static bool fits(const PackedBlock& block, const PackedShape& shape, int64_t end) {
    return block.low_bits <= shape.vertex_bits && block.end() <= 8 * end;
  }

  const Graph& graph_;
  Bits bits_;
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

  memory::PointerSource<uint8_t> bytes_;
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
  const int64_t degree = lists.length();
  const int64_t to_list = window.shift - lists.begin;  // from a place in the window to one in this lane's list
  const int32_t length = static_cast<int32_t>(to - from) * Warp::kWidth;
  for (int32_t place = Warp::lane(); place - Warp::lane() < length; place += kInFlight * Warp::kWidth) {
    const int32_t step = place - Warp::lane();
    if (step % PackedFinder<Graph>::kStaged == 0) {
      const int32_t begin = max_of(window.start, step), end = min_of(window.stop, step + PackedFinder<Graph>::kStaged);
      find.stage({graph.num_vertices, degree}, lists.packed, begin < end, begin + to_list, end - 1 + to_list);
    }
    EdgeBatch<Edge, Weight> batch;
    for (int k = 0; k < kInFlight; ++k) {
      const Window::Element element = window.at(place + k * Warp::kWidth);
      const int64_t owner = Warp::broadcast(vertex, element.owner);
      const PackedShape shape(graph.num_vertices, Warp::broadcast(degree, element.owner));
      const int64_t i = place + k * Warp::kWidth + Warp::broadcast(to_list, element.owner);
      const int64_t begin = Warp::broadcast(lists.packed.begin, element.owner);
      const int64_t end = Warp::broadcast(lists.packed.end, element.owner);
      batch.from[k] = element.valid ? owner : -1;
      batch.to[k] = 0;
      if (!element.valid) continue;
      const int64_t found = find(shape, {begin, end}, i);
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
  const int64_t found = PackedFinder<PackedCsr<Edge, Weight>>(graph)(shape, packed, j);
  if (graph.has(found)) return found;
  counts.bad = min_of(counts.bad, vertex);
  return -1;
}

template <class Edge, class Weight, class Look>
HINTERLAND_FN void look_through(const PackedCsr<Edge, Weight>& graph, int64_t vertex, int64_t from, int64_t end,
                                const Look& look, StepCounts& counts) {
  const ListBounds list(graph, vertex, true, counts);
  const int64_t begin = list.begin;
  from = max_of(from, begin);
  end = min_of(end, list.end);
  const PackedShape shape(graph.num_vertices, list.end - list.begin);
  const PackedBounds packed(graph, vertex, true);
  PackedFinder<PackedCsr<Edge, Weight>> find(graph);
  PackedTraffic traffic(graph, packed);
  int64_t uncounted = (from - begin) / kPackedBlock;
  int64_t chunk = from;
  for (int chunks = 1; chunk < end; chunk += chunks * Warp::kWidth, chunks = kInFlight) {
    const int64_t stop = min_of(chunk + chunks * Warp::kWidth, end);
    find.stage(shape, packed, Warp::lane() == 0, chunk - begin, stop - 1 - begin);
    int64_t to[kInFlight];
    for (int k = 0; k < kInFlight; ++k) {
      const int64_t i = chunk + k * Warp::kWidth + Warp::lane();
      to[k] = -1;
      if (k >= chunks || i >= end) continue;
      to[k] = find(shape, packed, i - begin);
      if (!graph.has(to[k])) counts.bad = min_of(counts.bad, vertex), to[k] = -1;
    }
    const int64_t last = (stop - 1 - begin) / kPackedBlock;
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

}  // namespace hinterland::graph
