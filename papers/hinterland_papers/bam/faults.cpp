#include "hinterland_papers/bam/faults.hpp"

#include <algorithm>

namespace hinterland::native {

using storage::kDoNotRetry;
using storage::Opcode;

std::unique_ptr<Backend> FaultyNamespace::open(uint32_t most, std::span<const Region> regions) {
  return std::make_unique<FaultyBackend>(*this, inner_->open(most, regions), seed_++, most);
}

FaultyBackend::FaultyBackend(FaultyNamespace& shared, std::unique_ptr<Backend> inner, uint64_t seed, uint32_t most)
    : shared_(shared),
      faults_(shared.faults_),
      inner_(std::move(inner)),
      random_(seed),
      fates_(most),
      held_(most),
      lost_(most) {}

bool FaultyBackend::try_begin(Request& request, uint64_t now) {
  if (shared_.gone() || held_count_ == held_.size()) return false;
  if (faults_.reorder && draw(32) == 0) return false;  // reads some of what is there, and the rest later
  if (shared_.commands_.fetch_add(1, std::memory_order_relaxed) >= faults_.removed_after) return remove(now), false;
  fates_[request.index] = draw_fate(request, now);
  lost_[request.index] = false;
  held_[held_count_++] = &request;
  return true;
}

FaultyBackend::Fate FaultyBackend::draw_fate(Request& request, uint64_t now) {
  Fate fate{now, storage::kSuccess, false, true};
  unsigned fault = draw(1000);
  const auto meets = [&](unsigned of) { return fault < of ? fault = 1000, true : (fault -= of, false); };
  const uint16_t fatal = request.opcode == Opcode::kRead ? storage::kUnrecoveredReadError : storage::kWriteFault;
  if (meets(faults_.retryable)) fate.status = draw(2) != 0 ? storage::kInternalError : storage::kNamespaceNotReady;
  if (meets(faults_.fatal)) fate.status = fatal | kDoNotRetry;
  if (fate.status != storage::kSuccess) tear(request, fate);
  if (meets(faults_.late)) fate.due += random_() % faults_.late_most;
  if (meets(faults_.lost)) fate.lost = true, fate.moves = draw(2) != 0;
  if (meets(faults_.torn) && request.opcode == Opcode::kWrite) {
    fate.lost = draw(2) != 0;
    fate.status = fatal;
    tear(request, fate);
  }
  return fate;
}

// Leaves some blocks in a row of it, or none.
void FaultyBackend::tear(Request& request, Fate& fate) {
  const auto blocks = static_cast<unsigned>(request.bytes / kBlockBytes);
  const unsigned first = blocks == 0 ? 0 : draw(blocks), count = blocks == 0 ? 0 : draw(blocks - first + 1);
  fate.moves = count > 0;
  if (fate.moves) trim(request, first, count);
}

size_t FaultyBackend::poll(uint64_t now, std::span<Request*> to) {
  if (shared_.gone()) return 0;
  // A device that reorders answers few at a time, so that there are others to choose from.
  for (size_t most = faults_.reorder ? 1 + draw(16) : held_count_; most > 0 && let_go(now); --most) continue;
  inner_->submit();
  for (size_t count = to.size(); count == to.size();) {
    count = inner_->poll(now, to);
    for (size_t i = 0; i < count; ++i) end(*to[i]);
    moving_ -= count;
  }
  size_t ended = 0;
  while (ended < to.size() && over_.first() != nullptr) to[ended++] = over_.pop();
  over_count_ -= ended;
  return ended;
}

// One of those that are due, if there is one; true if it went on its way.
bool FaultyBackend::let_go(uint64_t now) {
  if (held_count_ == 0) return false;
  const auto begin = held_.begin(), end = begin + static_cast<std::ptrdiff_t>(held_count_);
  const auto is_due = [&](const Request* request) { return fates_[request->index].due <= now; };
  const auto chosen = std::find_if(begin + (faults_.reorder ? draw(static_cast<unsigned>(held_count_)) : 0), end, is_due);
  if (chosen == end) return faults_.reorder;
  Request& request = **chosen;
  if (fates_[request.index].moves && !inner_->try_begin(request, now)) return false;
  moving_ += fates_[request.index].moves ? 1 : 0;
  std::copy(chosen + 1, end, chosen);
  --held_count_;
  if (!fates_[request.index].moves) this->end(request);
  return true;
}

void FaultyBackend::end(Request& request) {
  const Fate& fate = fates_[request.index];
  if (fate.lost) {
    lost_[request.index] = true;
    return;
  }
  if (fate.status != storage::kSuccess || !fate.moves) request.status = fate.status;
  over_.push(request);
  ++over_count_;
}

bool FaultyBackend::try_drop(Request& request) {
  if (shared_.gone()) return false;
  const auto begin = held_.begin(), end = begin + static_cast<std::ptrdiff_t>(held_count_);
  const auto found = std::find(begin, end, &request);
  if (found != end) {
    std::copy(found + 1, end, found);
    --held_count_;
    return true;
  }
  if (lost_[request.index]) return lost_[request.index] = false, true;
  if (!inner_->try_drop(request)) return false;
  --moving_;
  return true;
}

// In the midst of what it did.
void FaultyBackend::remove(uint64_t now) {
  if (held_count_ > 0) {
    Request& request = *held_[0];
    tear(request, fates_[request.index]);
    if (fates_[request.index].moves && inner_->try_begin(request, now)) inner_->submit();
    Request* unheard;
    inner_->poll(now, {&unheard, 1});
  }
  shared_.gone_.store(true, std::memory_order_release);
}

}  // namespace hinterland::native
