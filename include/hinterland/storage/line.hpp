// The state of a slot of the software cache, in one 64-bit word (after Mailthody 2022, section 5.3.2): which page lies in its
// frame, what is being done with it, and how many read or write there.
//
//   41 bits  page     of all arrays that share the cache, numbered one after the other: 1 PiB in lines of 512 bytes. Where
// numbers
//                     take fewer bits, those above count the slot's turns: how often it was given to a page
//    6 bits  flags
//   17 bits  holders: at most 131,071 at once, so one lane of a warp is to hold a line for all
//
// BaM has a word for each page, so whoever counts himself in has the right one. Here a word belongs to a slot, which may get
// another page at any time that nobody holds it. So a reader counts himself in first, and looks then: with another page there,
// or none, he counts himself out again. Whoever gives a slot another page exchanges the whole word, and that only while it
// counts nobody; who comes just before makes the exchange fail, who comes just after sees the new page. Flags change by
// addition where they are known, so counts are never lost.
//
//                claim                 arrived
//      empty  ---------->  busy  -------------------->  valid  <----->  valid, dirty
//        ^    <----------        --------> failed         ^    wrote        | begin_write
//        |     not begun         did not     |            |                 v
//        +-----------------------------------+            +------ valid, writing  <-->  valid, dirty, writing
//                forget, or a claim                        written             wrote
//
// A valid line that is neither dirty nor being written and that nobody holds, a failed one and an empty one can be claimed for
// another page. While it is written back a line stays where it is found, and may be held and written to: then it is dirty
// again.
//
// Who reads a little need not count himself in: he looks at the word, reads, and looks again. With the same page, valid, in the
// same turn, nobody else's page was in the frame between. (Without the turn the page could have gone and come back. A count of
// n bits comes round when the slot was given away 2^n times meanwhile, each time for a read from the device.)
//
// A transfer that takes too long is given up: whoever asks is told that it failed. But the device may still read or write the
// frame, so the line stays busy, or being written, until the device has said that it is through: no page gets the slot before,
// and no newer write of the page is overtaken by the old one.
#pragma once

#include "hinterland/core/atomic.hpp"

namespace hinterland::storage {

using Page = uint64_t;

struct Line {
  static constexpr int kHolderBits = 17, kFlagBits = 6, kPageBits = 41;
  static_assert(kHolderBits + kFlagBits + kPageBits == 64);
  static constexpr uint64_t kHolder = 1, kHolders = (uint64_t{1} << kHolderBits) - 1;
  static constexpr uint64_t kBusy = uint64_t{1} << kHolderBits;  // its page is being read: the frame's content does not count
  static constexpr uint64_t kValid = kBusy << 1;                 // the frame holds the page
  static constexpr uint64_t kDirty = kBusy << 2;                 // ... as it is not on the device yet
  static constexpr uint64_t kWriting = kBusy << 3;               // ... and the device is reading the frame to write it
  static constexpr uint64_t kFailed = kBusy << 4;                // the last read, or with kValid the last write, failed
  static constexpr uint64_t kUsed = kBusy << 5;                  // held since the hand of CLOCK last passed
  static constexpr int kPageShift = kHolderBits + kFlagBits;
  static constexpr Page kMostPages = Page{1} << kPageBits, kPages = kMostPages - 1;
  static constexpr int kTurnBits = 6;  // that are enough

  uint64_t word;

  // `pages`: the bits that numbers of pages take.
  HINTERLAND_FN Page page(Page pages = kPages) const { return word >> kPageShift & pages; }
  HINTERLAND_FN uint64_t holders() const { return word & kHolders; }
  HINTERLAND_FN bool is(uint64_t flags) const { return (word & flags) != 0; }
  // Whether this slot stands for a page at all.
  HINTERLAND_FN bool has(Page wanted, Page pages = kPages) const {
    return page(pages) == wanted && is(kBusy | kValid | kFailed);
  }
  // Whether it may get another page at once.
  HINTERLAND_FN bool is_free() const { return holders() == 0 && !is(kBusy | kDirty | kWriting); }
  // Whether writing it back would make it so.
  HINTERLAND_FN bool awaits_writing() const { return holders() == 0 && is(kDirty) && !is(kWriting); }
};

enum class Acquired { kHeld, kBusy, kFailed, kElsewhere };

// Counts the caller in if the page is there to be read; he holds the line then until release(). `seen`: as it was before.
HINTERLAND_FN Acquired acquire(uint64_t& word, Page page, Line& seen, Page pages = Line::kPages) {
  seen = Line{atomic_add_acquire(word, Line::kHolder)};
  if (seen.page(pages) == page && seen.is(Line::kValid)) return Acquired::kHeld;
  atomic_add(word, ~Line::kHolder + 1);
  if (!seen.has(page, pages)) return Acquired::kElsewhere;
  return seen.is(Line::kFailed) ? Acquired::kFailed : Acquired::kBusy;
}

HINTERLAND_FN Acquired acquire(uint64_t& word, Page page) {
  Line seen{0};
  return acquire(word, page, seen);
}

HINTERLAND_FN void release(uint64_t& word) { atomic_add_release(word, ~Line::kHolder + 1); }

// The same for several slots; -1: none.
template <int kCount>
HINTERLAND_FN void release(uint64_t* words, const int32_t (&slots)[kCount]) {
  atomic_add_release(words, slots, ~Line::kHolder + 1);
}

// A holder has written to the frame. It is said after each write, and by exchange: a line found dirty may have been taken to be
// written back before the write.
HINTERLAND_FN void wrote(uint64_t& word) { atomic_or_release(word, Line::kDirty); }

// Gives the slot, which was seen to be free, to a page that is going to be read; `used` is kUsed or 0. False: it is not free
// any more. (It acquires what who held the last page has read; it has nothing to release.)
HINTERLAND_FN bool claim(uint64_t& word, Line seen, Page page, uint64_t used, Page pages = Line::kPages) {
  const uint64_t turn = (seen.word >> Line::kPageShift & ~pages) + pages + 1;  // the next one, above the page's bits
  return atomic_cas_acquire(word, seen.word, (turn | page) << Line::kPageShift | Line::kBusy | used) == seen.word;
}

// How the read of a busy line ended. kNothing: the device did not take it, or it had been given up before.
// kFilled: nothing was read, but a writer has filled the frame.
enum class Read : uint64_t {
  kArrived = Line::kValid,
  kFilled = Line::kValid | Line::kDirty,
  kFailed = Line::kFailed,
  kNothing = 0
};

HINTERLAND_FN void end_read(uint64_t& word, Read read) { atomic_add_release(word, static_cast<uint64_t>(read) - Line::kBusy); }

// Takes a dirty line to be written back: what was written before is in the frame that the device will read. False: it is not as
// it was seen.
HINTERLAND_FN bool begin_write(uint64_t& word, Line seen) {
  const uint64_t taken = (seen.word & ~(Line::kDirty | Line::kFailed)) | Line::kWriting;
  return atomic_cas_acq_rel(word, seen.word, taken) == seen.word;
}

// The read of a busy line takes too long. When the device is through with the frame, end_read() says kNothing: then the line
// may be forgotten.
HINTERLAND_FN void give_up_read(uint64_t& word) { atomic_or_release(word, Line::kFailed); }

// kNothing: it went well, or it had been given up before, and whether the line is dirty was said then.
enum class Write : uint64_t { kNothing = 0, kFailed = Line::kDirty | Line::kFailed, kNotBegun = Line::kDirty };

// What could not be written is dirty as before. That is said first: without either flag the line could be claimed.
HINTERLAND_FN void end_write(uint64_t& word, Write write) {
  if (write != Write::kNothing) atomic_or_release(word, static_cast<uint64_t>(write));
  atomic_add_release(word, ~Line::kWriting + 1);
}

// The same for a line that is being written. What it holds is dirty as before, and end_write() lets it be written again.
HINTERLAND_FN void give_up_write(uint64_t& word) { atomic_or_release(word, Line::kDirty | Line::kFailed); }

// Empties a line whose read failed, so that the page is read anew. False: somebody looks at it at this moment, or it is not
// there.
HINTERLAND_FN bool forget(uint64_t& word, Page page) {
  const Line seen{atomic_load(word)};
  if (seen.page() != page || !seen.is(Line::kFailed) || seen.is(Line::kValid | Line::kBusy) || seen.holders() != 0)
    return false;
  return atomic_cas_acq_rel(word, seen.word, seen.word & ~Line::kFailed) == seen.word;
}

// Empties a line, whatever it holds, that is neither being read nor written. False: it is not as it was seen.
HINTERLAND_FN bool drop(uint64_t& word, Line seen) {
  return atomic_cas_acq_rel(word, seen.word, seen.word & ~(Line::kValid | Line::kDirty | Line::kFailed)) == seen.word;
}

}  // namespace hinterland::storage
