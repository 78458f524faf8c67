// How much a compressed page holds, by what its codec's format says: pyarrow's codecs fill as much as they are asked for, however
// little there was.
#pragma once

#include <cstdint>

namespace hinterland::native {

// Of `codec`, as parquet.thrift numbers them: Snappy's raw format by its preamble, gzip by its trailer (RFC 1952), LZ4's block format
// by its sequences. -1 where that is not said, or damaged.
int64_t decompressed_bytes(int64_t codec, const uint8_t* data, int64_t size);

}  // namespace hinterland::native
