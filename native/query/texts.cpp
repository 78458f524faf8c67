#include "query/texts.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "core/parallel.hpp"
#include "hinterland/query/predicate.hpp"
#include "query/mixed.hpp"

namespace hinterland::native {

namespace {

constexpr int64_t kAtOnce = 4096;  // texts that a thread judges: chosen, not measured
constexpr int64_t kAhead = 64;     // texts whose slots are fetched before the first of them is looked for: chosen, not measured

// do_it(text_of), by the width of the offsets; text_of(i) is text i.
template <class Do>
void with_texts(const TextArray& texts, const Do& do_it) {
  const auto of = [&]<class Offset>(const Offset* offsets) {
    do_it([&texts, offsets](int64_t i) {
      return std::string_view(texts.bytes + offsets[i], static_cast<size_t>(offsets[i + 1] - offsets[i]));
    });
  };
  if (texts.offset_bytes == sizeof(int32_t)) return of(static_cast<const int32_t*>(texts.offsets));
  of(static_cast<const int64_t*>(texts.offsets));
}

bool holds(const TextTest& test, std::string_view literal, std::string_view text) {
  const bool only_equal = (test.orders & (query::kLess | query::kGreater)) == 0;
  if (only_equal && text.size() != literal.size()) return false;
  const int order = text.compare(literal);
  return (test.orders & (order < 0 ? query::kLess : order > 0 ? query::kGreater : query::kEqual)) != 0;
}

uint64_t hash_of(std::string_view text) {
  uint64_t hash = text.size(), word;
  for (; text.size() >= sizeof(word); text.remove_prefix(sizeof(word))) {
    std::memcpy(&word, text.data(), sizeof(word));
    hash = mixed(hash, word);
  }
  word = 0;
  if (!text.empty()) std::memcpy(&word, text.data(), text.size());
  return mixed(hash, word);
}

}  // namespace

void judge_texts(const TextArray& texts, const TextTest* tests, int64_t tested, int32_t* judged) {
  with_texts(texts, [&](const auto& text_of) {
    parallel_tasks((texts.count + kAtOnce - 1) / kAtOnce, [&](int64_t task, int64_t) {
      const int64_t begin = task * kAtOnce, end = std::min(texts.count, begin + kAtOnce);
      std::fill(judged + begin, judged + end, 0);
      for (int64_t t = 0; t < tested; ++t) {
        const std::string_view literal(tests[t].literal, static_cast<size_t>(tests[t].size));
        for (int64_t i = begin; i < end; ++i)
          judged[i] |= static_cast<int32_t>(holds(tests[t], literal, text_of(i))) << t;
      }
    });
  });
}

std::string_view Texts::text(int64_t number) const {
  return std::string_view(bytes_).substr(ends_[number], ends_[number + 1] - ends_[number]);
}

void Texts::number(const TextArray& texts, int32_t* numbers) {
  with_texts(texts, [&](const auto& text_of) {
    std::array<uint64_t, kAhead> hashes;
    for (int64_t begin = 0; begin < texts.count; begin += kAhead) {
      const int64_t count = std::min(kAhead, texts.count - begin);
      for (int64_t i = 0; i < count; ++i) {
        hashes[i] = hash_of(text_of(begin + i));
        __builtin_prefetch(&slots_[hashes[i] & (slots_.size() - 1)]);
      }
      for (int64_t i = 0; i < count; ++i) {
        const bool there = texts.valid == nullptr || query::bit_at(texts.valid, texts.valid_at + begin + i);
        numbers[begin + i] = there ? number_of(text_of(begin + i), hashes[i]) : 0;
      }
    }
  });
}

int32_t Texts::number_of(std::string_view wanted, uint64_t hash) {
  const auto high = static_cast<uint32_t>(hash >> 32);
  for (size_t at = hash;; ++at) {
    Slot& slot = slots_[at & (slots_.size() - 1)];
    if (slot.number < 0) {
      if (size() == std::numeric_limits<int32_t>::max()) throw std::length_error("a column of 2^31 different texts");
      bytes_.append(wanted);
      ends_.push_back(static_cast<int64_t>(bytes_.size()));
      slot = {high, static_cast<int32_t>(size() - 1)};
      const int32_t found = slot.number;
      if (2 * static_cast<size_t>(size()) > slots_.size()) grow();
      return found;
    }
    if (slot.hash == high && text(slot.number) == wanted) return slot.number;
  }
}

void Texts::grow() {
  std::vector<Slot> larger(4 * slots_.size());
  for (int32_t number = 0; number < size(); ++number) {
    const uint64_t hash = hash_of(text(number));
    size_t at = hash;
    while (larger[at & (larger.size() - 1)].number >= 0) ++at;
    larger[at & (larger.size() - 1)] = {static_cast<uint32_t>(hash >> 32), number};
  }
  slots_ = std::move(larger);
}

TextArray Texts::array() const { return {ends_.data(), sizeof(int64_t), bytes_.data(), size(), nullptr, 0}; }

}  // namespace hinterland::native
