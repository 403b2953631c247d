#include "graph/task_signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <type_traits>

#include "graph/grid.h"

namespace weft::graph {
namespace {

/// The words of a signature between its kind and its dtype, by the names of fields.
using Words = std::map<std::string_view, std::string_view>;

/// Fills each field from its word, if it has one. Returns whether all words are fields of the operation and
/// well-formed.
template <class Op>
bool fill(Op& operation, Words words) {
  bool good = true;
  const auto fill_field = [&](const auto& row) {
    const auto found = words.find(row.name);
    if (found == words.end()) return;
    auto& value = operation.*row.member;
    const std::string_view text = found->second;
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, Channel>) {
      const std::optional<Channel> channel = find_channel(text);
      good = good && channel.has_value();
      value = channel.value_or(Channel::world);
    } else if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, bool>) {
      good = false;  // a collective's flags don't tell its cost
    } else {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      good = good && error == std::errc() && end == text.data() + text.size() && value > 0;
    }
    words.erase(found);
  };
  std::apply([&](const auto&... rows) { (fill_field(rows), ...); }, Op::fields());
  return good && words.empty();
}

}  // namespace

DType signature_dtype(const Graph& graph, const Task& task) {
  for (const Access& access : task.accesses) {
    const DType dtype = graph.tensor(access.view.tensor).dtype;
    if (dtype == DType::f32 || dtype == DType::bf16) return dtype;
  }
  return DType::f32;
}

std::string task_signature(const Graph& graph, const Task& task) {
  std::string text(kind_name(task.operation));
  for_each_field_schema(task.operation, [&]<class T>(const auto& field, const T& value) {
    const std::string_view name = field.name;
    if constexpr (std::is_same_v<T, bool>) {
      if (value && field.in_signature) fmt::format_to(std::back_inserter(text), " {}", name);
    } else if constexpr (std::is_enum_v<T>) {
      fmt::format_to(std::back_inserter(text), " {}={}", name, to_string(value));
    } else if constexpr (std::is_integral_v<T>) {
      if (value != 0 && field.in_signature) {
        fmt::format_to(std::back_inserter(text), " {}={}", name, value);
      }
    }
  });
  return text + " " + std::string(to_string(signature_dtype(graph, task)));
}

std::optional<SignedCollective> collective_of_signature(std::string_view signature) {
  const std::size_t kind_end = signature.find(' '), dtype_begin = signature.rfind(' ');
  if (kind_end == std::string_view::npos || kind_end == dtype_begin) return std::nullopt;
  Words words;
  for (std::string_view rest = signature.substr(kind_end + 1, dtype_begin - kind_end - 1); !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    words[word.substr(0, equals)] = word.substr(equals + 1);
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  }
  const std::string_view dtype = signature.substr(dtype_begin + 1);
  SignedCollective collective;
  if (dtype == to_string(DType::bf16)) {
    collective.dtype = DType::bf16;
  } else if (dtype != to_string(DType::f32)) {
    return std::nullopt;
  }
  const auto is = [&]<class Op>(Op operation) {
    if (signature.substr(0, kind_end) != Op::kind || !fill(operation, words)) return false;
    collective.operation = operation;
    if constexpr (requires { operation.ranks; }) {
      if (operation.ranks <= 0) return false;
    }
    if constexpr (requires { operation.experts; }) {
      if (std::min({operation.rows, operation.most, operation.experts}) <= 0) return false;
    }
    return operation.count > 0;
  };
  const bool known = is(AllReduce{}) || is(ReduceScatter{}) || is(AllGather{}) || is(Broadcast{}) || is(Send{}) ||
                     is(Receive{}) || is(AllToAll{}) || is(ExchangeRows{});
  return known ? std::optional(collective) : std::nullopt;
}

}  // namespace weft::graph
