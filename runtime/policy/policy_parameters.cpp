#include "runtime/policy/policy_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/units.h"

namespace weft::policy {
PolicyParameters::PolicyParameters(std::string policy, std::string_view text) : policy_(std::move(policy)) {
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      throw UserError(fmt::format("policy {}: \"{}\" isn't a parameter", policy_, entry),
                      "NAME=VALUE, separated by commas", fmt::format("write {}:NAME=VALUE", policy_));
    }
    const std::string name(entry.substr(0, equals));
    if (!given_.emplace(name, entry.substr(equals + 1)).second) {
      throw UserError(fmt::format("policy {}: {} is given twice", policy_, name), "each parameter once",
                      "leave one out");
    }
  }
}

const std::string* PolicyParameters::find(const std::string& name) {
  known_.push_back(name);
  const auto found = given_.find(name);
  return found == given_.end() ? nullptr : &found->second;
}

void PolicyParameters::refuse(const std::string& name, std::string_view expected) const {
  throw UserError(fmt::format("policy {}: {}={}", policy_, name, given_.at(name)), expected, "");
}

template <class T>
T PolicyParameters::within(const std::string& name, T fallback, T least, T most, std::string_view kind) {
  const std::string* value = find(name);
  if (value == nullptr) return fallback;
  const std::optional<T> result = number_in<T>(*value);
  if (!result || !(*result >= least && *result <= most))  // NaN is in no range
    refuse(name, fmt::format("{} from {} to {}", kind, least, most));
  return *result;
}

std::int64_t PolicyParameters::integer(const std::string& name, std::int64_t fallback, std::int64_t least,
                                       std::int64_t most) {
  return within(name, fallback, least, most, "an integer");
}

double PolicyParameters::number(const std::string& name, double fallback, double least, double most) {
  return within(name, fallback, least, most, "a number");
}

bool PolicyParameters::truth(const std::string& name, bool fallback) {
  const std::string* value = find(name);
  if (value == nullptr) return fallback;
  if (*value == "true" || *value == "on") return true;
  if (*value != "false" && *value != "off") refuse(name, "true or false");
  return false;
}

std::string PolicyParameters::word(const std::string& name, std::string_view fallback,
                                   const std::vector<std::string>& accepted) {
  const std::string* value = find(name);
  if (value == nullptr) return std::string(fallback);
  if (std::ranges::find(accepted, *value) == accepted.end()) refuse(name, "one of " + join(accepted));
  return *value;
}

std::string PolicyParameters::text(const std::string& name, std::string_view fallback) {
  const std::string* value = find(name);
  return value == nullptr ? std::string(fallback) : *value;
}

std::map<std::string, std::string> PolicyParameters::others() const {
  std::map<std::string, std::string> others = given_;
  for (const std::string& name : known_) others.erase(name);
  return others;
}

void PolicyParameters::finish() const {
  for (const auto& [name, value] : others()) {
    const std::string nearest = nearest_name(name, known_);
    throw UserError(fmt::format("policy {} has no parameter \"{}\"", policy_, name),
                    known_.empty() ? std::string("none: it takes no parameters") : "one of " + join(known_),
                    nearest.empty() ? "leave it out" : fmt::format("write \"{}\"", nearest));
  }
}

std::optional<std::uint64_t> seed_parameter(PolicyParameters& parameters) {
  const std::int64_t seed = parameters.integer("seed", -1, 0, std::numeric_limits<std::int64_t>::max());
  return seed < 0 ? std::nullopt : std::optional(static_cast<std::uint64_t>(seed));
}

graph::PipelineChunks chunks_parameter(PolicyParameters& parameters) {
  const std::int64_t chunks = parameters.integer("chunks", 1, 1, 1000);
  const bool v = parameters.word("placement", "loop", {"loop", "v"}) == "v";
  return {chunks, v ? graph::ChunkPlacement::v : graph::ChunkPlacement::loop};
}

}  // namespace weft::policy
