// Ids in a token file of their own, as the stream that a run reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "tests/base/temporary_folder.h"
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

}  // namespace weft::testing
