// JSON that is read value by value as it comes, without keeping it: for files of hundreds of megabytes. The caller asks
// for what should come next; anything else is refused with its line and byte.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/document.h"
#include "base/files/input_file.h"

namespace weft::inspect {

/// Views that it hands out hold until the next call. Throws UserError on anything that wasn't asked for.
///
///   in.open_object();
///   for (std::string_view key; in.next_key(key);) {
///     if (key == "count") count = in.integer(0, 9);
///     else in.skip();
///   }
///   in.finish();
class JsonPull {
 public:
  /// `name` stands for the text in messages.
  JsonPull(ByteSource source, std::string name);

  void open_object();
  void open_array();
  /// The next member's key; false: the object has ended.
  bool next_key(std::string_view& key);
  /// Is there another item? false: the array has ended.
  bool next_item();

  /// What comes next, by its first byte: '{', '[', '"', or the first of a number or word.
  char next_byte() { return peek(); }
  std::string_view text();
  /// A number or a word as it stands, such as -1.5e3 or null.
  std::string_view word();
  /// A text to keep: refused unless it is UTF-8.
  std::string kept_text();
  bool boolean();
  std::int64_t integer(std::int64_t least, std::int64_t most);
  /// Not negative.
  double number();
  /// Nanoseconds of a number of microseconds with three decimals at most, not negative.
  std::int64_t microseconds();
  /// Passes over a value of any kind that nests at most 64 deep. Its content is only searched for its end.
  void skip();
  /// Nothing but white space follows.
  void finish();

  /// Refuses the value that was read last.
  [[noreturn]] void refuse(std::string_view found, std::string_view expected) const;

 private:
  char peek();  // the next byte that isn't white space
  bool fill();  // reads on after the bytes kept from at_ on; false at the end of the source
  void expect(char c, std::string_view expected);
  void separator(char closing);
  std::string_view token(std::string_view expected);  // a number or a word
  std::string_view decoded(std::size_t length, std::string_view expected);
  unsigned hex4();
  char escape_byte();

  ByteSource source_;
  std::string name_;
  std::vector<char> buffer_;
  std::size_t at_ = 0, end_ = 0;
  std::uint64_t bytes_before_ = 0, lines_before_ = 0;  // of what the buffer held earlier
  bool opened_ = false;                                // the last thing read opened an object or array
  std::string scratch_;
};

/// Nanoseconds of microseconds, the fourth decimal rounded; none of a text with a sign or an exponent, or above 63
/// bits.
std::optional<std::int64_t> plain_nanoseconds(std::string_view word);

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
  /// Refuses unless the members [begin, end) were there.
  void require(const JsonPull& in, std::size_t end, std::size_t begin = 0) const {
    for (std::size_t i = begin; i < std::min(end, N); ++i) {
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

/// A text that is the name of a value of an enumeration, up to `last`.
template <class Named>
Named read_name(JsonPull& in, Named last) {
  const std::string_view found = in.text();
  std::vector<std::string> known;
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    const auto value = static_cast<Named>(i);
    if (to_string(value) == found) return value;
    known.emplace_back(to_string(value));
  }
  in.refuse(fmt::format("found \"{}\"", found), expected_name(known));
}

}  // namespace weft::inspect
