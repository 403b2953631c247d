// Token (and learned position) embeddings and their adjoint.
#pragma once

#include "ops/lowering.h"

namespace weft::ops {

/// tokens: a view of i32 [rows] → [rows, hidden]. With `at_position`, positions begin at the state scalar "position".
Value embedding(Lowering& low, graph::View tokens, std::int64_t rows, std::int64_t seq_len, bool at_position);

}  // namespace weft::ops
