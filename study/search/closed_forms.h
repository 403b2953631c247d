// Lower bounds on the time and the memory of a step by formulas alone, which drop most choices of a search before any
// graph is made.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "runtime/cost/cost_model.h"
#include "study/search/choice.h"
#include "train/config/config.h"

namespace weft::study {

/// Bounds for one model, batch, machine and number of ranks. They count the four products of every layer and the head,
/// and leave out attention, elementwise work, latency, embedding and everything that depends on an order of tasks.
///
///   computing   (6, recomputed products 8)·tokens·in·out / ranks / the highest rate; 2 less where adapters are trained
///               over frozen weights (LoRA), whose own products and gradients aren't counted
///   weights     gathered over z once a step, or twice a micro-batch if resharded; gradients scattered once
///   outputs     reduced over x, recomputed ones twice; inputs' gradients over y; x and y change places in transposed
///               products
///   memory      weights, optimizer state, and the products' inputs that the last forward pass keeps (recomputed: the
///               inputs of layers), each divided as far as any axis could
class ClosedForms {
 public:
  /// `config` is filled in, but for its grid and its micro-batch. Both must outlive the object.
  ClosedForms(const train::RunConfig& config, const cost::Machine& machine, std::int64_t ranks);

  double least_bytes(const Choice& choice) const;
  /// In nanoseconds, of the step with the grid's axes in the choice's order.
  double least_ns(const Choice& choice);

 private:
  struct Product {
    double in = 0, out = 0;
    bool transposed = false, recomputed = true;
    bool trained = true;  // its weight or an adapter, for whose gradient its input is kept
  };
  const cost::GroupSpan& span(const graph::Grid& grid, graph::Axis axis);
  double highest_rate() const;

  const train::RunConfig& config_;
  const cost::Machine& machine_;
  std::int64_t ranks_;
  std::array<Product, 4> products_;
  std::map<std::pair<std::int64_t, std::int64_t>, cost::GroupSpan> spans_;  // by stride and size
};

}  // namespace weft::study
