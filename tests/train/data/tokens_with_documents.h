// Token files with documents, as `weft tokenize` writes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "text/corpus/token_file_writer.h"
#include "text/tokenizer.h"

namespace weft::testing {

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
