#include "query/texts.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "core/pool.hpp"
#include "core/thresholds.hpp"
#include "hinterland/query/column.hpp"
#include "query/mixed.hpp"

namespace hinterland::native {

namespace {

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

// Whether two texts are the same; short ones are not worth a call of memcmp.
bool same(std::string_view one, std::string_view other) {
  const size_t size = one.size();
  if (size != other.size()) return false;
  const auto word = [](const char* at) {
    uint64_t found;
    std::memcpy(&found, at, sizeof(found));
    return found;
  };
  if (size < sizeof(uint64_t) || size > 2 * sizeof(uint64_t)) return one == other;
  const size_t last = size - sizeof(uint64_t);
  return word(one.data()) == word(other.data()) && word(one.data() + last) == word(other.data() + last);
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

std::string_view Texts::text(int64_t number) const {
  return std::string_view(bytes_).substr(ends_[number], ends_[number + 1] - ends_[number]);
}

// Threads look for texts that are known, and those that are new are numbered one after the other: at first these are nearly
// all.
void Texts::number(const TextArray& texts, int32_t* numbers) {
  with_texts(texts, [&](const auto& text_of) {
    for (int64_t begin = 0, end; begin < texts.count; begin = end) {
      end = std::min(texts.count, begin + (begin == 0 ? kTextsOfThread : kTextsOfRound));
      std::atomic<bool> any_new{false};
      parallel_tasks((end - begin + kTextsOfThread - 1) / kTextsOfThread, [&](int64_t task, int64_t) {
        const int64_t first = begin + task * kTextsOfThread;
        if (look_up(texts, text_of, first, std::min(end, first + kTextsOfThread), numbers)) any_new = true;
      });
      for (int64_t i = begin; any_new && i < end; ++i) {
        if (numbers[i] < 0) numbers[i] = number_of(text_of(i));
      }
    }
  });
}

// Of texts [first, last) the number, -1 where it is new. Returns whether any is.
template <class TextOf>
bool Texts::look_up(const TextArray& texts, const TextOf& text_of, int64_t first, int64_t last, int32_t* numbers) const {
  std::array<uint64_t, kTextsAhead> hashes;
  bool any_new = false;
  for (int64_t begin = first; begin < last; begin += kTextsAhead) {
    const int64_t end = std::min(last, begin + kTextsAhead);
    for (int64_t i = begin; i < end; ++i) {
      hashes[i - begin] = hash_of(text_of(i));
      __builtin_prefetch(&slots_[hashes[i - begin] & (slots_.size() - 1)]);
    }
    for (int64_t i = begin; i < end; ++i) {
      const bool there = texts.valid == nullptr || query::bit_at(texts.valid, texts.valid_at + i);
      numbers[i] = there ? slots_[slot_of(text_of(i), hashes[i - begin])].number : 0;
      any_new |= numbers[i] < 0;
    }
  }
  return any_new;
}

// The slot that has a text, or that is free for it.
size_t Texts::slot_of(std::string_view wanted, uint64_t hash) const {
  const auto high = static_cast<uint32_t>(hash >> 32);
  for (size_t at = hash;; ++at) {
    const Slot& slot = slots_[at & (slots_.size() - 1)];
    if (slot.number < 0 || (slot.hash == high && same(text(slot.number), wanted))) return at & (slots_.size() - 1);
  }
}

int32_t Texts::number_of(std::string_view wanted) {
  const uint64_t hash = hash_of(wanted);
  const size_t slot = slot_of(wanted, hash);
  if (slots_[slot].number >= 0) return slots_[slot].number;
  const auto number = static_cast<int32_t>(size());
  if (number == std::numeric_limits<int32_t>::max()) throw std::length_error("a column of 2^31 different texts");
  bytes_.append(wanted);
  ends_.push_back(static_cast<int64_t>(bytes_.size()));
  slots_[slot] = {static_cast<uint32_t>(hash >> 32), number};
  if (2 * static_cast<size_t>(size()) > slots_.size()) grow();
  return number;
}

void Texts::grow() {
  slots_.assign(2 * slots_.size(), {});
  for (int32_t number = 0; number < size(); ++number) {
    const uint64_t hash = hash_of(text(number));
    slots_[slot_of(text(number), hash)] = {static_cast<uint32_t>(hash >> 32), number};
  }
}

TextArray Texts::array() const { return {ends_.data(), sizeof(int64_t), bytes_.data(), size(), nullptr, 0}; }

}  // namespace hinterland::native
