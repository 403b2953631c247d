// Finds the files, checks each one, and splits off the held-out tokens.
#include "train/data/token_source.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/files/checksum.h"
#include "base/hash.h"
#include "text/byte_tokenizer.h"
#include "train/data/data_kind.h"
#include "train/data/token_file.h"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultFolder = "/usr/share/common-licenses";
constexpr const char* kNameOneFile = "name one file: --data FOLDER/train.bin";

bool is_bin(const fs::path& path) {
  return path.extension() == ".bin";
}

/// "x_val_000000.bin" and "val.bin": "val" between the ends of the stem and characters that join words.
bool is_val(const fs::path& path) {
  constexpr std::string_view kWord = "val", kJoints = "_-.";
  const std::string stem = path.stem().string();
  for (std::size_t at = stem.find(kWord); at != std::string::npos; at = stem.find(kWord, at + 1)) {
    const std::size_t end = at + kWord.size();
    const bool begins = at == 0 || kJoints.find(stem[at - 1]) != std::string_view::npos;
    if (begins && (end == stem.size() || kJoints.find(stem[end]) != std::string_view::npos)) return true;
  }
  return false;
}

/// "x.bin.json", which `weft tokenize` writes beside x.bin.
bool is_description(const fs::path& path) {
  std::error_code error;
  return path.extension() == ".json" && is_bin(path.stem()) && fs::exists(path.parent_path() / path.stem(), error);
}

/// The files of one path, in order, all of one kind, opened but not yet read.
struct FileSet {
  std::vector<std::shared_ptr<const InputFile>> files;
  bool text = true;
  bool folder = false;
};

std::shared_ptr<const InputFile> open_file(const fs::path& path) {
  auto file = std::make_shared<const InputFile>(path);
  refuse_foreign_kind(*file);
  return file;
}

FileSet single_file(const fs::path& path) {
  FileSet set;
  set.text = !is_bin(path);
  set.files.push_back(open_file(path));
  if (set.files.front()->size() == 0)
    throw UserError(in_quotes(path) + " is empty", "text or tokens", "check the path, or make the file again");
  return set;
}

/// A data set is often a card and folders of files; training on the card alone is never meant.
void refuse_data_set(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file() || !is_data_set_name(entry.path())) continue;
    throw UserError(fmt::format("the folder {} holds {}, a file of a data set", in_quotes(folder.parent_path()),
                                (folder.filename() / entry.path().filename()).string()),
                    "regular files of text or tokens, not in subfolders",
                    "write its text to .txt files, or its token ids to .bin files, in a folder of their own");
  }
}

/// Raises the limit of open files to the system's maximum, since each file of a folder stays open.
void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

FileSet folder_files(const fs::path& folder, std::vector<std::string>& notes) {
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_symlink()) continue;
    if (entry.is_directory()) {
      refuse_data_set(entry.path());
      notes.push_back(entry.path().filename().string() + ": left out, it is a folder");
    }
    if (entry.is_regular_file() && !is_description(entry.path())) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  allow_many_files();
  FileSet set;
  set.folder = true;
  for (const fs::path& path : paths) {
    auto file = open_file(path);
    if (file->size() > 0) {
      set.files.push_back(std::move(file));
    } else {
      notes.push_back(path.filename().string() + ": left out, it is empty");
    }
  }
  const auto bins = std::count_if(paths.begin(), paths.end(), is_bin);
  if (bins != 0 && static_cast<std::size_t>(bins) != paths.size()) {
    throw UserError(fmt::format("{} holds {} .bin files among {} files", in_quotes(folder), bins, paths.size()),
                    "a folder of token files or a folder of text", kNameOneFile);
  }
  set.text = bins == 0;
  return set;
}

void expect_some(const std::string& path, std::size_t files, const std::vector<std::string>& notes) {
  if (files > 0) return;
  throw UserError(in_quotes(path) + " holds no text and no tokens",
                  "regular files, not in subfolders, not symbolic links",
                  notes.empty() ? "name a folder with data, or a file" : "give other data: " + join(notes, "; "));
}

FileSet find_files(const std::string& path, std::vector<std::string>& notes) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    throw UserError(in_quotes(path) + " doesn't exist", "a text file, a folder of text, or a .bin token file",
                    path == kDefaultFolder ? "give --data" : "check the path");
  }
  if (!fs::is_directory(path, error)) return single_file(path);
  try {
    FileSet set = folder_files(path, notes);
    expect_some(path, set.files.size(), notes);
    return set;
  } catch (const fs::filesystem_error& failure) {
    throw UserError(in_quotes(path) + " can't be listed: " + failure.code().message(), "a readable folder",
                    "check its permissions");
  }
}

/// A text's tokens, or the position of a NUL byte, which shows that the file isn't text.
struct CheckedText {
  CheckedTokens tokens;
  std::optional<std::uint64_t> nul;
};

CheckedText check_text(const std::shared_ptr<const InputFile>& file) {
  CheckedText text;
  Crc32c checksum;
  std::uint64_t before = 0;
  read_in_pieces(*file, 0, file->size(), [&](std::span<const std::byte> bytes) {
    if (const void* found = std::memchr(bytes.data(), 0, bytes.size())) {
      text.nul = before + static_cast<std::uint64_t>(static_cast<const std::byte*>(found) - bytes.data());
    }
    checksum.add(bytes);
    before += bytes.size();
    return !text.nul;
  });
  text.tokens = {{file, TokenEncoding::bytes, 0, file->size(), true}, checksum.value()};
  return text;
}

bool equal_content(const InputFile& a, const InputFile& b) {
  std::vector<std::byte> other;
  std::uint64_t at = 0;
  bool equal = a.size() == b.size();
  if (!equal) return false;
  read_in_pieces(a, 0, a.size(), [&](std::span<const std::byte> bytes) {
    other.resize(bytes.size());
    b.read(at, other);
    at += bytes.size();
    equal = std::equal(bytes.begin(), bytes.end(), other.begin());
    return equal;
  });
  return equal;
}

/// Reads and checks the files of one path, and returns those with tokens; notes the files that are left out.
std::vector<CheckedTokens> check_files(const std::string& path, const FileSet& set, const TokenSourceOptions& options,
                                       std::vector<std::string>& notes) {
  std::vector<CheckedTokens> checked;
  for (const std::shared_ptr<const InputFile>& file : set.files) {
    const std::string name = file->path().filename().string();
    CheckedText text = set.text ? check_text(file) : CheckedText{};
    if (text.nul && !set.folder) {
      throw UserError(fmt::format("{} isn't text: it has a NUL byte at {}", in_quotes(path), *text.nul),
                      "a text file, or a token file whose name ends in .bin",
                      "give other data, or let the name of a token file end in .bin");
    }
    if (text.nul) {
      notes.push_back(fmt::format("{}: left out, it has a NUL byte at {}", name, *text.nul));
      continue;
    }
    CheckedTokens tokens = set.text ? std::move(text.tokens) : check_token_file(file, options.width, options.vocab);
    const auto equal = std::ranges::find_if(checked, [&](const CheckedTokens& other) {
      return other.checksum == tokens.checksum && equal_content(*other.part.file, *file);
    });
    if (equal == checked.end()) {
      checked.push_back(std::move(tokens));
    } else {
      notes.push_back(fmt::format("{}: left out, it equals {}", name, equal->part.file->path().filename().string()));
    }
  }
  expect_some(path, checked.size(), notes);
  return checked;
}

/// Takes the files of the set that are held out by their name.
FileSet take_val_files(FileSet& set) {
  FileSet val;
  val.text = set.text;
  val.folder = set.folder;
  if (set.text || !set.folder) return val;
  const auto first =
      std::stable_partition(set.files.begin(), set.files.end(), [](const auto& file) { return !is_val(file->path()); });
  std::move(first, set.files.end(), std::back_inserter(val.files));
  set.files.erase(first, set.files.end());
  return val;
}

void note_left_out(const FileSet& set, std::string_view why, std::vector<std::string>& notes) {
  for (const auto& file : set.files) {
    notes.push_back(fmt::format("{}: left out, {}", file->path().filename().string(), why));
  }
}

void expect_byte_vocabulary(const std::string& path, std::int64_t vocab) {
  if (vocab == text::ByteTokenizer::kVocabulary) return;
  throw UserError(
      fmt::format("{} is text, and the model has a vocabulary of {}", in_quotes(path), vocab),
      fmt::format("{}, as text is read byte by byte", text::ByteTokenizer::kVocabulary),
      fmt::format("--tokenizer with the model's, --model.vocab {} for a model of bytes, or --data with a .bin "
                  "file of token ids",
                  text::ByteTokenizer::kVocabulary));
}

TokenStream::Part slice(TokenStream::Part part, std::uint64_t begin, std::uint64_t count) {
  part.offset += begin * bytes_per_token(part.encoding);
  part.count = count;
  part.end_of_text = part.end_of_text && count > 0;
  return part;
}

/// Adds a file to the digest: its tokens, and the beginning of the held-out part.
void add_file(Fingerprint& digest, const CheckedTokens& tokens, std::uint64_t train_count) {
  digest.add(bytes_per_token(tokens.part.encoding)).add(tokens.part.count).add(train_count).add(tokens.checksum);
}

/// 259012 reads "259,012".
std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string kind_of(const std::vector<CheckedTokens>& files) {
  const auto holds = [&](TokenEncoding encoding) {
    return std::ranges::any_of(files, [&](const CheckedTokens& file) { return file.part.encoding == encoding; });
  };
  if (holds(TokenEncoding::bytes)) return "text";
  if (holds(TokenEncoding::u16) && holds(TokenEncoding::u32)) return "u16 and u32 token";
  return holds(TokenEncoding::u16) ? "u16 token" : "u32 token";
}

}  // namespace

std::string data_path(const std::string& data) {
  return data.empty() ? kDefaultFolder : data;
}

TokenSource TokenSource::open(const TokenSourceOptions& options) {
  TokenSource source;
  const std::string path = data_path(options.data);
  const bool has_data = !options.held_out_only || options.val_data.empty();
  FileSet data;
  if (has_data) data = find_files(path, source.notes_);
  FileSet val = take_val_files(data);
  source.what_held_out_ = val.files.empty()
                              ? "the last 10 % of each file"
                              : fmt::format("{} val file{}", val.files.size(), val.files.size() == 1 ? "" : "s");
  std::string val_path = path;
  if (!options.val_data.empty()) {
    note_left_out(val, "val-data is held out in its place", source.notes_);
    val_path = options.val_data;
    FileSet rest = find_files(val_path, source.notes_);
    val = take_val_files(rest);
    if (val.files.empty()) {
      val = std::move(rest);
    } else {
      note_left_out(rest, "it isn't a val file", source.notes_);
    }
    if (!has_data) data.text = val.text;
    if (val.text != data.text) {
      throw UserError(fmt::format("{} is {} and {} is {}", in_quotes(path), data.text ? "text" : "tokens",
                                  in_quotes(val_path), val.text ? "text" : "tokens"),
                      "training and validation data of one kind", "tokenize the text first");
    }
    source.what_held_out_ = "val-data";
  } else if (data.files.empty() && !val.files.empty() && !options.held_out_only) {
    throw UserError(in_quotes(path) + " holds val files alone", "a file to train on",
                    "name another folder, or a file: --data FOLDER/x_val_000000.bin");
  }
  if (data.text) expect_byte_vocabulary(has_data ? path : val_path, options.vocab);
  if (data.text && options.width != TokenWidth::automatic) {
    throw UserError(in_quotes(has_data ? path : val_path) + " is text, and data-dtype is given",
                    "a .bin file, whose ids have such a width", "--data-dtype auto, or give a .bin file");
  }

  std::vector<CheckedTokens> files;
  if (has_data) files = check_files(path, data, options, source.notes_);
  source.train_ = source.held_out_ = TokenStream(static_cast<std::uint32_t>(options.vocab));
  Fingerprint digest;
  for (const CheckedTokens& file : files) {
    const std::uint64_t count = file.part.count, kept_back = val.files.empty() ? count / 10 : 0;
    source.train_.append(slice(file.part, 0, count - kept_back));
    source.held_out_.append(slice(file.part, count - kept_back, kept_back));
    add_file(digest, file, count - kept_back);
  }
  if (!val.files.empty()) {
    for (CheckedTokens& file : check_files(val_path, val, options, source.notes_)) {
      source.held_out_.append(file.part);
      add_file(digest, file, 0);
      files.push_back(std::move(file));
    }
  }
  source.files_ = files.size();
  source.text_ = data.text;
  source.kind_ = kind_of(files);
  source.digest_ = digest.value();

  const auto needed = static_cast<std::uint64_t>(options.seq_len) + 1;
  if (source.train_.size() < needed && !options.held_out_only) {
    throw UserError(fmt::format("{} has {} tokens to train on", in_quotes(path), grouped(source.train_.size())),
                    fmt::format("{} or more: one sequence of {} and its last target", grouped(needed), options.seq_len),
                    "give more data, or a shorter --seq-len");
  }
  if (source.held_out_.size() < 2) {
    throw UserError(fmt::format("{} held-out tokens ({})", source.held_out_.size(), source.what_held_out_), "2 or more",
                    "give more data, or --val-data");
  }
  std::ranges::sort(source.notes_);
  return source;
}

std::string TokenSource::description() const {
  return fmt::format("{} {} file{}, {} tokens to train on, {} held out ({})", files_, kind_, files_ == 1 ? "" : "s",
                     grouped(train_.size()), grouped(held_out_.size()), what_held_out_);
}

}  // namespace weft::train
