// What BaM's cache gives away (Mailthody 2022, section 5.3.2): the slot that has had its page longest.
#pragma once

namespace test {

struct Fifo {
  static constexpr bool kMarksUse = false, kKnowsUses = false, kTwoSets = false;
};

}  // namespace test
