// The neighbour lists of a group of vertices, laid out for reading by one warp.
#pragma once

#include "hinterland/core/platform.hpp"
#include "hinterland/core/warp.hpp"

namespace hinterland::graph {

// Elements [begin, end) of an array.
struct Piece {
  int64_t begin = 0, end = 0;

  HINTERLAND_FN int64_t length() const { return end - begin; }
  HINTERLAND_FN bool lies_within(int64_t elements) const { return begin >= 0 && begin <= end && end <= elements; }
};

// The list of `vertex` among `elements` elements; an empty one where it does not lie among them. Arrays of a graph can be
// changed after they were checked, so whoever reads offsets reads them through this, or through ListBounds, which also reports.
template <class Offsets>
HINTERLAND_FN Piece list_within(const Offsets& offsets, int64_t vertex, int64_t elements) {
  Piece list{offsets[vertex], offsets[vertex + 1]};
  if (!list.lies_within(elements)) [[unlikely]]
    list = {};
  return list;
}

// The neighbour lists of up to Warp::kWidth vertices, one to a lane, laid out in chunks of Warp::kWidth elements. Lists that
// lie end to end in the edge array, as those of vertices that follow each other do, form one run; a run starts on a cache line
// and at a chunk. A warp that reads chunk after chunk makes merged and aligned requests (Min 2022, section 2.4.3), and fetches
// a line that several short lists share only once.
struct Lists {
  int64_t begin, end;  // this lane's list
  int64_t position;    // its place among the elements of all chunks; nowhere less than that of the lane before
  int64_t chunks;      // of all lanes together

  HINTERLAND_FN int64_t length() const { return end - begin; }
  // Chunks that this lane's list takes alone, at the most: it may begin with the last element of a line.
  HINTERLAND_FN int64_t most_chunks() const { return ceil_div<int64_t>(length() + Warp::kWidth - 1, Warp::kWidth); }

  template <class Edges>
  HINTERLAND_FN Lists(const Edges& edges, int64_t list_begin, int64_t list_end, bool active) {
    // An empty list joins no run: a run of nothing but empty lists would have a place within a line, but no chunk.
    active = active && list_begin < list_end;
    begin = active ? list_begin : 0;
    end = active ? list_end : 0;
    const int lane = Warp::lane();
    const int64_t end_before = Warp::broadcast(end, max_of(lane - 1, 0));
    const uint32_t lanes = Warp::ballot(active);
    const uint32_t joined = Warp::ballot(lane > 0 && begin == end_before) & lanes & lanes << 1;
    const uint32_t firsts = lanes & ~joined, lasts = lanes & ~(joined >> 1);
    const int first = active ? 31 - stdlib::countl_zero(firsts & (Warp::kAll >> (31 - lane))) : lane;
    const auto run = edges.span(Warp::broadcast(begin, first), end);
    const int64_t own = lasts >> lane & 1u ? run.chunks() : 0;
    const int64_t before = Warp::exclusive_sum(own);
    chunks = Warp::broadcast(before + own, Warp::kWidth - 1);
    position = before * Warp::kWidth + (active ? begin - run.first : 0);
  }

  // Only the lists of active lanes, end to end wherever they lie: one chunk has many short ones, and requests begin anywhere.
  HINTERLAND_FN void pack(bool active) {
    if (!active) begin = end = 0;
    position = Warp::exclusive_sum(length());
    chunks = ceil_div<int64_t>(Warp::broadcast(position + length(), Warp::kWidth - 1), Warp::kWidth);
  }
};

// A window of chunks [from, to) of some Lists: which list an element belongs to, and where in the edge array it lies.
struct Window {
  int32_t start, stop;  // this lane's list within the window, cut to it
  int64_t shift;        // from a place in the window to an index of the edge array, for this lane's list

  struct Element {
    int owner;  // the lane whose list it is in
    bool valid;
    int64_t index;
  };

  HINTERLAND_FN Window(const Lists& lists, int64_t from, int64_t to) {
    const int64_t origin = from * Warp::kWidth, length = (to - from) * Warp::kWidth;
    const int64_t place = lists.position - origin;
    start = static_cast<int32_t>(min_of(max_of(place, int64_t{-1}), length));
    stop = static_cast<int32_t>(min_of(max_of(place + lists.end - lists.begin, int64_t{-1}), length));
    shift = lists.begin - place;
  }

  // What of this lane's list lies in the window.
  HINTERLAND_FN Piece own() const { return {max_of(start, 0) + shift, max_of(stop, 0) + shift}; }

  // The element at `place`, by binary search over the lanes. All lanes call it together, each with its own place.
  HINTERLAND_FN Element at(int32_t place) const {
    int owner = 0;
    for (int step = Warp::kWidth / 2; step > 0; step /= 2)
      if (Warp::broadcast(start, owner + step) <= place) owner += step;
    // Outside any condition: a lane that left out a broadcast would meet the others in the wrong one.
    const int32_t from = Warp::broadcast(start, owner), until = Warp::broadcast(stop, owner);
    return {owner, place >= from && place < until, place + Warp::broadcast(shift, owner)};
  }
};

}  // namespace hinterland::graph
