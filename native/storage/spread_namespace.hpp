// A namespace of several others, spread over them.
//
// A read of what each has a copy of goes to one: to the copy that has failed least, and among those to that with the fewest
// transfers in flight. Where it fails, or the device is gone, another is asked, until none is left. A write or a flush goes to
// all, and has ended when it has ended everywhere; the first error is its status.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "storage/backend.hpp"
#include "storage/spread.hpp"

namespace hinterland::native {

using Namespaces = std::vector<std::shared_ptr<Namespace>>;

class SpreadNamespace : public Namespace {
 public:
  // What lies in a member from its byte `base` on is spread: as stripes of `unit` bytes, or, with 0, as copies.
  // std::invalid_argument for no member, too many copies, or what is no number of blocks.
  static std::shared_ptr<SpreadNamespace> of(Namespaces members, uint64_t unit, uint64_t base);
  // One after the other, each from a multiple of 64 KiB on, so that no line of a cache has bytes of two.
  static std::shared_ptr<SpreadNamespace> in_a_row(Namespaces members);

  SpreadNamespace(Namespaces members, Spread spread, uint64_t base)
      : members_(std::move(members)), spread_(std::move(spread)), base_(base), failed_(members_.size()) {}

  SpreadNamespace(const SpreadNamespace&) = delete;
  SpreadNamespace& operator=(const SpreadNamespace&) = delete;

  [[nodiscard]] uint64_t blocks() const override { return spread_.bytes() / kBlockBytes; }
  std::unique_ptr<Backend> open(uint32_t most, std::span<const Region> regions) override;
  // With copies only when the last is.
  [[nodiscard]] bool gone() const override;

  [[nodiscard]] const Spread& spread() const { return spread_; }
  // Reads that each copy has failed, so that others were asked.
  [[nodiscard]] std::vector<uint64_t> failed_reads() const { return {failed_.begin(), failed_.end()}; }

 private:
  friend class SpreadBackend;

  Namespaces members_;
  Spread spread_;
  uint64_t base_;
  std::vector<std::atomic<uint64_t>> failed_;
};

// One thread's. Each request becomes parts, which are requests to the members.
class SpreadBackend : public Backend {
 public:
  SpreadBackend(SpreadNamespace& shared, uint32_t most, std::span<const Region> regions);

  bool try_begin(Request& request, uint64_t now) override;
  void submit() override;
  size_t poll(uint64_t now, std::span<Request*> to) override;
  bool try_drop(Request& request) override;
  [[nodiscard]] size_t in_flight() const override;
  void wait(uint64_t now, uint64_t most) override;

 private:
  struct Part {
    Request request;
    Request* whole = nullptr;                   // whose part it is; null: nobody's
    uint64_t member = kNobody;                  // who has it
    uint64_t first = 0, bytes = 0, offset = 0;  // where in the whole it begins, and in the member
    uint64_t asked = 0;                         // a bit for each copy that was asked
  };

  bool begin_rest(Request& whole);
  bool begin_part(Request& whole, const Spread::Place& place);
  bool begin(Part& part);
  void end_part(Part& part, uint16_t status);
  void finish_part(Request& whole);
  void ask_others();
  void leave_gone();
  [[nodiscard]] uint64_t choose_copy(uint64_t asked) const;
  [[nodiscard]] bool goes_everywhere(const Request& whole) const;

  SpreadNamespace& shared_;
  const Spread& spread_;
  uint64_t now_ = 0;
  uint64_t gone_ = 0;  // a bit for each copy
  std::vector<Part> parts_;
  std::vector<uint32_t> free_, again_;  // parts of nobody; those that another copy is to be asked for
  Request* unfinished_ = nullptr;       // begun, but not all of it: there was no room
  RequestList ended_;
  size_t ended_count_ = 0;
  std::vector<std::unique_ptr<Backend>> members_;  // null: it is gone. Last: they end first, and then touch no part any more
};

}  // namespace hinterland::native
