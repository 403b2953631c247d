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
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return kPunctuation;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return kSpace;
    default:
      return 0;
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

bool is_word_character(std::uint32_t code) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category == UTF8PROC_CATEGORY_PC || category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         (class_of(category) & (kLetter | kMark)) != 0;
}

}  // namespace weft::text
