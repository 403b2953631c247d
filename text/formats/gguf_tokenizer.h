// The tokenizer in a GGUF file's metadata, read as the tokenizer.json that gives the same ids, with the settings that
// go with it; and a tokenizer.json written as such metadata.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/files/gguf_file.h"
#include "base/files/gguf_writer.h"
#include "text/tokenizer.h"

namespace weft::text {

/// Whether the metadata have a tokenizer; a file may hold weights alone.
bool has_gguf_tokenizer(const GgufFile& file);

/// Whether the tokens are those of the byte tokenizer, without merges.
bool holds_bytes(const GgufFile& file);

/// The ids below `vocabulary` that begin and end a text.
ListedEnds listed_ends(const GgufFile& file, std::int64_t vocabulary);

/// The template of chats, in Jinja's language; nothing if there is none.
std::optional<std::string> gguf_chat_template(const GgufFile& file);

/// The tokenizer.json. Kinds "gpt2" (BPE on bytes, with a pattern known by its name in tokenizer.ggml.pre) and "llama"
/// (SentencePiece's BPE by scores); others are refused by name.
std::string gguf_tokenizer_json(const GgufFile& file);

/// The tokenizer with its begin and ends of texts, and its template: `facts().files` are a tokenizer.json and what
/// Hugging Face's libraries read beside it.
TokenizerPointer load_gguf_tokenizer(const GgufFile& file);

/// Adds a tokenizer to metadata of a model of `vocabulary` tokens, of which those without a token are padding. Throws
/// UserError, naming the part, where the metadata can't say what its tokenizer.json does, or where it has none. A
/// normalizer NFC is left out: llama.cpp has none for any of these patterns.
void add_gguf_tokenizer(const Tokenizer& tokenizer, std::int64_t vocabulary, GgufMetadata& metadata);

}  // namespace weft::text
