// The names that a text gives its vertices, whatever they are. Any thread asks for the numbers of names while the text is read;
// once it is read, the numbers become those of the names in ascending order, so that they do not depend on who asked first.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/thresholds.hpp"

namespace hinterland::native {

class Names {
  static constexpr int64_t kShards = kNameShards;
  static constexpr size_t kShort = 23;  // bytes of a name that lies in its slot, as all 64-bit numbers do

  // A short name's bytes, padded with zeros, and behind them its length; of a long one its hash and its length, and once it is
  // known where it lies in its shard's text.
  struct Key {
    std::array<uint64_t, 3> words{};
    friend bool operator==(const Key&, const Key&) = default;
    [[nodiscard]] bool is_long() const { return words[2] >> 56 == 0xff; }
    [[nodiscard]] uint64_t hash() const;
  };

 public:
  // Names that are asked for together, which is several times as quick as one by one. Their bytes stay where they are.
  class Batch {
   public:
    // The place of a name in the batch.
    int64_t add(std::string_view name);
    int64_t add(std::string&& name) { return add(std::string_view(made_.emplace_back(std::move(name)))); }
    void clear();

   private:
    friend Names;
    struct Asked {
      Key key;
      uint64_t hash;
      std::string_view name;
    };
    std::vector<Asked> asked_;
    std::deque<std::string> made_;
    std::vector<uint32_t> order_;
    std::vector<int64_t> numbers_;
  };

  // The number of each name of a batch, the same at each call, by its place there. Numbers are not dense: see rank().
  const std::vector<int64_t>& number(Batch& batch);

  [[nodiscard]] int64_t nbytes() const;

  // What the names are, ascending: whole numbers by their value where all are, else texts by their bytes.
  struct Ranked {
    enum class Kind { kSigned, kUnsigned, kText } kind = Kind::kSigned;
    int64_t count = 0;
    std::vector<uint64_t> values{};  // of whole numbers, as bits
    std::string text{};              // texts, with a line end between two of them
  };
  // Called once, behind the last number(): the names, and from now on what final_of() says.
  Ranked rank();

  // The place of the name that number() gave `number`, among all in ascending order.
  [[nodiscard]] int64_t final_of(int64_t number) const { return shards_[number % kShards].ranks[number / kShards]; }

 private:
  struct alignas(32) Slot {
    Key key;
    int64_t number = -1;  // within the shard
  };
  struct Shard {
    std::mutex mutex;
    std::vector<Slot> slots;
    std::string text;  // the long names
    int64_t count = 0;
    std::vector<int64_t> ranks;

    [[nodiscard]] std::string_view name_of(const Key& key) const;
    [[nodiscard]] size_t place_of(uint64_t hash) const { return (hash / kShards) & (slots.size() - 1); }
    int64_t number(const Batch::Asked& asked);
    void grow();
  };
  struct Entry;

  std::vector<Entry> entries() const;

  std::array<Shard, kShards> shards_;
};

}  // namespace hinterland::native
