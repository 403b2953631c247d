#include "runtime/execute/tuning/gemm_tuning.h"

#include <dnnl.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <variant>

#include "base/hash.h"
#include "graph/named_accesses.h"
#include "runtime/execute/task_arguments.h"

namespace weft::execute {
namespace {

const std::string kOnDevice = "cublaslt ";

struct Stored {
  std::int64_t rows, cols;
};

std::array<Stored, 3> stored_shapes(const graph::Gemm& op) {
  return {op.trans_a ? Stored{op.k, op.m} : Stored{op.m, op.k}, op.trans_b ? Stored{op.n, op.k} : Stored{op.k, op.n},
          Stored{op.m, op.n}};
}

// Of rows that touch, and of a single one, it is the number of columns; so is that of a contiguous argument in another
// shape, which a kernel takes as the operation's.
std::int64_t stride_of(Stored stored, const cpu::Matrix& matrix) {
  const bool same_shape = matrix.rows == stored.rows && matrix.cols == stored.cols;
  return stored.rows <= 1 || !same_shape ? stored.cols : matrix.row_stride;
}

std::uint64_t fingerprint_of(std::span<const GemmChoice> choices, std::optional<PackedUnit> bf16,
                             std::span<const AttentionChoice> attention) {
  Fingerprint fingerprint;
  fingerprint.add("gemm tuning");
  for (const auto& [p, method] : choices) {
    for (const std::int64_t size : {p.m, p.n, p.k, p.strides[0], p.strides[1], p.strides[2]}) fingerprint.add(size);
    for (const bool flag : {p.trans_a, p.trans_b, p.accumulate, p.has_bias}) fingerprint.add(flag);
    for (const DType dtype : {p.inputs, p.output}) fingerprint.add(to_string(dtype));
    if (p.epilogue != Epilogue::none) fingerprint.add(to_string(p.epilogue));
    if (p.tf32) fingerprint.add("tf32");
    fingerprint.add(to_string(method));
  }
  if (bf16) fingerprint.add(to_string(*bf16));
  for (const auto& [p, method] : attention) {
    for (const std::int64_t size : {p.batch, p.seq, p.heads, p.kv_heads, p.head_dim}) fingerprint.add(size);
    for (const std::int64_t stride : p.strides) fingerprint.add(stride);
    for (const bool flag : {p.backward, p.any_bits}) fingerprint.add(flag);
    fingerprint.add(to_string(method));
  }
  return std::max<std::uint64_t>(1, fingerprint.value());
}

}  // namespace

std::string to_string(const GemmMethod& method) {
  if (const auto* on_device = std::get_if<DeviceGemmMethod>(&method)) {
    return (kOnDevice + on_device->algorithm).append(cpu::layout_suffix(on_device->layout));
  }
  return cpu::to_string(std::get<cpu::GemmMethod>(method));
}

std::string brief(const GemmMethod& method) {
  const auto* on_device = std::get_if<DeviceGemmMethod>(&method);
  if (on_device == nullptr) return to_string(method);
  const std::uint64_t hash = Fingerprint().add(on_device->algorithm).value();
  return fmt::format("{}#{:08x}{}", kOnDevice, hash >> 32, cpu::layout_suffix(on_device->layout));
}

std::optional<GemmMethod> parse_gemm_method(std::string_view text) {
  if (!text.starts_with(kOnDevice)) {
    const auto method = cpu::parse_gemm_method(text);
    return method ? std::optional<GemmMethod>(*method) : std::nullopt;
  }
  text.remove_prefix(kOnDevice.size());
  const cpu::GemmLayout layout = cpu::take_layout_suffix(text);
  constexpr std::size_t kDigits = 128;
  if (text.size() != kDigits || text.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    return std::nullopt;
  }
  return DeviceGemmMethod{std::string(text), layout};
}

std::string to_string(const GemmProblem& problem) {
  const auto& [m, n, k, trans_a, trans_b, accumulate, has_bias, inputs, output, strides, epilogue, tf32] = problem;
  std::string text =
      fmt::format("{}x{}x{} {}{} {}", m, n, k, trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', to_string(inputs));
  if (tf32) text += " by TF32";
  if (inputs != output) text += fmt::format(" to {}", to_string(output));
  if (has_bias) text += ", bias";
  if (accumulate) text += ", added";
  if (epilogue != Epilogue::none) text += fmt::format(", {}", to_string(epilogue));
  const auto shapes = stored_shapes({m, n, k, trans_a, trans_b});
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (strides[i] != shapes[i].cols) text += fmt::format(", {} {} apart", "ABC"[i], strides[i]);
  }
  return text;
}

GemmProblem problem_of(const graph::Gemm& operation, std::span<const cpu::Matrix> slots) {
  const Call<graph::Gemm> product(operation, slots);
  const auto &a = product["A"], &b = product["B"], &c = product["C"];
  const auto& [of_a, of_b, of_c] = stored_shapes(operation);
  return {operation.m,
          operation.n,
          operation.k,
          operation.trans_a,
          operation.trans_b,
          operation.accumulate,
          operation.has_bias,
          a.dtype,
          c.dtype,
          {stride_of(of_a, a), stride_of(of_b, b), stride_of(of_c, c)},
          operation.epilogue};
}

GemmProblem problem_of(const graph::Graph& graph, const graph::Task& task) {
  const auto& operation = std::get<graph::Gemm>(task.operation);
  const graph::NamedAccesses<graph::Gemm> accesses(task);
  const auto operand = [&](const graph::Access& access) {
    const graph::View& view = access.view;
    return cpu::Matrix{nullptr, view.rows, view.cols, view.row_stride, graph.tensor(view.tensor).dtype};
  };
  return problem_of(operation, std::array{operand(accesses["A"]), operand(accesses["B"]), operand(accesses["C"])});
}

TuningMachine this_machine() {
  std::string isa;
#if defined(__x86_64__)
  isa = "x86-64";
  const auto add = [&](bool present, std::string_view name) {
    if (present) isa += fmt::format(" {}", name);
  };
  add(__builtin_cpu_supports("avx2") != 0, "avx2");
  add(__builtin_cpu_supports("fma") != 0, "fma");
  add(__builtin_cpu_supports("avx512f") != 0, "avx512f");
  add(__builtin_cpu_supports("avx512bw") != 0, "avx512bw");
  add(__builtin_cpu_supports("avx512dq") != 0, "avx512dq");
  add(__builtin_cpu_supports("avx512vl") != 0, "avx512vl");
  add(__builtin_cpu_supports("avx512vnni") != 0, "avx512vnni");
  add(__builtin_cpu_supports("avx512bf16") != 0, "avx512bf16");
#elif defined(__aarch64__)
  isa = "aarch64";
#else
  isa = "another";
#endif
  if (cpu::bf16_in_amx()) isa += " amx-bf16";
  // A user can limit the library to less than the CPU's instruction set.
  isa += fmt::format(", library level {:#x}", static_cast<unsigned>(dnnl_get_effective_cpu_isa()));
  const dnnl_version_t* version = dnnl_version();
  return {isa, fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch)};
}

GemmTuning::GemmTuning(std::vector<GemmChoice> choices, std::optional<PackedUnit> bf16,
                       std::vector<AttentionChoice> attention)
    : choices_(std::move(choices)), attention_(std::move(attention)), bf16_(bf16) {
  std::ranges::sort(choices_, {}, &GemmChoice::problem);
  const auto twice = std::ranges::adjacent_find(choices_, {}, &GemmChoice::problem);
  if (twice != choices_.end()) {
    throw std::logic_error(fmt::format("two methods for the product {}", to_string(twice->problem)));
  }
  std::ranges::sort(attention_, {}, &AttentionChoice::problem);
  const auto again = std::ranges::adjacent_find(attention_, {}, &AttentionChoice::problem);
  if (again != attention_.end()) {
    throw std::logic_error(fmt::format("two methods for the attention {}", to_string(again->problem)));
  }
  fingerprint_ = fingerprint_of(choices_, bf16_, attention_);
}

}  // namespace weft::execute
