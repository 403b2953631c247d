#include "runtime/execute/tuning/attention_tuning.h"

#include <fmt/format.h>

#include <map>
#include <type_traits>
#include <variant>
#include <vector>

#include "runtime/execute/task_arguments.h"

namespace weft::execute {
namespace {

constexpr std::string_view kOwn = "weft", kLibrary = "cudnn ", kAnyBits = " any-bits";

template <class Op>
std::optional<AttentionProblem> problem_of_any(const Call<Op>& c) {
  if (c["q"].dtype != DType::bf16 || c->window > 0 || c->documents || c->scale != 0.0F) return std::nullopt;
  AttentionProblem problem{c->batch, c->seq, c->heads, c->kv_heads, c->head_dim};
  problem.strides = {c["q"].row_stride, c["k"].row_stride, c["v"].row_stride, c["out"].row_stride};
  if constexpr (std::is_same_v<Op, graph::AttentionBackward>) {
    problem.backward = true;
    problem.strides[4] = c["dout"].row_stride, problem.strides[5] = c["dq"].row_stride;
    problem.strides[6] = c["dk"].row_stride, problem.strides[7] = c["dv"].row_stride;
  }
  return problem;
}

bool is_number(std::string_view text) {
  constexpr std::size_t kMostDigits = 18;
  return !text.empty() && text.size() <= kMostDigits && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "eng5_k24=3_k26=0".
bool is_engine(std::string_view text) {
  constexpr std::string_view kNumber = "eng", kKnob = "k";
  for (bool first = true;; first = false) {
    const std::string_view part = text.substr(0, text.find('_')), mark = first ? kNumber : kKnob;
    if (!part.starts_with(mark)) return false;
    const std::string_view rest = part.substr(mark.size());
    const std::size_t equals = rest.find('=');
    const bool fits = first ? is_number(rest)
                            : equals != std::string_view::npos && is_number(rest.substr(0, equals)) &&
                                  is_number(rest.substr(equals + 1));
    if (!fits) return false;
    if (part.size() == text.size()) return true;
    text.remove_prefix(part.size() + 1);
  }
}

}  // namespace

std::string to_string(const AttentionProblem& p) {
  std::string text =
      fmt::format("{}x{}, {} heads of {} bf16{}", p.batch, p.seq, p.heads, p.head_dim, p.backward ? " backward" : "");
  if (p.kv_heads != p.heads) text += fmt::format(", {} of keys", p.kv_heads);
  if (p.any_bits) text += ", any bits";
  constexpr std::array names = {"q", "k", "v", "out", "dout", "dq", "dk", "dv"};
  std::map<std::int64_t, std::string> apart;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool of_keys = i == 1 || i == 2 || i > 5;
    const std::int64_t touching = (of_keys ? p.kv_heads : p.heads) * p.head_dim;
    if (p.strides[i] == 0 || p.strides[i] == touching) continue;
    std::string& all = apart[p.strides[i]];
    all += all.empty() ? names[i] : fmt::format("|{}", names[i]);
  }
  for (const auto& [stride, all] : apart) text += fmt::format(", {} {} apart", all, stride);
  return text;
}

std::optional<AttentionProblem> problem_of(const Call<graph::AttentionForward>& call) {
  return problem_of_any(call);
}
std::optional<AttentionProblem> problem_of(const Call<graph::AttentionBackward>& call) {
  return problem_of_any(call);
}

std::optional<AttentionProblem> attention_problem_of(const graph::Graph& graph, const graph::Task& task) {
  const auto of = [&](const auto& operation) {
    std::vector<cpu::Matrix> arguments;
    for (const graph::Access& access : task.accesses) {
      const graph::View& view = access.view;
      arguments.push_back({nullptr, view.rows, view.cols, view.row_stride, graph.tensor(view.tensor).dtype});
    }
    const std::vector<cpu::Matrix> slots = fitted_arguments(task.operation, arguments);
    return problem_of(Call(operation, slots));
  };
  if (const auto* forward = std::get_if<graph::AttentionForward>(&task.operation)) return of(*forward);
  if (const auto* backward = std::get_if<graph::AttentionBackward>(&task.operation)) return of(*backward);
  return std::nullopt;
}

std::string to_string(const AttentionMethod& method) {
  if (method.engine.empty()) return std::string(kOwn);
  return fmt::format("{}{}{}", kLibrary, method.engine, method.deterministic ? "" : kAnyBits);
}

std::optional<AttentionMethod> parse_attention_method(std::string_view text) {
  if (text == kOwn) return AttentionMethod{};
  if (!text.starts_with(kLibrary)) return std::nullopt;
  text.remove_prefix(kLibrary.size());
  const bool deterministic = !text.ends_with(kAnyBits);
  if (!deterministic) text.remove_suffix(kAnyBits.size());
  if (!is_engine(text)) return std::nullopt;
  return AttentionMethod{std::string(text), deterministic};
}

}  // namespace weft::execute
