// The messages between two stages of a pipeline: activations forward, their gradients back.
#pragma once

#include <cstdint>

#include "ops/lowering.h"

namespace weft::ops {

/// Receives a stage's input [rows, hidden/x] from the ranks of the stage before. Its adjoint sends the gradient back.
Value receive_input(Lowering& low, std::int64_t stage, std::int64_t rows);

/// Sends a stage's output to the ranks of the next stage. Its adjoint receives the gradient.
void send_output(Lowering& low, std::int64_t stage, const Value& output);

}  // namespace weft::ops
