#include "text/bpe/bpe_trainer.h"

#include <fmt/format.h>
#include <tbb/enumerable_thread_specific.h>
#include <tbb/global_control.h>
#include <tbb/parallel_pipeline.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <numeric>
#include <queue>
#include <unordered_map>
#include <utility>

#include "base/text/json_object.h"
#include "base/utf8.h"
#include "text/bpe/byte_alphabet.h"

namespace weft::text {
namespace {

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using WordTable = std::unordered_map<std::string, std::uint64_t, TextHash, std::equal_to<>>;

void count_into(WordTable& table, std::string_view text, const Lexer& lexer) {
  for_each_piece(lexer, text, [&](std::string_view word) {
    if (const auto found = table.find(word); found != table.end()) {
      ++found->second;
    } else {
      table.emplace(word, 1);
    }
  });
}

using Id = std::int32_t;
using PairKey = std::uint64_t;  // orders pairs by their first, then by their second id

PairKey pair_key(Id first, Id second) {
  return static_cast<PairKey>(static_cast<std::uint32_t>(first)) << 32 | static_cast<std::uint32_t>(second);
}

/// The words as ids, and the pairs in them.
class Merging {
 public:
  explicit Merging(const WordCounts& words) {
    std::array<std::size_t, 256> bytes{};  // by id: in the order of their characters in the alphabet
    std::iota(bytes.begin(), bytes.end(), std::size_t{0});
    std::ranges::sort(bytes, {}, [](std::size_t byte) { return byte_alphabet()[byte]; });
    std::array<Id, 256> ids{};
    for (std::size_t id = 0; id < bytes.size(); ++id) {
      ids[bytes[id]] = static_cast<Id>(id);
      trained_.tokens.emplace_back(1, static_cast<char>(bytes[id]));
      known_.emplace(trained_.tokens.back(), static_cast<Id>(id));
    }
    for (const auto& [text, count] : words) {
      Word& word = words_.emplace_back(Word{{}, static_cast<std::int64_t>(count)});
      for (const char c : text) word.ids.push_back(ids[static_cast<unsigned char>(c)]);
      for (std::size_t i = 0; i + 1 < word.ids.size(); ++i) change(word.ids[i], word.ids[i + 1], 1, words_.size() - 1);
    }
    push_changed();
  }

  /// Merges the commonest pair; false if there is none.
  bool step() {
    while (!queue_.empty()) {
      const auto [count, inverse] = queue_.top();
      queue_.pop();
      const PairKey key = ~inverse;
      Pair& pair = pairs_.at(key);
      if (count != pair.count) {
        if (pair.count > 0) queue_.emplace(pair.count, inverse);
        continue;
      }
      merge(static_cast<Id>(key >> 32), static_cast<Id>(key & 0xFFFFFFFFU), std::exchange(pair.words, {}));
      return true;
    }
    return false;
  }

  TrainedBpe& trained() { return trained_; }

 private:
  struct Word {
    std::vector<Id> ids;
    std::int64_t count = 0;
  };
  struct Pair {
    std::int64_t count = 0;
    std::vector<std::size_t> words;  // that have it, or had it
    bool changed = false;
  };

  void change(Id first, Id second, std::int64_t by, std::size_t word) {
    const PairKey key = pair_key(first, second);
    Pair& pair = pairs_[key];
    pair.count += by * words_[word].count;
    if (by < 0) return;
    if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
    if (!pair.changed) changed_.push_back(key);
    pair.changed = true;
  }
  void push_changed() {
    for (const PairKey key : changed_) {
      Pair& pair = pairs_.at(key);
      pair.changed = false;
      if (pair.count > 0) queue_.emplace(pair.count, ~key);
    }
    changed_.clear();
  }
  void merge(Id first, Id second, std::vector<std::size_t> words) {
    const std::string& left = trained_.tokens[static_cast<std::size_t>(first)];
    const std::string& right = trained_.tokens[static_cast<std::size_t>(second)];
    std::string joined = left + right;
    trained_.merges.emplace_back(left, right);
    const auto [place, is_new] = known_.emplace(joined, static_cast<Id>(trained_.tokens.size()));
    const Id id = place->second;
    if (is_new) trained_.tokens.push_back(std::move(joined));
    std::ranges::sort(words);
    words.erase(std::unique(words.begin(), words.end()), words.end());
    for (const std::size_t word : words) merge_in(word, first, second, id);
    push_changed();
  }
  void merge_in(std::size_t word, Id first, Id second, Id merged) {
    std::vector<Id>& ids = words_[word].ids;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      if (ids[i] != first || ids[i + 1] != second) continue;
      change(first, second, -1, word);
      if (i > 0) change(ids[i - 1], first, -1, word), change(ids[i - 1], merged, 1, word);
      if (i + 2 < ids.size()) change(second, ids[i + 2], -1, word), change(merged, ids[i + 2], 1, word);
      ids[i] = merged;
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }

  TrainedBpe trained_;
  std::unordered_map<std::string, Id> known_;
  std::vector<Word> words_;
  std::unordered_map<PairKey, Pair> pairs_;
  std::vector<PairKey> changed_;
  std::priority_queue<std::pair<std::int64_t, PairKey>> queue_;  // with ~key, so that low ids come first
};

std::string byte_level(bool use_regex) {
  return fmt::format(R"({{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":{}}})",
                     use_regex);
}

std::string pre_tokenizer_of(const Lexer& lexer) {
  if (lexer.name == "gpt2") return byte_level(true);
  return fmt::format(
      R"({{"type":"Sequence","pretokenizers":[{{"type":"Split","pattern":{{"Regex":{}}},"behavior":"Isolated",)"
      R"("invert":false}},{}]}})",
      json_string(lexer.expression), byte_level(false));
}

std::string tokenizer_json(const JsonObject& vocabulary, const JsonArray& merges, std::size_t end_of_text,
                           const std::string& pre_tokenizer) {
  const std::string added = fmt::format(
      R"({{"id":{},"content":"{}","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}})",
      end_of_text, kEndOfText);
  const std::string model = fmt::format(
      R"({{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,)"
      R"("fuse_unk":false,"byte_fallback":false,"ignore_merges":false,"vocab":{},"merges":{}}})",
      vocabulary.text(), merges.text());
  return fmt::format(
      R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":[{}],"normalizer":null,"pre_tokenizer":{},)"
      R"("post_processor":null,"decoder":{},"model":{}}})"
      "\n",
      added, pre_tokenizer, byte_level(true), model);
}

}  // namespace

WordCounts count_words(const std::function<std::optional<std::string>()>& next, const Lexer& lexer, int threads) {
  tbb::enumerable_thread_specific<WordTable> tables;
  const auto read = [&](tbb::flow_control& flow) {
    std::optional<std::string> text = next();
    if (!text) flow.stop();
    return std::move(text).value_or("");
  };
  const auto count = [&](const std::string& text) {
    std::string storage;
    count_into(tables.local(), valid_utf8(text, storage), lexer);
  };
  const auto most = static_cast<std::size_t>(threads);
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, most);
  tbb::parallel_pipeline(most * 2, tbb::make_filter<void, std::string>(tbb::filter_mode::serial_in_order, read) &
                                       tbb::make_filter<std::string, void>(tbb::filter_mode::parallel, count));
  WordTable all;
  for (const WordTable& table : tables) {
    for (const auto& [word, times] : table) all[word] += times;
  }
  WordCounts counts(all.begin(), all.end());
  std::ranges::sort(counts);
  return counts;
}

TrainedBpe train_bpe(const WordCounts& words, std::size_t tokens, const std::function<void(std::size_t)>& tell) {
  Merging merging(words);
  while (merging.trained().tokens.size() < tokens && merging.step()) tell(merging.trained().tokens.size());
  return std::move(merging.trained());
}

std::string tokenizer_json_of(const TrainedBpe& trained, const Lexer& lexer) {
  JsonObject vocabulary;
  for (std::size_t id = 0; id < trained.tokens.size(); ++id) vocabulary.add(in_byte_alphabet(trained.tokens[id]), id);
  vocabulary.add(kEndOfText, trained.tokens.size());
  JsonArray merges;
  for (const auto& [left, right] : trained.merges) merges.add(in_byte_alphabet(left) + " " + in_byte_alphabet(right));
  return tokenizer_json(vocabulary, merges, trained.tokens.size(), pre_tokenizer_of(lexer));
}

std::string tokenizer_json_of_bytes() {
  constexpr std::size_t kBytes = 256;
  JsonObject vocabulary;
  for (std::size_t byte = 0; byte < kBytes; ++byte) {
    const char text = static_cast<char>(byte);
    vocabulary.add(in_byte_alphabet({&text, 1}), byte);
  }
  vocabulary.add(kEndOfText, kBytes);
  return tokenizer_json(vocabulary, JsonArray(), kBytes, byte_level(false));
}

std::string tokenizer_config_json(std::string_view begin, std::string_view end) {
  JsonObject json;
  json.add("tokenizer_class", "PreTrainedTokenizerFast");
  if (!begin.empty()) json.add("bos_token", begin);
  if (!end.empty()) json.add("eos_token", end);
  return json.add("clean_up_tokenization_spaces", false).text() + "\n";
}

}  // namespace weft::text
