#include "query/coded.hpp"

#include <algorithm>
#include <atomic>
#include <random>

#include "core/pool.hpp"
#include "core/thresholds.hpp"
#include "query/mixed.hpp"

namespace hinterland::native {

namespace {

// Of each process its own, so that nobody can choose values that all take one slot.
const uint64_t kSeed = std::random_device{}();

// Those of a piece's values that are known are coded, others are added to `fresh`. Whether all were known; else all are coded
// again.
template <class Word>
bool encode(const CodedWords<Word>& known, const Word* values, int64_t count, uint16_t* codes, CodedWords<Word>& fresh) {
  bool all = true;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t code = known.find(values[i]);
    codes[i] = static_cast<uint16_t>(code);
    if (code >= 0) continue;
    all = false;
    if (fresh.find(values[i]) < 0) fresh.add(values[i]);
  }
  return all;
}

template <class Word>
bool add_all(CodedWords<Word>& known, const Word* values, int64_t count, uint16_t* codes) {
  const int64_t pieces = (count + kValuesCoded - 1) / kValuesCoded;
  std::vector<CodedWords<Word>> fresh(num_threads());
  std::vector<uint8_t> done(pieces);
  std::atomic<bool> too_many{false};
  const auto encode_rest = [&] {
    parallel_tasks(pieces, [&](int64_t piece, int64_t thread) {
      if (done[piece] != 0 || too_many.load(std::memory_order_relaxed)) return;
      const int64_t first = piece * kValuesCoded;
      done[piece] = encode(known, values + first, std::min(kValuesCoded, count - first), codes + first, fresh[thread]) ? 1 : 0;
      if (fresh[thread].size() > kMostCodes) too_many = true;
    });
  };
  encode_rest();
  for (const CodedWords<Word>& some : fresh) {
    for (const Word word : some.words()) {
      if (too_many || known.find(word) >= 0) continue;
      too_many = known.size() == kMostCodes;
      if (!too_many) known.add(word);
    }
  }
  if (too_many) return false;
  encode_rest();
  return std::ranges::all_of(done, [](uint8_t one) { return one != 0; });  // or what is coded changes meanwhile
}

}  // namespace

template <class Word>
int64_t CodedWords<Word>::slot_of(Word word) const {
  const int64_t last = static_cast<int64_t>(slots_.size()) - 1;
  int64_t slot = static_cast<int64_t>(mixed(kSeed, word)) & last;
  while (slots_[slot] != word && slots_[slot] != 0) slot = (slot + 1) & last;
  return slot;
}

template <class Word>
void CodedWords<Word>::place(Word word, int32_t code) {
  const int64_t slot = slot_of(word);
  slots_[slot] = word;
  codes_[slot] = code;
}

template <class Word>
void CodedWords<Word>::add(Word word) {
  const auto code = static_cast<int32_t>(words_.size());
  words_.push_back(word);
  if (word == 0) {
    code_of_zero_ = code;
  } else if (4 * words_.size() <= slots_.size()) {
    place(word, code);
  } else {
    const size_t slots = 2 * slots_.size();
    slots_.assign(slots, 0);
    codes_.assign(slots, -1);
    for (size_t i = 0; i < words_.size(); ++i) {
      if (words_[i] != 0) place(words_[i], static_cast<int32_t>(i));
    }
  }
  codes_[slot_of(0)] = code_of_zero_;
}

Codes::Codes(int64_t bytes) {
  if (bytes == sizeof(uint64_t)) known_.emplace<CodedWords<uint64_t>>();
}

int64_t Codes::size() const {
  return std::visit([](const auto& known) { return known.size(); }, known_);
}

bool Codes::add(const void* values, int64_t count, uint16_t* codes) {
  return std::visit(
      [&]<class Word>(CodedWords<Word>& known) { return add_all(known, static_cast<const Word*>(values), count, codes); },
      known_);
}

void Codes::copy_to(void* values) const {
  std::visit(
      [&]<class Word>(const CodedWords<Word>& known) {
        std::copy(known.words().begin(), known.words().end(), static_cast<Word*>(values));
      },
      known_);
}

}  // namespace hinterland::native
