#include "train/data/data_kind.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text/json_object.h"

namespace weft::train {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kKindBytes = 64 * 1024;
constexpr std::string_view kUnpack = "unpack it first";
constexpr std::string_view kWriteText = "write its text to a .txt file, or its token ids to a .bin file";
constexpr std::string_view kTokenize = "python3 -m weft.tokenize FILE_OR_FOLDER -o tokens.bin";

struct ForeignKind {
  std::string_view name;
  std::string_view begin;   // first bytes; empty: any
  std::string_view ending;  // of the name, empty: any
  std::string_view fix;     // how its content can be trained on
};

constexpr std::array kForeignKinds = {
    ForeignKind{"a NumPy array", "\x93NUMPY"sv, "",
                "write its ids bare: numpy.load(FILE).astype(\"uint16\").tofile(\"tokens.bin\")"},
    ForeignKind{"an Arrow file", "ARROW1"sv, "", kTokenize},
    ForeignKind{"an Arrow file", "", ".arrow", kTokenize},
    ForeignKind{"a Parquet file", "PAR1"sv, "", kTokenize},
    ForeignKind{"a Parquet file", "", ".parquet", kTokenize},
    ForeignKind{"an HDF5 file", "\x89HDF\r\n\x1a\n"sv, "", kWriteText},
    ForeignKind{"a pointer of Git LFS", "version https://git-lfs.github.com/spec/"sv, "",
                "get the file that it stands for: git lfs pull"},
    ForeignKind{"a JSON file", "", ".json", kWriteText},
    ForeignKind{"a JSON file", "", ".jsonl", kWriteText},
    ForeignKind{"a JSON file", "", ".ndjson", kWriteText},
    ForeignKind{"a gzip file", "\x1f\x8b\x08\0"sv, "", kUnpack},
    ForeignKind{"a gzip file", "\x1f\x8b\x08\x08"sv, "", kUnpack},  // with the name of what it holds
    ForeignKind{"a Zstandard file", "\x28\xb5\x2f\xfd"sv, "", kUnpack},
    ForeignKind{"an xz file", "\xfd\x37zXZ\0"sv, "", kUnpack},
    ForeignKind{"a zip archive", "PK\x03\x04"sv, "", kUnpack},
    ForeignKind{"a 7z archive", "7z\xbc\xaf\x27\x1c"sv, "", kUnpack},
    ForeignKind{"an LZ4 file", "\x04\x22\x4d\x18"sv, "", kUnpack},
};

/// Text of two bytes a character, with the mark of their order or without it. Ids in a token file may look so.
bool is_utf16(std::string_view head, const std::filesystem::path& path) {
  if (path.extension() == ".bin" || head.size() < 4) return false;
  if (head.starts_with("\xff\xfe") || head.starts_with("\xfe\xff")) return true;
  const std::string_view begin = head.substr(0, std::min<std::size_t>(head.size() / 2 * 2, 64));
  const auto is_zero = [&](std::size_t from) {
    for (std::size_t i = from; i < begin.size(); i += 2) {
      if (begin[i] != 0 || begin[i ^ 1U] <= 0) return false;
    }
    return true;
  };
  return is_zero(0) || is_zero(1);
}

/// Arrow's stream format, in which Hugging Face keeps data sets: a message of a length that is a multiple of 8, and in
/// it the offset of its table.
bool is_arrow_stream(std::span<const std::byte> head) {
  std::array<std::uint32_t, 3> words{};
  if (head.size() < sizeof words) return false;
  std::memcpy(words.data(), head.data(), sizeof words);
  return words[0] == 0xffffffffU && words[1] % 8 == 0 && words[1] > 8 && words[2] >= 4 && words[2] < words[1];
}

/// A header's length and the JSON object that it is.
bool is_safetensors(std::string_view head) {
  std::uint64_t length = 0;
  if (head.size() < sizeof length + 2) return false;
  std::memcpy(&length, head.data(), sizeof length);
  return length >= 2 && length <= 100'000'000 && head.substr(sizeof length, 2) == "{\"";
}

/// Whether text is an object or a list of JSON, or several on lines of their own. `cut`: more of it follows.
bool is_json(std::string_view text, bool cut) {
  const std::size_t begin = text.starts_with("\xef\xbb\xbf") ? 3 : 0;
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n", begin), text.size()));
  if (text.empty() || (text.front() != '{' && text.front() != '[')) return false;
  const JsonOutline outline = outline_of_json(text);
  if (outline.whole) return true;
  if (outline.depth == 0) {
    // The next line begins with another.
    const std::string_view read = text.substr(0, std::min(outline.read_size, text.size()));
    if (read.empty() || read.back() != text.front()) return false;
    const std::size_t end_of_value = read.find_last_not_of(" \t\r\n", read.size() - 2);
    return read.find('\n', end_of_value) != std::string_view::npos;
  }
  return cut && outline.read_size >= text.size();
}

std::optional<ForeignKind> foreign_kind(const InputFile& file) {
  const std::vector<std::byte> head = head_of(file);
  const std::string_view bytes(reinterpret_cast<const char*>(head.data()), head.size());
  // The content tells more than the name: a pointer of Git LFS has the name of what it stands for.
  const auto by_content = std::ranges::find_if(
      kForeignKinds, [&](const ForeignKind& kind) { return !kind.begin.empty() && bytes.starts_with(kind.begin); });
  if (by_content != kForeignKinds.end()) return *by_content;
  if (bytes.starts_with("BZh") && bytes.find("1AY&SY") == 4) {
    return ForeignKind{"a bzip2 file", "", "", kUnpack};
  }
  if (is_utf16(bytes, file.path())) {
    return ForeignKind{"UTF-16", "", "", "convert it to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > text.txt"};
  }
  if (file.path().filename() == "dataset_dict.json" || file.path().filename() == "dataset_info.json") {
    return ForeignKind{"a part of a data set that save_to_disk() wrote", "", "", kTokenize};
  }
  const auto by_name = std::ranges::find_if(kForeignKinds, [&](const ForeignKind& kind) {
    return !kind.ending.empty() && file.path().extension() == kind.ending;
  });
  if (by_name != kForeignKinds.end()) return *by_name;
  if (is_arrow_stream(head)) return ForeignKind{"an Arrow file", "", "", kTokenize};
  if (is_safetensors(bytes))
    return ForeignKind{"a safetensors file", "", "", "give weights as --init-from; data is text or ids"};
  if (is_json(bytes, head.size() == kKindBytes)) return ForeignKind{"a JSON file", "", "", kWriteText};
  return std::nullopt;
}

[[noreturn]] void refuse(const InputFile& file, const ForeignKind& kind, const char* expected) {
  throw UserError(in_quotes(file.path()) + " is " + std::string(kind.name), expected, std::string(kind.fix));
}

}  // namespace

std::vector<std::byte> head_of(const InputFile& file) {
  std::vector<std::byte> head(std::min<std::uint64_t>(file.size(), kKindBytes));
  file.read(0, head);
  return head;
}

void refuse_foreign_kind(const InputFile& file) {
  if (const auto kind = foreign_kind(file)) refuse(file, *kind, "text, or token ids in a .bin file");
}

void refuse_no_text(const InputFile& file, bool json) {
  const auto kind = foreign_kind(file);
  if (!kind || kind->name == "a gzip file" || kind->name == "a Zstandard file") return;
  constexpr const char* kExpected = "text or JSON lines, plain or packed with gzip or Zstandard";
  if (kind->name != "a JSON file") refuse(file, *kind, kExpected);
  const auto ending = file.path().extension();
  if (json || ending == ".jsonl" || ending == ".ndjson") return;
  refuse(file,
         {kind->name, "", "", "name it x.jsonl if each line is an object; jq -c '.[]' FILE makes lines of a list"},
         kExpected);
}

}  // namespace weft::train
