#include "runtime/execute/tuning/gemm_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <map>
#include <memory>
#include <numeric>

#include "base/buffer.h"
#include "base/median.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/parallel.h"

namespace weft::execute {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostScreeningRounds = 3;
constexpr std::size_t kFinalists = 4;  // the default included
constexpr double kWarmSeconds = 4e-4;  // of repeated runs
constexpr int kMostRepeats = 100;

// times[candidate][round] of those that take part. Each round begins with another.
std::map<std::size_t, std::vector<double>> meet(std::span<const std::size_t> candidates, int rounds,
                                                const GemmTimer& timer) {
  std::map<std::size_t, std::vector<double>> times;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const std::size_t candidate = candidates[(i + static_cast<std::size_t>(round)) % candidates.size()];
      times[candidate].push_back(timer(candidate));
    }
  }
  return times;
}

std::vector<double> ratios(const std::vector<double>& usual, const std::vector<double>& other) {
  std::vector<double> result;
  for (std::size_t i = 0; i < usual.size(); ++i) result.push_back(usual[i] / other[i]);
  return result;
}

std::int64_t bytes_of(const cpu::Matrix& matrix) {
  return ((matrix.rows - 1) * matrix.row_stride + matrix.cols) * static_cast<std::int64_t>(size_of(matrix.dtype));
}

// The operands of one product.
class Operands {
 public:
  explicit Operands(const GemmProblem& problem) {
    matrices_ = operands_of(problem);
    for (cpu::Matrix& matrix : matrices_) add(matrix);
    if (problem.has_bias) add(bias_.emplace(cpu::Matrix{nullptr, 1, problem.n, problem.n, problem.inputs}));
  }

  cpu::GemmArguments arguments() const { return {matrices_[0], matrices_[1], matrices_[2], bias_}; }

 private:
  void add(cpu::Matrix& matrix) {
    buffers_.emplace_back(bytes_of(matrix));
    matrix.data = buffers_.back().data();
    fill_with_small_numbers(matrix);
  }

  std::vector<Buffer> buffers_;
  std::array<cpu::Matrix, 3> matrices_;
  std::optional<cpu::Matrix> bias_;
};

// `problem_of`: of a task; null if it isn't one.
template <class Problem, class ProblemOf>
std::vector<UseOf<Problem>> uses_of(std::span<const std::shared_ptr<const graph::Graph>> graphs,
                                    const ProblemOf& problem_of) {
  std::vector<UseOf<Problem>> uses;
  std::map<Problem, std::size_t> places;
  for (const auto& graph : graphs) {
    for (const graph::Task& task : graph->tasks()) {
      const std::optional<Problem> problem = problem_of(*graph, task);
      if (!problem) continue;
      const auto [place, fresh] = places.try_emplace(*problem, uses.size());
      if (fresh) uses.push_back({*problem, 0});
      ++uses[place->second].tasks;
    }
  }
  return uses;
}

std::string sentence_of(const auto& trial, const std::string& problem, const std::string& usual,
                        const std::string& chosen) {
  if (trial.chosen == trial.usual) return fmt::format("{}: {} stays, best of {}", problem, usual, trial.candidates);
  return fmt::format("{}: {} takes {:.2f} times as long as {}", problem, usual, trial.gain, chosen);
}

template <class Problem, class Method>
Trial<Problem, Method> fastest(const Problem& problem, std::span<const Method> methods, const GemmTimer& timer,
                               const GemmTrialOptions& options) {
  std::vector<std::size_t> field(methods.size());
  std::iota(field.begin(), field.end(), std::size_t{0});
  if (field.size() > kFinalists) {
    const auto screened = meet(field, std::min(kMostScreeningRounds, options.rounds), timer);
    // The best of few runs, not their median: a disturbed run tells nothing about the method.
    const auto best_of = [&](std::size_t i) { return *std::ranges::min_element(screened.at(i)); };
    std::sort(field.begin() + 1, field.end(), [&](std::size_t a, std::size_t b) { return best_of(a) < best_of(b); });
    field.resize(kFinalists);
  }
  std::size_t chosen = 0;
  if (field.size() > 1) {
    const auto finals = meet(field, options.rounds, timer);
    double best = 0;
    for (std::size_t i : field) {
      const double gain = median(ratios(finals.at(0), finals.at(i)));
      if (gain > best) best = gain, chosen = i;
    }
    if (best <= 1 + options.least_gain) chosen = 0;
  }
  const std::vector<std::size_t> pair = chosen == 0 ? std::vector<std::size_t>{0} : std::vector<std::size_t>{0, chosen};
  const auto again = meet(pair, options.rounds, timer);
  const std::vector<double> gains = ratios(again.at(0), again.at(chosen));
  const auto won = std::ranges::count_if(gains, [](double gain) { return gain > 1; });
  const bool stays = median(gains) <= 1 + options.least_gain ||
                     static_cast<double>(won) < options.repeatable * static_cast<double>(gains.size());
  if (stays) chosen = 0;
  const std::vector<double>&usual = again.at(0), &best = again.at(chosen);
  return {problem,       methods[0], methods[chosen], median(usual), median(best), median(ratios(usual, best)),
          methods.size()};
}

// The number of uses of an element at which the product's flops take as long as copying it: on an H100 about 4 bytes at
// 2 TB/s beside 1400 flops at 700 TFLOP/s in bf16, 8 bytes beside 240 flops at 60 TFLOP/s in fp32. The other layout has
// to be about twice as fast then. The least flops take some ten microseconds, a few times a kernel's start.
constexpr cpu::CopyRule kHalf{.least_uses = 1024, .least_flops = 8e9};
constexpr cpu::CopyRule kSingle{.least_uses = 128, .least_flops = 1e9};

// On the CPU.
class CpuTrials {
 public:
  CpuTrials(int threads, const GemmTrialOptions& options)
      : workers_(threads),
        options_(options),
        evicting_(static_cast<std::size_t>(options.cache_bytes) / sizeof(float), 1.0F) {}

  GemmTrial run(const GemmProblem& problem) {
    const std::vector<cpu::GemmMethod> methods =
        cpu::gemm_methods(problem.shape(), problem.inputs, problem.output, options_.bf16);
    const Operands operands(problem);
    std::vector<cpu::PreparedGemm> prepared;
    cpu::Scratch scratch;
    for (const cpu::GemmMethod& method : methods) {
      prepared.emplace_back(problem.shape(), operands.arguments(), method, options_.bf16);
      scratch = larger(scratch, prepared.back().scratch());
    }
    workers_.reserve(scratch);

    const auto seconds = [&](std::size_t candidate, int repeats) {
      const auto begin = Clock::now();
      for (int i = 0; i < repeats; ++i) prepared[candidate].run(workers_);
      return std::chrono::duration<double>(Clock::now() - begin).count() / repeats;
    };
    // Operands that no cache holds are always cold.
    const bool fits_cache = operand_bytes(problem) < options_.cache_bytes;
    const GemmTimer timer = [&](std::size_t candidate) {
      if (fits_cache) empty_caches();
      const double cold = seconds(candidate, 1);
      if (!fits_cache) return cold;
      const int repeats = std::clamp(static_cast<int>(kWarmSeconds / cold), 1, kMostRepeats);
      return std::sqrt(cold * seconds(candidate, repeats));
    };
    return choose_method(problem, std::vector<GemmMethod>(methods.begin(), methods.end()), timer, options_);
  }

 private:
  void empty_caches() {
    constexpr std::int64_t kChunk = 1 << 16, kLine = 16;  // elements: of a part, and of a cache's line
    const auto size = static_cast<std::int64_t>(evicting_.size());
    const auto touch = [&](std::int64_t chunk) {
      for (std::int64_t i = chunk * kChunk; i < std::min(size, (chunk + 1) * kChunk); i += kLine) {
        evicting_[static_cast<std::size_t>(i)] += 1.0F;
      }
    };
    workers_.run((size + kChunk - 1) / kChunk, touch);
  }

  cpu::Workers workers_;
  const GemmTrialOptions options_;
  std::vector<float> evicting_;
};

}  // namespace

std::vector<GemmUse> products_of(std::span<const std::shared_ptr<const graph::Graph>> graphs) {
  return uses_of<GemmProblem>(graphs, [](const graph::Graph& graph, const graph::Task& task) {
    const bool product = std::holds_alternative<graph::Gemm>(task.operation);
    return product ? std::optional(problem_of(graph, task)) : std::nullopt;
  });
}

std::vector<AttentionUse> attention_of(std::span<const std::shared_ptr<const graph::Graph>> graphs) {
  return uses_of<AttentionProblem>(graphs, attention_problem_of);
}

std::array<cpu::Matrix, 3> operands_of(const GemmProblem& p) {
  const auto operand = [&](std::size_t i, std::int64_t rows, std::int64_t cols) {
    return cpu::Matrix{nullptr, rows, cols, std::max(cols, p.strides[i]), i == 2 ? p.output : p.inputs};
  };
  return {p.trans_a ? operand(0, p.k, p.m) : operand(0, p.m, p.k),
          p.trans_b ? operand(1, p.n, p.k) : operand(1, p.k, p.n), operand(2, p.m, p.n)};
}

void fill_with_small_numbers(const cpu::Matrix& matrix) {
  std::uint32_t state = 12345;
  for (std::int64_t i = 0; i < (matrix.rows - 1) * matrix.row_stride + matrix.cols; ++i) {
    state = state * 1664525U + 1013904223U;
    const float value = (static_cast<float>(state >> 8) / static_cast<float>(1 << 24) - 0.5F) * 0.1F;
    if (matrix.dtype == DType::bf16) {
      matrix.b16()[i] = bf16(value);
    } else {
      matrix.f32()[i] = value;
    }
  }
}

std::int64_t operand_bytes(const GemmProblem& problem) {
  std::int64_t bytes = 0;
  for (const cpu::Matrix& operand : operands_of(problem)) bytes += bytes_of(operand);
  return bytes;
}

std::string to_string(const GemmTrial& trial) {
  return sentence_of(trial, to_string(trial.problem), brief(trial.usual), brief(trial.chosen));
}

std::string to_string(const AttentionTrial& trial) {
  return sentence_of(trial, "attention " + to_string(trial.problem), to_string(trial.usual), to_string(trial.chosen));
}

GemmTrial choose_method(const GemmProblem& problem, std::span<const GemmMethod> methods, const GemmTimer& timer,
                        const GemmTrialOptions& options) {
  return fastest(problem, methods, timer, options);
}

AttentionTrial choose_method(const AttentionProblem& problem, std::span<const AttentionMethod> methods,
                             const GemmTimer& timer, const GemmTrialOptions& options) {
  return fastest(problem, methods, timer, options);
}

TryGemm cpu_gemm_trials(int threads, const GemmTrialOptions& options) {
  return [trials = std::make_shared<CpuTrials>(threads, options)](const GemmProblem& problem) {
    return trials->run(problem);
  };
}

std::vector<cpu::GemmLayout> device_gemm_layouts(const GemmProblem& problem) {
  if (problem.epilogue != Epilogue::none) return {};
  return cpu::other_layouts(problem.shape(), problem.inputs, problem.inputs == DType::bf16 ? kHalf : kSingle);
}

}  // namespace weft::execute
