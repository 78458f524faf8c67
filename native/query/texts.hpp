// Texts of a column as Arrow lays them out, numbered in the order in which they come.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hinterland::native {

// Texts that lie one after another.
struct TextArray {
  const void* offsets;   // [count + 1] of the first text's on, in `bytes`
  int64_t offset_bytes;  // 4 or 8 each
  const char* bytes;
  int64_t count;
  const uint8_t* valid;  // a bit for each that says whether there is one; null where all are
  int64_t valid_at;      // the bit of the first
};

// Texts, each once, and their numbers.
class Texts {
 public:
  int64_t size() const { return static_cast<int64_t>(ends_.size()) - 1; }
  // Of each text the number, which is new or known; 0 where there is none.
  void number(const TextArray& texts, int32_t* numbers);
  // All of them.
  TextArray array() const;

 private:
  struct Slot {
    uint32_t hash = 0;
    int32_t number = -1;
  };

  std::string_view text(int64_t number) const;
  template <class TextOf>
  bool look_up(const TextArray& texts, const TextOf& text_of, int64_t first, int64_t last, int32_t* numbers) const;
  size_t slot_of(std::string_view text, uint64_t hash) const;
  int32_t number_of(std::string_view text);
  void grow();

  std::string bytes_;
  std::vector<int64_t> ends_{0};  // of each text, in `bytes_`; the first entry is where the first one begins
  std::vector<Slot> slots_ = std::vector<Slot>(64);
};

}  // namespace hinterland::native
