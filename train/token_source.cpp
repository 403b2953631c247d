// Finds the files, recognises their format, checks every id once, and splits off what is held out.
#include "train/token_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "train/checksum.h"
#include "train/tokenizer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultFolder = "/usr/share/common-licenses";
constexpr std::uint64_t kHeaderBytes = 1024;  // llm.c: 256 int32

std::uint64_t bytes_per_token(TokenEncoding encoding) {
  switch (encoding) {
    case TokenEncoding::bytes:
      return 1;
    case TokenEncoding::u16:
      return 2;
    case TokenEncoding::u32:
      return 4;
  }
  return 1;
}

template <class Word>
void widen(const std::byte* data, std::uint64_t count, std::int32_t* out) {
  for (std::uint64_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, data + i * sizeof(Word), sizeof(Word));  // a raw file may be mapped at any alignment
    out[i] = static_cast<std::int32_t>(word);
  }
}

void widen(const TokenStream::Part& part, std::uint64_t begin, std::uint64_t count, std::int32_t* out) {
  const std::byte* data = part.data + begin * bytes_per_token(part.encoding);
  switch (part.encoding) {
    case TokenEncoding::bytes:
      return widen<std::uint8_t>(data, count, out);
    case TokenEncoding::u16:
      return widen<std::uint16_t>(data, count, out);
    case TokenEncoding::u32:
      return widen<std::uint32_t>(data, count, out);
  }
}

/// Index of the first id that is not below `vocab`.
template <class Word>
std::optional<std::uint64_t> first_outside(const std::byte* data, std::uint64_t count, std::uint64_t vocab) {
  for (std::uint64_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, data + i * sizeof(Word), sizeof(Word));
    if (word >= vocab) return i;
  }
  return std::nullopt;
}

std::uint32_t header_word(std::span<const std::byte> bytes, std::size_t index) {
  std::uint32_t word;
  std::memcpy(&word, bytes.data() + 4 * index, 4);
  return word;
}

/// What llm.c's other files are, told by their first word: easily given by mistake, they end in .bin too.
const char* other_llmc_file(std::uint32_t magic) {
  switch (magic) {
    case 20240326:
      return "an llm.c model";
    case 20240327:
      return "an llm.c debug state";
    case 20240328:
      return "an llm.c tokenizer";
    case 20240522:
      return "llm.c's HellaSwag data";
    case 20240527:
      return "an llm.c optimizer state";
    default:
      return nullptr;
  }
}

/// The tokens of a .bin file: where they start and how many there are.
TokenStream::Part recognise_bin(const MappedFile& file) {
  const auto bytes = file.bytes();
  const std::string name = in_quotes(file.path());
  const std::string formats = "a token file: llm.c's with version 1 or 7, or nanoGPT's bare u16 ids";
  if (bytes.size() >= 4) {
    const std::uint32_t magic = header_word(bytes, 0);
    if (const char* what = other_llmc_file(magic))
      throw UserError(name + " is " + what, formats, "give the token file: llm.c's data scripts write one");
    if (magic == 20240520 || magic == 20240801) {
      const std::uint32_t expected_version = magic == 20240520 ? 1 : 7;
      const TokenEncoding encoding = magic == 20240520 ? TokenEncoding::u16 : TokenEncoding::u32;
      if (bytes.size() < kHeaderBytes) {
        throw UserError(fmt::format("{} is truncated: {} bytes", name, bytes.size()), "a header of 1024 bytes",
                        "copy or make the file again");
      }
      if (header_word(bytes, 1) != expected_version) {
        throw UserError(fmt::format("{} has format version {}", name, header_word(bytes, 1)),
                        fmt::format("version {} behind magic number {}", expected_version, magic),
                        "make the file again with a newer llm.c");
      }
      const std::uint64_t count = header_word(bytes, 2);
      const std::uint64_t size = kHeaderBytes + count * bytes_per_token(encoding);
      if (bytes.size() != size) {
        throw UserError(fmt::format("{} has {} bytes", name, bytes.size()),
                        fmt::format("{} bytes for the {} tokens that its header counts", size, count),
                        "copy or make the file again");
      }
      return {encoding, bytes.data() + kHeaderBytes, count, false};
    }
  }
  if (bytes.size() % 2 != 0) {
    throw UserError(fmt::format("{} has {} bytes, an odd number, and no llm.c header", name, bytes.size()), formats,
                    "copy or make the file again; text files need another ending than .bin");
  }
  return {TokenEncoding::u16, bytes.data(), bytes.size() / 2, false};
}

void check_ids(const MappedFile& file, const TokenStream::Part& part, std::int64_t vocab) {
  const auto limit = static_cast<std::uint64_t>(vocab);
  std::optional<std::uint64_t> position;
  if (part.encoding == TokenEncoding::u16 && limit <= UINT16_MAX) {
    position = first_outside<std::uint16_t>(part.data, part.count, limit);
  } else if (part.encoding == TokenEncoding::u32) {
    position = first_outside<std::uint32_t>(part.data, part.count, limit);
  }
  if (!position) return;
  std::int32_t id = 0;
  widen(part, *position, 1, &id);
  throw UserError(
      fmt::format("{}: token {} has id {}", in_quotes(file.path()), *position, static_cast<std::uint32_t>(id)),
      fmt::format("ids below {}, the model's vocabulary", vocab),
      "set model.vocab to the tokenizer's size (50257 for GPT-2), or give other data");
}

/// The files behind one path, in order, all of one kind.
struct FileSet {
  std::vector<MappedFile> files;
  bool text = true;
};

bool is_bin(const fs::path& path) {
  return path.extension() == ".bin";
}

std::optional<std::size_t> nul_byte(const MappedFile& file) {
  const auto bytes = file.bytes();
  if (bytes.empty()) return std::nullopt;
  const void* found = std::memchr(bytes.data(), 0, bytes.size());
  if (found == nullptr) return std::nullopt;
  return static_cast<std::size_t>(static_cast<const std::byte*>(found) - bytes.data());
}

FileSet single_file(const fs::path& path) {
  FileSet set;
  set.text = !is_bin(path);
  MappedFile& file = set.files.emplace_back(path);
  if (file.bytes().empty())
    throw UserError(in_quotes(path) + " is empty", "text or tokens", "check the path, or make the file again");
  if (!set.text) return set;
  if (const auto position = nul_byte(file)) {
    throw UserError(fmt::format("{} isn't text: it has a NUL byte at {}", in_quotes(path), *position),
                    "a text file, or a token file whose name ends in .bin",
                    "give other data, or let the name of a token file end in .bin");
  }
  return set;
}

const MappedFile* equal_file(const std::vector<MappedFile>& files, const MappedFile& file) {
  const auto bytes = file.bytes();
  const auto found = std::find_if(files.begin(), files.end(), [&](const MappedFile& other) {
    return other.bytes().size() == bytes.size() && std::memcmp(other.bytes().data(), bytes.data(), bytes.size()) == 0;
  });
  return found == files.end() ? nullptr : &*found;
}

FileSet folder_files(const fs::path& folder, std::vector<std::string>& notes) {
  std::vector<fs::path> paths;
  std::size_t bins = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_symlink() || !entry.is_regular_file()) continue;
    paths.push_back(entry.path());
    if (is_bin(entry.path())) ++bins;
  }
  if (bins != 0 && bins != paths.size()) {
    throw UserError(fmt::format("{} holds {} .bin files among {} files", in_quotes(folder), bins, paths.size()),
                    "a folder of token files or a folder of text", "name one file: --data FOLDER/train.bin");
  }
  std::sort(paths.begin(), paths.end());
  FileSet set;
  set.text = bins == 0;
  for (const fs::path& path : paths) {
    const std::string name = path.filename().string();
    MappedFile file(path);
    if (file.bytes().empty()) {
      notes.push_back(name + ": left out, it is empty");
    } else if (const auto position = set.text ? nul_byte(file) : std::nullopt) {
      notes.push_back(fmt::format("{}: left out, it has a NUL byte at {}", name, *position));
    } else if (const MappedFile* equal = equal_file(set.files, file)) {
      notes.push_back(fmt::format("{}: left out, it equals {}", name, equal->path().filename().string()));
    } else {
      set.files.push_back(std::move(file));
    }
  }
  if (set.files.empty()) {
    throw UserError(in_quotes(folder) + " holds no text and no tokens",
                    "regular files, not in subfolders, not symbolic links",
                    notes.empty() ? "name a folder with data, or a file" : "give other data: " + join(notes, "; "));
  }
  return set;
}

FileSet find_files(const std::string& path, std::vector<std::string>& notes) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    throw UserError(in_quotes(path) + " doesn't exist", "a text file, a folder of text, or a .bin token file",
                    path == kDefaultFolder ? "give --data" : "check the path");
  }
  if (!fs::is_directory(path, error)) return single_file(path);
  try {
    return folder_files(path, notes);
  } catch (const fs::filesystem_error& failure) {
    throw UserError(in_quotes(path) + " can't be listed: " + failure.code().message(), "a readable folder",
                    "check its permissions");
  }
}

TokenStream::Part recognise(const MappedFile& file, bool text, std::int64_t vocab) {
  if (text) return {TokenEncoding::bytes, file.bytes().data(), file.bytes().size(), true};
  const TokenStream::Part part = recognise_bin(file);
  check_ids(file, part, vocab);
  return part;
}

TokenStream::Part slice(TokenStream::Part part, std::uint64_t begin, std::uint64_t count) {
  part.data += begin * bytes_per_token(part.encoding);
  part.count = count;
  part.end_of_text = part.end_of_text && count > 0;
  return part;
}

/// What one file adds to the digest: its tokens, and where what is held out begins.
void add_file(Fingerprint& digest, const MappedFile& file, const TokenStream::Part& part, std::uint64_t train_count) {
  const std::size_t bytes = part.count * bytes_per_token(part.encoding);
  const auto tokens = file.bytes().last(bytes);
  digest.add(bytes_per_token(part.encoding)).add(part.count).add(train_count);
  digest.add(std::uint64_t{Crc32c().add(tokens).value()});
}

/// 259012 reads "259,012".
std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

}  // namespace

void TokenStream::append(const Part& part) {
  const std::uint64_t count = part.count + (part.end_of_text ? 1 : 0);
  if (count == 0) return;
  parts_.push_back(part);
  begins_.push_back(size_);
  size_ += count;
}

std::int32_t TokenStream::at(std::uint64_t index) const {
  std::int32_t id = 0;
  copy(index, 1, &id);
  return id;
}

void TokenStream::copy(std::uint64_t begin, std::uint64_t count, std::int32_t* out) const {
  if (begin > size_ || count > size_ - begin) throw std::out_of_range("tokens beyond the end of the stream");
  if (count == 0) return;
  auto index = static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), begin) - begins_.begin()) - 1;
  for (; count > 0; ++index) {
    const Part& part = parts_[index];
    const std::uint64_t offset = begin - begins_[index];
    const std::uint64_t ids = offset < part.count ? std::min(count, part.count - offset) : 0;
    widen(part, offset, ids, out);
    out += ids;
    count -= ids;
    begin += ids;
    if (count > 0 && part.end_of_text) {
      *out++ = ByteTokenizer::kEndOfText;
      --count;
      ++begin;
    }
  }
}

TokenSource TokenSource::open(const TokenSourceOptions& options) {
  TokenSource source;
  const std::string path = options.data.empty() ? kDefaultFolder : options.data;
  FileSet data = find_files(path, source.notes_);
  source.text_ = data.text;
  FileSet held_out;
  if (!options.val_data.empty()) {
    held_out = find_files(options.val_data, source.notes_);
    if (held_out.text != data.text) {
      throw UserError(fmt::format("{} is {} and {} is {}", in_quotes(path), data.text ? "text" : "tokens",
                                  in_quotes(options.val_data), held_out.text ? "text" : "tokens"),
                      "training and validation data of one kind", "tokenize the text first");
    }
  }
  if (data.text && options.vocab < ByteTokenizer::kVocabulary) {
    throw UserError(fmt::format("a vocabulary of {}", options.vocab), "257 or more, for text read as bytes",
                    "set model.vocab to 257");
  }
  Fingerprint digest;
  for (const MappedFile& file : data.files) {
    const TokenStream::Part part = recognise(file, data.text, options.vocab);
    const std::uint64_t kept_back = options.val_data.empty() ? part.count / 10 : 0;
    add_file(digest, file, part, part.count - kept_back);
    source.train_.append(slice(part, 0, part.count - kept_back));
    source.held_out_.append(slice(part, part.count - kept_back, kept_back));
  }
  for (const MappedFile& file : held_out.files) {
    const TokenStream::Part part = recognise(file, held_out.text, options.vocab);
    add_file(digest, file, part, 0);
    source.held_out_.append(part);
  }
  source.digest_ = digest.value();
  source.files_ = std::move(data.files);
  std::move(held_out.files.begin(), held_out.files.end(), std::back_inserter(source.files_));

  const auto needed = static_cast<std::uint64_t>(options.seq_len) + 1;
  if (source.train_.size() < needed) {
    throw UserError(fmt::format("{} has {} tokens to train on", in_quotes(path), grouped(source.train_.size())),
                    fmt::format("{} or more: one sequence of {} and its last target", grouped(needed), options.seq_len),
                    "give more data, or a shorter --seq-len");
  }
  if (source.held_out_.size() < 2) {
    throw UserError(fmt::format("{} held-out tokens", source.held_out_.size()), "2 or more",
                    "give more data: the last 10 % of each file are held out; or give --val-data");
  }
  return source;
}

std::string TokenSource::description() const {
  return fmt::format("{} {} file{}, {} tokens to train on, {} held out", files_.size(), text_ ? "text" : "token",
                     files_.size() == 1 ? "" : "s", grouped(train_.size()), grouped(held_out_.size()));
}

}  // namespace weft
