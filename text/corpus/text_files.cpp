#include "text/corpus/text_files.h"

#include <fmt/format.h>
#include <glob.h>
#include <tbb/global_control.h>
#include <tbb/parallel_pipeline.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <exception>
#include <span>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/input_file.h"
#include "base/log.h"
#include "base/overloaded.h"
#include "base/text/json_object.h"
#include "text/chat/learnt_ids.h"

namespace weft::text {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPiece = std::size_t{1} << 20;

bool is_json_lines(const fs::path& path) {
  const fs::path name = is_packed_name(path) ? path.stem() : path.filename();
  return name.extension() == ".jsonl" || name.extension() == ".ndjson";
}

std::vector<fs::path> matches_of(const std::string& pattern) {
  glob_t found{};
  const std::unique_ptr<glob_t, decltype(&globfree)> owner(&found, &globfree);
  if (::glob(pattern.c_str(), 0, nullptr, &found) != 0) return {};
  return {found.gl_pathv, found.gl_pathv + found.gl_pathc};
}

void add_folder(const fs::path& folder, std::vector<fs::path>& files) {
  std::vector<fs::path> inside;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename() == ".git") entry.disable_recursion_pending();
    if (entry->is_regular_file() && !entry->is_symlink()) inside.push_back(entry->path());
  }
  if (error) {
    throw UserError(in_quotes(folder) + " can't be listed: " + error.message(), "a readable folder",
                    "check its permissions");
  }
  if (inside.empty()) {
    throw UserError(in_quotes(folder) + " holds no files", "a folder of text files", "name a folder with text");
  }
  for (const fs::path& card : take_cards(inside)) {
    Log(LogTopic::run).warning("{} is left out: it describes the data set", card.string());
  }
  std::ranges::sort(inside);
  files.insert(files.end(), inside.begin(), inside.end());
}

bool is_readme(const fs::path& path) {
  std::string stem = path.stem().string();
  std::ranges::transform(stem, stem.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return stem == "readme";
}

/// The begin of a card of Hugging Face's: its facts stand above its text.
bool has_front_matter(const fs::path& path) {
  const InputFile file(path);
  std::array<char, 4> begin{};
  if (file.size() < begin.size()) return false;
  file.read(0, std::as_writable_bytes(std::span(begin)));
  return std::string_view(begin.data(), 3) == "---" && (begin[3] == '\n' || begin[3] == '\r');
}

// Members that a form doesn't read, and that others read as a part of what is learnt: of any record, of one that isn't
// a bare text, of a prompt with its completion, of a dialogue, and of a message.
constexpr std::array kUnreadOfRecords = {"weight", "loss_weight", "loss_mask"};
constexpr std::array kUnreadOfPairs = {"functions", "suffix", "chosen", "rejected", "label", "chat_template_kwargs"};
constexpr std::array kUnreadOfPrompts = {"tools", "system"};
constexpr std::array kUnreadOfDialogues = {"system"};
constexpr std::array kUnreadOfMessages = {"train", "loss_mask"};

/// Exports write members that say nothing: null, a weight of 1, an empty list.
bool says_nothing(const DocumentValue& value) {
  if (value.is_text()) return value.text().empty();
  if (value.is_list()) return value.items().empty();
  if (value.is_object()) return value.members().empty();
  if (value.is_boolean()) return value.boolean();
  return value.is_null() || (value.is_number() && value.any_number() == 1);
}

void refuse_unread(const DocumentValue& object, std::span<const char* const> names) {
  for (const char* name : names) {
    const auto member = object.given(name);
    if (!member || says_nothing(*member)) continue;
    throw UserError(fmt::format("{} changes what is learnt, and isn't read yet", member->place()),
                    "a text, a prompt with its completion, or messages, without it",
                    "take the member out of the line, or leave the line out");
  }
}

/// A form in which a line may hold what is learnt, if it is no bare text.
struct Form {
  const char* name;
  std::optional<ChatForm> chat;  // none: a prompt and its completion
  std::vector<const char*> members;
};

const std::vector<Form>& forms() {
  static const std::vector<Form> all = {
      {"\"prompt\" with \"completion\"", {}, {"prompt", "completion"}},
      {"\"messages\"", ChatForm::messages, {"messages"}},
      {"\"conversations\"", ChatForm::sharegpt, {"conversations"}},
      {"\"instruction\" with \"output\"", ChatForm::alpaca, {"instruction", "output"}}};
  return all;
}

bool has_form(const DocumentValue& line, const Form& form) {
  return std::ranges::all_of(form.members, [&](const char* name) { return line.given(name).has_value(); });
}

/// Several forms in one line are several things to learn.
void expect_one_form(const DocumentValue& line, const std::string& field) {
  std::vector<std::string> found;
  if (line.given(field)) found.push_back(fmt::format("\"{}\"", field));
  for (const Form& form : forms()) {
    if (has_form(line, form)) found.emplace_back(form.name);
  }
  if (found.size() < 2) return;
  throw UserError(fmt::format("{} has {}", line.place(), join(found, " and ")), "one of them",
                  "take the others out of the line, or name the text with --field");
}

/// Where a text has half of a pair of UTF-16 units, which no character is: its offset.
std::optional<std::size_t> lone_surrogate(std::string_view json) {
  const auto unit = [&](std::size_t at) -> unsigned {
    unsigned value = 0;
    const bool escaped = json.size() >= at + 6 && json[at] == '\\' && json[at + 1] == 'u';
    if (escaped) std::from_chars(&json[at + 2], &json[at + 2] + 4, value, 16);
    return value;
  };
  for (std::size_t at = 0; (at = json.find('\\', at)) != std::string_view::npos; at += 2) {
    const unsigned first = unit(at);
    if (first < 0xD800 || first > 0xDFFF) continue;
    const unsigned second = first < 0xDC00 ? unit(at + 6) : 0;
    if (second < 0xDC00 || second > 0xDFFF) return at;
    at += 6;
  }
  return std::nullopt;
}

/// Refuses a line that can't be read as JSON by what it is instead, if its form tells.
void refuse_known_form(std::string_view line, const std::string& place) {
  constexpr const char* kExpected = "JSON lines: an object on each line";
  if (line.starts_with("\xff\xfe") || line.starts_with("\xfe\xff") || line.find('\0') != std::string_view::npos) {
    throw UserError(place + " is UTF-16", "UTF-8", "convert the file: iconv -f UTF-16 -t UTF-8 FILE > lines.jsonl");
  }
  if (const auto at = lone_surrogate(line)) {
    throw UserError(fmt::format("{} has a lone surrogate, {}, at byte {}", place, line.substr(*at, 6), *at),
                    "characters, of which those beyond U+FFFF take a pair of surrogates",
                    "write the texts again; half a character was cut off");
  }
  const std::size_t last = line.find_last_not_of(" \t\r");
  const bool goes_on = last != std::string_view::npos && std::string_view("{[,:").find(line[last]) != std::string::npos;
  if (goes_on && outline_of_json(line).depth > 0) {
    throw UserError(place + " begins an object that goes on in the next line", kExpected,
                    "write each object on one line: jq -c . FILE > lines.jsonl");
  }
}

/// The object of a line.
Document object_of(std::string_view line, const std::string& place) {
  const std::size_t begin = line.find_first_not_of(" \t", line.starts_with("\xef\xbb\xbf") ? 3 : 0);
  if (begin != std::string_view::npos && line[begin] == '[') {
    throw UserError(place + " begins a JSON array", "JSON lines: an object on each line",
                    "write each item on a line of its own: jq -c '.[]' FILE > lines.jsonl");
  }
  try {
    return read_json(line, place,
                     {.fix = "give JSON lines, an object on each; or text files, whose names don't end in .jsonl"});
  } catch (const UserError&) {
    refuse_known_form(line, place);
    throw;
  }
}

/// A member that is text.
std::optional<std::string> text_member(const DocumentValue& object, std::string_view name) {
  const auto found = object.find(name);
  return found && found->is_text() ? std::optional(found->text()) : std::nullopt;
}

/// The list of a dialogue's turns, if the form has one.
std::optional<DocumentValue> turns_of(const DocumentValue& line, const Form& form) {
  const auto turns = line.find(form.members.back());
  return turns && turns->is_list() ? turns : std::nullopt;
}

/// The form of a line that is no bare text, in which lists in place of prompt and completion are a dialogue.
std::optional<Form> form_of(const DocumentValue& line) {
  for (Form form : forms()) {
    if (!has_form(line, form)) continue;
    if (!form.chat && line["prompt"].is_list() && line["completion"].is_list()) form.chat = ChatForm::halves;
    return form;
  }
  return std::nullopt;
}

RenderedChat rendered(const ChatRenderer* chat, const TextPart& part, const DocumentValue& line, const Form& form) {
  if (const auto turns = turns_of(line, form)) {
    for (const DocumentValue& turn : turns->items()) {
      if (turn.is_object()) refuse_unread(turn, kUnreadOfMessages);
    }
  }
  if (*form.chat == ChatForm::messages || *form.chat == ChatForm::halves) refuse_unread(line, kUnreadOfDialogues);
  if (chat == nullptr) {
    throw UserError(fmt::format("{} is a dialogue, and the tokenizer has no chat template", line.place()),
                    "the template by which the model writes a dialogue",
                    "--chat-template chatml, or a file with the model's own");
  }
  return chat->learnt(part.text, *form.chat, line.where());
}

/// The texts of a dialogue, whatever its form.
void add_texts(const DocumentValue& value, std::string& text) {
  if (value.is_text()) {
    text += value.text() + "\n";
  } else if (value.is_list()) {
    for (const DocumentValue& item : value.items()) add_texts(item, text);
  } else if (value.is_object()) {
    for (const auto& [key, member] : value.members()) {
      if (key == "content" || key == "value" || key == "text") add_texts(member, text);
    }
  }
}

[[noreturn]] void refuse_line(const DocumentValue& line, const std::string& field) {
  std::vector<std::string> texts;
  for (const auto& [key, value] : line.members()) {
    if (value.is_text()) texts.push_back(fmt::format("\"{}\"", key));
  }
  throw UserError(fmt::format("{} has no text \"{}\"", line.place(), field),
                  texts.empty() ? "an object with a text" : "one of its texts: " + join(texts),
                  "--field with the name of the text");
}

constexpr std::size_t kBatchBytes = std::size_t{1} << 20;  // short texts are handed over together

struct Batch {
  std::vector<TextPart> parts;
  std::vector<std::size_t> ends;     // of each part's ids
  std::vector<EncodedPart> results;  // their ids are set when they are taken
  std::vector<std::int32_t> ids;
  std::exception_ptr failure;  // thrown when it is its turn, so that the first of several is told
};

/// Pieces between two ends of a text are one text, and are encoded as one. A token that would reach over the border of
/// two pieces is cut there, as a model that continues the first piece alone has it.
class PieceEncoder {
 public:
  PieceEncoder(const ParallelEncode& work, std::vector<std::int32_t>& ids, EncodedPart& result)
      : work_(work),
        ids_(ids),
        result_(result),
        begin_(ids.size()),
        text_begin_(ids.size()),
        joint_begin_(ids.size()) {}

  void add(const TextPiece& piece) {
    const std::size_t at = ids_.size();
    EncodeOptions options = work_.options;
    options.place = place_;
    joint_ += piece.text;
    std::vector<std::int32_t> joint;
    const std::size_t before = at - joint_begin_;
    if (before > 0) joint = work_.tokenizer.encode(joint_, options);
    if (before > 0 && !is_begin(std::span(ids_).last(before), joint)) {
      joint_ = piece.text, joint_begin_ = at;
      options.place = place_ = TextPlace::continues;
    }
    if (at == joint_begin_) {
      work_.tokenizer.append(joint_, options, ids_);
    } else {
      ids_.insert(ids_.end(), joint.begin() + static_cast<std::ptrdiff_t>(before), joint.end());
    }
    if (work_.verify) text_ += piece.text;
    result_.text_bytes += piece.text.size();
    const auto& end = work_.tokenizer.facts().end;
    if (piece.ends && end) finish(), ids_.push_back(*end), start();
    if (!piece.learnt && ids_.size() > at) result_.ignored.push_back({at - begin_, ids_.size() - begin_});
  }
  /// Ends a text.
  void finish() {
    result_.differs |= work_.verify && work_.tokenizer.decode(std::span(ids_).subspan(text_begin_)) != text_;
  }

 private:
  static bool is_begin(std::span<const std::int32_t> begin, std::span<const std::int32_t> ids) {
    return begin.size() <= ids.size() && std::ranges::equal(begin, ids.first(begin.size()));
  }
  void start() {
    text_.clear(), joint_.clear();
    text_begin_ = joint_begin_ = ids_.size();
    place_ = TextPlace::after_token;
  }

  const ParallelEncode& work_;
  std::vector<std::int32_t>& ids_;
  EncodedPart& result_;
  std::size_t begin_, text_begin_, joint_begin_;  // in the ids: of the part, a text, and what is encoded as one
  std::string text_, joint_;
  TextPlace place_ = TextPlace::begins;
};

/// As a whole, with the special tokens that its template writes. What isn't learnt is ignored.
void encode_chat(const ParallelEncode& work, const RenderedChat& chat, std::vector<std::int32_t>& ids,
                 EncodedPart& result) {
  const EncodeOptions options{.add_special = false, .special_texts = SpecialTexts::tokens};
  const std::vector<std::int32_t> own = work.tokenizer.encode(chat.text, options);
  std::uint64_t done = 0;
  for (const IdRange& learnt : ids_of_ranges(work.tokenizer, chat.text, own, chat.learnt, options)) {
    if (learnt.begin > done) result.ignored.push_back({done, learnt.begin});
    done = std::max(done, learnt.end);
  }
  if (done < own.size()) result.ignored.push_back({done, own.size()});
  ids.insert(ids.end(), own.begin(), own.end());
  result.text_bytes = chat.text.size();
  result.is_chat = true;
  result.differs = work.verify && work.tokenizer.decode(own) != chat.text;
}

void encode(const ParallelEncode& work, Batch& batch) {
  for (TextPart& part : batch.parts) {
    const TextContent content = work.files.content(part);
    part.text.clear();
    EncodedPart& result = batch.results.emplace_back();
    std::visit(Overloaded{[&](const std::vector<TextPiece>& pieces) {
                            PieceEncoder encoder(work, batch.ids, result);
                            for (const TextPiece& piece : pieces) encoder.add(piece);
                            encoder.finish();
                          },
                          [&](const RenderedChat& chat) { encode_chat(work, chat, batch.ids, result); }},
               content);
    batch.ends.push_back(batch.ids.size());
  }
}

std::shared_ptr<Batch> next_batch(const ParallelEncode& work) {
  auto batch = std::make_shared<Batch>();
  for (std::size_t bytes = 0; bytes < kBatchBytes;) {
    auto part = work.files.next();
    if (!part) break;
    bytes += part->text.size();
    batch->parts.push_back(std::move(*part));
  }
  if (batch->parts.empty()) return nullptr;
  return batch;
}

void take_batch(const ParallelEncode& work, Batch& batch) {
  if (batch.failure) std::rethrow_exception(batch.failure);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < batch.parts.size(); ++i) {
    EncodedPart& result = batch.results[i];
    result.ids = std::span(batch.ids).subspan(begin, batch.ends[i] - begin);
    work.take(batch.parts[i], result);
    begin = batch.ends[i];
  }
}

}  // namespace

bool is_data_set_name(const fs::path& path) {
  constexpr std::array kPacked = {".gz", ".bz2", ".xz", ".zst"}, kEndings = {".arrow", ".parquet", ".jsonl", ".ndjson"};
  const bool packed = std::ranges::find(kPacked, path.extension()) != kPacked.end();
  return std::ranges::find(kEndings, (packed ? path.stem() : path).extension()) != kEndings.end();
}

std::vector<fs::path> take_cards(std::vector<fs::path>& files, bool has_folders) {
  const auto is_card = [](const fs::path& path) { return is_readme(path) || path.filename() == ".gitattributes"; };
  const bool of_data_set =
      std::ranges::any_of(files, is_data_set_name) || (has_folders && std::ranges::all_of(files, is_card)) ||
      std::ranges::any_of(files, [](const fs::path& path) { return is_readme(path) && has_front_matter(path); });
  if (!of_data_set) return {};
  const auto cards = std::stable_partition(files.begin(), files.end(), std::not_fn(is_card));
  std::vector<fs::path> taken(cards, files.end());
  files.erase(cards, files.end());
  return taken;
}

std::vector<fs::path> matching_paths(const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error)) return {path};
  return matches_of(path);
}

std::vector<fs::path> files_of(const std::vector<std::string>& paths) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const std::string& path : paths) {
    const std::vector<fs::path> matches = matching_paths(path);
    if (matches.empty()) {
      throw UserError(in_quotes(path) + " doesn't exist", "a file, a folder, or a pattern such as 'data/*.txt'",
                      "check the path");
    }
    for (const fs::path& match : matches) {
      if (fs::is_directory(match, error)) {
        add_folder(match, files);
      } else {
        files.push_back(match);
      }
    }
  }
  return files;
}

TextFiles::TextFiles(std::vector<fs::path> files, TextFileOptions options, CutAfter cut_after)
    : files_(std::move(files)), options_(std::move(options)), cut_after_(std::move(cut_after)) {
  std::error_code error;
  for (const fs::path& file : files_) {
    const std::uintmax_t size = fs::file_size(file, error);
    if (!error) bytes_ += size;
  }
}

bool TextFiles::open_next() {
  if (opened_ == files_.size()) return false;
  const fs::path& path = files_[opened_++];
  source_ = options_.stream ? options_.stream : open_text_file(path, "the text").source;
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  before_ += std::exchange(size_, error ? 0 : size);
  read_ = 0;
  json_ = options_.all_json || options_.stream || is_json_lines(path);
  buffer_.clear(), taken_ = 0, line_ = 0;
  file_ended_ = false, begins_ = true;
  return true;
}

/// Reads on; false at the end of the file.
bool TextFiles::fill() {
  if (file_ended_) return false;
  if (taken_ > 0) buffer_.erase(0, std::exchange(taken_, 0));
  const std::size_t kept = buffer_.size();
  if (kept > options_.most_uncut_bytes) {
    const std::string place = json_ ? fmt::format("line {}", line_ + 1) : std::string("the text");
    throw UserError(fmt::format("{}: {} has more than {} bytes{}", in_quotes(files_[opened_ - 1]), place,
                                options_.most_uncut_bytes, json_ ? "" : " without a place to cut it"),
                    "records and texts of some length", "check the file; split it into several records or texts");
  }
  buffer_.resize(kept + std::max(kPiece, kept));
  const std::size_t count = (*source_)(std::span(buffer_).subspan(kept));
  buffer_.resize(kept + count);
  read_ += count;
  file_ended_ = count == 0;
  return !file_ended_;
}

std::optional<TextPart> TextFiles::next() {
  while (true) {
    if (!source_ && !open_next()) return std::nullopt;
    TextPart part = json_ ? next_line() : next_text();
    part.file = static_cast<std::uint32_t>(opened_ - 1);
    if (file_ended_ && taken_ == buffer_.size()) source_.reset();
    if (!part.text.empty()) return part;
  }
}

TextPart TextFiles::next_line() {
  std::size_t from = 0;
  while (true) {
    const std::string_view rest = std::string_view(buffer_).substr(taken_);
    const std::size_t end = rest.find('\n', from);
    if (end == std::string_view::npos) {
      from = rest.size();
      if (fill()) continue;
    }
    const std::string_view all = std::string_view(buffer_).substr(taken_);
    const std::string_view line = all.substr(0, end);
    taken_ += std::min(line.size() + 1, all.size());
    ++line_;
    const bool blank = line.find_first_not_of(" \t\r") == std::string_view::npos;
    return {.text = blank ? std::string() : std::string(line), .json = true, .line = line_};
  }
}

TextPart TextFiles::next_text() {
  std::size_t from = options_.part_bytes;
  while (true) {
    while (buffer_.size() - taken_ < from + kPiece && fill()) {
    }
    const std::string_view rest = std::string_view(buffer_).substr(taken_);
    std::size_t cut = rest.size();
    if (!file_ended_ || rest.size() > from) cut = cut_after_(rest, std::min(from, rest.size()));
    if (cut == rest.size() && !file_ended_) {
      from = rest.size();  // looks on where more has been read
      continue;
    }
    TextPart part{.text = std::string(rest.substr(0, cut))};
    taken_ += cut;
    part.begins = std::exchange(begins_, false);
    return part;
  }
}

TextContent TextFiles::content(const TextPart& part) const {
  using Pieces = std::vector<TextPiece>;
  if (!part.json) return Pieces{{.text = part.text}};
  const Document document = object_of(part.text, place_of(part));
  const DocumentValue line = document.root();
  const auto text = text_member(line, options_.field);
  if (text && options_.all_json) return Pieces{{.text = *text}};  // its name was given: nothing else is meant
  expect_one_form(line, options_.field);
  refuse_unread(line, kUnreadOfRecords);
  if (text) return Pieces{{.text = *text}};
  refuse_unread(line, kUnreadOfPairs);
  const auto form = form_of(line);
  if (form && form->chat) return rendered(options_.chat.get(), part, line, *form);
  refuse_unread(line, kUnreadOfPrompts);
  const auto prompt = text_member(line, "prompt"), completion = text_member(line, "completion");
  if (!prompt || !completion) refuse_line(line, options_.field);
  return Pieces{{.text = *prompt, .learnt = false}, {.text = *completion, .learnt = true, .ends = true}};
}

std::string TextFiles::text(const TextPart& part) const {
  std::string text;
  if (part.json) {
    const Document document = object_of(part.text, place_of(part));
    const auto form = form_of(document.root());
    if (form && form->chat && !text_member(document.root(), options_.field)) {
      for (const char* name : form->members) add_texts(document.root()[name], text);
      return text;
    }
  }
  const TextContent pieces = content(part);
  for (const TextPiece& piece : std::get<std::vector<TextPiece>>(pieces)) text += piece.text;
  return text;
}

std::string TextFiles::place_of(const TextPart& part) const {
  return fmt::format("{} line {}", in_quotes(files_[part.file]), part.line);
}

void encode_one(const ParallelEncode& work, const std::function<bool()>& is_wanted) {
  while (auto part = work.files.next()) {
    if (!is_wanted()) continue;
    Batch batch;
    batch.parts.push_back(std::move(*part));
    encode(work, batch);
    take_batch(work, batch);
    return;
  }
}

void encode_in_order(const ParallelEncode& work) {
  using Pointer = std::shared_ptr<Batch>;
  using tbb::filter_mode;
  const auto read = [&](tbb::flow_control& flow) {
    Pointer batch = next_batch(work);
    if (batch == nullptr) flow.stop();
    return batch;
  };
  const auto encode_one = [&](Pointer batch) {
    try {
      encode(work, *batch);
    } catch (...) {
      batch->failure = std::current_exception();
    }
    return batch;
  };
  const auto take = [&](const Pointer& batch) { take_batch(work, *batch); };
  const auto most = static_cast<std::size_t>(work.threads);
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, most);
  tbb::parallel_pipeline(most * 2 + 1, tbb::make_filter<void, Pointer>(filter_mode::serial_in_order, read) &
                                           tbb::make_filter<Pointer, Pointer>(filter_mode::parallel, encode_one) &
                                           tbb::make_filter<Pointer, void>(filter_mode::serial_in_order, take));
}

}  // namespace weft::text
