// The engines of the emulated cuDNN. They compute nothing: tests choose among them, and run where none is chosen.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::emulator {

struct CudnnEngine {
  std::int64_t workspace_bytes = 0;
  bool deterministic = true;
};

/// What cuDNN proposes from now on for the backward pass of attention, best first. At first, and for the forward pass,
/// it proposes nothing.
void set_attention_engines(std::vector<CudnnEngine> engines);

}  // namespace weft::emulator
