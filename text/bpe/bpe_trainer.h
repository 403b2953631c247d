// Learns a vocabulary of byte-level BPE from texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/bpe/bpe_model.h"
#include "text/split/lexer.h"

namespace weft::text {

/// How often each word occurs, by words.
using WordCounts = std::vector<std::pair<std::string, std::uint64_t>>;

/// Counts the words of texts, cut by `lexer`, with several threads. `next` gives the next text, nothing at the end, and
/// is called by one thread at a time. Bytes that aren't UTF-8 are read as the tokenizers read them.
WordCounts count_words(const std::function<std::optional<std::string>()>& next, const Lexer& lexer, int threads);

struct TrainedBpe {
  std::vector<std::string> tokens;  // bytes, by id: the 256 bytes in GPT-2's order, then the merges'
  Merges merges;                    // bytes, by rank
};

/// Merges the commonest pair of neighbours until there are `tokens` tokens or no pair is left; of equally common pairs
/// that of the lowest ids, as the trainer of the package `tokenizers` does. `tell` gets the number of tokens so far.
TrainedBpe train_bpe(const WordCounts& words, std::size_t tokens, const std::function<void(std::size_t)>& tell);

/// A tokenizer.json of these tokens and <|endoftext|>, whose id is the last.
std::string tokenizer_json_of(const TrainedBpe& trained, const Lexer& lexer);

/// The tokenizer.json that encodes as the byte tokenizer does: ids 0 to 255 are bytes, 256 ends a text.
std::string tokenizer_json_of_bytes();

/// The tokenizer_config.json that goes with a tokenizer.json: Hugging Face's AutoTokenizer needs it to load the other.
/// `begin` and `end` of a text are tokens; "": none.
std::string tokenizer_config_json(std::string_view begin, std::string_view end);

}  // namespace weft::text
