// What formulas alone say of a step: lower bounds on its time and memory, which drop most setups of a search before any
// graph is made; the idle time of pipeline stages; and AxoNN's model of communication.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include "runtime/cost/cost_model.h"
#include "runtime/policy/catalog/policies.h"
#include "study/search/step_setup.h"
#include "train/config/config.h"

namespace weft::study {

/// One of the four products of a layer; of experts, all of them together.
struct LayerProduct {
  double in = 0, out = 0;
  double matrices = 1, taken = 1;  // matrices [out, in], and as many of them as a token takes
  bool transposed = false;         // cut over y, then x
  bool recomputed = true;
  bool trained = true;  // its weight or an adapter, for whose gradient its input is kept
};
std::array<LayerProduct, 4> layer_products(const ops::ModelConfig& model);

/// Bounds for one model, batch, machine and number of ranks. They count the four products of every layer and the head,
/// of experts those that a token takes, and leave out attention, elementwise work, latency, embedding and everything
/// that depends on an order of tasks.
///
///   computing   (6, recomputed products 8)·tokens·in·out / ranks / the highest rate; 2 less where adapters are trained
///               over frozen weights (LoRA), whose own products and gradients aren't counted
///   weights     gathered over z once a step, or twice a micro-batch if resharded; gradients scattered once
///   outputs     reduced over x, recomputed ones twice; inputs' gradients over y; x and y change places in transposed
///               products. With sequence parallelism: results scattered and their gradients gathered, inputs gathered
///               in both passes, and their gradients scattered
///   memory      weights, optimizer state, and the products' inputs that the last forward pass keeps (recomputed: the
///               inputs of layers), each divided as far as any axis could
class ClosedForms {
 public:
  /// `config` is filled in, but for its grid and its micro-batch. Both must outlive the object.
  ClosedForms(const train::RunConfig& config, const cost::Machine& machine, std::int64_t ranks)
      : config_(config), machine_(machine), ranks_(ranks), products_(layer_products(config.model)) {}

  double least_bytes(const StepSetup& setup) const;
  /// The model's parameters without adapters.
  double weights() const { return weights_; }
  /// In nanoseconds, of the step with the grid's axes in the setup's order.
  double least_ns(const StepSetup& setup);

 private:
  const cost::GroupSpan& span(const graph::Grid& grid, graph::Axis axis);
  double highest_rate() const;

  const train::RunConfig& config_;
  const cost::Machine& machine_;
  std::int64_t ranks_;
  std::array<LayerProduct, 4> products_;
  const double weights_ = graph::as_double(config_.model.parameters());
  std::map<std::pair<std::int64_t, std::int64_t>, cost::GroupSpan> spans_;  // by stride and size
};

/// The time of a step of p stages as a share of its time with all of the model on the ranks of one stage, under the
/// best of the policies that may order it; infinite if none can. For m micro-batches and v chunks a rank:
///
///   share    1/p · (work of the longest stage / mean) · (1 + idle/m)
///   idle     (p − 1)/v micro-batches; (p − 1)/(3v) where gradients of weights, a third of the work, fill idle time
///
/// Messages between stages and collectives that they expose are left out.
double share_of_stages(const train::RunConfig& config, const StepSetup& setup,
                       std::span<const policy::NamedPolicy> policies);

/// The sizes that AxoNN's model looks at.
struct AxonnStep {
  const ops::ModelConfig& model;
  graph::Grid grid;
  std::int64_t sequences = 1, seq_len = 1;  // of all ranks; tokens of each
  std::int64_t micro_batches = 1;
  bool recompute = false;
};

/// Bytes a second of a ring of the axis' groups, while all of them send.
using AxisBandwidth = std::function<double(graph::Axis axis)>;

/// Seconds that the model by which AxoNN chooses its grid predicts for the communication of one step (Singh et al., SC
/// '24, section 5; examples/comm_model.py of Megatron-AxoNN): the bytes that a layer's four products gather, scatter
/// and reduce, divided by each axis' bandwidth. It leaves out computations, overlap, latency, and embedding and head.
/// The published script swaps the sizes of the second product of the MLP; here they are right.
///
///   weights over z   n·A·(z−1)/z · in·out/(x·y) · 2 gathered, A·(…) scattered; n = 2 with recomputation, else 1
///   outputs over x   R·2(x−1)/x · rows·out/y · 2   (x and y change places in transposed products); R = 2 likewise
///   inputs over y    2(y−1)/y · rows·in/x · 2
///   gradients        2(d−1)/d · in·out/(x·y·z) · 4
double axonn_seconds(const AxonnStep& step, const AxisBandwidth& bandwidth);

}  // namespace weft::study
