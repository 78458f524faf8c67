// Numbers of which few differ, as codes of 16 bits.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

namespace hinterland::native {

// That 16 bits tell apart.
inline constexpr int64_t kMostCodes = 1 << 16;

// Words, each with a code, which is the number of those that came before it.
template <class Word>
class CodedWords {
 public:
  int64_t size() const { return static_cast<int64_t>(words_.size()); }
  const std::vector<Word>& words() const { return words_; }
  // -1 where there is none.
  int32_t find(Word word) const {
    const int64_t slot = slot_of(word);
    return slots_[slot] == word ? codes_[slot] : -1;
  }
  // A word that has none yet.
  void add(Word word);

 private:
  int64_t slot_of(Word word) const;
  void place(Word word, int32_t code);

  // At most a quarter of the slots is taken. Those that are free hold zero, so that zero is found in the first free one on its
  // way, which has its code, or -1.
  std::vector<Word> slots_ = std::vector<Word>(64);
  std::vector<int32_t> codes_ = std::vector<int32_t>(64, -1);
  std::vector<Word> words_;
  int32_t code_of_zero_ = -1;
};

// The codes of a column's values, by their bits.
class Codes {
 public:
  // Of values of 4 or 8 bytes.
  explicit Codes(int64_t bytes);
  int64_t size() const;
  // Has the codes of `count` values written. False where the column has more different ones than codes, or where the values
  // change meanwhile, as those of a mapped file may; codes of values that came before stay as they are, and these have none
  // that is of any use.
  bool add(const void* values, int64_t count, uint16_t* codes);
  // The value of each code.
  void copy_to(void* values) const;

 private:
  std::variant<CodedWords<uint32_t>, CodedWords<uint64_t>> known_;
};

}  // namespace hinterland::native
