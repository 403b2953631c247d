// Loads of experts as factors of rows; see expert_rows.h.
#include "runtime/cost/expert_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <variant>

namespace weft::cost {
namespace {

std::int64_t scaled(std::int64_t rows, double factor, std::int64_t most) {
  return std::min(most, static_cast<std::int64_t>(std::llround(static_cast<double>(rows) * factor)));
}

}  // namespace

std::vector<double> zipf_shares(std::int64_t experts, std::int64_t choices, double exponent) {
  std::vector<double> shares;
  for (std::int64_t e = 0; e < experts; ++e) shares.push_back(std::pow(static_cast<double>(e + 1), -exponent));
  const double most = 1 / static_cast<double>(choices);
  // Every token takes the first `full` experts; the other experts share the remaining rows.
  for (std::size_t full = 0; full < shares.size(); ++full) {
    const double left = std::max(0.0, 1 - static_cast<double>(full) * most);
    const double factor = left / std::accumulate(shares.begin() + static_cast<std::ptrdiff_t>(full), shares.end(), 0.0);
    if (shares[full] * factor > most) {
      shares[full] = most;
      continue;
    }
    for (std::size_t e = full; e < shares.size(); ++e) shares[e] *= factor;
    break;
  }
  return shares;
}

double most_loaded(std::span<const double> loads, std::int64_t ranks) {
  const std::size_t on_rank = loads.size() / static_cast<std::size_t>(ranks);
  double all = 0, most = 0;
  for (std::size_t first = 0; first < loads.size(); first += on_rank) {
    const std::span<const double> own = loads.subspan(first, on_rank);
    const double sum = std::accumulate(own.begin(), own.end(), 0.0);
    all += sum;
    most = std::max(most, sum);
  }
  return most * static_cast<double>(ranks) / all;
}

std::optional<graph::Operation> RowFactors::counted(const graph::Task& task) const {
  if (const auto* exchange = std::get_if<graph::ExchangeRows>(&task.operation); exchange != nullptr && segments) {
    graph::ExchangeRows whole = *exchange;
    whole.rows = whole.most;
    return whole;
  }
  const double factor = of(task.layer);
  return factor == 1 ? std::nullopt : std::optional(with_rows(task.operation, factor));
}

std::string RowFactors::text() const {
  double least = usual, most = usual;
  if (!layers.empty()) {
    const auto [low, high] = std::ranges::minmax_element(layers);
    least = *low, most = *high;
  }
  std::string sent = segments ? ", rows sent in whole segments" : "";
  if (least == 1 && most == 1) return sent;
  const std::string range = least == most ? "" : fmt::format("{:.3g} to ", least);
  return fmt::format(", experts' rows × {}{:.3g}", range, most) + sent;
}

graph::Operation with_rows(graph::Operation operation, double factor) {
  std::visit(
      [&](auto& op) {
        if constexpr (requires {
                        op.most;
                        op.experts;
                      }) {
          op.rows = scaled(op.rows, factor, op.most);
        } else if constexpr (requires { op.expected; }) {
          op.expected = scaled(op.expected, factor, op.rows);
        }
      },
      operation);
  return operation;
}

}  // namespace weft::cost
