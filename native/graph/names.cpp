#include "graph/names.hpp"

#include <bit>
#include <charconv>
#include <cstring>
#include <functional>

#include "core/pool.hpp"
#include "core/sort.hpp"
#include "core/thresholds.hpp"

namespace hinterland::native {

namespace {

constexpr uint64_t kSign = uint64_t{1} << 63;

// A whole number of 64 bits as it would be printed, no other way to write it; `value` is its bits.
bool is_whole(std::string_view name, uint64_t& value) {
  const bool negative = name.starts_with('-');
  const std::string_view digits = name.substr(negative ? 1 : 0);
  if (digits.empty() || (digits[0] == '0' && name.size() > 1)) return false;
  int64_t below = 0;
  const auto read = negative ? std::from_chars(name.data(), name.data() + name.size(), below)
                             : std::from_chars(name.data(), name.data() + name.size(), value);
  if (negative) value = static_cast<uint64_t>(below);
  return read.ec == std::errc{} && read.ptr == name.data() + name.size();
}

}  // namespace

// What sorts a name: a number, or the first bytes of a text, and the rest of it where those are the same.
struct Names::Entry {
  uint64_t first;
  std::string_view name;
  int64_t number;
  friend bool operator<(const Entry& a, const Entry& b) { return a.first != b.first ? a.first < b.first : a.name < b.name; }
};

uint64_t Names::Key::hash() const {
  if (is_long()) return words[0];
  uint64_t mixed = 0;
  for (const uint64_t word : words) {
    mixed = (std::rotl(mixed, 29) ^ word) * 0x9e3779b97f4a7c15;
    mixed ^= mixed >> 32;
  }
  return mixed;
}

int64_t Names::Batch::add(std::string_view name) {
  Key key;
  if (name.size() <= kShort) {
    std::memcpy(key.words.data(), name.data(), name.size());
    key.words[2] |= static_cast<uint64_t>(name.size()) << 56;
  } else {
    key.words = {std::hash<std::string_view>{}(name), 0, uint64_t{0xff} << 56 | name.size()};
  }
  asked_.push_back({key, key.hash(), name});
  return static_cast<int64_t>(asked_.size()) - 1;
}

void Names::Batch::clear() {
  asked_.clear();
  made_.clear();
}

std::string_view Names::Shard::name_of(const Key& key) const {
  if (key.is_long()) return std::string_view(text).substr(key.words[1], key.words[2] & 0xffffffff);
  return {reinterpret_cast<const char*>(key.words.data()), key.words[2] >> 56};
}

void Names::Shard::grow() {
  std::vector<Slot> old(std::max<size_t>(16, 2 * slots.size()));
  old.swap(slots);
  for (const Slot& slot : old) {
    if (slot.number < 0) continue;
    size_t at = place_of(slot.key.hash());
    while (slots[at].number >= 0) at = (at + 1) & (slots.size() - 1);
    slots[at] = slot;
  }
}

int64_t Names::Shard::number(const Batch::Asked& asked) {
  if (4 * static_cast<size_t>(count) >= 3 * slots.size()) grow();
  for (size_t at = place_of(asked.hash);; at = (at + 1) & (slots.size() - 1)) {
    Slot& slot = slots[at];
    if (slot.number < 0) {
      slot = {asked.key, count++};
      if (asked.key.is_long()) {
        slot.key.words[1] = text.size();
        text += asked.name;
      }
      return slot.number;
    }
    const bool same = asked.key.is_long()
                          ? slot.key.words[0] == asked.hash && slot.key.is_long() && name_of(slot.key) == asked.name
                          : slot.key == asked.key;
    if (same) return slot.number;
  }
}

const std::vector<int64_t>& Names::number(Batch& batch) {
  // By shards: each is locked once, and what a thread looks up lies in one table.
  std::array<uint32_t, kShards + 1> starts{};
  for (const Batch::Asked& asked : batch.asked_) ++starts[asked.hash % kShards + 1];
  for (int64_t i = 0; i < kShards; ++i) starts[i + 1] += starts[i];
  batch.order_.resize(batch.asked_.size());
  batch.numbers_.resize(batch.asked_.size());
  std::array<uint32_t, kShards + 1> next = starts;
  for (uint32_t i = 0; i < batch.asked_.size(); ++i) batch.order_[next[batch.asked_[i].hash % kShards]++] = i;
  for (int64_t i = 0; i < kShards; ++i) {
    if (starts[i] == starts[i + 1]) continue;
    Shard& shard = shards_[i];
    const std::scoped_lock held(shard.mutex);
    for (uint32_t k = starts[i]; k < starts[i + 1]; ++k) {
      if (k + kNamesAhead < starts[i + 1] && !shard.slots.empty()) {
        __builtin_prefetch(&shard.slots[shard.place_of(batch.asked_[batch.order_[k + kNamesAhead]].hash)]);
      }
      batch.numbers_[batch.order_[k]] = shard.number(batch.asked_[batch.order_[k]]) * kShards + i;
    }
  }
  return batch.numbers_;
}

int64_t Names::nbytes() const {
  int64_t sum = 0;
  for (const Shard& shard : shards_) sum += static_cast<int64_t>(shard.slots.size() * sizeof(Slot) + shard.text.size());
  return sum;
}

std::vector<Names::Entry> Names::entries() const {
  std::vector<Entry> found;
  for (int64_t i = 0; i < kShards; ++i) {
    for (const Slot& slot : shards_[i].slots) {
      if (slot.number >= 0) found.push_back({0, shards_[i].name_of(slot.key), slot.number * kShards + i});
    }
  }
  return found;
}

Names::Ranked Names::rank() {
  std::vector<Entry> all = entries();
  const auto count = static_cast<int64_t>(all.size());
  bool whole = true, negative = false, large = false;
  for (Entry& entry : all) {
    if (!(whole = is_whole(entry.name, entry.first))) break;
    (entry.name.starts_with('-') ? negative : large) |= entry.first >= kSign;
  }
  Ranked ranked{Ranked::Kind::kText, count};
  if (whole && !(negative && large)) ranked.kind = large ? Ranked::Kind::kUnsigned : Ranked::Kind::kSigned;
  parallel_for(count, [&](int64_t i) {
    if (ranked.kind == Ranked::Kind::kSigned) all[i].first ^= kSign;
    if (ranked.kind != Ranked::Kind::kText) return;
    std::array<unsigned char, 8> begin{};
    std::memcpy(begin.data(), all[i].name.data(), std::min<size_t>(all[i].name.size(), begin.size()));
    all[i].first = 0;
    for (const unsigned char byte : begin) all[i].first = all[i].first << 8 | byte;
  });
  parallel_sort(all.data(), all.data() + count);
  for (Shard& shard : shards_) shard.ranks.resize(shard.count);
  for (int64_t i = 0; i < count; ++i) {
    shards_[all[i].number % kShards].ranks[all[i].number / kShards] = i;
    if (ranked.kind != Ranked::Kind::kText) {
      ranked.values.push_back(ranked.kind == Ranked::Kind::kSigned ? all[i].first ^ kSign : all[i].first);
    } else {
      if (i > 0) ranked.text += '\n';
      ranked.text += all[i].name;
    }
  }
  return ranked;
}

}  // namespace hinterland::native
