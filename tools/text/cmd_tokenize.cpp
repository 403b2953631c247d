// `weft tokenize`: texts to files of token ids, the tokens of a text, and vocabularies learnt from texts.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/hash.h"
#include "base/printable.h"
#include "base/status_line.h"
#include "base/text/json_object.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "text/bpe/bpe_trainer.h"
#include "text/chat/chat_renderer.h"
#include "text/corpus/text_files.h"
#include "text/corpus/token_file_writer.h"
#include "text/split/lexer.h"
#include "text/tokenizer.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "train/data/data_kind.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStandardInput = "-";

struct TokenizeOptions {
  std::vector<std::string> paths;
  std::string tokenizer;  // a folder or file; empty: bytes
  std::string output;
  std::string text;
  std::vector<std::int32_t> ids;  // to decode
  std::string field;
  std::string separator;
  std::string chat_template;
  std::int64_t shown = 0;  // the record to show, from 1
  bool special = false, verify = false;
  std::string train;
  std::int64_t vocabulary = 0;
  std::string pattern = "gpt2";
  int threads = 0;
  bool json = false, quiet = false;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

text::TokenizerPointer tokenizer_of(const TokenizeOptions& options) {
  text::TokenizerPointer tokenizer = std::make_shared<text::ByteTokenizer>();
  if (!options.tokenizer.empty()) tokenizer = text::load_tokenizer(options.tokenizer);
  return text::with_chat_template(tokenizer, options.chat_template);
}

std::size_t read_standard_input(std::span<char> to) {
  std::cin.read(to.data(), static_cast<std::streamsize>(to.size()));
  return static_cast<std::size_t>(std::cin.gcount());
}

/// The text files of the command line. Files that are neither text nor JSON lines are refused.
text::TextFiles text_files(const TokenizeOptions& options, text::CutAfter cut_after,
                           std::shared_ptr<const text::ChatRenderer> chat = nullptr) {
  if (options.paths.empty()) {
    throw UserError("no text is given", "text files, folders or patterns", "weft tokenize book.txt -o book.bin");
  }
  text::TextFileOptions how{.chat = std::move(chat)};
  how.all_json = !options.field.empty();
  if (how.all_json) how.field = options.field;
  if (std::ranges::find(options.paths, kStandardInput) != options.paths.end()) {
    if (options.paths.size() > 1) {
      throw UserError("- and other texts", "standard input alone, or files", "leave - or the files out");
    }
    how.stream = read_standard_input;
    return {{"standard input"}, how, std::move(cut_after)};
  }
  std::vector<fs::path> files = text::files_of(options.paths);
  for (const fs::path& path : files) {
    std::error_code error;
    if (fs::is_regular_file(path, error)) train::refuse_no_text(InputFile(path), how.all_json);
  }
  return {std::move(files), how, std::move(cut_after)};
}

/// A token by its text or its number.
std::int32_t token_of(const std::string& word, const text::Tokenizer& tokenizer) {
  if (const auto id = tokenizer.token_id(word)) return *id;
  if (const auto id = number_in<std::int32_t>(word); id && tokenizer.token_text(*id)) return *id;
  throw UserError(fmt::format("--separator {}", word), "a token of the vocabulary, its id, or none",
                  "give a token such as '<|endoftext|>'");
}

/// What stands before each document.
std::optional<std::int32_t> separator_of(const TokenizeOptions& options, const text::Tokenizer& tokenizer) {
  if (options.separator == "none") return std::nullopt;
  if (!options.separator.empty()) return token_of(options.separator, tokenizer);
  if (const auto separator = tokenizer.facts().separator()) return separator;
  throw UserError("the tokenizer names no token for the begin or end of a text", "a token between documents",
                  "--separator TOKEN, or --separator none");
}

Status progress(std::string text, const text::TextFiles& files) {
  return {std::move(text), static_cast<std::int64_t>(files.bytes_read()), static_cast<std::int64_t>(files.bytes())};
}

/// Parts of documents whose ids decode to another text, where that was looked for.
using Different = std::optional<std::uint64_t>;

int tell_written(const TokenizeOptions& options, const text::Tokenizer& tokenizer, const text::TokenFileSummary& made,
                 Different different, double seconds) {
  const double per_second = seconds > 0 ? static_cast<double>(made.text_bytes) / seconds : 0;
  JsonObject json;
  json.add("file", options.output).add("description", text::description_path(options.output).string());
  json.add("width", made.width).add("tokens", made.tokens).add("documents", made.documents);
  json.add("bytes", made.bytes).add("text_bytes", made.text_bytes).add("vocabulary", tokenizer.vocabulary());
  json.add("digest", hex_fingerprint(tokenizer.facts().digest)).add("bytes_per_s", per_second);
  if (different) json.add("parts_that_differ", *different);
  const std::string differ = different ? fmt::format("{} parts of documents decode to another text\n", *different) : "";
  return print_result(
      options.json, json,
      differ + fmt::format("{}: {} tokens of {} documents ({}), {} of text, {} a second; {}, vocabulary {}\n",
                           options.output, made.tokens, made.documents, made.width, human_bytes(made.text_bytes),
                           human_bytes(static_cast<std::uint64_t>(per_second)), tokenizer.facts().kind,
                           tokenizer.vocabulary()));
}

int write_tokens(const TokenizeOptions& options) {
  const text::TokenizerPointer tokenizer = tokenizer_of(options);
  expect_writable(options.output);
  if (written_at_once(options.output)) {
    throw UserError(in_quotes(options.output) + " is no regular file", "a file, whose header is written last",
                    "-o with the name of a file");
  }
  const std::optional<std::int32_t> separator = separator_of(options, *tokenizer);
  text::TextFiles files = text_files(
      options, [&](std::string_view whole, std::size_t from) { return tokenizer->cut_after(whole, from); },
      text::chat_renderer_of(*tokenizer));
  text::TokenFileWriter writer(options.output, *tokenizer, separator);
  StatusLine line(!options.quiet && !options.json);
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t tokens = 0, different = 0;
  text::encode_in_order(
      {.tokenizer = *tokenizer,
       .options = {.add_special = false,
                   .special_texts = options.special ? text::SpecialTexts::tokens : text::SpecialTexts::plain},
       .threads = threads_of(options.threads),
       .verify = options.verify,
       .files = files,
       .take = [&](const text::TextPart& part, const text::EncodedPart& made) {
         if (part.begins) writer.begin_document(made.is_chat);
         writer.add(made.ids, made.text_bytes, made.ignored);
         tokens += made.ids.size();
         different += made.differs ? 1 : 0;
         line.show(progress(fmt::format("{} tokens", human_count(static_cast<double>(tokens))), files));
       }});
  if (tokens == 0) throw UserError("the texts are empty", "some text", "give other files");
  return tell_written(options, *tokenizer, writer.commit(), options.verify ? Different(different) : std::nullopt,
                      seconds_since(begin));
}

/// A run of ids of a record that are learnt, or aren't.
struct Stretch {
  bool learnt = false;
  std::vector<std::int32_t> ids;
};

std::vector<Stretch> stretches_of(const text::EncodedPart& made) {
  std::vector<Stretch> stretches;
  auto ignored = made.ignored.begin();
  for (std::uint64_t i = 0; i < made.ids.size(); ++i) {
    while (ignored != made.ignored.end() && ignored->end <= i) ++ignored;
    const bool learnt = ignored == made.ignored.end() || i < ignored->begin;
    if (stretches.empty() || stretches.back().learnt != learnt) stretches.push_back({learnt, {}});
    stretches.back().ids.push_back(made.ids[i]);
  }
  return stretches;
}

/// What a run learns of one record of the files.
int show_record(const TokenizeOptions& options) {
  const text::TokenizerPointer tokenizer = tokenizer_of(options);
  text::TextFiles files = text_files(options, {}, text::chat_renderer_of(*tokenizer));
  JsonArray learnt_ids, parts;
  std::vector<std::int32_t> ids;
  TextTable table{.columns = {{.head = "part", .words = true}, {.head = "text", .words = true}}};
  std::int64_t number = 0;
  std::uint64_t learnt = 0;
  text::encode_one(
      {.tokenizer = *tokenizer,
       .options = {.add_special = false,
                   .special_texts = options.special ? text::SpecialTexts::tokens : text::SpecialTexts::plain},
       .files = files,
       .take =
           [&](const text::TextPart&, const text::EncodedPart& made) {
             for (const Stretch& stretch : stretches_of(made)) {
               const std::string text = tokenizer->decode(stretch.ids);
               table.rows.push_back({stretch.learnt ? "learnt" : "read", json_string(text)});
               parts.add(JsonObject().add("learnt", stretch.learnt).add("text", text).add("ids", stretch.ids));
               learnt += stretch.learnt ? stretch.ids.size() : 0;
               ids.insert(ids.end(), stretch.ids.begin(), stretch.ids.end());
             }
           }},
      [&] { return ++number == options.shown; });
  if (number < options.shown) {
    throw UserError(fmt::format("--show {}, and the files have {} records", options.shown, number),
                    "the number of a record, from 1", "a smaller number");
  }
  return print_result(
      options.json,
      JsonObject().add("record", options.shown).add("tokens", ids.size()).add("learnt", learnt).add("parts", parts),
      table_text(table, output_width()).add(fmt::format("{} tokens, {} of them learnt\n", ids.size(), learnt)));
}

int show_tokens(const TokenizeOptions& options) {
  const text::TokenizerPointer tokenizer = tokenizer_of(options);
  std::string all = options.text;
  if (all == kStandardInput) all.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  const std::vector<std::int32_t> ids = tokenizer->encode(
      all,
      {.add_special = true, .special_texts = options.special ? text::SpecialTexts::tokens : text::SpecialTexts::plain});
  std::vector<std::string> pieces;
  for (const std::int32_t id : ids) pieces.push_back(tokenizer->token_text(id).value_or(""));
  TextTable table{.columns = {{.head = "id"}, {.head = "piece", .words = true}}};
  for (std::size_t i = 0; i < ids.size(); ++i) table.rows.push_back({std::to_string(ids[i]), pieces[i]});
  return print_result(
      options.json,
      JsonObject().add("ids", ids).add("pieces", pieces).add("tokens", ids.size()).add("bytes", all.size()),
      table_text(table, output_width()).add(fmt::format("{} tokens of {} bytes\n", ids.size(), all.size())));
}

int show_text(const TokenizeOptions& options) {
  const std::string all = tokenizer_of(options)->decode(options.ids);
  return print_result(options.json, JsonObject().add("text", all).add("bytes", all.size()), all + "\n");
}

int train_vocabulary(const TokenizeOptions& options) {
  constexpr std::size_t kBytes = 256;
  const text::Lexer& lexer = *text::lexer_named(options.pattern);
  if (options.output.empty()) {
    throw UserError("--train without -o", "a file for the tokenizer", "-o tokenizer.json");
  }
  if (options.vocabulary < static_cast<std::int64_t>(kBytes) + 1) {
    throw UserError(fmt::format("--vocab {}", options.vocabulary),
                    fmt::format("at least {}: the bytes and <|endoftext|>", kBytes + 1), "--vocab 32000");
  }
  expect_writable(options.output);
  text::TextFiles files = text_files(options, &text::cut_after);
  StatusLine line(!options.quiet && !options.json);
  const text::WordCounts words = text::count_words(
      [&]() -> std::optional<std::string> {
        const auto part = files.next();
        if (!part) return std::nullopt;
        line.show(progress("counting words", files));
        return files.text(*part);
      },
      lexer, threads_of(options.threads));
  const auto wanted = static_cast<std::size_t>(options.vocabulary) - 1;
  const text::TrainedBpe trained = text::train_bpe(words, wanted, [&](std::size_t tokens) {
    line.show({"merging", static_cast<std::int64_t>(tokens), static_cast<std::int64_t>(wanted)});
  });
  write_durable(options.output, text::tokenizer_json_of(trained, lexer), Named::by_person);
  const std::size_t made = trained.tokens.size() + 1;
  return print_result(
      options.json,
      JsonObject()
          .add("file", options.output)
          .add("vocabulary", made)
          .add("merges", trained.merges.size())
          .add("words", words.size()),
      fmt::format("{}: {} tokens, {} merges of {} different words{}\n", options.output, made, trained.merges.size(),
                  words.size(), made < wanted + 1 ? "; the texts have no more pairs to merge" : ""));
}

int tokenize(const TokenizeOptions& options) {
  const int wishes = (options.train.empty() ? 0 : 1) + (options.text.empty() ? 0 : 1) + (options.ids.empty() ? 0 : 1);
  if (wishes > 1) {
    throw UserError("several of --train, --text and --decode", "one of them", "leave the others out");
  }
  if (!options.train.empty()) return train_vocabulary(options);
  if (wishes == 1 && !(options.paths.empty() && options.output.empty())) {
    throw UserError("--text or --decode with files", "the text or ids of the command line alone",
                    "leave the files and -o out");
  }
  if (!options.text.empty()) return show_tokens(options);
  if (!options.ids.empty()) return show_text(options);
  if (options.shown > 0) return show_record(options);
  if (options.output.empty()) {
    throw UserError("files without -o", "a file for their tokens",
                    "-o tokens.bin, or --text 'a text' to see its tokens");
  }
  return write_tokens(options);
}

std::vector<std::string> pattern_names() {
  std::vector<std::string> names;
  for (const text::Lexer& lexer : text::lexers()) {
    if (std::ranges::find(names, lexer.name) == names.end()) names.emplace_back(lexer.name);
  }
  return names;
}

void add_input_options(Command& command, TokenizeOptions& options) {
  command.add({.names = "texts",
               .target = &options.paths,
               .help = "text files, JSON lines (*.jsonl), either packed with gzip or Zstandard; folders; patterns such "
                       "as 'data/*.txt'; -: JSON lines from standard input",
               .paths = Paths::files});
  command.add(
      path_option("--tokenizer", &options.tokenizer, "PATH", "a tokenizer's file, or a folder with one; empty: bytes"));
  command.add(output_option(options.output, "FILE",
                            "the token file to write, with FILE.json beside it; with --train the tokenizer.json"));
  command.add(
      word_option("--text", &options.text, "TEXT", "print the tokens of this text; -: read it from standard input"));
  command.add(repeated(word_option("--decode", &options.ids, "ID,ID,…", "print the text of these ids")));
  command.add(
      word_option("--field", &options.field, "NAME",
                  "all files are JSON lines, whose texts have this name; default: text, of files named *.jsonl"));
}

}  // namespace

Command describe_tokenize() {
  Command command{"tokenize", "turn texts into token ids, or learn a vocabulary"};
  const auto options = std::make_shared<TokenizeOptions>();
  add_input_options(command, *options);
  command.add(word_option("--separator", &options->separator, "TOKEN",
                          "what stands before each document, by its text or id; none: nothing; default: the begin of a "
                          "text, or else its end"));
  command.add(path_option("--chat-template", &options->chat_template, "chatml|FILE",
                          "how dialogues are written as texts; empty: by the tokenizer's own template"));
  CommandOption shown = number_option("--show", &options->shown, "print what is learnt of record N of the files", 0,
                                      std::int64_t{1} << 40);
  shown.default_text = "none";
  command.add(std::move(shown));
  command.add({.names = "--special",
               .target = &options->special,
               .help = "texts such as <|endoftext|> are special tokens, not plain text"});
  command.add({.names = "--verify",
               .target = &options->verify,
               .help = "decode the ids again and tell how many texts come out differently"});
  command.add(
      choice_option("--train", &options->train, "bpe", "learn a vocabulary of byte-level BPE from the texts", {"bpe"}));
  CommandOption vocabulary =
      number_option("--vocab", &options->vocabulary, "with --train: the number of tokens", 0, 1 << 24);
  vocabulary.default_text = "none";
  command.add(std::move(vocabulary));
  command.add(choice_option("--pattern", &options->pattern, "NAME", "with --train: how texts are cut into words",
                            pattern_names()));
  command.add(number_option("--threads", &options->threads, "threads to tokenize with; 0: all cores", 0, 4096));
  command.add({.names = "--json", .target = &options->json, .help = "print the result as one JSON object"});
  command.add({.names = "--quiet", .target = &options->quiet, .help = "print only the result and errors"});
  command.description =
      "Tokenizers are read from tokenizer.json (BPE), tokenizer.model (SentencePiece, or tiktoken's ranks), "
      "tekken.json, vocab.json with merges.txt, *.tiktoken files and GGUF files. Token files have llm.c's format. A "
      "text file is "
      "one document, and so is each line of JSON lines. Parquet and Arrow files, folders of save_to_disk() and data "
      "sets "
      "of the Hugging Face Hub are read by python3 -m weft.tokenize, which takes the same options.";
  command.examples = {{"weft tokenize --text \"Hello world\"", "the bytes of a text"},
                      {"weft tokenize --train bpe --vocab 4096 book.txt -o tokenizer.json"},
                      {"weft tokenize --tokenizer tokenizer.json book.txt -o book.bin"},
                      {"weft tokenize --tokenizer Llama-3.2-1B 'data/*.jsonl.gz' --field text -o data.bin"},
                      {"weft tokenize --tokenizer SmolLM2-135M-Instruct chats.jsonl --show 1"},
                      {"weft tokenize --tokenizer tokenizer.json --decode 15496,995"}};
  command.run = [options] { return tokenize(*options); };
  return command;
}

}  // namespace weft::tools
