// JSON that is read value by value as it comes, without keeping it: for files of hundreds of megabytes. The caller asks
// for what should come next; anything else is refused with its line and byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/byte_source.h"

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

}  // namespace weft::inspect
