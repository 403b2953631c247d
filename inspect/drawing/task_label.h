// Short names of tasks, for bars and boxes that have no room for the whole one.
#pragma once

#include <string>
#include <vector>

namespace weft::inspect {

/// The name and shorter forms of it, each shorter than the one before. The end of a name tells tasks apart, so that
/// the beginning goes first: mb0.L3.attn.qkv.bwd.gemm_dw, L3 attn.qkv dW, L3 qkv dW, qkv dW, dW. Collectives become
/// AG, RS and AR.
std::vector<std::string> task_labels(const std::string& name);

}  // namespace weft::inspect
