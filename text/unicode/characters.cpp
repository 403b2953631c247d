#include "text/unicode/characters.h"

#include <utf8proc.h>

#include <array>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/utf8.h"

namespace weft::text {
namespace {

std::uint8_t class_of(utf8proc_category_t category) {
  // In the order of utf8proc's categories, from "no character" on; 12 to 22 are punctuation and symbols.
  constexpr std::array<std::uint8_t, 12> kFirst = {kOther, kUpper, kLower, kUpper,  kCaseless, kCaseless,
                                                   kMark,  kMark,  kMark,  kNumber, kNumber,   kNumber};
  if (category < kFirst.size()) return kFirst.at(category);
  return category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP ? kSpace : kOther;
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

void append_mapped(std::string& out, std::string_view text, NormalForm form) {
  constexpr std::array<int, 4> kOptions = {UTF8PROC_COMPOSE, UTF8PROC_DECOMPOSE, UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                                           UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
  const int options = UTF8PROC_STABLE | kOptions.at(static_cast<std::size_t>(form));
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &made, static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(made, &std::free);
  if (size < 0) throw RuntimeFault(std::string("text can't be normalized: ") + utf8proc_errmsg(size));
  out.append(reinterpret_cast<const char*>(made), static_cast<std::size_t>(size));
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
  const auto in = [code](std::uint32_t first, std::uint32_t last) { return code >= first && code <= last; };
  const bool joiner = in(0x200C, 0x200D);
  const bool alphabetic_symbol =
      in(0x24B6, 0x24E9) || in(0x1F130, 0x1F149) || in(0x1F150, 0x1F169) || in(0x1F170, 0x1F189);
  if (joiner || alphabetic_symbol) return true;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category == UTF8PROC_CATEGORY_PC || category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         (class_of(category) & (kLetter | kMark)) != 0;
}

/// ASCII changes in no form, and nothing changes across it but marks behind it.
std::string normalized(std::string_view text, NormalForm form) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  std::string out;
  std::size_t kept = 0;  // what stands before is in `out`
  for (std::size_t at = 0; at < text.size();) {
    if (is_ascii(text[at])) {
      ++at;
      continue;
    }
    // From the character before up to the next of ASCII.
    const std::size_t begin = at > kept ? at - 1 : at;
    while (at < text.size() && !is_ascii(text[at])) ++at;
    out.append(text.substr(kept, begin - kept));
    append_mapped(out, text.substr(begin, at - begin), form);
    kept = at;
  }
  return out.append(text.substr(kept));
}

std::string lower_case(std::string_view text) {
  constexpr std::uint32_t kDottedCapitalI = 0x130;
  std::string out;
  out.reserve(text.size());
  for (const char *at = text.data(), *const end = at + text.size(); at < end;) {
    const Decoded character = decode_valid(at);
    at += character.length;
    if (character.code == kDottedCapitalI) {
      out.append("i\xCC\x87");
    } else {
      append_character(out,
                       static_cast<std::uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character.code))));
    }
  }
  return out;
}

std::string without_accents(std::string_view text) {
  std::string out;
  for (const char *at = text.data(), *const end = at + text.size(); at < end;) {
    const Decoded character = decode_valid(at);
    if ((class_table()[character.code] & kMark) == 0) {
      out.append(at, character.length);
    }
    at += character.length;
  }
  return out;
}

}  // namespace weft::text
