#include "train/data/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/files/checksum.h"
#include "base/files/document.h"
#include "base/hash.h"
#include "text/corpus/token_file_writer.h"
#include "text/tokenizer.h"

namespace weft::train {
namespace {

constexpr std::uint64_t kHeaderBytes = 1024;  // llm.c: 256 int32
constexpr const char* kFormats = "a token file: llm.c's with version 1 or 7, or bare ids of 16 or 32 bits";
constexpr const char* kSetVocab = "set model.vocab to the tokenizer's size (50257 for GPT-2), or give other data";

/// The kind of another llm.c file by its first word; such files also end in .bin and are easily given by mistake.
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

/// The first words of a file; 0 where it has none.
std::array<std::uint32_t, 3> first_words(const InputFile& file) {
  std::array<std::uint32_t, 3> words{};
  const std::uint64_t whole = std::min<std::uint64_t>(sizeof words, file.size()) / sizeof words[0] * sizeof words[0];
  file.read(0, std::as_writable_bytes(std::span(words)).first(whole));
  return words;
}

/// The tokens after a header of llm.c; nullopt if there is no header.
std::optional<TokenStream::Part> with_header(const std::shared_ptr<const InputFile>& file) {
  const std::string name = in_quotes(file->path());
  const auto [magic, version, count] = first_words(*file);
  if (const char* what = other_llmc_file(magic))
    throw UserError(name + " is " + what, kFormats, "give the token file: llm.c's data scripts write one");
  if (magic != 20240520 && magic != 20240801) return std::nullopt;
  const std::uint32_t expected_version = magic == 20240520 ? 1 : 7;
  const TokenEncoding encoding = magic == 20240520 ? TokenEncoding::u16 : TokenEncoding::u32;
  if (file->size() < kHeaderBytes) {
    throw UserError(fmt::format("{} is truncated: {} bytes", name, file->size()), "a header of 1024 bytes",
                    "copy or make the file again");
  }
  if (version != expected_version) {
    throw UserError(fmt::format("{} has format version {}", name, version),
                    fmt::format("version {} after magic number {}", expected_version, magic),
                    "make the file again with a newer llm.c");
  }
  const std::uint64_t size = kHeaderBytes + count * bytes_per_token(encoding);
  if (file->size() != size) {
    throw UserError(fmt::format("{} has {} bytes", name, file->size()),
                    fmt::format("{} bytes for the {} tokens that its header counts", size, count),
                    "copy or make the file again");
  }
  return TokenStream::Part{file, encoding, kHeaderBytes, count, false};
}

/// An id outside of the vocabulary, and its position.
struct Outside {
  std::uint64_t position = 0;
  std::uint32_t id = 0;
};

/// The result of one pass over ids, for both possible widths.
struct IdScan {
  std::uint32_t checksum = 0;
  std::optional<Outside> narrow, wide;  // the first one outside, if the ids have 16 or 32 bits
  std::uint32_t even = 0, odd = 0;  // the greatest of every second id of 16 bits, the first and the second among them
  bool whole_words = true;          // a length of whole ids of 32 bits

  bool fits(TokenEncoding encoding) const { return encoding == TokenEncoding::u16 ? !narrow : whole_words && !wide; }
  /// Every second id of 16 bits is much smaller than the others, as the upper halves of 32 bits are.
  bool looks_wide() const { return whole_words && even >= 64 * (odd + 1); }
};

template <class Word>
std::optional<Outside> first_outside(std::span<const std::byte> bytes, std::uint64_t before, std::uint64_t vocab) {
  for (std::uint64_t i = 0; i < bytes.size() / sizeof(Word); ++i) {
    Word word;
    std::memcpy(&word, bytes.data() + i * sizeof(Word), sizeof(Word));
    if (word >= vocab) return Outside{before + i, word};
  }
  return std::nullopt;
}

IdScan scan_ids(const InputFile& file, std::uint64_t begin, std::uint64_t vocab) {
  IdScan scan;
  scan.whole_words = (file.size() - begin) % sizeof(std::uint32_t) == 0;
  Crc32c checksum;
  std::uint64_t before = 0;  // bytes
  read_in_pieces(file, begin, file.size(), [&](std::span<const std::byte> bytes) {
    checksum.add(bytes);
    std::uint32_t even = 0, odd = 0, widest = 0;
    for (std::size_t at = 0; at + sizeof(std::uint32_t) <= bytes.size(); at += sizeof(std::uint32_t)) {
      std::uint32_t word;
      std::memcpy(&word, bytes.data() + at, sizeof word);
      even = std::max(even, word & 0xffffU);
      odd = std::max(odd, word >> 16);
      widest = std::max(widest, word);
    }
    if (bytes.size() % sizeof(std::uint32_t) >= sizeof(std::uint16_t)) {
      std::uint16_t last;
      std::memcpy(&last, bytes.data() + bytes.size() / sizeof(std::uint32_t) * sizeof(std::uint32_t), sizeof last);
      even = std::max<std::uint32_t>(even, last);
    }
    if (!scan.narrow && std::max(even, odd) >= vocab)
      scan.narrow = first_outside<std::uint16_t>(bytes, before / 2, vocab);
    if (!scan.wide && widest >= vocab) scan.wide = first_outside<std::uint32_t>(bytes, before / 4, vocab);
    scan.even = std::max(scan.even, even);
    scan.odd = std::max(scan.odd, odd);
    before += bytes.size();
    return true;
  });
  scan.checksum = checksum.value();
  return scan;
}

/// The width of bare ids that the user didn't give.
TokenEncoding recognised_width(const InputFile& file, const IdScan& scan, std::int64_t vocab) {
  const std::string name = in_quotes(file.path());
  const std::string below = fmt::format("ids below {}, the model's vocabulary", vocab);
  if (scan.fits(TokenEncoding::u32)) {
    throw UserError(fmt::format("{}: its ids are below {} at 16 bits and at 32 bits; every second id of 16 bits is at "
                                "most {}, as in ids of 32 bits",
                                name, vocab, scan.odd),
                    "ids that fit at one width alone", "--data-dtype u32, or --data-dtype u16 if 16 bits were written");
  }
  if (!scan.fits(TokenEncoding::u16)) {
    const std::string as_wide =
        scan.wide ? fmt::format("; read as 32 bits, token {} has id {}", scan.wide->position, scan.wide->id)
                  : std::string();
    throw UserError(
        fmt::format("{}: read as 16 bits, token {} has id {}{}", name, scan.narrow->position, scan.narrow->id, as_wide),
        below, fmt::format("{}; --data-dtype u16 or u32 names the width", kSetVocab));
  }
  if (scan.looks_wide()) {
    throw UserError(fmt::format("{}: every second id of 16 bits is at most {} and the others up to {}, as in ids of 32 "
                                "bits; but then token {} has id {}",
                                name, scan.odd, scan.even, scan.wide->position, scan.wide->id),
                    below, fmt::format("{}; --data-dtype u16 if 16 bits were written", kSetVocab));
  }
  return TokenEncoding::u16;
}

/// The given or recognised width, after a check that it divides the length.
TokenEncoding bare_width(const InputFile& file, const IdScan& scan, TokenWidth told, std::int64_t vocab) {
  const std::string name = in_quotes(file.path());
  if (file.size() % sizeof(std::uint16_t) != 0) {
    throw UserError(fmt::format("{} has {} bytes, an odd number, and no llm.c header", name, file.size()), kFormats,
                    "copy or make the file again; text files need another ending than .bin");
  }
  if (told == TokenWidth::automatic) return recognised_width(file, scan, vocab);
  if (told == TokenWidth::u32 && !scan.whole_words) {
    throw UserError(fmt::format("{} has {} bytes, and data-dtype is u32", name, file.size()), "4 bytes an id",
                    "--data-dtype u16, or copy or make the file again");
  }
  return told == TokenWidth::u16 ? TokenEncoding::u16 : TokenEncoding::u32;
}

namespace fs = std::filesystem;

constexpr std::uint64_t kTens = 10;
constexpr const char* kDescriptionFormat = "\"weft tokens\"";
constexpr const char* kOneTokenizer =
    "tokenize all texts with that tokenizer; or --accept tokenizer where both give the same ids";
constexpr std::size_t kMostDocuments = std::size_t{1} << 30;

/// Calls take(root) with a description, once it is that of the file.
template <class Take>
void read_description(const CheckedTokens& file, std::string_view text, Take take) {
  const fs::path& path = file.part.file->path();
  const Document json = read_json(text, text::description_path(path).string(), {.most_values = kMostDocuments});
  const DocumentValue root = json.of_format("the description of a token file", "weft tokens", 1);
  if (const DocumentValue tokens = root["tokens"]; tokens.count() != file.part.count) {
    tokens.refuse(fmt::format("{}, the number of tokens in {}", file.part.count, in_quotes(path)));
  }
  take(root);
}

std::uint64_t number_from(const DocumentValue& item, std::uint64_t least, std::uint64_t most) {
  const std::uint64_t number = item.count();
  if (number < least || number > most) item.refuse(fmt::format("a number from {} to {}", least, most));
  return number;
}

void expect_width_and_documents(const CheckedTokens& file, const DocumentValue& root) {
  const std::string name = in_quotes(file.part.file->path());
  const char* width = file.part.encoding == TokenEncoding::u32 ? "u32" : "u16";
  if (const auto told = root.given("width"); told && told->text() != width) {
    told->refuse(fmt::format("{}, the width of ids in {}", width, name));
  }
  const auto documents = root.given("documents"), begins = root.given("document_begins");
  if (!documents || !begins || documents->count() == begins->items().size()) return;
  documents->refuse(fmt::format("{}, the number of document_begins", begins->items().size()));
}

/// Of the first and the last document, which shows that ids and description belong together.
void expect_separators(const CheckedTokens& file, const DocumentValue& root, std::int32_t separator) {
  const auto begins = root.given("document_begins");
  const std::vector<DocumentValue> places = begins ? begins->items() : std::vector<DocumentValue>{};
  if (places.empty()) return;
  TokenStream stream;
  stream.append(file.part);
  for (const DocumentValue& place : {places.front(), places.back()}) {
    const std::uint64_t at = number_from(place, 0, file.part.count - 1);
    if (stream.at(at) == separator) continue;
    place.refuse(fmt::format("the place of a separator, {}: token {} of {} is {}", separator, at,
                             in_quotes(file.part.file->path()), stream.at(at)));
  }
}

std::vector<text::IdRange> ignored_ranges(const CheckedTokens& file, const DocumentValue& root) {
  std::vector<text::IdRange> ranges;
  const auto list = root.find(text::kIgnoredRanges);
  if (!list) return ranges;
  for (const DocumentValue& item : list->items()) {
    const std::vector<DocumentValue> ends = item.items(2, "[begin, end]");
    const std::uint64_t begin = number_from(ends[0], ranges.empty() ? 0 : ranges.back().end, file.part.count);
    ranges.push_back({begin, number_from(ends[1], begin, file.part.count)});
  }
  return ranges;
}

}  // namespace

CheckedTokens check_token_file(const std::shared_ptr<const InputFile>& file, TokenWidth width, std::int64_t vocab) {
  const std::string name = in_quotes(file->path());
  std::optional<TokenStream::Part> header = with_header(file);
  const TokenEncoding told = width == TokenWidth::u32 ? TokenEncoding::u32 : TokenEncoding::u16;
  if (header && width != TokenWidth::automatic && header->encoding != told) {
    throw UserError(fmt::format("{} has a header of llm.c with ids of {} bits, and data-dtype is {}", name,
                                8 * bytes_per_token(header->encoding), told == TokenEncoding::u32 ? "u32" : "u16"),
                    "ids of one width", "--data-dtype auto: a header says the width");
  }
  const IdScan scan = scan_ids(*file, header ? header->offset : 0, static_cast<std::uint64_t>(vocab));
  TokenStream::Part part;
  if (header) {
    part = *header;
  } else {
    const TokenEncoding encoding = bare_width(*file, scan, width, vocab);
    part = {file, encoding, 0, file->size() / bytes_per_token(encoding), false};
  }
  if (const auto& outside = part.encoding == TokenEncoding::u16 ? scan.narrow : scan.wide) {
    throw UserError(fmt::format("{}: token {} has id {}", name, outside->position, outside->id),
                    fmt::format("ids below {}, the model's vocabulary", vocab), kSetVocab);
  }
  return {std::move(part), scan.checksum};
}

std::vector<std::uint64_t> document_begins(const CheckedTokens& file, const std::string& instead) {
  if (file.part.encoding == TokenEncoding::bytes) return {0};
  const fs::path& path = file.part.file->path();
  const fs::path description = text::description_path(path);
  std::error_code error;
  if (!fs::exists(description, error)) {
    throw UserError(fmt::format("{} has no description, so nobody knows where its documents begin", in_quotes(path)),
                    in_quotes(description), "tokenize its texts with `weft tokenize`, or " + instead);
  }
  std::vector<std::uint64_t> begins;
  read_description(file, whole_file(description), [&](const DocumentValue& root) {
    for (const DocumentValue& item : root["document_begins"].items()) {
      begins.push_back(number_from(item, begins.empty() ? 0 : begins.back(), begins.empty() ? 0 : file.part.count));
    }
  });
  if (begins.empty()) begins.push_back(0);
  return begins;
}

TokenDescription description_of(const CheckedTokens& file) {
  TokenDescription described;
  if (file.part.encoding == TokenEncoding::bytes) {
    static const text::ByteTokenizer bytes;
    described.tokenizer = bytes.facts().digest;
    return described;
  }
  std::error_code error;
  const fs::path path = text::description_path(file.part.file->path());
  if (!fs::is_regular_file(path, error)) return described;
  const std::string content = whole_file(path);
  // A file of another program that has this name tells nothing.
  if (content.find(kDescriptionFormat) == std::string::npos) return described;
  read_description(file, content, [&](const DocumentValue& root) {
    expect_width_and_documents(file, root);
    if (const auto tokenizer = root.given("tokenizer")) {
      const DocumentValue digest = (*tokenizer)["digest"];
      described.tokenizer = parse_hex_fingerprint(digest.text());
      if (!described.tokenizer) digest.refuse(kHexFingerprint);
    }
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    if (const auto size = root.given("vocabulary"))
      described.vocabulary = static_cast<std::int32_t>(size->integer(1, kMost));
    if (const auto separator = root.given("separator")) {
      described.separator = static_cast<std::int32_t>(separator->integer(0, described.vocabulary.value_or(kMost) - 1));
      if (!root.given(text::kChats)) expect_separators(file, root, *described.separator);
    }
    described.ignored = ignored_ranges(file, root);
  });
  return described;
}

std::optional<std::uint64_t> one_tokenizer(std::span<const CheckedTokens> files,
                                           const std::optional<ExpectedTokenizer>& expected, bool accepts_others,
                                           std::vector<std::string>& notes) {
  std::optional<ExpectedTokenizer> known = expected;
  const CheckedTokens* first = nullptr;  // of those that tell
  std::size_t untold = 0;
  for (const CheckedTokens& file : files) {
    const TokenDescription& described = file.described;
    const std::string name = in_quotes(file.part.file->path());
    if (!described.tokenizer) {
      ++untold;
      continue;
    }
    if (!known) known = {*described.tokenizer, described.vocabulary, name};
    if (accepts_others) continue;
    if (*described.tokenizer != known->digest) {
      throw UserError(fmt::format("{} has ids of the tokenizer {}", name, hex_fingerprint(*described.tokenizer)),
                      fmt::format("ids of {}, the tokenizer of {}", hex_fingerprint(known->digest), known->named),
                      kOneTokenizer);
    }
    if (described.vocabulary && known->vocabulary && *described.vocabulary != *known->vocabulary) {
      throw UserError(fmt::format("{} has a vocabulary of {}", name, *described.vocabulary),
                      fmt::format("{}, as {}", *known->vocabulary, known->named), kOneTokenizer);
    }
    if (first == nullptr) first = &file;
    if (described.separator == first->described.separator) continue;
    const auto text = [](const auto& separator) { return separator ? fmt::format("{}", *separator) : "none"; };
    throw UserError(fmt::format("{} has the separator {}", name, text(described.separator)),
                    fmt::format("{}, as {}", text(first->described.separator), in_quotes(first->part.file->path())),
                    "tokenize all texts with one --separator");
  }
  if (known && untold > 0) {
    notes.push_back(fmt::format("{} of {} files don't tell their tokenizer, so it isn't compared with {}, that of {}",
                                untold, files.size(), hex_fingerprint(known->digest), known->named));
  }
  return known ? std::optional(known->digest) : std::nullopt;
}

bool is_held_out_document(std::uint64_t number, std::uint64_t documents) {
  if (documents < kTens) return documents > 1 && number == mixed_bits(0) % documents;
  const std::uint64_t tens = number / kTens;
  return number % kTens == mixed_bits(tens) % kTens && (tens + 1) * kTens <= documents;
}

}  // namespace weft::train
