// Parameters of a policy, which follow its name and a colon.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/grid.h"

namespace weft::policy {

/// "fsdp:forward-depth=2,backward=post" is the policy fsdp with two parameters. A policy reads the parameters that it
/// knows; finish() refuses all others:
///
///   PolicyParameters parameters("fsdp", "forward-depth=2");
///   depth_ = parameters.integer("forward-depth", 1, 0, 1000);
///   parameters.finish();
class PolicyParameters {
 public:
  /// `text` is the part after the colon; "" has no parameters. Throws UserError on an entry without "=" or given twice.
  PolicyParameters(std::string policy, std::string_view text);

  /// The value of a parameter, or `fallback` where it isn't given. Throws UserError on a value of another kind or out
  /// of range.
  std::int64_t integer(const std::string& name, std::int64_t fallback, std::int64_t least, std::int64_t most);
  double number(const std::string& name, double fallback, double least, double most);
  bool truth(const std::string& name, bool fallback);  // true or false, on or off
  std::string word(const std::string& name, std::string_view fallback, const std::vector<std::string>& accepted);
  std::string text(const std::string& name, std::string_view fallback);

  /// The parameters that weren't read.
  std::map<std::string, std::string> others() const;
  /// Throws UserError naming a parameter that wasn't read, and the nearest parameter that exists.
  void finish() const;

 private:
  const std::string* find(const std::string& name);
  template <class T>
  T within(const std::string& name, T fallback, T least, T most, std::string_view kind);
  [[noreturn]] void refuse(const std::string& name, std::string_view expected) const;

  std::string policy_;
  std::map<std::string, std::string> given_;
  std::vector<std::string> known_;
};

/// The parameter `seed`, if it is given.
std::optional<std::uint64_t> seed_parameter(PolicyParameters& parameters);

/// The parameters `chunks` (1) and `placement` (loop or v) of policies that order pipelines of any shape.
graph::PipelineChunks chunks_parameter(PolicyParameters& parameters);

}  // namespace weft::policy
