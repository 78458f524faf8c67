#include "storage/spread_namespace.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace hinterland::native {

using storage::kDoNotRetry;
using storage::Opcode;

namespace {

constexpr uint64_t kMostCopies = 64;  // a bit for each

std::vector<uint64_t> sizes_of(const Namespaces& members, uint64_t base) {
  if (members.empty()) throw std::invalid_argument("nothing is spread over no member; give at least one");
  std::vector<uint64_t> sizes;
  for (const auto& member : members) {
    const uint64_t bytes = member->blocks() * kBlockBytes;
    sizes.push_back(bytes - std::min(bytes, base));
  }
  return sizes;
}

}  // namespace

std::shared_ptr<SpreadNamespace> SpreadNamespace::of(Namespaces members, uint64_t unit, uint64_t base) {
  std::vector<uint64_t> sizes = sizes_of(members, base);
  if (unit % kBlockBytes != 0 || base % kBlockBytes != 0)
    throw std::invalid_argument("stripes and what lies before them are whole blocks of 512 bytes");
  if (unit == 0 && members.size() > kMostCopies) throw std::invalid_argument("there are more than 64 copies; give fewer");
  Spread spread = unit == 0 ? Spread::copies(std::move(sizes)) : Spread::striped(std::move(sizes), unit);
  return std::make_shared<SpreadNamespace>(std::move(members), std::move(spread), base);
}

std::shared_ptr<SpreadNamespace> SpreadNamespace::in_a_row(Namespaces members) {
  Spread spread = Spread::in_a_row(sizes_of(members, 0), kMostLine);
  return std::make_shared<SpreadNamespace>(std::move(members), std::move(spread), 0);
}

std::unique_ptr<Backend> SpreadNamespace::open(uint32_t most, std::span<const Region> regions) {
  return std::make_unique<SpreadBackend>(*this, most, regions);
}

bool SpreadNamespace::gone() const {
  const auto is_gone = [](const auto& member) { return member->gone(); };
  return spread_.has_copies() ? std::ranges::all_of(members_, is_gone) : std::ranges::any_of(members_, is_gone);
}

SpreadBackend::SpreadBackend(SpreadNamespace& shared, uint32_t most, std::span<const Region> regions)
    : shared_(shared), spread_(shared.spread_), parts_(most + spread_.members()) {
  const auto count = static_cast<uint32_t>(parts_.size());
  for (uint32_t i = count; i > 0; --i) free_.push_back(i - 1);
  again_.reserve(count);
  for (const auto& member : shared_.members_) members_.push_back(member->open(count, regions));
}

bool SpreadBackend::goes_everywhere(const Request& whole) const {
  return whole.opcode == Opcode::kFlush || (whole.opcode == Opcode::kWrite && spread_.has_copies());
}

bool SpreadBackend::try_begin(Request& request, uint64_t now) {
  if (unfinished_ != nullptr) return false;
  now_ = now;
  request.status = storage::kSuccess;
  request.parts = 1;  // that all of it is begun counts as one
  request.run = 0;
  request.done = 0;
  if (!begin_rest(request)) unfinished_ = &request;
  return true;
}

// Begins what has not been begun of a request, as far as there is room; true if that was all.
bool SpreadBackend::begin_rest(Request& whole) {
  if (goes_everywhere(whole)) {
    for (; whole.run < members_.size(); ++whole.run)
      if (!begin_part(whole, {whole.run, whole.offset, whole.bytes})) return false;
  }
  while (!goes_everywhere(whole) && whole.done < whole.bytes) {
    Spread::Place place = spread_.place(whole.offset + whole.done);
    place.bytes = std::min(place.bytes, whole.bytes - whole.done);
    if (spread_.has_copies()) place.member = choose_copy(0);
    if (!begin_part(whole, place)) return false;
    whole.done += place.bytes;
  }
  finish_part(whole);
  return true;
}

bool SpreadBackend::begin_part(Request& whole, const Spread::Place& place) {
  const bool is_there = place.member < members_.size() && members_[place.member] != nullptr;
  if (!is_there || place.offset + place.bytes > spread_.size(place.member)) {
    fail(whole, (is_there ? storage::kOutOfRange : storage::kInternalError) | kDoNotRetry);
    return true;
  }
  if (free_.empty()) return false;
  Part& part = parts_[free_.back()];
  part.first = goes_everywhere(whole) ? 0 : whole.done;
  part.bytes = place.bytes;
  part.offset = shared_.base_ + place.offset;
  part.member = place.member;
  part.asked = 0;
  part.whole = &whole;
  if (!begin(part)) {
    part.whole = nullptr;
    return false;
  }
  free_.pop_back();
  ++whole.parts;
  return true;
}

bool SpreadBackend::begin(Part& part) {
  part.request = *part.whole;
  part.request.index = static_cast<uint32_t>(&part - parts_.data());
  if (part.request.opcode != Opcode::kFlush) trim(part.request, part.first / kBlockBytes, part.bytes / kBlockBytes);
  part.request.offset = part.offset;
  return members_[part.member]->try_begin(part.request, now_);
}

void SpreadBackend::end_part(Part& part, uint16_t status) {
  if (status != storage::kSuccess && spread_.has_copies() && part.request.opcode == Opcode::kRead) {
    shared_.failed_[part.member].fetch_add(1, std::memory_order_relaxed);
    part.asked |= uint64_t{1} << part.member;
    part.member = kNobody;
    part.request.status = status;
    again_.push_back(part.request.index);
    return;
  }
  Request& whole = *std::exchange(part.whole, nullptr);
  free_.push_back(part.request.index);
  if (status != storage::kSuccess) fail(whole, status);
  finish_part(whole);
}

void SpreadBackend::finish_part(Request& whole) {
  if (--whole.parts != 0) return;
  ended_.push(whole);
  ++ended_count_;
}

// Reads that a copy has failed go to another; one that all have failed has failed.
void SpreadBackend::ask_others() {
  size_t left = 0;
  for (const uint32_t index : again_) {
    Part& part = parts_[index];
    part.member = choose_copy(part.asked);
    const uint16_t status = part.request.status;
    if (part.member == kNobody) {
      Request& whole = *std::exchange(part.whole, nullptr);
      free_.push_back(index);
      fail(whole, status);
      finish_part(whole);
    } else if (!begin(part)) {
      part.member = kNobody;
      part.request.status = status;
      again_[left++] = index;
    }
  }
  again_.resize(left);
}

// The one that has failed least, and among those the one with the fewest in flight.
uint64_t SpreadBackend::choose_copy(uint64_t asked) const {
  return native::choose_copy(members_.size(), asked | gone_, 0, [&](uint64_t i) {
    return std::pair(shared_.failed_[i].load(std::memory_order_relaxed), members_[i]->in_flight());
  });
}

// A copy that was removed answers nothing any more. What it had is given up before others are asked: it must not arrive later.
void SpreadBackend::leave_gone() {
  for (uint64_t i = 0; spread_.has_copies() && i < members_.size(); ++i) {
    if (members_[i] == nullptr || !shared_.members_[i]->gone()) continue;
    members_[i].reset();
    gone_ |= uint64_t{1} << i;
    shared_.failed_[i].fetch_add(1, std::memory_order_relaxed);  // whether it had anything or not
    for (Part& part : parts_)
      if (part.whole != nullptr && part.member == i) end_part(part, storage::kInternalError | kDoNotRetry);
  }
}

void SpreadBackend::submit() {
  for (const auto& member : members_)
    if (member != nullptr) member->submit();
}

size_t SpreadBackend::poll(uint64_t now, std::span<Request*> to) {
  now_ = now;
  leave_gone();
  std::array<Request*, 64> over;
  for (const auto& member : members_)
    for (size_t count = member == nullptr ? 0 : over.size(); count == over.size();) {
      count = member->poll(now, over);
      for (size_t i = 0; i < count; ++i) end_part(parts_[over[i]->index], over[i]->status);
    }
  const bool begins = !again_.empty() || unfinished_ != nullptr;
  ask_others();
  if (unfinished_ != nullptr && begin_rest(*unfinished_)) unfinished_ = nullptr;
  if (begins) submit();
  size_t ended = 0;
  for (; ended < to.size() && ended_.first() != nullptr; ++ended) to[ended] = ended_.pop();
  ended_count_ -= ended;
  return ended;
}

// If only some of its parts can be dropped, the others end, and with them a request that was not done.
bool SpreadBackend::try_drop(Request& request) {
  const uint32_t before = request.parts;
  if (unfinished_ == &request) unfinished_ = nullptr, --request.parts;
  for (Part& part : parts_) {
    if (part.whole != &request) continue;
    if (part.member != kNobody && !members_[part.member]->try_drop(part.request)) continue;
    if (part.member == kNobody) std::erase(again_, part.request.index);
    part.whole = nullptr;
    free_.push_back(part.request.index);
    --request.parts;
  }
  if (request.parts == before) return false;
  if (request.parts != 0) fail(request, storage::kAbortRequested | kDoNotRetry);
  return request.parts == 0;
}

size_t SpreadBackend::in_flight() const {
  size_t count = ended_count_ + again_.size() + (unfinished_ == nullptr ? 0 : 1);
  for (const auto& member : members_) count += member == nullptr ? 0 : member->in_flight();
  return count;
}

// In the first that has something to wait for, but not for long where others have.
void SpreadBackend::wait(uint64_t now, uint64_t most) {
  const auto waits = [](const auto& member) { return member != nullptr && member->in_flight() != 0; };
  const auto first = std::ranges::find_if(members_, waits);
  if (first != members_.end()) (*first)->wait(now, most / static_cast<uint64_t>(std::ranges::count_if(members_, waits)));
}

}  // namespace hinterland::native
