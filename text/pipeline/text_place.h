// Where a text stands that is encoded, which decides whether a tokenizer puts a blank before it.
#pragma once

#include <cstdint>

namespace weft::text {

/// What stands before a text.
enum class TextPlace : std::uint8_t {
  begins,       // nothing
  after_token,  // a special token: the tokenizer's files tell whether a blank follows it
  continues     // text that it goes on from: no blank is put
};

}  // namespace weft::text
