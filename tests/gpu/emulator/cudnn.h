// The engines of the emulated cuDNN: each computes a graph's operations one by one, and adds products in its own order.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace weft::emulator {

struct CudnnEngine {
  std::int64_t workspace_bytes = 0;
  bool deterministic = true;  // else the number of pieces differs from run to run
  std::int64_t pieces = 1;    // in which a product's sums are cut: the engine's knob
  std::int64_t number = 1;
  std::chrono::microseconds takes{0};  // at least
};

/// What cuDNN proposes from now on for attention, best first, by heuristics and then as a fallback. At first it
/// proposes nothing.
void set_attention_engines(std::vector<CudnnEngine> backward, std::vector<CudnnEngine> forward = {});

/// Two deterministic ones and one that isn't, for each direction.
void offer_usual_attention_engines();

}  // namespace weft::emulator
