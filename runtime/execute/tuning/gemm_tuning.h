// The method of each matrix product, by shape, layout and dtypes, and of each attention on a GPU, as measured by
// `weft tune`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "kernels/cpu/gemm/gemm_method.h"
#include "kernels/cpu/matrix.h"
#include "runtime/execute/tuning/attention_tuning.h"

namespace weft::execute {

using cpu::GemmProblem;

/// "256x2304x768 NT f32, bias, C 2304 apart": for tables and messages. Strides are named where rows don't touch.
std::string to_string(const GemmProblem& problem);

/// Of a prepared task: A, B and C in the first three of a Gemm's slots (runtime/execute/task_arguments.h), in the
/// operation's shapes.
GemmProblem problem_of(const graph::Gemm& operation, std::span<const cpu::Matrix> slots);
/// Of a task in a graph, whose operation is a Gemm: equal to that of the task as it is prepared.
GemmProblem problem_of(const graph::Graph& graph, const graph::Task& task);

/// The machine for which a measured choice is valid.
struct TuningMachine {
  std::string isa;                // features of the CPU, and the level that the library uses
  std::string library;            // "oneDNN 2.6.3"
  std::string of_attention = {};  // the library of a GPU's attention: "cuDNN 9.19.0"
  friend bool operator==(const TuningMachine&, const TuningMachine&) = default;
};

TuningMachine this_machine();

/// An algorithm of a GPU's library (cuBLASLt), as the library itself writes it down (128 hexadecimal digits), and the
/// layout that the library is shown.
struct DeviceGemmMethod {
  std::string algorithm;
  cpu::GemmLayout layout = cpu::GemmLayout::own;
  bool operator==(const DeviceGemmMethod&) const = default;
};

using GemmMethod = std::variant<cpu::GemmMethod, DeviceGemmMethod>;

/// "sgemm 128x768 nn", "cublaslt 00… nn": the only form that parse_gemm_method() reads.
std::string to_string(const GemmMethod& method);
std::optional<GemmMethod> parse_gemm_method(std::string_view text);
/// For tables that people read: of an algorithm's 128 digits a hash, "cublaslt #9a9da6ba nn".
std::string brief(const GemmMethod& method);

struct GemmChoice {
  GemmProblem problem;
  GemmMethod method;
};

/// Methods of products and of attention (all others use the default method), and the unit that multiplies bf16 in
/// Weft's own products and in attention. Immutable.
///
///   const GemmTuning tuning({{problem, method}});
///   if (const cpu::GemmMethod* method = tuning.find(problem)) …
class GemmTuning {
 public:
  GemmTuning() : GemmTuning(std::vector<GemmChoice>{}) {}
  /// Throws std::logic_error if a problem comes twice. `bf16`: null: the CPU's widest unit, and no part of the
  /// fingerprint.
  explicit GemmTuning(std::vector<GemmChoice> choices, std::optional<PackedUnit> bf16 = std::nullopt,
                      std::vector<AttentionChoice> attention = {});

  /// Null: the default method of a CPU, or of a GPU.
  template <class Method = cpu::GemmMethod>
  const Method* find(const GemmProblem& problem) const {
    const auto found = std::ranges::lower_bound(choices_, problem, {}, &GemmChoice::problem);
    return found != choices_.end() && found->problem == problem ? std::get_if<Method>(&found->method) : nullptr;
  }
  /// Null: the default engine.
  const AttentionMethod* find(const AttentionProblem& problem) const {
    const auto found = std::ranges::lower_bound(attention_, problem, {}, &AttentionChoice::problem);
    return found != attention_.end() && found->problem == problem ? &found->method : nullptr;
  }
  std::optional<PackedUnit> bf16() const { return bf16_; }
  PackedUnit bf16_unit() const { return bf16_ ? *bf16_ : cpu::widest_bf16_unit(); }
  /// In the order of the problems.
  std::span<const GemmChoice> choices() const { return choices_; }
  std::span<const AttentionChoice> attention() const { return attention_; }
  bool empty() const { return choices_.empty() && attention_.empty() && !bf16_; }
  /// Equal for equal choices and units, never 0. Ranks with different ones would compute different bits.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  std::vector<GemmChoice> choices_;
  std::vector<AttentionChoice> attention_;
  std::optional<PackedUnit> bf16_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace weft::execute
