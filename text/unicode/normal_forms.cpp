#include "text/unicode/normal_forms.h"

#include <utf8proc.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

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

/// Whether a character stays as it is whatever stands beside it, and nothing changes across it.
bool is_stable(std::uint32_t code, NormalForm form) {
  const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(code));
  if (property->combining_class != 0 || (class_table()[code] & kMark) != 0) return false;
  const bool vowel_or_final = (code >= 0x1161 && code <= 0x1175) || (code >= 0x11A8 && code <= 0x11C2);  // of Hangul
  if (vowel_or_final) return false;
  if (code >= 0xD800 && code < 0xE000) return true;  // no text has them
  std::string character, mapped;
  append_character(character, code);
  append_mapped(mapped, character, form);
  return mapped == character;
}

/// A byte for each character: 0 isn't known, 1 stable, 2 not.
class StableTable {
 public:
  explicit StableTable(NormalForm form) : stable_(kCodePoints) {
    for (std::uint32_t code = 0; code < kCodePoints; ++code) stable_[code] = is_stable(code, form);
  }
  bool operator()(std::uint32_t code) const { return stable_[code]; }

 private:
  std::vector<bool> stable_;
};

const StableTable& stable_table(NormalForm form) {
  switch (form) {
    case NormalForm::nfc: {
      static const StableTable table(NormalForm::nfc);
      return table;
    }
    case NormalForm::nfd: {
      static const StableTable table(NormalForm::nfd);
      return table;
    }
    case NormalForm::nfkc: {
      static const StableTable table(NormalForm::nfkc);
      return table;
    }
    default: {
      static const StableTable table(NormalForm::nfkd);
      return table;
    }
  }
}

}  // namespace

std::string normalized(std::string_view text, NormalForm form) {
  const StableTable& stable = stable_table(form);
  const char *const end = text.data() + text.size(), *last = text.data();  // of a stable character
  const char* kept = text.data();                                          // what stands before is in `out`
  std::string out;
  for (const char* at = text.data(); at < end;) {
    const Decoded character = decode_valid(at);
    if (character.code < 0x80 || stable(character.code)) {
      last = at;
      at += character.length;
      continue;
    }
    // From the stable character before up to the next one.
    const char* stop = at + character.length;
    while (stop < end) {
      const Decoded next = decode_valid(stop);
      if (next.code < 0x80 || stable(next.code)) break;
      stop += next.length;
    }
    if (last < kept) last = kept;
    out.append(kept, last);
    append_mapped(out, {last, static_cast<std::size_t>(stop - last)}, form);
    kept = last = at = stop;
  }
  if (kept == text.data()) return std::string(text);
  return out.append(kept, end);
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
