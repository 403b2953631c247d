// Policy `inductor`: the passes by which PyTorch's compiler hides communication.
#pragma once

#include <string>

#include "runtime/policy/policy.h"
#include "runtime/policy/policy_parameters.h"

namespace weft::policy {

/// Up to three passes over one sequence of computations, collectives and waits for collectives, as in PyTorch's
/// torch/_inductor/comms.py (Yang et al., "PyTorch 2", ASPLOS 2024, is the compiler). `passes` names them, in their
/// order, joined by +; by default all, as PyTorch's own default:
/// - `reorder`: collectives keep their order. After a collective come computations that don't need it, first in the
///   sequence first, until their costs add up to that of the collective;
/// - `sink`: a wait goes as late as it can;
/// - `raise`: what a collective needs goes before what it doesn't, so that each is issued as early as it can be.
/// As with PyTorch's process groups, a collective waits for all computations that come before it in the sequence.
/// Computations use the first compute stream. Memory isn't looked at.
class InductorPolicy final : public OneClassPolicy {
 public:
  enum Code : std::uint16_t { kIssuedAfterInput, kIssuedInTurn, kHidesBefore };
  static constexpr plan::ReasonText kTexts[] = {
      {"raised: issued as soon as its input is there"},
      {"issued after the computations that come before it"},
      {"reordered: {ms} ms that hide {ms} ms of the collective before it"},  // its cost, what was left to hide
  };
  static constexpr plan::ReasonTable kReasons{"inductor", kTexts};

  InductorPolicy() = default;
  explicit InductorPolicy(PolicyParameters& parameters);
  std::string name() const override { return "inductor"; }
  plan::Order order(const graph::Graph& graph, const PolicyOptions& options) const override;

 private:
  static constexpr const char* kAllPasses = "reorder+sink+raise";
  std::string passes_ = kAllPasses;
};

}  // namespace weft::policy
