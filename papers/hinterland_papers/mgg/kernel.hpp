// MGG's kernel (OSDI 2023, sections 4.1 and 5), written from its text: what the library's `direct` strategy is measured
// against.
//
// A neighbour partition is a piece of a row's local or remote entries. A worker (a warp; in the study of granularity a thread
// or a block) has `dist` pairs of a local and a remote one, and sums up one pair after the other. Partial sums of a row are
// added up in memory, atomically and so in any order.
//
// The text has one remote row of each warp in shared memory at a time; here it is `depth` rows of each lane's, and sums stay in
// registers. Rows are float32, of a multiple of 16 bytes; places are of 32 bits.
#pragma once

#include "hinterland/core/atomic.hpp"
#include "hinterland/core/warp.hpp"
#include "hinterland/fullgraph/aggregate.hpp"

namespace hinterland::mgg {

inline constexpr int kMggThreads = 512;  // of a block at most: wpb is up to 16, and two such blocks share a multiprocessor

// How remote rows come (section 5.2).
enum class Loads {
  kPlain,   // into registers, kAhead at a time, after the local ones: figure 6(a)
  kStaged,  // into shared memory, while the pair's local rows are summed: figure 6(b)
  kCommon,  // likewise, and rows that several partitions of a block name come once (end of section 5.1)
};

struct Partitions {
  const int32_t* rows;  // [count]: of whose entries it is a piece
  const int32_t* begins;
  const int32_t* ends;
  int64_t count;
};

struct MggParams {
  Partitions local, remote;
  fullgraph::RowWords from;
  const uint32_t* places;  // [entries]
  float* out;              // [rows, width], zeros at first
  int64_t width;
  int64_t lanes, across;         // of a worker: 1 or a multiple of 32; and those for one row's vectors, a power of two up to 32
  int64_t dist;                  // pairs of a worker
  int64_t remote_from;           // which worker has the first remote partitions; 0: pairs
  int64_t depth;                 // kStaged: rows that a lane has in shared memory
  const int64_t* common_begins;  // kCommon: [blocks + 1]: which places are a block's
  const uint32_t* common;        // the places that each block's remote partitions name, each once
  const int32_t* slots;          // [entries]: which of its block's rows an entry names
};

using Quad = fullgraph::Vector<float, 4>;

// A vector from global to shared memory, beside what follows, and when all of this thread's are there.
HINTERLAND_FN void copy_ahead(Quad* to, const float* from) {
#if HINTERLAND_ON_GPU
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
#else
  *to = fullgraph::load_vector<float, 4>(from);
#endif
}

HINTERLAND_FN void await_copies() {
#if HINTERLAND_ON_GPU
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

HINTERLAND_FN void await_block() {
#if HINTERLAND_ON_GPU
  __syncthreads();
#else
  Warp::sync();  // a block of one warp
#endif
}

HINTERLAND_FN void add_to(float* to, const Quad& value) {
#if HINTERLAND_ON_GPU && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  atomicAdd(reinterpret_cast<float4*>(to), make_float4(value.at[0], value.at[1], value.at[2], value.at[3]));
#else
  for (int i = 0; i < 4; ++i) atomic_add(to[i], value.at[i]);
#endif
}

// One lane of a worker. A row's vectors are gone through `across * kChunks` at a time, and all partitions for each of these.
template <int kChunks, int kAhead, Loads kLoads>
class MggLane {
 public:
  HINTERLAND_FN MggLane(const MggParams& p, int thread, int threads, Quad* staged)
      : p_(p), from_(p.from), thread_(thread), threads_(threads), staged_(staged) {
    const int lane = thread % static_cast<int>(p.lanes);
    across_ = static_cast<int>(p.across), entries_ = static_cast<int>(p.lanes) / across_;
    entry_ = lane % entries_, column_ = lane / entries_;
    joined_ = min_of(entries_, kWarpLanes), vectors_ = static_cast<int>(p.width / 4);
  }

  // All threads of a block call this together.
  HINTERLAND_FN void operator()(int64_t block, int64_t worker) {
    for (tile_ = 0; tile_ < vectors_; tile_ += across_ * kChunks) {
      if constexpr (kLoads == Loads::kCommon) {
        ask_common(block);
        for (int64_t k = 0; k < p_.dist; ++k) add_local(piece(p_.local, worker * p_.dist + k));
        await_copies();
        await_block();
        for (int64_t k = 0; k < p_.dist; ++k) add_common(piece(p_.remote, (worker - p_.remote_from) * p_.dist + k));
        await_block();
      } else {
        for (int64_t k = 0; k < p_.dist; ++k)
          add_pair(piece(p_.local, worker * p_.dist + k), piece(p_.remote, (worker - p_.remote_from) * p_.dist + k));
      }
    }
  }

 private:
  static constexpr int kLocalAhead = 4;  // local rows under way, as in the library's kernel
  using Sum = fullgraph::Accumulator<float, 4, kChunks, fullgraph::Reduce::kSum>;

  struct Piece {
    int32_t row, begin, end;
  };

  HINTERLAND_FN static Piece piece(const Partitions& of, int64_t number) {
    if (number < 0 || number >= of.count) return {0, 0, 0};
    return {of.rows[number], of.begins[number], of.ends[number]};
  }

  HINTERLAND_FN void add_local(Piece local) const {
    if (local.begin == local.end) return;
    Sum sum;
    add<kLocalAhead>(local, sum);
    give(local.row, sum);
  }

  HINTERLAND_FN void add_pair(Piece local, Piece remote) const {
    const int32_t most = static_cast<int32_t>(p_.depth) * entries_;
    int32_t asked = min_of(remote.end, remote.begin + most);
    if constexpr (kLoads == Loads::kStaged) ask(remote.begin, asked);
    add_local(local);
    if (remote.begin == remote.end) return;
    Sum sum;
    if constexpr (kLoads == Loads::kPlain) {
      add<kAhead>(remote, sum);
    } else {
      for (int32_t begin = remote.begin;;) {
        await_copies();
        add_staged(begin, asked, sum);
        if (asked == remote.end) break;
        begin = asked, asked = min_of(remote.end, begin + most);
        ask(begin, asked);
      }
    }
    give(remote.row, sum);
  }

  // Where the rows of kCount entries are, null behind the end; all their places are asked for before the first is needed.
  template <int kCount>
  HINTERLAND_FN void find(int32_t entry, int32_t end, const float* (&rows)[kCount]) const {
    uint32_t places[kCount];
    HINTERLAND_UNROLLED
    for (int j = 0; j < kCount; ++j) places[j] = entry + j * entries_ < end ? p_.places[entry + j * entries_] : 0;
    HINTERLAND_UNROLLED
    for (int j = 0; j < kCount; ++j) rows[j] = entry + j * entries_ < end ? row(places[j]) : nullptr;
  }

  // The rows of kAtOnce entries are asked for before the first is added.
  template <int kAtOnce>
  HINTERLAND_FN void add(Piece piece, Sum& sum) const {
    HINTERLAND_ROLLED
    for (int32_t entry = piece.begin + entry_; entry < piece.end; entry += kAtOnce * entries_) {
      const float* rows[kAtOnce];
      Quad found[kAtOnce][kChunks] = {};
      find(entry, piece.end, rows);
      for (int j = 0; j < kAtOnce; ++j)
        for (int k = 0; k < kChunks; ++k)
          if (rows[j] != nullptr && has(k)) found[j][k] = fullgraph::load_vector<float, 4>(rows[j] + 4 * vector(k));
      for (int j = 0; j < kAtOnce; ++j)
        for (int k = 0; k < kChunks; ++k) sum.add(k, found[j][k], 1.0f);
    }
  }

  // Each lane asks for what it will add itself, so that lanes need not wait for each other.
  HINTERLAND_FN void ask(int32_t begin, int32_t end) const {
    int slot = 0;
    HINTERLAND_ROLLED
    for (int32_t entry = begin + entry_; entry < end; entry += kLocalAhead * entries_) {
      const float* rows[kLocalAhead];
      find(entry, end, rows);
      for (int j = 0; j < kLocalAhead; ++j, slot += kChunks)
        for (int k = 0; k < kChunks; ++k)
          if (rows[j] != nullptr && has(k)) copy_ahead(staged_ + (slot + k) * threads_ + thread_, rows[j] + 4 * vector(k));
    }
  }

  HINTERLAND_FN void add_staged(int32_t begin, int32_t end, Sum& sum) const {
    int slot = 0;
    for (int32_t entry = begin + entry_; entry < end; entry += entries_, slot += kChunks)
      for (int k = 0; k < kChunks; ++k)
        if (has(k)) sum.add(k, staged_[(slot + k) * threads_ + thread_], 1.0f);
  }

  HINTERLAND_FN void ask_common(int64_t block) const {
    const int64_t first = p_.common_begins[block];
    const int count = static_cast<int>(p_.common_begins[block + 1] - first), at_once = threads_ / across_;
    const int column = thread_ % across_;
    for (int which = thread_ / across_; which < count; which += at_once) {
      const float* const from = row(p_.common[first + which]);
      for (int k = 0; k < kChunks; ++k) {
        const int at = column + k * across_;
        if (tile_ + at < vectors_) copy_ahead(staged_ + which * across_ * kChunks + at, from + 4 * (tile_ + at));
      }
    }
  }

  HINTERLAND_FN void add_common(Piece remote) const {
    if (remote.begin == remote.end) return;
    Sum sum;
    for (int32_t entry = remote.begin + entry_; entry < remote.end; entry += entries_) {
      const Quad* const from = staged_ + p_.slots[entry] * across_ * kChunks + column_;
      for (int k = 0; k < kChunks; ++k)
        if (has(k)) sum.add(k, from[k * across_], 1.0f);
    }
    give(remote.row, sum);
  }

  HINTERLAND_FN void give(int32_t to, Sum& sum) const {
    sum.combine(joined_);
    float* const out = p_.out + to * p_.width;
    for (int k = 0; k < kChunks; ++k)
      if (k % joined_ == entry_ % joined_ && has(k)) add_to(out + 4 * vector(k), sum.chunk(k));
  }

  HINTERLAND_FN const float* row(uint32_t place) const { return from_.template row<float>(place); }
  HINTERLAND_FN int vector(int k) const { return tile_ + column_ + k * across_; }
  HINTERLAND_FN bool has(int k) const { return vector(k) < vectors_; }

  const MggParams& p_;
  const fullgraph::OwnersRows<fullgraph::kRowBits32> from_;
  const int thread_, threads_;
  Quad* const staged_;
  int across_, entries_, entry_, column_, joined_, vectors_, tile_ = 0;
};

}  // namespace hinterland::mgg
