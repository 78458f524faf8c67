// A reference to an array that keeps the line in which its last element lay (BaM's array_ref, Mailthody 2022, section 5.3.3 and
// listing 5.3). As long as elements lie there, nothing is looked up, and each is read or written as in memory:
//
//   array_ref ref(&data);         of a thread
//   for (int64_t i = begin; i < end; ++i) sum += ref[i];
//
//   warp_ref ref(&data);          of a warp, whose lanes make it, use it and end it together
//   for (int64_t i = begin; i < end; i += 4 * ref.kWidth) ref.read(i, own);   // own[k] = data[i + k * ref.kWidth + ref.lane()]
//
// A line is held until the reference moves to another one, or ends. (BaM's threads wait while they hold lines, which would hang
// where they want more lines than there are. Here a set of the cache lets half of its lines be kept (Cache::may_keep); who may
// keep none reads and writes as the array does.) Of an array in memory a reference has all, and holds nothing.
#pragma once

#include "hinterland/core/alone.hpp"
#include "hinterland/core/warp.hpp"
#include "hinterland/kernels/array.hpp"

namespace hinterland::kernels {

template <class T, class Lanes = Alone>
class array_ref {
  using Element = stdlib::remove_const_t<T>;

 public:
  HINTERLAND_FN array_ref(const array<T>* of) : array_ref(*of) {}
  HINTERLAND_FN array_ref(const array<T>& of) : of_(of) {
    if (of.words().kind == HINTERLAND_NEAR) line_ = static_cast<Element*>(of.words().home), count_ = of.size();
  }
  array_ref(const array_ref&) = delete;
  HINTERLAND_FN ~array_ref() { let_go(); }

  HINTERLAND_FN decltype(auto) operator[](int64_t at) {
    if constexpr (stdlib::is_same_v<T, Element>)
      return Assigned<array_ref, Computed<Element>>(*this, at);
    else
      return read(at);
  }

  HINTERLAND_FN Element read(int64_t at) {
    if (!has(at) && !moves_to(at)) return of_.read(at);
    ++used_;
    return line_[at - first_];
  }

  HINTERLAND_FN void write(int64_t at, Element value) {
    if (!has(at) && !moves_to(at)) return of_.write(at, value);
    line_[at - first_] = value;
    ++used_, wrote_ = true;
  }

  // Whether an element, or those of all lanes, lie in what is kept.
  HINTERLAND_FN bool has(int64_t at) const {
    return !Lanes::any(static_cast<uint64_t>(at) - static_cast<uint64_t>(first_) >= static_cast<uint64_t>(count_));
  }

 protected:
  // Whether the line of an element, of the last lane's, is kept since now, and all lie there. If it is not in the cache yet, the
  // next access finds it.
  HINTERLAND_FN bool moves_to([[maybe_unused]] int64_t at) {
#if HINTERLAND_ARRAY_KINDS & HINTERLAND_STORED
    if (of_.words().kind != HINTERLAND_STORED) return false;
    let_go();
    const int64_t last = Lanes::broadcast(at, Lanes::kWidth - 1);
    if (!of_.has(last)) return false;
    storage::HeldLine held;
    if (Lanes::lane() == 0) held = of_.lines().keep(of_.position(last));
    slot_ = Lanes::broadcast(held.slot, 0);
    if (slot_ < 0) return false;
    const auto home = static_cast<int64_t>(of_.position(0));
    const int64_t first = static_cast<int64_t>(Lanes::broadcast(held.first, 0)) - home;  // in bytes, from the array's first
    const uint64_t memory = Lanes::broadcast(reinterpret_cast<uint64_t>(held.memory), 0);
    first_ = max_of(first, int64_t{0}) / static_cast<int64_t>(sizeof(T));
    line_ = reinterpret_cast<Element*>(memory + static_cast<uint64_t>(max_of(-first, int64_t{0})));
    count_ = min_of(of_.size(), first / static_cast<int64_t>(sizeof(T)) + of_.words().row_elements) - first_;
    Lanes::sync();  // who holds the line has seen that it is there
    return has(at);
#else
    return false;
#endif
  }

  HINTERLAND_FN void let_go() {
#if HINTERLAND_ARRAY_KINDS & HINTERLAND_STORED
    if (slot_ < 0) return;
    Lanes::sync();  // all have been in it
    const bool wrote = Lanes::any(wrote_);
    if (Lanes::lane() == 0) of_.lines().let_go(slot_, wrote, sizeof(T), uint64_t{used_} * Lanes::kWidth);
    slot_ = -1, count_ = 0, used_ = 0, wrote_ = false;
#endif
  }

  array<T> of_;
  Element* line_ = nullptr;  // elements [first_, first_ + count_)
  int64_t first_ = 0, count_ = 0;
  uint32_t used_ = 0;  // elements that a lane has read or written there

 private:
  int64_t slot_ = -1;
  bool wrote_ = false;
};

template <class T>
class warp_ref : public array_ref<T, Warp> {
  using Base = array_ref<T, Warp>;
  using Element = stdlib::remove_const_t<T>;

 public:
  static constexpr int kWidth = Warp::kWidth;  // lanes: 1 on a CPU

  HINTERLAND_FN warp_ref(const array<T>* of) : Base(*of) {}
  HINTERLAND_FN warp_ref(const array<T>& of) : Base(of) {}
  HINTERLAND_FN static int lane() { return Warp::lane(); }

  using Base::read;
  // to[k] becomes this lane's of the elements from first + k * kWidth on; T{} where the array has none.
  template <int kCount>
  HINTERLAND_FN void read(int64_t first, stdlib::remove_const_t<T> (&to)[kCount]) {
    const int64_t own = first + lane(), last = own + (kCount - 1) * kWidth;
    if ((this->has(last) || this->moves_to(last)) && this->has(own)) {
      HINTERLAND_UNROLLED
      for (int k = 0; k < kCount; ++k) to[k] = this->line_[own + k * kWidth - this->first_];
      this->used_ += kCount;
      return;
    }
    HINTERLAND_UNROLLED
    for (int k = 0; k < kCount; ++k) {
      const int64_t at = own + k * kWidth, last = this->of_.size() - 1;
      const Element there = last < 0 ? Element{} : this->of_.read(max_of(int64_t{0}, min_of(at, last)));  // by all lanes
      to[k] = this->of_.has(at) ? there : Element{};
    }
  }
};

// Reads elements of a run in order, for a lane alone, and asks for the lines that follow before they are wanted.
template <class T>
class run_reader {
 public:
  HINTERLAND_FN run_reader(const array<T>& of, int64_t begin, int64_t end) : of_(of), ref_(of), end_(end), asked_(begin) {}

  HINTERLAND_FN stdlib::remove_const_t<T> operator[](int64_t at) {
    if (!ref_.has(at) && of_.has(at)) look_ahead(at);
    return ref_.read(at);
  }

 private:
  static constexpr int64_t kLinesAhead = 8;

  // Half of them at a time.
  HINTERLAND_FN void look_ahead(int64_t at) {
    const int64_t line = of_.words().row_elements, ahead = min_of(end_, at + kLinesAhead * line);
    asked_ = max_of(asked_, at);
    if (ahead - asked_ < kLinesAhead / 2 * line && ahead < end_) return;
    of_.prefetch(asked_, ahead - asked_);
    asked_ = max_of(asked_, ahead);
  }

  array<T> of_;
  array_ref<T> ref_;
  int64_t end_, asked_;  // all of the run before `asked_` was asked for
};

}  // namespace hinterland::kernels
