// Several files or devices as one space of bytes: dealt round by units (BaM's STRIPE), the same in each (its REPLICATE), or one
// after the other, as the files of several arrays lie in one cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace hinterland::native {

inline constexpr uint64_t kNobody = ~uint64_t{0};

// Which of so many copies to read of those that were not asked, a bit for each: that with the least load(copy), and from the
// copy `first` on in turn where all are alike; or kNobody.
template <class Load>
uint64_t choose_copy(uint64_t copies, uint64_t asked, uint64_t first, const Load& load) {
  uint64_t chosen = kNobody;
  for (uint64_t i = 0; i < copies; ++i) {
    const uint64_t copy = (first + i) % copies;
    if ((asked >> copy & 1) == 0 && (chosen == kNobody || load(copy) < load(chosen))) chosen = copy;
  }
  return chosen;
}

class Spread {
 public:
  struct Place {
    uint64_t member, offset;
    uint64_t bytes;  // that follow there before another member's, or the end
  };

  // `sizes`: the bytes of each member, of which there is one at least.
  static Spread striped(std::vector<uint64_t> sizes, uint64_t unit) { return {Kind::kStriped, std::move(sizes), unit}; }
  static Spread copies(std::vector<uint64_t> sizes) { return {Kind::kCopies, std::move(sizes), 0}; }
  // Each begins at a multiple of `unit`.
  static Spread in_a_row(std::vector<uint64_t> sizes, uint64_t unit) { return {Kind::kInARow, std::move(sizes), unit}; }

  // What a member has of `bytes` bytes that are dealt round.
  static uint64_t share(uint64_t members, uint64_t unit, uint64_t bytes, uint64_t member) {
    const uint64_t round = members * unit, begin = std::min(member * unit, bytes % round);
    return bytes / round * unit + std::min(bytes % round - begin, unit);
  }

  // As far as nothing is missing.
  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] uint64_t members() const { return sizes_.size(); }
  [[nodiscard]] uint64_t size(uint64_t member) const { return sizes_[member]; }
  // Where each of those in a row begins.
  [[nodiscard]] const std::vector<uint64_t>& begins() const { return begins_; }
  // Whether each member has all, so that reads go to any and writes to every one.
  [[nodiscard]] bool has_copies() const { return kind_ == Kind::kCopies; }

  // Of a byte of the space; where there are copies, in the first.
  [[nodiscard]] Place place(uint64_t at) const {
    if (kind_ == Kind::kCopies) return {0, at, bytes_ - at};
    if (kind_ == Kind::kStriped) {
      const uint64_t number = at / unit_, within = at % unit_;
      return {number % members(), number / members() * unit_ + within, std::min(unit_ - within, bytes_ - at)};
    }
    const auto after = std::ranges::upper_bound(begins_, at);
    const auto member = static_cast<uint64_t>(after - begins_.begin()) - 1;
    return {member, at - begins_[member], (after == begins_.end() ? bytes_ : *after) - at};
  }

 private:
  enum class Kind { kStriped, kCopies, kInARow };

  Spread(Kind kind, std::vector<uint64_t> sizes, uint64_t unit) : kind_(kind), sizes_(std::move(sizes)), unit_(unit) {
    bytes_ = kind == Kind::kInARow ? 0 : std::numeric_limits<uint64_t>::max();
    for (uint64_t i = 0; i < members(); ++i) {
      switch (kind) {
        case Kind::kCopies: bytes_ = std::min(bytes_, sizes_[i]); break;
        case Kind::kStriped: bytes_ = std::min(bytes_, (sizes_[i] / unit * members() + i) * unit + sizes_[i] % unit); break;
        case Kind::kInARow: begins_.push_back((bytes_ + unit - 1) / unit * unit); bytes_ = begins_.back() + sizes_[i];
      }
    }
  }

  Kind kind_;
  std::vector<uint64_t> sizes_;
  uint64_t unit_, bytes_;
  std::vector<uint64_t> begins_;  // of those in a row
};

}  // namespace hinterland::native
