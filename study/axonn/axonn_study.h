// The throughputs that AxoNN's authors published, and a simulation of these runs: can the machine files and the
// simulator, with two constants fitted to small runs, predict large ones?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/model_config.h"
#include "runtime/cost/machine.h"
#include "study/experiment.h"
#include "study/search/step_setup.h"

namespace weft::study {

/// One training run of Singh et al., "Democratizing AI: Open-source Scalable LLM Training on GPU-based Supercomputers"
/// (SC '24): sequences of 2,048 tokens, bf16, every layer recomputed.
struct PublishedPoint {
  std::string machine, model;  // names of a machine file and of a model
  std::int64_t ranks = 1;
  std::int64_t sequences = 8192;  // of a step: 16.8 million tokens
  double petaflops = 0;           // sustained by all ranks, recomputation counted; 0: only an efficiency is published
  bool verified = false;          // read in the paper itself, not in a source that cites it
  bool fitted = false;            // at the small end of its machine's series: constants are fitted to it
  double efficiency = 0;          // published rate of a rank over that of the machine's smallest run; 0: none
};

/// By machine and rising ranks. The smallest run of a machine comes first.
const std::vector<PublishedPoint>& published_points();

/// "gpt-5b on 512 ranks of frontier".
std::string to_string(const PublishedPoint& point);

/// The rate of the data sheet for dense products in bf16, in 10¹² operations a second of a rank, of which the paper
/// gives percentages.
double advertised_teraflops(const std::string& machine);

/// Floating-point operations of a step as the paper counts them, with the forward pass computed twice and attention
/// unmasked: 96·B·S·l·h²·(1 + S/6h + V/16lh) (Narayanan et al., SC '21, equation 3). Divided by the step and the peak
/// it gives the hardware FLOPs utilization, HFU.
double hardware_flops(const ops::ModelConfig& model, std::int64_t sequences, std::int64_t seq_len);

/// The fitted numbers of one machine.
struct FittedConstants {
  double efficiency = 1;  // device.efficiency: the share of a good product's rate that computations reach, up to 1
  /// The congestion of n nodes multiplies the time of bytes between nodes by 1 + congestion·log2(n).
  double congestion = 0;
};

/// The machine with these constants in place of its own.
cost::Machine with_constants(cost::Machine machine, const FittedConstants& constants);

/// The steps of one configuration at several constants, between which it is interpolated: a step of which computing
/// limits one part and communication another grows with 1/efficiency and with the congestion in nearly straight lines.
class StepSurface {
 public:
  static const std::vector<FittedConstants>& places();  // at which steps are needed
  /// `step_ns`: by place.
  explicit StepSurface(std::vector<double> step_ns);
  double step_ns(const FittedConstants& constants) const;

 private:
  std::vector<double> step_ns_;
};

/// The constants for which the logarithms of the rates differ least from the published ones (least squares).
/// `surfaces`: by point, the configurations of which the fastest counts.
FittedConstants fit_constants(const std::vector<std::vector<StepSurface>>& surfaces,
                              const std::vector<double>& published_ns);

/// The step with one of AxoNN's overlaps alone, or with several.
struct SwitchedStep {
  std::string policy;  // "axonn:oar=on,ors=off,oag=off"
  double step_ns = 0;
};

struct SimulatedPoint {
  PublishedPoint published;
  StepSetup setup;            // the fastest under the fitted constants
  double step_ns = 0;         // simulated with them
  double unfitted_ns = 0;     // of the fastest setup with the machine's own numbers
  double left_out_ns = 0;     // with constants that were fitted to the machine's other points
  double hardware_flops = 0;  // of a step
  std::int64_t memory_bytes = 0;
  double compute_ns = 0, exposed_ns = 0;  // Σ of the computations; communication that nothing hides
  std::vector<SwitchedStep> switches;     // of the same setup: none, each alone, all

  double petaflops(double ns) const { return hardware_flops / ns * 1e-6; }
  double published_ns() const { return hardware_flops / published.petaflops * 1e-6; }
};

struct AxonnStudy {
  struct OfMachine {
    cost::Machine machine;  // without the constants
    FittedConstants constants;
    std::vector<SimulatedPoint> points = {};  // by rising ranks
  };
  std::vector<OfMachine> machines;
};

struct AxonnStudyOptions {
  std::vector<std::string> machines;  // names; empty: all
  int threads = 1;
};

/// 1. For each point, policy axonn (16 reductions in flight at most) plans and simulates AxoNN's kind of grids: powers
/// of
///    two (6,144 ranks: and a factor of three), axes in the usual order, a micro-batch that is a power of two, every
///    layer recomputed, weights gathered again for the backward pass, gradients reduced in bf16. The machine file's own
///    numbers count. Grids are tried by their bound (ClosedForms), as long as it is below the last candidate's step.
///    The fastest that fit the memory are the candidates.
/// 2. Two constants a machine are fitted to the points at the small end of its series.
/// 3. Of each point the fastest candidate under these constants is simulated.
AxonnStudy study_axonn(const AxonnStudyOptions& options, const TellStatus& tell);

/// One published figure beside the simulated one.
struct ComparedFigure {
  std::string name;  // "gpt-5b on 512 ranks of frontier", with ", efficiency" for a share of the smallest run's rate
  std::string unit;  // "PFLOP/s" or "%"
  double published = 0, simulated = 0;
  double left_out = 0;  // simulated with constants fitted to the machine's other points; 0: an efficiency has none
  bool fitted = false, verified = false;

  double error() const { return simulated / published - 1; }
};

/// The rates of all points, and the efficiencies that are published. An efficiency counts as verified where its
/// percentage stands in the paper.
std::vector<ComparedFigure> compared_figures(const AxonnStudy& study);

/// As text tables of the figures and of each machine's runs; as JSON {"points": [{"name", "published", "simulated",
/// "error", "fitted", "verified", …}], "machines": […]}; as a picture rates over ranks, published and simulated. The
/// study outlives them.
Results results_of(const AxonnStudy& study);

}  // namespace weft::study
