// The names that GGUF files give to the patterns of byte-level vocabularies, and to the types of tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::text {

/// By their numbers in tokenizer.ggml.token_type.
enum class GgufTokenType : std::uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

struct GgufPattern {
  std::string_view name;       // of tokenizer.ggml.pre
  std::string_view lexer;      // see lexer_named()
  bool digits = false;         // each digit is a word, before the pattern cuts
  bool ignore_merges = false;  // a word that is a token needs no merges
  bool begins = false;         // the begin of a text is put before it, unless add_bos_token says otherwise
};

/// nullptr for a name that isn't known.
const GgufPattern* gguf_pattern(std::string_view name);
/// "default, gpt-2, …", for messages.
std::string gguf_pattern_names();
/// The name for a tokenizer.json's pre_tokenizer, as JSON with sorted keys; "" if none is known. Of several names for
/// one pattern the first.
std::string_view gguf_name_of(std::string_view lexer, bool digits, bool ignore_merges);

/// The component of a tokenizer.json.
std::string byte_level_json(bool use_regex);
std::string pre_tokenizer_json(const GgufPattern& pattern);

}  // namespace weft::text
