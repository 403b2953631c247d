// A policy as people write it: its name, and behind a colon its parameters.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace weft::policy {

/// "fsdp:forward-depth=2,backward=post" is the policy fsdp with two parameters. A policy takes what it knows and then
/// refuses the rest:
///
///   PolicyParameters parameters("fsdp", "forward-depth=2");
///   depth_ = parameters.integer("forward-depth", 1, 0, 1000);
///   parameters.finish();
class PolicyParameters {
 public:
  /// `text` is what stands behind the colon; "" has none. Throws UserError on an entry without "=" or given twice.
  PolicyParameters(std::string policy, std::string_view text);

  /// The value of a parameter, or `fallback` where it isn't given. Throw UserError on another kind of value or one out
  /// of range.
  std::int64_t integer(const std::string& name, std::int64_t fallback, std::int64_t least, std::int64_t most);
  double number(const std::string& name, double fallback, double least, double most);
  bool truth(const std::string& name, bool fallback);  // true or false, on or off
  std::string word(const std::string& name, std::string_view fallback, const std::vector<std::string>& accepted);
  std::string text(const std::string& name, std::string_view fallback);

  /// Throws UserError naming a parameter that nobody asked for, and the nearest one that exists.
  void finish() const;

 private:
  const std::string* find(const std::string& name);
  [[noreturn]] void refuse(const std::string& name, std::string_view expected) const;

  std::string policy_;
  std::map<std::string, std::string> given_;
  std::vector<std::string> known_;
};

}  // namespace weft::policy
