// What a command says while it works: one line that the next one replaces on a terminal, lines elsewhere.
#pragma once

#include <string>

namespace weft {

/// Writes to stderr; a terminal's line is wiped at the end.
class Teller {
 public:
  /// `tells` false: says nothing.
  explicit Teller(bool tells);
  ~Teller();
  Teller(const Teller&) = delete;
  Teller& operator=(const Teller&) = delete;
  void operator()(const std::string& line) const;

 private:
  const bool tells_, terminal_;
};

}  // namespace weft
