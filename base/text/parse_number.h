// Numbers from texts that people write: flags, keys of configurations.
#pragma once

#include <string_view>

namespace weft {

/// Of the types std::int64_t, float and double. `where` opens the messages. Throws UserError on anything but a number
/// from `least` to `most`; −0 becomes 0.
template <class Number>
Number parse_number(std::string_view value, std::string_view where, double least, double most);

}  // namespace weft
