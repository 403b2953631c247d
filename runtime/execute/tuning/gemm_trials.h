// Finds the fastest method for a matrix product, and on a GPU for attention, by running the candidates.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/gemm/gemm_method.h"
#include "runtime/execute/tuning/gemm_tuning.h"

namespace weft::execute {

/// How often a graph's step runs a product, or an attention.
template <class Problem>
struct UseOf {
  Problem problem;
  std::int64_t tasks = 0;
};
using GemmUse = UseOf<GemmProblem>;
using AttentionUse = UseOf<AttentionProblem>;

/// The distinct products of some graphs, in the order of their first tasks.
std::vector<GemmUse> products_of(std::span<const std::shared_ptr<const graph::Graph>> graphs);
/// The same of attention_problem_of().
std::vector<AttentionUse> attention_of(std::span<const std::shared_ptr<const graph::Graph>> graphs);

/// A, B and C as they are stored, without data.
std::array<cpu::Matrix, 3> operands_of(const GemmProblem& problem);

/// Fills the matrix, with what lies between its rows, with small numbers of both signs. Sums stay where floats have
/// their digits. Memory that was never written is one page of zeros, which would always be in the cache, and products
/// of zeros take less power than others.
void fill_with_small_numbers(const cpu::Matrix& matrix);
/// Bytes of A, B and C, with the gaps between their rows.
std::int64_t operand_bytes(const GemmProblem& problem);

struct GemmTrialOptions {
  int rounds = 11;                            // in which the finalists meet, and again the winner and the default
  double least_gain = 0.03;                   // below which the default stays
  double repeatable = 0.75;                   // of the rounds that the winner has to win
  std::int64_t cache_bytes = 64 << 20;        // bytes to read until no operand is left in a cache
  PackedUnit bf16 = cpu::widest_bf16_unit();  // unit that multiplies bf16 in Weft's own products
  bool cold_gpu = false;                      // each of a GPU's timed runs begins with other data in its cache
};

/// Times are seconds: medians, on a CPU of the geometric mean of a run with cold and with warm caches.
template <class Problem, class Method>
struct Trial {
  Problem problem;
  Method usual, chosen;  // equal if no other method is reliably faster
  double usual_seconds = 0, chosen_seconds = 0;
  double gain = 1;  // usual / chosen, the median over the rounds of the last meeting
  std::size_t candidates = 0;
};
using GemmTrial = Trial<GemmProblem, GemmMethod>;
using AttentionTrial = Trial<AttentionProblem, AttentionMethod>;

/// "256x768x3072 NT f32: sgemm 128x192 takes 1.11 times as long as packed 128x192".
std::string to_string(const GemmTrial& trial);
std::string to_string(const AttentionTrial& trial);

/// Measures one candidate in one round; seconds.
using GemmTimer = std::function<double(std::size_t candidate)>;

/// Screens the methods (the first is the default), lets the best meet over the rounds, and the winner meet the default
/// once more on its own: a method that won by chance is unlikely to win again. `timer` is called for one candidate, a
/// method by its index, after the other, so that all see the same machine.
GemmTrial choose_method(const GemmProblem& problem, std::span<const GemmMethod> methods, const GemmTimer& timer,
                        const GemmTrialOptions& options);
AttentionTrial choose_method(const AttentionProblem& problem, std::span<const AttentionMethod> methods,
                             const GemmTimer& timer, const GemmTrialOptions& options);

/// Tries all methods for a product, whose operands it allocates for as long as it takes.
///
///   const TryGemm trial = cpu_gemm_trials(2, options);
///   const GemmTrial found = trial(problem);
using TryGemm = std::function<GemmTrial(const GemmProblem& problem)>;
using TryAttention = std::function<AttentionTrial(const AttentionProblem& problem)>;

/// By the workers of a step of so many threads.
TryGemm cpu_gemm_trials(int threads, const GemmTrialOptions& options);

/// The GPU's name and the version of its library; "no GPU" where there is none.
TuningMachine device_tuning_machine();

/// The layouts in which a GPU tries a product, besides its own. None for small products and those of few rows or
/// columns: the copies would take longer than they could save. None for products with an epilogue.
std::vector<cpu::GemmLayout> device_gemm_layouts(const GemmProblem& problem);

/// By the algorithms of a GPU's library. Throws UserError where there is no GPU.
TryGemm device_gemm_trials(const GemmTrialOptions& options);

/// By cuDNN's engines whose workspace takes at most so many bytes, its first guess first, and by Weft's own kernel.
/// Throws UserError where there is no GPU.
TryAttention device_attention_trials(const GemmTrialOptions& options, std::int64_t most_workspace);

}  // namespace weft::execute
