// Token files of tests: bare ids as the stream that a run reads, and documents as `weft tokenize` writes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "text/corpus/token_file_writer.h"
#include "text/tokenizer.h"
#include "train/data/token_stream.h"

namespace weft::testing {

class WrittenTokens {
 public:
  explicit WrittenTokens(const std::vector<std::uint32_t>& ids) {
    folder_.write(kName, {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(std::uint32_t)});
    stream_.append({std::make_shared<const InputFile>(path()), train::TokenEncoding::u32, 0, ids.size(), false});
  }
  const train::TokenStream& stream() const { return stream_; }
  std::filesystem::path path() const { return folder_.path(kName); }

 private:
  static constexpr std::string_view kName = "ids.bin";
  const TemporaryFolder folder_;
  train::TokenStream stream_;
};

/// Ids below 257, without separators; `ignored` ids of each document aren't learnt, its first ones. Returns the file's
/// path.
inline std::string write_documents(const TemporaryFolder& folder, const std::string& name,
                                   const std::vector<std::vector<std::int32_t>>& documents, std::uint64_t ignored = 0) {
  const text::ByteTokenizer bytes;
  text::TokenFileWriter writer(folder.path(name), bytes, std::nullopt);
  for (const auto& ids : documents) {
    writer.begin_document();
    const std::vector<text::IdRange> ranges(ignored > 0 ? 1 : 0, {0, ignored});
    writer.add(ids, ids.size(), ranges);
  }
  writer.commit();
  return folder.path(name).string();
}

}  // namespace weft::testing
