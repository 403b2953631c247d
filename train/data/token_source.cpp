// Finds the files, checks each one, and splits off the held-out tokens.
#include "train/data/token_source.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/files/checksum.h"
#include "base/hash.h"
#include "text/corpus/text_files.h"
#include "text/tokenizer.h"
#include "train/data/data_kind.h"
#include "train/data/token_file.h"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultFolder = "/usr/share/common-licenses";
constexpr const char* kNameOneFile = "name one file: --data FOLDER/train.bin";

/// "x_val_000000.bin" and "wiki.valid.txt": one of the words between characters that join words.
bool is_val(const fs::path& path) {
  constexpr std::array<std::string_view, 3> kWords = {"val", "valid", "validation"};
  constexpr std::string_view kJoints = "_-.";
  const std::string stem = path.stem().string();
  for (std::size_t begin = 0; begin < stem.size();) {
    const std::size_t end = std::min(stem.find_first_of(kJoints, begin), stem.size());
    if (std::ranges::find(kWords, std::string_view(stem).substr(begin, end - begin)) != kWords.end()) return true;
    begin = end + 1;
  }
  return false;
}

/// "x.bin.json", which `weft tokenize` writes beside x.bin.
bool is_description(const fs::path& path) {
  std::error_code error;
  return path.extension() == ".json" && is_token_file(path.stem()) &&
         fs::exists(path.parent_path() / path.stem(), error);
}

/// Files in order, all of one kind, opened but not yet read.
struct FileSet {
  std::vector<std::shared_ptr<const InputFile>> files;
  bool text = true;
  bool several = false;  // not one file that was named alone: some may be left out, and names may say what is held out
};

std::shared_ptr<const InputFile> open_file(const fs::path& path) {
  auto file = std::make_shared<const InputFile>(path);
  refuse_foreign_kind(*file);
  return file;
}

void expect_one_kind(const std::string& first, bool first_is_text, const std::string& second, bool second_is_text,
                     std::string_view expected) {
  if (first_is_text == second_is_text) return;
  throw UserError(fmt::format("{} is {} and {} is {}", first, first_is_text ? "text" : "tokens", second,
                              second_is_text ? "text" : "tokens"),
                  std::string(expected), "tokenize the text first");
}

FileSet single_file(const fs::path& path) {
  FileSet set;
  set.text = !is_token_file(path);
  set.files.push_back(open_file(path));
  if (set.files.front()->size() == 0)
    throw UserError(in_quotes(path) + " is empty", "text or tokens", "check the path, or make the file again");
  return set;
}

/// A data set is often a card and folders of files; training on the card alone is never meant.
void refuse_data_set(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file() || !text::is_data_set_name(entry.path())) continue;
    throw UserError(
        fmt::format("the folder {} holds {}, a file of a data set", in_quotes(folder.parent_path()),
                    (folder.filename() / entry.path().filename()).string()),
        "regular files of text or tokens, not in subfolders",
        "python3 -m weft.tokenize FOLDER -o tokens.bin; or write its text to .txt files in a folder of their own");
  }
}

/// Raises the limit of open files to the system's maximum, since each file of a folder stays open.
void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void add_file_with_content(const fs::path& path, FileSet& set, std::vector<std::string>& notes) {
  auto file = open_file(path);
  if (file->size() > 0) {
    set.files.push_back(std::move(file));
  } else {
    notes.push_back(path.filename().string() + ": left out, it is empty");
  }
}

FileSet folder_files(const fs::path& folder, std::vector<std::string>& notes) {
  std::vector<fs::path> paths;
  bool has_folders = false;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_symlink()) continue;
    if (entry.is_directory()) {
      has_folders = true;
      refuse_data_set(entry.path());
      notes.push_back(entry.path().filename().string() + ": left out, it is a folder");
    }
    if (entry.is_regular_file() && !is_description(entry.path())) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const fs::path& card : text::take_cards(paths, has_folders)) {
    notes.push_back(card.filename().string() + ": left out, it describes the data set");
  }
  allow_many_files();
  FileSet set;
  set.several = true;
  for (const fs::path& path : paths) add_file_with_content(path, set, notes);
  const auto bins = std::count_if(paths.begin(), paths.end(), is_token_file);
  if (bins != 0 && static_cast<std::size_t>(bins) != paths.size()) {
    throw UserError(fmt::format("{} holds {} .bin files among {} files", in_quotes(folder), bins, paths.size()),
                    "a folder of token files or a folder of text", kNameOneFile);
  }
  set.text = bins == 0;
  return set;
}

/// `named`: the place for messages.
void expect_some(const std::string& named, std::size_t files, const std::vector<std::string>& notes) {
  if (files > 0) return;
  throw UserError(named + " holds no text and no tokens", "regular files, not in subfolders, not symbolic links",
                  notes.empty() ? "name a folder with data, or a file" : "give other data: " + join(notes, "; "));
}

/// The files of a path that exists.
FileSet path_files(const fs::path& path, std::vector<std::string>& notes) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return single_file(path);
  try {
    FileSet set = folder_files(path, notes);
    expect_some(in_quotes(path), set.files.size(), notes);
    return set;
  } catch (const fs::filesystem_error& failure) {
    throw UserError(in_quotes(path) + " can't be listed: " + failure.code().message(), "a readable folder",
                    "check its permissions");
  }
}

/// The paths of a list that exist, in place of patterns those that match them.
std::vector<fs::path> existing_paths(const PathList& list) {
  std::vector<fs::path> paths;
  for (const std::string& path : list.paths()) {
    std::vector<fs::path> matches = text::matching_paths(path);
    if (matches.empty()) {
      throw UserError(in_quotes(path) + " doesn't exist", "a text file, a folder of text, or a .bin token file",
                      path == kDefaultFolder ? "give --data" : "check the path");
    }
    std::move(matches.begin(), matches.end(), std::back_inserter(paths));
  }
  return paths;
}

FileSet find_files(const PathList& list, std::vector<std::string>& notes) {
  const std::vector<fs::path> paths = existing_paths(list);
  if (paths.size() == 1) return path_files(paths.front(), notes);
  allow_many_files();
  FileSet all;
  all.several = true;
  std::optional<fs::path> text, tokens;  // the first of each kind
  for (const fs::path& path : paths) {
    FileSet set;
    std::error_code error;
    if (fs::is_directory(path, error)) {
      set = path_files(path, notes);
    } else if (!is_description(path)) {
      set.text = !is_token_file(path);
      add_file_with_content(path, set, notes);
    }
    if (set.files.empty()) continue;
    (set.text ? text : tokens) = path;
    std::move(set.files.begin(), set.files.end(), std::back_inserter(all.files));
    if (text && tokens) expect_one_kind(in_quotes(*text), true, in_quotes(*tokens), false, "data of one kind");
  }
  expect_some(shown(list), all.files.size(), notes);
  all.text = !tokens;
  return all;
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
  std::uint64_t at = 0;
  std::vector<std::byte> other;
  bool equal = a.size() == b.size();
  if (!equal) return false;
  read_in_pieces(a, 0, a.size(), [&](std::span<const std::byte> piece) {
    other.resize(piece.size());
    b.read(at, other);
    at += piece.size();
    return equal = std::ranges::equal(piece, other);
  });
  return equal;
}

/// Reads and checks files, and returns those with tokens; notes the files that are left out. `named`: their place, for
/// messages.
std::vector<CheckedTokens> check_files(const std::string& named, const FileSet& set, const TokenSourceOptions& options,
                                       std::vector<std::string>& notes) {
  std::vector<CheckedTokens> checked;
  for (const std::shared_ptr<const InputFile>& file : set.files) {
    const std::string name = file->path().filename().string();
    CheckedText text = set.text ? check_text(file) : CheckedText{};
    if (text.nul && !set.several) {
      throw UserError(fmt::format("{} isn't text: it has a NUL byte at {}", in_quotes(file->path()), *text.nul),
                      "a text file, or a token file whose name ends in .bin",
                      "give other data, or let the name of a token file end in .bin");
    }
    if (text.nul) {
      notes.push_back(fmt::format("{}: left out, it has a NUL byte at {}", name, *text.nul));
      continue;
    }
    CheckedTokens tokens = set.text ? std::move(text.tokens) : check_token_file(file, options.width, options.vocab);
    tokens.described = description_of(tokens);
    const auto equal = std::ranges::find_if(checked, [&](const CheckedTokens& other) {
      return other.checksum == tokens.checksum && equal_content(*other.part.file, *file);
    });
    if (equal == checked.end()) {
      checked.push_back(std::move(tokens));
    } else {
      notes.push_back(fmt::format("{}: left out, it equals {}", name, equal->part.file->path().filename().string()));
    }
  }
  expect_some(named, checked.size(), notes);
  return checked;
}

/// Takes the files of the set that are held out by their name.
FileSet take_val_files(FileSet& set) {
  FileSet val;
  val.text = set.text;
  val.several = set.several;
  if (!set.several) return val;
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

/// `count` ids of a part, from `begin` on. They begin a document if the part tells of documents: what stands before
/// them in the file stands elsewhere in the sequence.
TokenStream::Part slice(const TokenStream::Part& part, std::uint64_t begin, std::uint64_t count) {
  TokenStream::Part slice{part.file, part.encoding, part.offset + begin * bytes_per_token(part.encoding), count,
                          part.end_of_text && count > 0};
  if (part.document_begins.empty() || count == 0) return slice;
  slice.document_begins = {0};
  const auto first = std::ranges::upper_bound(part.document_begins, begin);
  for (auto each = first; each != part.document_begins.end() && *each < begin + count; ++each) {
    slice.document_begins.push_back(*each - begin);
  }
  return slice;
}

/// Appends tokens [begin, begin + count) of a file.
void append(TokenStream& stream, const CheckedTokens& file, std::uint64_t begin, std::uint64_t count) {
  std::vector<text::IdRange> ignored;
  auto range = std::ranges::upper_bound(file.described.ignored, begin, {}, &text::IdRange::end);
  for (; range != file.described.ignored.end() && range->begin < begin + count; ++range) {
    ignored.push_back({std::max(range->begin, begin) - begin, std::min(range->end, begin + count) - begin});
  }
  stream.append(slice(file.part, begin, count), ignored);
}

/// Adds a file to the digest: its tokens, and the beginning of the held-out part.
void add_file(Fingerprint& digest, const CheckedTokens& tokens, std::uint64_t train_count) {
  digest.add(bytes_per_token(tokens.part.encoding)).add(tokens.part.count).add(train_count).add(tokens.checksum);
  for (const text::IdRange& range : tokens.described.ignored) digest.add(range.begin).add(range.end);
}

/// Of whole files, whatever is held out of them.
DataMark mark_of(const std::vector<CheckedTokens>& files) {
  Fingerprint digest;
  for (const CheckedTokens& file : files) add_file(digest, file, 0);
  return {.files = files.size(), .last_tokens = files.empty() ? 0 : files.back().part.count, .digest = digest.value()};
}

/// The first `count` tokens of a file, which is read again.
CheckedTokens beginning_of(CheckedTokens file, std::uint64_t count) {
  Crc32c checksum;
  const std::uint64_t begin = file.part.offset;
  read_in_pieces(*file.part.file, begin, begin + count * bytes_per_token(file.part.encoding),
                 [&](std::span<const std::byte> bytes) {
                   checksum.add(bytes);
                   return true;
                 });
  file.checksum = checksum.value();
  file.part.count = count;
  std::vector<text::IdRange>& ignored = file.described.ignored;
  std::erase_if(ignored, [&](const text::IdRange& range) { return range.begin >= count; });
  if (!ignored.empty()) ignored.back().end = std::min(ignored.back().end, count);
  return file;
}

/// Whether the files begin with those of `before`, of which the last one may be longer by now.
bool begin_with(const std::vector<CheckedTokens>& files, const DataMark& before) {
  if (before.files == 0 || files.size() < before.files) return false;
  const CheckedTokens& last = files[before.files - 1];
  if (last.part.count < before.last_tokens) return false;
  std::vector<CheckedTokens> beginning(files.begin(), files.begin() + static_cast<std::ptrdiff_t>(before.files) - 1);
  beginning.push_back(beginning_of(last, before.last_tokens));
  return mark_of(beginning).digest == before.digest;
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

/// The files of a run as far as their names tell, and the places of both sets for messages.
struct FoundFiles {
  FileSet data, val;
  std::string named, val_named;
  std::string what_held_out;  // empty: a part of `data`
};

FoundFiles find_data(const TokenSourceOptions& options, std::vector<std::string>& notes) {
  const PathList paths = data_paths(options.data);
  const bool has_data = !options.held_out_only || options.val_data.empty();
  FoundFiles found;
  found.named = found.val_named = shown(paths);
  if (has_data) found.data = find_files(paths, notes);
  found.val = take_val_files(found.data);
  if (!options.val_data.empty()) {
    note_left_out(found.val, "val-data is held out in its place", notes);
    found.val_named = shown(options.val_data);
    FileSet rest = find_files(options.val_data, notes);
    found.val = take_val_files(rest);
    if (found.val.files.empty()) {
      found.val = std::move(rest);
    } else {
      note_left_out(rest, "it isn't a val file", notes);
    }
    if (!has_data) found.data.text = found.val.text;
    expect_one_kind(found.named, found.data.text, found.val_named, found.val.text,
                    "training and validation data of one kind");
    found.what_held_out = "val-data";
  } else if (!found.val.files.empty()) {
    const std::size_t files = found.val.files.size();
    found.what_held_out = fmt::format("{} val file{}", files, files == 1 ? "" : "s");
    if (found.data.files.empty() && !options.held_out_only) {
      throw UserError(found.named + " holds val files alone", "a file to train on",
                      "name another folder, or a file: --data FOLDER/x_val_000000.bin");
    }
  }
  return found;
}

void expect_bytes_of_text(const FoundFiles& found, const TokenSourceOptions& options) {
  if (!found.data.text) return;
  const std::string& named = found.data.files.empty() ? found.val_named : found.named;
  constexpr auto kBytes = text::ByteTokenizer::kVocabulary;
  if (options.vocab != kBytes) {
    throw UserError(fmt::format("{} is text, and the model has a vocabulary of {}", named, options.vocab),
                    fmt::format("{}, as text is read byte by byte", kBytes),
                    fmt::format("--tokenizer with the model's, --model.vocab {} for a model of bytes, or --data with a "
                                ".bin file of token ids",
                                kBytes));
  }
  if (options.width == TokenWidth::automatic) return;
  throw UserError(named + " is text, and data-dtype is given", "a .bin file, whose ids have such a width",
                  "--data-dtype auto, or give a .bin file");
}

/// Both sequences, still empty.
TokenSource source_below(std::int64_t vocab) {
  TokenSource source;
  source.train = source.held_out = TokenStream(static_cast<std::uint32_t>(vocab));
  return source;
}

/// Of each file `per_cent` of its tokens, the last ones.
TokenSource hold_out_tails(const std::vector<CheckedTokens>& files, std::int64_t vocab, std::uint64_t per_cent,
                           Fingerprint& digest) {
  TokenSource source = source_below(vocab);
  source.what_held_out = fmt::format("the last {} % of each file", per_cent);
  for (const CheckedTokens& file : files) {
    const std::uint64_t count = file.part.count, kept_back = count * per_cent / 100;
    append(source.train, file, 0, count - kept_back);
    append(source.held_out, file, count - kept_back, kept_back);
    add_file(digest, file, count - kept_back);
  }
  return source;
}

TokenSource hold_out_documents(const std::vector<CheckedTokens>& files, std::int64_t vocab, const std::string& named,
                               Fingerprint& digest) {
  std::uint64_t documents = 0, number = 0, held_out = 0;
  for (const CheckedTokens& file : files) documents += file.part.document_begins.size();
  if (documents < 2) {
    throw UserError(named + " is one document, and val-split is documents",
                    "2 or more: one to train on, and one to hold out", "--val-split tail, or --val-data");
  }
  TokenSource source = source_below(vocab);
  for (const CheckedTokens& file : files) {
    const TokenStream::Part& part = file.part;
    const std::vector<std::uint64_t>& begins = part.document_begins;
    std::uint64_t trained_from = 0;
    add_file(digest, file, part.count);
    for (std::size_t d = 0; d < begins.size(); ++d) {
      if (!is_held_out_document(number++, documents)) continue;
      const std::uint64_t begin = begins[d], end = d + 1 < begins.size() ? begins[d + 1] : part.count;
      append(source.train, file, trained_from, begin - trained_from);
      append(source.held_out, file, begin, end - begin);
      digest.add(begin).add(end);
      trained_from = end;
      ++held_out;
    }
    append(source.train, file, trained_from, part.count - trained_from);
  }
  source.what_held_out = fmt::format("{} of {} documents", grouped(held_out), grouped(documents));
  return source;
}

/// Adds to each file where its documents begin, if the run needs to know.
void find_documents(std::vector<CheckedTokens>& files, bool hold_out_documents, const TokenSourceOptions& options) {
  if (!hold_out_documents && !options.documents) return;
  const char* instead =
      hold_out_documents ? "give --val-split tail or --val-data" : "leave --document-mask and --packing documents out";
  for (CheckedTokens& file : files) file.part.document_begins = document_begins(file, instead);
}

/// If the run needs to know documents, their borders are a part of the data.
void add_documents(Fingerprint& digest, const std::vector<CheckedTokens>& files, const TokenSourceOptions& options) {
  if (!options.documents) return;
  for (const CheckedTokens& file : files) {
    for (const std::uint64_t begin : file.part.document_begins) digest.add(begin);
  }
}

void expect_enough(const TokenSource& source, const TokenSourceOptions& options, const std::string& named) {
  const auto needed = static_cast<std::uint64_t>(options.seq_len) + 1;
  if (source.train.size() < needed && !options.held_out_only) {
    throw UserError(fmt::format("{} has {} tokens to train on", named, grouped(source.train.size())),
                    fmt::format("{} or more: one sequence of {} and its last target", grouped(needed), options.seq_len),
                    "give more data, or a shorter --seq-len");
  }
  // The first token is no target.
  if (source.train.learnt(1, source.train.size()) == 0 && !options.held_out_only) {
    throw UserError(named + " has no completion or message to learn", "tokens that count in the loss",
                    "give data with completions or messages of the assistant");
  }
  if (source.held_out.size() < 2) {
    throw UserError(fmt::format("{} held-out tokens ({})", source.held_out.size(), source.what_held_out), "2 or more",
                    "give more data, or --val-data");
  }
}

}  // namespace

PathList data_paths(const PathList& data) {
  return data.empty() ? PathList(kDefaultFolder) : data;
}

TokenSource TokenSource::open(const TokenSourceOptions& options) {
  std::vector<std::string> notes;
  const FoundFiles found = find_data(options, notes);
  expect_bytes_of_text(found, options);
  std::vector<CheckedTokens> files;
  if (!found.data.files.empty()) files = check_files(found.named, found.data, options, notes);
  const bool by_document = found.val.files.empty() && options.split == ValSplit::documents;
  find_documents(files, by_document, options);
  DataMark mark = mark_of(files);
  const bool grew = options.before && options.before->digest != mark.digest && begin_with(files, *options.before);
  Fingerprint digest;
  TokenSource source = by_document ? hold_out_documents(files, options.vocab, found.named, digest)
                                   : hold_out_tails(files, options.vocab, found.val.files.empty() ? 10 : 0, digest);
  if (!found.val.files.empty()) {
    source.what_held_out = found.what_held_out;
    std::vector<CheckedTokens> val_files = check_files(found.val_named, found.val, options, notes);
    find_documents(val_files, false, options);
    mark.val_digest = mark_of(val_files).digest;
    for (CheckedTokens& file : val_files) {
      append(source.held_out, file, 0, file.part.count);
      add_file(digest, file, 0);
      files.push_back(std::move(file));
    }
  }
  mark.split = digest.value();
  add_documents(digest, files, options);
  source.tokenizer = one_tokenizer(files, options.tokenizer, options.any_tokenizer, notes);
  expect_enough(source, options, found.named);
  source.digest = digest.value();
  source.mark = mark;
  source.grew = grew;
  source.files = files.size();
  source.is_text = found.data.text;
  source.kind = kind_of(files);
  std::ranges::sort(notes);
  source.notes = std::move(notes);
  return source;
}

std::string TokenSource::description() const {
  return fmt::format("{} {} file{}, {} tokens to train on, {} held out ({})", files, kind, files == 1 ? "" : "s",
                     grouped(train.size()), grouped(held_out.size()), what_held_out);
}

}  // namespace weft::train
