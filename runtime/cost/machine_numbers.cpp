#include "runtime/cost/machine_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "runtime/cost/machine_keys.h"

namespace weft::cost {
namespace {

std::string_view layout_text(bool trans_a, bool trans_b) {
  return trans_a ? trans_b ? "tt" : "tn" : trans_b ? "nt" : "nn";
}

}  // namespace

std::string_view to_string(MachineUnit unit) {
  constexpr std::array<std::string_view, 6> kUnits = {"s", "bytes", "bytes/s", "operations/s", "s/byte", ""};
  return kUnits.at(static_cast<std::size_t>(unit));
}

std::vector<MachineNumber> machine_numbers(const Machine& machine) {
  std::vector<MachineNumber> numbers;
  // `in_file`: the number's key there, and `item` its place in a list.
  const auto add = [&](std::string key, std::string_view in_file, std::size_t item, double value, MachineUnit unit) {
    const Provenance* found = provenance_of(machine, in_file, item);
    numbers.push_back({std::move(key), value, unit, found == nullptr ? "" : found->status,
                       found == nullptr || found->source.empty() ? machine.source : found->source});
  };
  const auto add_values = [&](std::string_view table) {
    for (const MachineKey& key : machine_keys()) {
      if (key.table != table) continue;
      add(key.key(), key.key(), 0, value_of(machine, key), key.unit);
      if (numbers.back().value != key.usual || provenance_of(machine, key.key(), 0) != nullptr) continue;
      numbers.back().status = "default";
      numbers.back().source = "";
    }
  };
  for (const std::string_view table : {"", "device", "node"}) add_values(table);
  for (std::size_t i = 0; i < machine.node_groups.size(); ++i) {
    const NodeGroup& group = machine.node_groups[i];
    add(fmt::format("node.group[ranks={}, stride={}].bandwidth", group.ranks, group.stride), "node.group.bandwidth", i,
        group.bandwidth, MachineUnit::bytes_a_second);
  }
  add_values("network");
  for (std::size_t i = 0; i < machine.congestion.size(); ++i) {
    add(fmt::format("network.congestion[nodes={}].factor", machine.congestion[i].nodes), "network.congestion.factor", i,
        machine.congestion[i].factor, MachineUnit::number);
  }
  add_values("transport");
  for (std::size_t i = 0; i < machine.slowdowns.size(); ++i) {
    const Slowdown& slowdown = machine.slowdowns[i];
    add(fmt::format("slowdown[{} beside {}].factor", slowdown.compute.empty() ? "any" : slowdown.compute,
                    slowdown.collective.empty() ? "any" : slowdown.collective),
        "slowdown.factor", i, slowdown.factor, MachineUnit::number);
  }
  return numbers;
}

std::string value_text(const MachineNumber& number) {
  if (number.unit == MachineUnit::number) return fmt::format("{:.4g}", number.value);
  if (number.unit == MachineUnit::bytes) return human_bytes(static_cast<std::uint64_t>(number.value));
  constexpr std::array<std::string_view, 5> kUnits = {"s", "", "B/s", "flop/s", "s/B"};
  return with_prefix(number.value, kUnits.at(static_cast<std::size_t>(number.unit)));
}

std::vector<std::string> unsure_numbers(const Machine& machine) {
  std::vector<std::string> keys;
  for (const Provenance& number : machine.provenance) {
    if (number.status != "unverified" && number.status != "assumed") continue;
    if (std::ranges::find(keys, number.key) == keys.end()) keys.push_back(number.key);
  }
  return keys;
}

std::string unsure_text(std::span<const std::string> keys) {
  constexpr std::size_t kNamed = 3;
  if (keys.empty()) return "";
  const std::string named = join(keys.first(std::min(kNamed, keys.size())));
  return fmt::format("{} of its numbers {} unverified or assumed: {}{}", keys.size(), keys.size() == 1 ? "is" : "are",
                     named, keys.size() > kNamed ? fmt::format(" and {} more", keys.size() - kNamed) : "");
}

std::string unmeasured_text(const Machine& machine) {
  // Of processors with units for products of their own: that is where published runs were slower.
  if (!machine.gemms.empty() || machine.flops_bf16 <= 2 * machine.flops_f32) return "";
  return "its file has no measured product; published runs took 1.4 to 2 times as long as steps by such rates; "
         "hgx-h100, dgx-a100 and mi250x have measured ones (docs/machines.md)";
}

std::vector<std::string> implausible_numbers(const Machine& machine) {
  struct Known {
    MachineUnit unit;
    double least, most;  // of devices and links that there are, with the digits of the next years
  };
  constexpr std::array kKnown = {Known{MachineUnit::seconds, 1e-8, 1e-2}, Known{MachineUnit::bytes, 1e8, 1e13},
                                 Known{MachineUnit::bytes_a_second, 1e6, 1e14},
                                 Known{MachineUnit::operations_a_second, 1e8, 1e17}};
  constexpr double kThousand = 1000;
  std::vector<std::string> lines;
  for (const MachineNumber& number : machine_numbers(machine)) {
    const auto* const known = std::ranges::find(kKnown, number.unit, &Known::unit);
    if (known == kKnown.end() || number.value == 0) continue;
    const bool below = number.value * kThousand <= known->least;
    if (!below && number.value < known->most * kThousand) continue;
    lines.push_back(fmt::format("{} = {} is a thousand times {} any device's: {} are {}", number.key,
                                value_text(number), below ? "below" : "above", number.key, to_string(number.unit)));
  }
  return lines;
}

std::string point_text(const GemmPoint& point) {
  return fmt::format("gemm {}x{}x{} {} {}", point.m, point.n, point.k, layout_text(point.trans_a, point.trans_b),
                     to_string(point.dtype));
}

std::string point_text(const AttentionPoint& point) {
  return fmt::format("attention {}, {} x {} heads of {}, seq {}, {}{}", point.backward ? "backward" : "forward",
                     point.batch, point.heads, point.head_dim, point.seq, to_string(point.dtype),
                     point.library.empty() ? "" : ", " + point.library);
}

std::string point_text(const CalibrationPoint& point) {
  if (point.kind == "gemm") return fmt::format("gemm {}x{}x{} {}", point.m, point.n, point.k, to_string(point.dtype));
  return fmt::format("{} of {}, {} ranks", point.kind, format_bytes(point.bytes), point.ranks);
}

}  // namespace weft::cost
