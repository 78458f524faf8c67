#include "storage/serving.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "hinterland/core/system.hpp"

namespace hinterland::native {

namespace {

// Commands in flight: for more a host has no room in its completion ring. If it does not know, other queues do not suffer.
uint32_t most_of(const QueueView& view) { return view.completion_size - 1; }

}  // namespace

Serving::Serving(const std::vector<NumberedQueue>& queues, std::vector<Region> regions, Namespace& blocks)
    : regions_(std::move(regions)), namespace_(blocks) {
  for (const NumberedQueue& queue : queues) {
    queues_.push_back({queue.view, queue.number});
    request_count_ += most_of(queue.view);
  }
  requests_ = std::make_unique_for_overwrite<Request[]>(request_count_);
  if (stages_) picked_up_.reserve(request_count_);
  backend_ = namespace_.open(request_count_, regions_);
}

bool Serving::turn(uint64_t now) {
  ++stats_.turns;
  bool any = false;
  const auto count = static_cast<uint32_t>(queues_.size());
  for (uint32_t i = 0; i < count; ++i) any |= pick_up((first_ + i) % count, now);
  first_ = (first_ + 1) % count;
  if (any) backend_->submit();
  if (stages_) {
    const uint64_t submitted = stage_clock();
    for (Request* const request : picked_up_) request->submitted = submitted;
    picked_up_.clear();
  }
  if (namespace_.gone()) return false;
  any |= collect(now);
  for (Queue& queue : queues_) any |= post(queue);
  return any;
}

// A place for a request, of which there are enough. The one that was left last comes first, and those that are never used never
// become memory.
Request* Serving::free_place() {
  if (free_ != nullptr) return free_;
  Request& request = requests_[used_];
  request.index = used_++;
  request.taken = false;
  request.next = nullptr;
  return free_ = &request;
}

void Serving::leave(Request& request) {
  request.taken = false;
  --queues_[request.queue].taken;
  request.next = std::exchange(free_, &request);
}

bool Serving::pick_up(uint32_t at, uint64_t now) {
  Queue& queue = queues_[at];
  const uint32_t mask = queue.view.submission_size - 1;
  const uint32_t tail = system_load_acquire(*queue.view.submission_doorbell);
  ++stats_.doorbell_looks;
  if (tail > mask || namespace_.gone()) return false;
  const uint64_t first = queue.read, picked_up = stage_clock();
  for (; (queue.read & mask) != tail && queue.taken < most_of(queue.view); ++queue.read) {
    Request& request = *free_place();
    request.entry = queue.view.submissions[queue.read & mask];
    request.queue = at;
    request.status = decode(request, namespace_.blocks(), regions_);
    Request* const next = request.next;
    if (request.status != storage::kSuccess)
      queue.ended.push(request);
    else if (!backend_->try_begin(request, now))
      break;
    free_ = next;
    request.taken = true;
    ++queue.taken;
    if (!stages_) continue;
    request.picked_up = request.submitted = request.ended = picked_up;
    picked_up_.push_back(&request);
  }
  return queue.read != first;
}

bool Serving::collect(uint64_t now) {
  std::array<Request*, 64> ended;
  bool any = false;
  for (size_t count = ended.size(); count == ended.size();) {
    count = backend_->poll(now, ended);
    const uint64_t end = stage_clock();
    for (size_t i = 0; i < count; ++i) {
      if (stages_) ended[i]->ended = end;
      queues_[ended[i]->queue].ended.push(*ended[i]);
    }
    any |= count > 0;
  }
  return any;
}

bool Serving::post(Queue& queue) {
  bool any = false;
  while (queue.ended.first() != nullptr && has_room(queue)) {
    complete(queue, *queue.ended.pop());
    any = true;
  }
  return any;
}

// A completion ring is full when one entry is left. The doorbell is looked at when it seems so.
bool Serving::has_room(Queue& queue) {
  const uint32_t mask = queue.view.completion_size - 1, next = static_cast<uint32_t>(queue.posted + 1) & mask;
  if (next != queue.host_head) return true;
  const uint32_t head = system_load_acquire(*queue.view.completion_doorbell);
  ++stats_.doorbell_looks;
  if (head <= mask) queue.host_head = head;
  return next != queue.host_head;
}

// The last word is written last: with it the entry is there, and what was read.
void Serving::complete(Queue& queue, Request& request) {
  const QueueView& view = queue.view;
  storage::CompletionEntry& entry = view.completions[queue.posted & (view.completion_size - 1)];
  const uint32_t phase = storage::phase_at(queue.posted++, view.completion_size);
  system_store(entry.result, 0u);
  system_store(entry.queue, (static_cast<uint32_t>(queue.read) & (view.submission_size - 1)) | (queue.number + 1) << 16);
  system_store_release(entry.last, request.entry.identifier | phase << 16 | uint32_t{request.status} << 17);
  ++stats_.commands;
  if (request.status != storage::kSuccess)
    ++stats_.failed;
  else if (request.opcode == storage::Opcode::kRead)
    stats_.read_bytes += request.bytes;
  else
    stats_.written_bytes += request.bytes;
  if (stages_) {
    const uint64_t now = stage_clock();
    stats_.submit_ns += request.submitted - request.picked_up;
    stats_.transfer_ns += request.ended > request.submitted ? request.ended - request.submitted : 0;
    stats_.complete_ns += now - std::max(request.ended, request.submitted);
    stats_.picked_up_at += request.picked_up;
    stats_.completed_at += now;
  }
  leave(request);
}

uint64_t Serving::stage_clock() const {
  if (!stages_) return 0;
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

bool Serving::abort(uint32_t number, uint16_t identifier) {
  for (uint32_t i = 0; i < used_; ++i) {
    Request& request = requests_[i];
    if (!request.taken || request.entry.identifier != identifier || queues_[request.queue].number != number) continue;
    if (!backend_->try_drop(request)) return false;
    leave(request);
    return true;
  }
  return false;
}

}  // namespace hinterland::native
