// Visiting edges of compressed lists: visit.hpp's overloads for PackedCsr. Elements of a window are counted as in plain lists,
// and each lane finds its own (compress.hpp), so the lists of a group are still one run of lines, read from front to back.
#pragma once

#include "hinterland/graph/compress.hpp"
#include "hinterland/graph/visit.hpp"

namespace hinterland::graph {

// A graph whose lists are packed. Pages, if any are kept, are those of the packed lists' words, and none of the weights.
template <class EdgeType, class WeightType = NoWeight, class Sources = memory::Unmetered>
struct PackedCsr : ListsOf<EdgeType, WeightType, Sources> {
  using Words = typename Sources::template Large<uint32_t>;

  OffsetSource<Sources> packed_offsets;
  Words words;
  int64_t packed_end;

  HINTERLAND_FN explicit PackedCsr(const GraphWords& w)
      : ListsOf<EdgeType, WeightType, Sources>(w, {w.weights.home, nullptr, nullptr, w.weights.store, w.weights.bytes}),
        packed_offsets(w.packed_offsets, w.num_vertices + 1),
        words(w.packed, packed_bytes(w.packed_end) / static_cast<int64_t>(sizeof(uint32_t))),
        packed_end(w.packed_end) {}
};

// Where the packed list of a vertex lies in the stream, in bytes; nowhere if its offsets are broken, and then no neighbour of
// it is found.
struct PackedBounds {
  int64_t begin = 0, end = 0;

  HINTERLAND_FN PackedBounds(int64_t begin, int64_t end) : begin(begin), end(end) {}

  // All lanes of a warp call it together.
  template <class Graph>
  HINTERLAND_FN PackedBounds(const Graph& graph, int64_t vertex, bool active) {
    *this = within(graph.packed_offsets.list(vertex, active), graph.packed_end);
  }

  template <class Graph>
  HINTERLAND_FN static PackedBounds alone(const Graph& graph, int64_t vertex) {
    return within(graph.packed_offsets.list_alone(vertex), graph.packed_end);
  }

 private:
  HINTERLAND_FN static PackedBounds within(const Piece& bytes, int64_t packed_end) {
    return bytes.lies_within(packed_end) ? PackedBounds(bytes.begin, bytes.end) : PackedBounds(0, 0);
  }
};

// Bits of a stream for one lane, metered.
template <class Source, class Meter>
struct MeteredWords {
  Source source;
  Meter& meter;

  HINTERLAND_FN uint32_t read_alone(int64_t at) const { return source.read_alone(at, meter); }
};

// Bits of a stream, of which a warp has copied some lines to its scratch memory: lines of a directory, and lines of payloads.
// Fields lie across lanes in any way, so lanes that read them where the stream lies would request parts of lines at random
// times; a link moves nearly as many whole lines a second as parts. All lanes call everything together.
template <class Source, class Meter>
class StagedBits {
 public:
  // A stream of `bytes` bytes and the padding.
  HINTERLAND_FN StagedBits(const Source& source, Meter& meter, int64_t bytes)
      : source_(source), meter_(meter), last_word_(packed_bytes(bytes) / static_cast<int64_t>(sizeof(uint32_t)) - 1) {}

  // Copies the lines that hold bits [begin, end), as many as there is place for.
  HINTERLAND_FN void stage_entries(int64_t begin, int64_t end) { entries_ = copy(begin, end, 0, kEntryLines, entries_); }
  HINTERLAND_FN void stage_payloads(int64_t begin, int64_t end) {
    payloads_ = copy(begin, end, kEntryLines, Warp::kScratchWords / kLineWords - kEntryLines, payloads_);
  }

  // As BitReader. What was not copied is read where the stream lies.
  HINTERLAND_FN bool any(bool holds) const { return Warp::any(holds); }
  HINTERLAND_FN uint64_t operator()(int64_t at, int count, bool wanted = true) const {
    const int64_t alone[] = {at};
    const int counts[] = {count};
    uint64_t found[1];
    read(alone, counts, wanted, found);
    return found[0];
  }

  template <int kFields>
  HINTERLAND_FN void read(const int64_t (&at)[kFields], const int (&count)[kFields], bool wanted,
                          uint64_t (&to)[kFields]) const {
    uint32_t part[kFields][3];
    bool is_far[kFields], any_far = false;
    for (int f = 0; f < kFields; ++f) {
      const int64_t word = at[f] >> 5;
      const bool among_payloads = payloads_.has(word), is_near = among_payloads || entries_.has(word);
      const int place = among_payloads ? kEntryLines * kLineWords + payloads_.place(word) : entries_.place(word);
      const uint32_t* const near = Warp::scratch() + (is_near ? place : 0);
      for (int k = 0; k < 3; ++k) part[f][k] = near[k];
      is_far[f] = wanted && !is_near;
      any_far = any_far || is_far[f];
    }
    if (Warp::any(any_far))
      for (int f = 0; f < kFields; ++f) read_far(is_far[f], at[f], count[f], part[f]);
    for (int f = 0; f < kFields; ++f) {
      const int skip = static_cast<int>(at[f] & 31);
      const uint64_t low = (static_cast<uint64_t>(part[f][1]) << 32 | part[f][0]) >> skip;
      const uint64_t high = static_cast<uint64_t>(part[f][2]) << (63 - skip) << 1;
      to[f] = wanted ? (low | high) & ((uint64_t{1} << count[f]) - 1) : 0;
    }
  }

 private:
  static constexpr int kLineWords = kLineBytes / static_cast<int>(sizeof(uint32_t));
  // Lines of a directory that are staged, and lines that are requested before the first is stored: docs/notes/thresholds.md.
  static constexpr int kEntryLines = 4, kInFlight = 4;

  // What of the stream is staged: words from `first` on, `count` of them with two more behind.
  struct Piece {
    int64_t first = 0;
    int count = 0;

    HINTERLAND_FN int64_t past() const { return count == 0 ? 0 : first + count + 2; }
    HINTERLAND_FN bool has(int64_t word) const { return static_cast<uint64_t>(word - first) < static_cast<uint64_t>(count); }
    HINTERLAND_FN int place(int64_t word) const { return static_cast<int>(word - first); }
  };

  // The words of a field, to those lanes that ask.
  HINTERLAND_FN void read_far(bool asks, int64_t at, int count, uint32_t (&part)[3]) const {
    constexpr int64_t kSectorWords = kSectorBytes / sizeof(uint32_t);
    const bool reaches_third = (at & 31) + count > 64;
    const int64_t word = asks ? at >> 5 : memory::kNowhere, last = word + (reaches_third ? 2 : 1);
    const int64_t words[] = {word, asks ? word + 1 : memory::kNowhere, asks && reaches_third ? last : memory::kNowhere};
    memory::NoMeter for_none;
    uint32_t found[3];
    source_.read(words, found, for_none);
    for (int k = 0; k < 3 && asks; ++k) part[k] = found[k];
    const int64_t moved[] = {word, asks && last % kSectorWords < 2 ? last : memory::kNowhere};
    source_.count_reads(moved, meter_);
  }

  HINTERLAND_FN Piece copy(int64_t begin, int64_t end, int to_line, int most, const Piece& before) const {
    // Readers fetch up to two words after the one they need.
    const int64_t first = source_.span(begin / 32, end / 32).first, past = (end - 1) / 32 + 3;
    const int lines = static_cast<int>(min_of<int64_t>(ceil_div<int64_t>(past - first, kLineWords), most));
    uint32_t* const to = Warp::scratch() + to_line * kLineWords + Warp::lane();
    Warp::sync();  // nobody reads what was there any more
    for (int line = 0; line < lines; line += kInFlight) {
      uint32_t words[kInFlight];
      int64_t at[kInFlight], fresh[kInFlight];
      for (int k = 0; k < kInFlight; ++k) {
        const int64_t word = first + (line + k) * kLineWords + Warp::lane();
        at[k] = line + k < lines ? min_of(max_of(word, int64_t{0}), last_word_) : memory::kNowhere;
        fresh[k] = at[k] >= before.past() ? at[k] : memory::kNowhere;
      }
      memory::NoMeter for_none;
      source_.read(at, words, for_none);
      source_.count_reads(fresh, meter_);  // lines that were just read are at hand
      for (int k = 0; k < kInFlight; ++k)
        if (line + k < lines) to[(line + k) * kLineWords] = words[k];
    }
    Warp::sync();
    return {first, lines * kLineWords - 2};
  }

  Source source_;
  Meter& meter_;
  int64_t last_word_;
  Piece entries_, payloads_;
};

// Finds neighbours of packed lists. Lanes look for one each, together, in what the warp has staged; a warp's only lane, which
// goes through lists in order, decodes a block at once and keeps it.
template <class Graph>
class PackedFinder {
  using Meter = typename Graph::Meter;

 public:
  // Neighbours that are staged together, of one list or of several that lie end to end: docs/notes/thresholds.md.
  static constexpr int kStaged = 16 * Warp::kWidth;

  HINTERLAND_FN PackedFinder(const Graph& graph, Meter& meter) : bits_(bits_of(graph, meter)) { meter.begin_run(); }

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
      const bool is_front = Warp::lane() == front, cuts = Warp::lane() == back && last + 1 < shape.degree;
      const int64_t payload = PackedBlock(bits_, list_bit, shape, first_block, is_front).payload;
      const int64_t begin = Warp::broadcast(payload, front);
      int64_t end = list_end;
      if (Warp::any(cuts)) {
        const int64_t block_end = PackedBlock(bits_, list_bit, shape, last_block, cuts).end();
        if (cuts) end = block_end;
      }
      end = Warp::broadcast(end, back);
      // Not where other lists or a long directory lie between: more than the neighbours would take as they are.
      const int64_t most = 8 * (elements * static_cast<int64_t>(sizeof(typename Graph::Edge)) + kLineBytes);
      if (begin < end && end - begin <= most) bits_.stage_payloads(begin, end);
    }
  }

  // Neighbour i of this lane's list, or -1 if there is none to find or the list does not lie within its bytes. All lanes call
  // it together.
  HINTERLAND_FN int64_t operator()(const PackedShape& shape, const PackedBounds& list, int64_t i, bool there) {
    const bool listed = there && 8 * list.begin + shape.directory_bits() <= 8 * list.end;
    const int64_t number = i / kPackedBlock;
    const int j = static_cast<int>(i % kPackedBlock);
    if constexpr (Warp::kWidth == 1) {
      if (!listed) return -1;
      if (list.begin != held_list_ || number != held_block_) {
        const PackedBlock block(bits_, 8 * list.begin, shape, number);
        if (!fits(block, shape, list.end)) return -1;
        block.for_each(bits_, [&](int place, int64_t neighbor) { held_[place] = static_cast<typename Graph::Edge>(neighbor); });
        held_list_ = list.begin;
        held_block_ = number;
      }
      return held_[j];
    } else {
      if (!Warp::any(listed)) return -1;
      const PackedBlock block(bits_, 8 * list.begin, shape, number, listed);
      const bool right = listed && fits(block, shape, list.end);
      const int64_t neighbor = block.neighbor(bits_, right ? j : 0);
      return right ? neighbor : -1;
    }
  }

 private:
  using Source = typename Graph::Words;
  using Bits = stdlib::conditional_t<Warp::kWidth == 1, BitReader<MeteredWords<Source, Meter>>, StagedBits<Source, Meter>>;

  HINTERLAND_FN static Bits bits_of(const Graph& graph, Meter& meter) {
    if constexpr (Warp::kWidth == 1)
      return {{graph.words, meter}};
    else
      return {graph.words, meter, graph.packed_end};
  }
  HINTERLAND_FN static bool fits(const PackedBlock& block, const PackedShape& shape, int64_t end) {
    return block.low_bits <= shape.vertex_bits && block.end() <= 8 * end;
  }

  Bits bits_;
  typename Graph::Edge held_[Warp::kWidth == 1 ? kPackedBlock : 1];
  int64_t held_list_ = -1, held_block_ = -1;
};

// Elements are places in lists, not in lines: a run begins at a chunk, wherever it lies.
struct Places {
  HINTERLAND_FN memory::Span span(int64_t begin, int64_t end) const { return {begin, end}; }
};

struct PackedLists : Lists {
  PackedBounds packed;  // of this lane's list
};

template <class Edge, class Weight, class Sources, class Counts>
HINTERLAND_WITHIN PackedLists lists_of(const PackedCsr<Edge, Weight, Sources>& graph, int64_t vertex, bool active,
                                       Counts& counts) {
  const ListBounds list(graph, vertex, active, counts);
  return {Lists(Places{}, list.begin, list.end, active), PackedBounds(graph, vertex, active)};
}

template <class Edge, class Weight, class Sources, class Visitor, class Counts>
HINTERLAND_FN void visit_chunks(const PackedCsr<Edge, Weight, Sources>& graph, const PackedLists& lists, int64_t vertex,
                                int64_t from, int64_t to, Visitor& visitor, Counts& counts) {
  using Graph = PackedCsr<Edge, Weight, Sources>;
  PackedFinder<Graph> find(graph, counts.meter);
  const Window window(lists, from, to);
  const PackedShape own(graph.num_vertices, lists.length());
  const int64_t to_list = window.shift - lists.begin;  // from a place in the window to one in this lane's list
  const int32_t length = static_cast<int32_t>(to - from) * Warp::kWidth;
  for (int32_t place = Warp::lane(); place - Warp::lane() < length; place += kInFlight * Warp::kWidth) {
    const int32_t step = place - Warp::lane();
    if (step % PackedFinder<Graph>::kStaged == 0) {
      const int32_t begin = max_of(window.start, step), end = min_of(window.stop, step + PackedFinder<Graph>::kStaged);
      find.stage(own, lists.packed, begin < end, begin + to_list, end - 1 + to_list);
    }
    EdgeBatch<Edge, Weight> batch;
    int64_t at[kInFlight];
    for (int k = 0; k < kInFlight; ++k) {
      const Window::Element element = window.at(place + k * Warp::kWidth);
      const int64_t owner = Warp::broadcast(vertex, element.owner);
      const PackedShape shape = own.of_lane(element.owner);
      const int64_t i = place + k * Warp::kWidth + Warp::broadcast(to_list, element.owner);
      const int64_t begin = Warp::broadcast(lists.packed.begin, element.owner);
      const int64_t end = Warp::broadcast(lists.packed.end, element.owner);
      batch.from[k] = element.valid ? owner : -1;
      batch.to[k] = 0;
      at[k] = element.valid ? element.index : memory::kNowhere;
      const int64_t found = find(shape, {begin, end}, i, element.valid);
      if (graph.has(found)) {
        batch.to[k] = static_cast<Edge>(found);
      } else if (element.valid) {
        counts.bad = min_of(counts.bad, owner);
        batch.from[k] = -1;
      }
    }
    if constexpr (Graph::kWeighted) graph.weights.read(at, batch.weight, counts.meter);
    visitor(batch);
  }
}

template <class Edge, class Weight, class Sources, class Counts>
HINTERLAND_FN int64_t read_one(const PackedCsr<Edge, Weight, Sources>& graph, int64_t vertex, const ListBounds& list, int64_t j,
                               bool there, Counts& counts) {
  const PackedBounds packed(graph, vertex, there);
  PackedFinder<PackedCsr<Edge, Weight, Sources>> find(graph, counts.meter);
  return find(PackedShape(graph.num_vertices, list.end - list.begin), packed, j, there);
}

template <class Edge, class Weight, class Sources, class Look, class Counts>
HINTERLAND_FN void look_through(const PackedCsr<Edge, Weight, Sources>& graph, int64_t vertex, int64_t from, int64_t end,
                                const Look& look, Counts& counts) {
  const ListBounds list(graph, vertex, true, counts);
  const int64_t begin = list.begin;
  from = max_of(from, begin);
  end = min_of(end, list.end);
  const PackedShape shape(graph.num_vertices, list.end - list.begin);
  const PackedBounds packed(graph, vertex, true);
  PackedFinder<PackedCsr<Edge, Weight, Sources>> find(graph, counts.meter);
  int64_t chunk = from;
  for (int chunks = 1; chunk < end; chunk += chunks * Warp::kWidth, chunks = kInFlight) {
    const int64_t stop = min_of(chunk + chunks * Warp::kWidth, end);
    find.stage(shape, packed, Warp::lane() == 0, chunk - begin, stop - 1 - begin);
    int64_t to[kInFlight];
    for (int k = 0; k < kInFlight; ++k) {
      const int64_t i = chunk + k * Warp::kWidth + Warp::lane();
      const bool there = k < chunks && i < end;
      to[k] = find(shape, packed, i - begin, there);
      if (there && !graph.has(to[k])) counts.bad = min_of(counts.bad, vertex), to[k] = -1;
    }
    if (look(to)) return;
  }
}

// About where it lies: only the list knows where. What it begins with is a part of the first piece.
template <class Edge, class Weight, class Sources>
HINTERLAND_FN int64_t ask_for_edges(const PackedCsr<Edge, Weight, Sources>& graph, int64_t vertex, const Piece& part) {
  constexpr int64_t kWord = sizeof(uint32_t);
  if (!Warp::any(part.length() > 0)) return 0;
  int64_t begin = 0, end = 0;
  if (part.length() > 0) {
    const PackedBounds list = PackedBounds::alone(graph, vertex);
    const int64_t first = graph.offsets.read_alone(vertex), length = max_of<int64_t>(graph.degree(vertex), 1);
    const double bytes = static_cast<double>(list.end - list.begin) / static_cast<double>(length);
    const auto place_of = [&](int64_t edge) {
      const int64_t before = min_of(max_of(edge - first, int64_t{0}), length);
      return list.begin + static_cast<int64_t>(bytes * static_cast<double>(before));
    };
    begin = place_of(part.begin);
    end = min_of(list.end, place_of(part.end) + kLineBytes);
  }
  return graph.words.ask(begin / kWord, ceil_div(end, kWord));
}

}  // namespace hinterland::graph
