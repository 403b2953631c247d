// Policy `axonn`: AxoNN's overlap, with a switch for each of its parts.
#pragma once

#include <cstdint>

#include "runtime/policy/policy.h"
#include "runtime/policy/policy_parameters.h"

namespace weft::policy {

/// Program order on one compute stream. A collective starts when the computations issued before it are done, and the
/// next task waits for it, except (Singh et al., "Democratizing AI: Open-source Scalable LLM Training on GPU-based
/// Supercomputers", SC24; AxoNN's intra_layer/overlap_communication.py):
/// - `oar`: the reduction of an input gradient over x or y is waited for after the same layer's weight and bias
///   gradients;
/// - `ors`: reductions of gradients over z are waited for at the end of their backward pass, and whatever reads their
///   results, such as a cast to fp32, follows there. With `window` > 0 at most `window` reductions are in flight: the
///   next computation waits for the oldest, whose buffer can then be used again. Where a graph itself gives reductions
///   a buffer in turn, the reader of a result stays in its place, before the next one;
/// - `oag`: in the forward pass the gather of a weight over z is issued when the weight `lookahead` gathers before it
///   is used first, and waited for at the first use of its own weight. Within a recomputed layer gathers are ahead in
///   the same way, but the layer's first one blocks, since AxoNN begins anew in each.
/// Reductions over the data axis follow after the backward pass, one after the other, and block. AxoNN reduces over z
/// in each micro-batch. Weft's graphs do so if the user asks for it, and else once a step, in the last.
class AxonnPolicy final : public OneClassPolicy {
 public:
  enum Code : std::uint16_t { kBlocking, kReduced, kScattered, kGatheredNext, kGathered, kData };
  static constexpr plan::ReasonText kTexts[] = {
      {"blocking: the next task waits for it"},
      {"oar: waited for after the same layer's weight gradient"},
      {"ors: waited for at the end of the backward pass"},
      {"oag: issued when the weight gathered before it is used first, waited for by its own reader"},
      {"oag: issued when the weight {} gathers before it is used first, waited for by its own reader"},
      {"data axis: after the backward pass, blocking"},
  };
  static constexpr plan::ReasonTable kReasons{"axonn", kTexts};

  AxonnPolicy() = default;
  explicit AxonnPolicy(PolicyParameters& parameters);
  std::string name() const override { return "axonn"; }
  plan::Order order(const graph::Graph& graph, const PolicyOptions& options) const override;

 private:
  bool oar_ = true, ors_ = true, oag_ = true;
  std::int64_t lookahead_ = 1;  // gathers
  std::int64_t window_ = 0;     // reductions over z in flight; 0: any number
};

}  // namespace weft::policy
