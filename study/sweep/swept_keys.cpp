#include "study/sweep/swept_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/cost/machine_keys.h"

namespace weft::study {
namespace {

constexpr std::string_view kModelPrefix = "model.";

/// The key before the first "=", written as in the table of keys; "" without one.
std::string key_of(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return "";
  std::string key(word.substr(0, equals));
  std::replace(key.begin(), key.end(), '_', '-');
  return key == "model.name" ? "model" : key;
}

void check_key(const std::string& key, const std::vector<std::string>& known) {
  if (key == "policy" || key == "seed") {
    throw UserError(fmt::format("--over {}", key), "other keys: policies and seeds have flags of their own",
                    key == "policy" ? "--policies with all of them" : "--noise X --seeds N");
  }
  if (key.starts_with(kMachinePrefix)) {
    (void)cost::find_machine_key(std::string_view(key).substr(kMachinePrefix.size()), "--over");
    return;
  }
  if (std::ranges::find(known, key) != known.end()) return;
  const std::string nearest = nearest_name(key, known);
  throw UserError(fmt::format("--over: \"{}\" is no key that a simulated step reads", key), "",
                  nearest.empty() ? "`weft simulate --help` lists the keys" : fmt::format("did you mean {}?", nearest));
}

}  // namespace

std::vector<SweptKey> swept_keys(std::span<const std::string> words, const std::vector<std::string>& known) {
  std::vector<SweptKey> keys;
  for (const std::string& word : words) {
    const std::string key = key_of(word);
    if (keys.empty() && key.empty()) {
      throw UserError(fmt::format("--over {} has no key", word), "a key, a value, and further values",
                      "--over micro-batch=1 2 4");
    }
    const bool begins =
        keys.empty() || (!key.empty() && (std::ranges::find(known, key) != known.end() ||
                                          key.starts_with(kModelPrefix) || key.starts_with(kMachinePrefix)));
    if (begins) {
      check_key(key, known);
      if (std::ranges::find(keys, key, &SweptKey::key) != keys.end()) {
        throw UserError(fmt::format("--over names {} twice", key), "each key once",
                        fmt::format("give all its values together: --over {}=VALUE VALUE", key));
      }
      keys.push_back({key, {}});
    }
    std::string value = begins ? word.substr(word.find('=') + 1) : word;
    std::vector<std::string>& values = keys.back().values;
    if (std::ranges::find(values, value) != values.end()) {
      throw UserError(fmt::format("--over gives {} the value {} twice", keys.back().key, value), "each value once",
                      "leave one out");
    }
    values.push_back(std::move(value));
  }
  return keys;
}

}  // namespace weft::study
