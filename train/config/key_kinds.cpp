#include "train/config/key_kinds.h"

#include "base/utf8.h"

namespace weft::train {

void expect_plain_text(std::string_view value, std::string_view where) {
  if (is_utf8(value) && value.find('\0') == std::string_view::npos) return;
  throw UserError(fmt::format("{} = \"{}\" is not plain text", where, value), "UTF-8 without NUL",
                  "rename the file, or give a link to it");
}

}  // namespace weft::train
