// Objects and names of a JSON text that is pulled: each known member is read where it comes.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/document.h"
#include "inspect/formats/json_pull.h"

namespace weft::inspect {

/// A member and what reads its value.
template <class Read>
struct JsonMember {
  std::string_view name;
  Read read;
};
template <class Read>
JsonMember(const char*, Read) -> JsonMember<Read>;
template <class Read>
JsonMember(std::string_view, Read) -> JsonMember<Read>;

template <std::size_t N>
struct SeenMembers {
  std::array<std::string_view, N> names;
  std::array<bool, N> seen{};

  void add(const JsonPull& in, std::size_t index) {
    if (seen[index]) in.refuse(fmt::format("the member \"{}\" stands twice", names[index]), "each member once");
    seen[index] = true;
  }
  /// Refuses unless the members [0, count) were there.
  void require(const JsonPull& in, std::size_t count) const {
    for (std::size_t i = 0; i < std::min(count, N); ++i) {
      if (!seen[i]) in.refuse(fmt::format("an object without \"{}\"", names[i]), "one with it");
    }
  }
};

inline constexpr std::size_t kAllMembers = SIZE_MAX;

/// Reads an object. Of `members` each may stand once and the first `required` have to; unknown ones are passed over.
///
///   read_object(in, kAllMembers, JsonMember{"count", [&] { count = in.integer(0, 9); }});
template <class... Read>
SeenMembers<sizeof...(Read)> read_object(JsonPull& in, std::size_t required, const JsonMember<Read>&... members) {
  SeenMembers<sizeof...(Read)> seen{{members.name...}};
  in.open_object();
  for (std::string_view key; in.next_key(key);) {
    std::size_t index = 0;
    const auto take = [&](const auto& member) {
      if (member.name != key) {
        ++index;
        return false;
      }
      seen.add(in, index);
      member.read();  // after which the key is gone
      return true;
    };
    if (!(take(members) || ...)) in.skip();
  }
  seen.require(in, required);
  return seen;
}

/// Reads a list, each item by `read`.
template <class Read>
void read_list(JsonPull& in, Read read) {
  in.open_array();
  while (in.next_item()) read();
}

/// A text that is the name of one of `values`.
template <class Named>
Named read_name(JsonPull& in, std::initializer_list<Named> values) {
  const std::string_view found = in.text();
  std::vector<std::string> known;
  for (const Named value : values) {
    if (to_string(value) == found) return value;
    known.emplace_back(to_string(value));
  }
  in.refuse(fmt::format("found \"{}\"", found), expected_name(known));
}

}  // namespace weft::inspect
