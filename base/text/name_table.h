// Texts that many things share, by number.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace weft {

/// Each text is kept once; numbers count from 0 in the order in which texts came.
class NameTable {
 public:
  NameTable() = default;
  NameTable(NameTable&&) = default;
  NameTable& operator=(NameTable&&) = default;

  std::uint32_t number(std::string_view text) {
    const auto found = numbers_.find(text);
    if (found != numbers_.end()) return found->second;
    const auto number = static_cast<std::uint32_t>(texts_.size());
    texts_.emplace_back(text);
    numbers_.emplace(texts_.back(), number);
    return number;
  }
  const std::string& text(std::uint32_t number) const { return texts_[number]; }
  std::size_t size() const { return texts_.size(); }
  const std::deque<std::string>& texts() const { return texts_; }

 private:
  std::deque<std::string> texts_;  // doesn't move them
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

}  // namespace weft
