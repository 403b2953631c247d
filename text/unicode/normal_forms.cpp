#include "text/unicode/normal_forms.h"

#include <utf8proc.h>

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode/char_class.h"

namespace weft::text {
namespace {

utf8proc_option_t options_of(NormalForm form) {
  constexpr int kDecompose = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, kCompose = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
  switch (form) {
    case NormalForm::nfc:
      return static_cast<utf8proc_option_t>(kCompose);
    case NormalForm::nfd:
      return static_cast<utf8proc_option_t>(kDecompose);
    case NormalForm::nfkc:
      return static_cast<utf8proc_option_t>(kCompose | UTF8PROC_COMPAT);
    case NormalForm::nfkd:
      return static_cast<utf8proc_option_t>(kDecompose | UTF8PROC_COMPAT);
  }
  return static_cast<utf8proc_option_t>(kCompose);
}

void append_mapped(std::string& out, std::string_view text, NormalForm form) {
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &made, options_of(form));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(made, &std::free);
  if (size < 0) throw RuntimeFault(std::string("text can't be normalized: ") + utf8proc_errmsg(size));
  out.append(reinterpret_cast<const char*>(made), static_cast<std::size_t>(size));
}

}  // namespace

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
    if (utf8proc_category(static_cast<utf8proc_int32_t>(character.code)) != UTF8PROC_CATEGORY_MN) {
      out.append(at, character.length);
    }
    at += character.length;
  }
  return out;
}

}  // namespace weft::text
