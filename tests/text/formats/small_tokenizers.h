// Tokenizers small enough to be read, in the files' own formats.
#pragma once

#include <string>

namespace weft::testing {

/// A tokenizer.json; each argument is JSON.
struct SmallJson {
  std::string normalizer = "null";
  std::string pre_tokenizer = R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})";
  std::string post_processor = "null";
  std::string decoder = R"({"type": "ByteLevel"})";
  std::string added = R"([{"id": 9, "content": "<end>", "special": true}])";
  std::string options = "";  // of the model, with a comma behind each
  std::string vocabulary = R"({"a": 0, "b": 1, "c": 2, "Ġ": 3, "ab": 4, "Ġab": 5, "abc": 6})";
  std::string merges = R"(["a b", "Ġ ab", "ab c"])";

  std::string text() const {
    return R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": )" + added +
           ", \"normalizer\": " + normalizer + ", \"pre_tokenizer\": " + pre_tokenizer +
           ", \"post_processor\": " + post_processor + ", \"decoder\": " + decoder + R"(, "model": {"type": "BPE", )" +
           options + "\"vocab\": " + vocabulary + ", \"merges\": " + merges + "}}";
  }
};

/// Llama 2's form: no splitter, "▁" for spaces, bytes of unknown characters.
inline SmallJson small_llama() {
  SmallJson json;
  json.normalizer = R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})";
  json.pre_tokenizer = "null";
  json.post_processor = R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}})";
  json.decoder = R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})";
  json.added = R"([{"id": 0, "content": "<unk>", "special": true}, {"id": 1, "content": "<s>", "special": true},
    {"id": 2, "content": "</s>", "special": true}])";
  json.options = R"("unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, )";
  json.vocabulary = R"({"<unk>": 0, "<s>": 1, "</s>": 2, "<0xC3>": 3, "<0xA9>": 4, "▁": 5, "a": 6, "b": 7, "ab": 8,
    "▁ab": 9})";
  json.merges = R"([["a", "b"], ["▁", "ab"]])";
  return json;
}

}  // namespace weft::testing
