// Every order of steps of two or three threads that read, write and flush three or four pages through a cache of two slots,
// with a device that ends transfers in any order, refuses, and fails. In every state the newest version of each page is where
// it is looked for, no frame changes under those who hold it, and the threads can come to their end.
#include <string>

#include "../rounds.hpp"
#include "fifo.hpp"
#include "hinterland/core/alone.hpp"
#include "hinterland/storage/cache.hpp"

using namespace hinterland;
using namespace hinterland::storage;
using test::Fifo;

namespace {

constexpr int kSlots = 2, kPages = 4, kCommands = 2;

struct Frame {
  int64_t page, version;
};

struct Command {
  int64_t op;  // 0: none
  int64_t page, slot, version;
};
constexpr int64_t kRead = 1, kWrite = 2, kServedWrite = 3, kGivingUp = 4, kLateRead = 5, kLateWrite = 6;

struct World {
  uint64_t words[kSlots];
  uint32_t statuses[kSlots];
  uint32_t sets[2];
  uint32_t next_uses[kSlots], now[2];
  Frame frames[kSlots];
  int64_t stored[kPages], newest[kPages];
  Command commands[kCommands];
  int64_t room;      // commands that the device takes at once
  int64_t failures;  // that it may still make
};

World world;
Page numbers;  // the bits that numbers of pages take

[[noreturn]] void fail(const char* what) {
  std::printf("frames %lld v%lld, %lld v%lld; words %llx %llx\n", static_cast<long long>(world.frames[0].page),
              static_cast<long long>(world.frames[0].version), static_cast<long long>(world.frames[1].page),
              static_cast<long long>(world.frames[1].version), static_cast<unsigned long long>(world.words[0]),
              static_cast<unsigned long long>(world.words[1]));
  explorer::fail(what);
}

struct Device {
  bool put(int64_t op, Page page, int64_t slot) {
    explorer::step();
    for (Command& command : world.commands)
      if (command.op == 0 && &command < world.commands + world.room) {
        command = {op, static_cast<int64_t>(page), slot, 0};
        return explorer::note(true);
      }
    return explorer::note(false);
  }
  bool try_read(Page page, int64_t slot) { return put(kRead, page, slot); }
  bool try_write(Page page, int64_t slot) { return put(kWrite, page, slot); }
};

enum class Fault { kNone, kFails, kGivenUp };

// The device is through with a command that was given up: it has ended it, or dropped it.
template <class CacheType>
void end_late(const CacheType& cache, Command& command) {
  const Command late = command;
  command.op = kGivingUp;  // nobody else ends it
  const bool dropped = explorer::choose(2) == 1;
  if (!dropped && late.op == kLateRead) world.frames[late.slot] = {late.page, world.stored[late.page]};
  if (!dropped && late.op == kLateWrite) world.stored[late.page] = late.version;
  command = {};
  cache.late(late.slot, late.op == kLateWrite);
}

template <class CacheType>
void end(const CacheType& cache, Command& command, Fault fault) {
  const Command ended = command;
  if (ended.op == kGivingUp) return;  // the queue keeps its completion back until whoever gives it up has said so
  if (ended.op == kLateRead || ended.op == kLateWrite) return end_late(cache, command);
  if (ended.op == kWrite) {  // the device reads the frame; what is written to it from now on is not in this write
    if (world.frames[ended.slot].page != ended.page) fail("a frame was given away while it was written back");
    command.op = kServedWrite;
    command.version = world.frames[ended.slot].version;
    return;
  }
  const bool writes = ended.op == kServedWrite;
  if (fault != Fault::kNone) --world.failures;
  if (fault == Fault::kGivenUp) {
    command.op = kGivingUp;
    cache.give_up(ended.slot, writes, 7);
    command.op = writes ? kLateWrite : kLateRead;
    return;
  }
  command = {};
  if (fault == Fault::kNone && writes) world.stored[ended.page] = ended.version;
  if (fault == Fault::kNone && !writes) world.frames[ended.slot] = {ended.page, world.stored[ended.page]};
  cache.end(ended.slot, writes, fault == Fault::kNone ? 0 : 5);
}

// Ends, or goes on with, one of the commands.
template <class CacheType>
void poll(const CacheType& cache) {
  const int chosen = explorer::choose(world.failures > 0 ? 3 * kCommands : kCommands);
  Command& command = world.commands[chosen % kCommands];
  const Fault fault = world.failures > 0 ? static_cast<Fault>(chosen / kCommands) : Fault::kNone;
  if (explorer::note(command.op != 0)) end(cache, command, fault);
}

void look(int64_t slot, int64_t page) {
  if (world.frames[slot].page != page) fail("another page than was asked for");
  if (world.frames[slot].version != world.newest[page]) fail("an old version of a page");
}

template <class CacheType>
void visit(const CacheType& cache, int64_t page, bool writes, bool fills, uint64_t place) {
  Device device;
  while (true) {
    explorer::stand_at(place);
    const CacheLookup found =
        fills ? cache.try_fill(static_cast<Page>(page), device) : cache.try_acquire(static_cast<Page>(page), device);
    if (fills && found.outcome == Try::kStarted) {
      explorer::step();
      world.frames[found.slot] = {page, world.newest[page] + 1};
      cache.filled(found.slot);
      ++world.newest[page];
      return;
    }
    if (found.outcome == Try::kHeld) {
      explorer::step();
      look(found.slot, page);
      if (writes) {
        explorer::step();
        look(found.slot, page);
        world.frames[found.slot].version = ++world.newest[page];
        wrote(cache.words[found.slot]);
      }
      explorer::step();
      look(found.slot, page);
      if constexpr (CacheType::kKnowsUses)  // it will be needed again
        cache.expect(found.slot, world.now[0] + static_cast<uint32_t>(page));
      release(cache.words[found.slot]);
      return;
    }
    if (found.outcome == Try::kFailed) forget(cache.words[found.slot], static_cast<Page>(page));
    poll(cache);
  }
}

// Reads without holding the line: what the cache says was there was.
template <class CacheType>
void glance(const CacheType& cache, int64_t page, uint64_t place) {
  explorer::stand_at(place);
  const auto seen = cache.template glance<Alone>(true, static_cast<Page>(page));
  if (seen.slot < 0) return;
  explorer::step();
  const Frame read = world.frames[seen.slot];
  const int64_t newest = world.newest[page];
  if (!explorer::note(cache.is_still(seen.slot, seen.high, static_cast<Page>(page)))) return;
  if (read.page != page) fail("another page was read");
  if (read.version != newest) fail("an old version was read");
}

template <class CacheType>
void flush(const CacheType& cache, uint64_t place) {
  Device device;
  for (int64_t slot = 0; slot < kSlots; ++slot)
    while (true) {
      explorer::stand_at(place + static_cast<uint64_t>(slot));
      if (cache.write_back(slot, device) == Try::kHeld) break;
      poll(cache);
    }
}

void check() {
  for (int64_t page = 0; page < kPages; ++page) {
    int copies = 0;
    bool newest = world.stored[page] == world.newest[page];
    for (int slot = 0; slot < kSlots; ++slot) {
      const Line line{world.words[slot]};
      copies += line.has(static_cast<Page>(page), numbers);
      if (line.has(static_cast<Page>(page), numbers) && line.is(Line::kValid)) {
        if (world.frames[slot].page != page) fail("a valid line without its page");
        newest = true;  // look() compares what is read with the newest version
        if (world.frames[slot].version != world.newest[page]) fail("a valid line of an old version");
      }
    }
    if (copies > 1) fail("a page in two slots");
    if (!newest) fail("a write is lost");
  }
  for (const uint64_t word : world.words)
    if (Line{word}.holders() > 3) fail("more holders than threads");
}

template <class CacheType>
void check_end(const CacheType& cache) {
  for (const uint64_t word : world.words)
    if (Line{word}.holders() != 0) fail("somebody still holds a line");
  for (const uint32_t set : world.sets)
    if (set % 2 != 0) fail("a set is still locked");
  Device device;
  for (int round = 0; round < 4; ++round) {
    for (Command& command : world.commands)
      while (command.op != 0) end(cache, command, Fault::kNone);
    for (int slot = 0; slot < kSlots; ++slot) cache.write_back(slot, device);
  }
  for (int64_t page = 0; page < kPages; ++page)
    if (world.stored[page] != world.newest[page]) fail("a write is lost after a flush");
}

// What a thread does: read or write a page, write all of it, read it without holding it, or flush.
struct Act {
  int page;
  bool writes = false, fills = false, glances = false;
};
constexpr Act kFlush{-1};

template <class Replacement>
Replacement replacement() {
  if constexpr (Replacement::kKnowsUses)
    return {world.next_uses, world.now};
  else
    return {};
}

// At first slot i holds page i, which is dirty if dirty[i], and all of which are known to be needed.
template <class Replacement>
void explore(const char* name, const bool (&dirty)[kSlots], const std::vector<std::vector<Act>>& programs, int failures = 0,
             int room = kCommands, Page pages = Line::kPages) {
  const Cache<Replacement, kSlots> cache{
      replacement<Replacement>(), world.words, world.statuses, world.sets, nullptr, 1, 4096, pages};
  world = {};
  numbers = pages;
  world.failures = failures;
  world.room = room;
  world.now[0] = 1;
  for (int slot = 0; slot < kSlots; ++slot) {
    world.next_uses[slot] = static_cast<uint32_t>(slot + 1);
    world.newest[slot] = dirty[slot];
    world.frames[slot] = {slot, dirty[slot]};
    world.words[slot] = static_cast<Page>(slot) << Line::kPageShift | Line::kValid | (dirty[slot] ? Line::kDirty : 0);
  }
  std::vector<std::function<void()>> threads;
  for (const auto& program : programs)
    threads.push_back([&cache, &program] {
      uint64_t place = 0;
      for (const auto& [page, writes, fills, glances] : program) {
        if (page < 0)
          flush(cache, place);
        else if (glances)
          glance(cache, page, place);
        else
          visit(cache, page, writes, fills, place);
        place += kSlots;
      }
      explorer::stand_at(place);
    });
  explorer::Exploration<World> exploration(world, threads, check, [&] { check_end(cache); });
  const explorer::Counts counts = exploration.run();
  std::printf("%s: %lld states, %lld ends\n", name, static_cast<long long>(counts.states), static_cast<long long>(counts.ends));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string which = argc > 1 ? argv[1] : "";
  const auto asked = [&](const char* name) { return which.empty() || which == name; };
  const Act read0{0}, read2{2}, read3{3}, write0{0, true}, write2{2, true}, fill2{2, true, true},
      glance0{0, false, false, true};
  constexpr Page kFew = (Page{1} << (Line::kPageBits - Line::kTurnBits)) - 1;  // so that turns are counted
  // The device refuses what it has no room for.
  if (asked("refused")) explore<Fifo>("refused", {true, true}, {{read2}, {read3}}, 0, 1);
  // In `make nightly` by a thread of its own, which makes hundreds of times as many states; else by the first, after the rest.
  const auto with_another_read = [&](std::vector<std::vector<Act>> programs) {
    if (test::is_nightly())
      programs.push_back({read0});
    else
      programs[0].push_back(read0);
    return programs;
  };
  // A slot is given away while a reader counts himself in.
  if (asked("retag")) explore<Fifo>("retag", {false, false}, with_another_read({{read0}, {read2}}));
  // Two miss the same page.
  if (asked("once")) explore<Fifo>("once", {false, false}, with_another_read({{read2}, {read2}}));
  // A dirty line is written back to make room, and held, and written to meanwhile.
  if (asked("victim")) explore<Fifo>("victim", {true, true}, {{write0}, {read2}});
  if (asked("flush")) explore<Fifo>("flush", {true, false}, {{write0}, {kFlush}, {read2}});
  if (asked("clock")) explore<ClockPolicy>("clock", {true, false}, with_another_read({{read0}, {write2}}));
  // What is needed last gives way, and is written back for that.
  if (asked("belady")) explore<Belady>("belady", {true, true}, {{write0}, {read2, read3}});
  if (asked("known")) explore<Belady>("known", {true, false}, {{write0}, {read2}}, 1);
  // A page of which all is written is not read for that.
  if (asked("fill")) explore<Fifo>("fill", {true, false}, {{fill2}, {read2}, {kFlush}});
  if (asked("fills")) explore<Fifo>("fills", {true, false}, {{fill2}, {fill2, read0}}, 1);
  // A read fails, or a write.
  if (asked("fails")) explore<Fifo>("fails", {true, false}, {{read2}, {kFlush}}, 2);
  // A page gives way, and comes back, while somebody reads it without holding it.
  if (asked("glance")) explore<Fifo>("glance", {false, false}, {{glance0, glance0}, {read2, read3, read0}}, 0, kCommands, kFew);
  // A page that gave way is asked for again.
  if (asked("back")) explore<Fifo>("back", {true, false}, {{read2, write0}, {read0}});
  return 0;
}
