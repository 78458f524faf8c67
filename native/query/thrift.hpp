// Thrift's compact protocol, as far as Parquet's metadata need it (apache/thrift, doc/specs/thrift-compact-protocol.md).
// Nothing beyond the end is read: from what is damaged there comes 0, and ok() says so.
#pragma once

#include <cstdint>

namespace hinterland::native {

class Compact {
 public:
  enum Type : int { kTrue = 1, kFalse, kByte, kInt16, kInt32, kInt64, kDouble, kBinary, kList, kSet, kMap, kStruct, kUuid };

  Compact(const uint8_t* begin, const uint8_t* end) : begin_(begin), at_(begin), end_(end) {}

  bool ok() const { return ok_; }
  int64_t position() const { return at_ - begin_; }

  int64_t whole() {  // zigzag: of all widths
    const uint64_t bits = varint();
    return static_cast<int64_t>(bits >> 1) ^ -static_cast<int64_t>(bits & 1);
  }

  // A binary's length; position() was its first byte.
  int64_t binary(int64_t* first) {
    const auto length = static_cast<int64_t>(varint());
    *first = position();
    return pass(length) ? length : 0;
  }

  // each(id, type) for a struct's fields. It reads the value, or returns false, and then the value is skipped.
  template <class Each>
  void fields(const Each& each) {
    for (int64_t id = 0; ok_;) {
      const uint8_t head = byte();
      if (head == 0) return;
      id = head >> 4 != 0 ? id + (head >> 4) : whole();
      const int type = head & 15;
      if (!each(id, type)) skip(type);
    }
  }

  // each(i) for a list's elements, which are of type `wanted`; others are skipped.
  template <class Each>
  void list(int wanted, const Each& each) {
    int type;
    const int64_t count = list_of(&type);
    for (int64_t i = 0; ok_ && i < count; ++i) {
      if (type == wanted) {
        each(i);
      } else {
        skip_element(type);
      }
    }
  }

  void skip(int type) {
    if (type != kTrue && type != kFalse) skip_element(type);
  }

 private:
  static constexpr int kDeepest = 16;

  bool pass(int64_t bytes) {
    ok_ = ok_ && bytes >= 0 && bytes <= end_ - at_;
    if (ok_) at_ += bytes;
    return ok_;
  }
  uint8_t byte() { return pass(1) ? at_[-1] : 0; }

  // Groups of seven bits, the lowest first; ten at most.
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 70 && at_ != end_; shift += 7) {
      const uint8_t group = *at_++;
      value |= static_cast<uint64_t>(group & 127) << shift;
      if (group < 128) return value;
    }
    ok_ = false;
    return 0;
  }

  int64_t list_of(int* type) {
    const uint8_t head = byte();
    *type = head & 15;
    if (*type == kFalse) *type = kTrue;  // truth values are written as either
    return head >> 4 < 15 ? head >> 4 : static_cast<int64_t>(varint());
  }

  // In lists truth values take a byte.
  void skip_element(int type) {
    if (++depth_ > kDeepest) ok_ = false;
    int64_t ignored;
    if (type == kTrue || type == kFalse || type == kByte) {
      pass(1);
    } else if (type == kInt16 || type == kInt32 || type == kInt64) {
      varint();
    } else if (type == kDouble || type == kUuid) {
      pass(type == kDouble ? 8 : 16);
    } else if (type == kBinary) {
      binary(&ignored);
    } else if (type == kList || type == kSet) {
      int inner;
      const int64_t count = list_of(&inner);
      for (int64_t i = 0; ok_ && i < count; ++i) skip_element(inner);
    } else if (type == kMap) {
      const auto count = static_cast<int64_t>(varint());
      const uint8_t types = count > 0 ? byte() : 0;
      for (int64_t i = 0; ok_ && i < count; ++i) skip_element(types >> 4), skip_element(types & 15);
    } else if (type == kStruct) {
      fields([](int64_t, int) { return false; });
    } else {
      ok_ = false;
    }
    --depth_;
  }

  const uint8_t *begin_, *at_, *end_;
  int depth_ = 0;
  bool ok_ = true;
};

}  // namespace hinterland::native
