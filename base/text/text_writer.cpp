#include "base/text/text_writer.h"

#include <fmt/format.h>

#include <iterator>

namespace weft {

void TextWriter::put_formatted(fmt::string_view format, fmt::format_args values) {
  fmt::vformat_to(std::back_inserter(text_), format, values);
  hand_on();
}

}  // namespace weft
