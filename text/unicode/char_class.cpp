#include "text/unicode/char_class.h"

#include <utf8proc.h>

#include <memory>

namespace weft::text {
namespace {

std::uint8_t class_of(utf8proc_category_t category) {
  switch (category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
      return kUpper;
    case UTF8PROC_CATEGORY_LL:
      return kLower;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return kCaseless;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return kMark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return kNumber;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return kSpace;
    default:
      return kOther;
  }
}

std::unique_ptr<std::uint8_t[]> made_table() {
  auto table = std::make_unique<std::uint8_t[]>(kCodePoints);
  for (std::uint32_t code = 0; code < kCodePoints; ++code) {
    table[code] = class_of(utf8proc_category(static_cast<utf8proc_int32_t>(code)));
  }
  // The controls that White_Space has beside the separators.
  for (const std::uint32_t code : {0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x85}) table[code] = kSpace;
  return table;
}

}  // namespace

const std::uint8_t* class_table() {
  static const std::unique_ptr<std::uint8_t[]> table = made_table();
  return table.get();
}

std::size_t space_at_begin(std::string_view text) {
  std::size_t size = 0;
  while (size < text.size()) {
    const Decoded first = decode_valid(text.data() + size);
    if ((class_table()[first.code] & kSpace) == 0) break;
    size += first.length;
  }
  return size;
}

std::size_t space_at_end(std::string_view text) {
  std::size_t size = 0;
  while (size < text.size()) {
    const Decoded last = decode_valid_before(text.data() + text.size() - size);
    if ((class_table()[last.code] & kSpace) == 0) break;
    size += last.length;
  }
  return size;
}

bool is_word_character(std::uint32_t code) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category == UTF8PROC_CATEGORY_PC || category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         (class_of(category) & (kLetter | kMark)) != 0;
}

}  // namespace weft::text
