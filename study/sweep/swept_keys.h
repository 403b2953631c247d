// The keys and values of a sweep, from the words of the command line.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::study {

/// A key of the configuration ("model.layers") or a number of the machine ("machine.network.latency"), with the values
/// that it takes.
struct SweptKey {
  std::string key;
  std::vector<std::string> values;
  friend bool operator==(const SweptKey&, const SweptKey&) = default;
};

inline constexpr std::string_view kMachinePrefix = "machine.";

/// Groups the words of --over: KEY=VALUE begins a group if KEY is in `known`, "model.…" or "machine.…", and at the
/// beginning; every other word is a further value. Throws UserError on a first word without a key, on a key that isn't
/// in `known` and names no number of a machine, and on a key or a value that comes twice.
std::vector<SweptKey> swept_keys(std::span<const std::string> words, const std::vector<std::string>& known);

}  // namespace weft::study
