// A variable of the environment for the length of a test.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace weft::testing {

/// Restores the former value at its end. No value: unset.
class EnvironmentVariable {
 public:
  EnvironmentVariable(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~EnvironmentVariable() { set(before_); }
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;

 private:
  void set(const std::optional<std::string>& value) const {
    value ? ::setenv(name_, value->c_str(), 1) : ::unsetenv(name_);
  }

  const char* const name_;
  std::optional<std::string> before_;
};

}  // namespace weft::testing
