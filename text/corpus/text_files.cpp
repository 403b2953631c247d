#include "text/corpus/text_files.h"

#include <fmt/format.h>
#include <glob.h>
#include <tbb/global_control.h>
#include <tbb/parallel_pipeline.h>

#include <algorithm>
#include <array>
#include <exception>
#include <span>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/input_file.h"

namespace weft::text {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPiece = std::size_t{1} << 20;

bool is_json_lines(const fs::path& path) {
  const fs::path name = path.extension() == ".gz" ? path.stem() : path.filename();
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
    if (entry->is_regular_file() && !entry->is_symlink()) inside.push_back(entry->path());
  }
  if (error) {
    throw UserError(in_quotes(folder) + " can't be listed: " + error.message(), "a readable folder",
                    "check its permissions");
  }
  if (inside.empty()) {
    throw UserError(in_quotes(folder) + " holds no files", "a folder of text files", "name a folder with text");
  }
  std::ranges::sort(inside);
  files.insert(files.end(), inside.begin(), inside.end());
}

const std::array<std::string, 3> kRoles = {"system", "user", "assistant"};

/// A member that is text.
std::optional<std::string> text_member(const DocumentValue& object, std::string_view name) {
  const auto found = object.find(name);
  return found && found->is_text() ? std::optional(found->text()) : std::nullopt;
}

void add_message(const DocumentValue& message, std::vector<TextPiece>& pieces) {
  const std::string role = message["role"].name_of(kRoles), content = message["content"].text();
  // The text that is read before a content goes on from the line before.
  if (pieces.empty() || pieces.back().learnt) pieces.push_back({.text = "", .learnt = false});
  pieces.back().text += fmt::format("<|{}|>\n", role);
  if (role == "assistant") {
    pieces.push_back({.text = content, .learnt = true, .ends = true});
    pieces.push_back({.text = "\n", .learnt = false});
  } else {
    pieces.back().text += content + "\n";
  }
}

std::vector<TextPiece> conversation(const DocumentValue& messages) {
  std::vector<TextPiece> pieces;
  for (const DocumentValue& message : messages.items()) add_message(message, pieces);
  if (std::ranges::none_of(pieces, &TextPiece::learnt)) {
    messages.refuse("has no message of the assistant", "one or more, which are learnt; else leave the line out");
  }
  return pieces;
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

/// `begin`: of the part's ids.
void encode_piece(const ParallelEncode& work, const TextPiece& piece, std::size_t begin, std::vector<std::int32_t>& ids,
                  EncodedPart& result) {
  const std::size_t at = ids.size();
  work.tokenizer.append(piece.text, work.options, ids);
  result.text_bytes += piece.text.size();
  result.differs |= work.verify && work.tokenizer.decode(std::span(ids).subspan(at)) != piece.text;
  if (const auto& end = work.tokenizer.facts().end; piece.ends && end) ids.push_back(*end);
  if (!piece.learnt && ids.size() > at) result.ignored.push_back({at - begin, ids.size() - begin});
}

void encode(const ParallelEncode& work, Batch& batch) {
  for (TextPart& part : batch.parts) {
    const std::vector<TextPiece> pieces = work.files.pieces(part);
    part.text.clear();
    EncodedPart& result = batch.results.emplace_back();
    const std::size_t begin = batch.ids.size();
    for (const TextPiece& piece : pieces) encode_piece(work, piece, begin, batch.ids, result);
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
  source_ = open_text_file(path, "the text").source;
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  before_ += std::exchange(size_, error ? 0 : size);
  read_ = 0;
  json_ = options_.all_json || is_json_lines(path);
  buffer_.clear(), taken_ = 0, line_ = 0;
  file_ended_ = false, begins_ = true;
  return true;
}

/// Reads on; false at the end of the file.
bool TextFiles::fill() {
  if (file_ended_) return false;
  if (taken_ > 0) buffer_.erase(0, std::exchange(taken_, 0));
  const std::size_t kept = buffer_.size();
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

std::vector<TextPiece> TextFiles::pieces(const TextPart& part) const {
  if (!part.json) return {{.text = part.text}};
  const Document document =
      read_json(part.text, fmt::format("{} line {}", in_quotes(files_[part.file]), part.line),
                {.fix = "give JSON lines, an object on each; or text files, whose names don't end in .jsonl"});
  const DocumentValue line = document.root();
  if (const auto text = text_member(line, options_.field)) return {{.text = *text}};
  const auto prompt = text_member(line, "prompt"), completion = text_member(line, "completion");
  if (prompt && completion) {
    return {{.text = *prompt, .learnt = false}, {.text = *completion, .learnt = true, .ends = true}};
  }
  if (const auto messages = line.find("messages")) return conversation(*messages);
  refuse_line(line, options_.field);
}

std::string TextFiles::text(const TextPart& part) const {
  std::string text;
  for (const TextPiece& piece : pieces(part)) text += piece.text;
  return text;
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
