// Text and token files. The first byte chooses text or .bin, the vocabulary, the sequence length, the width of bare
// ids, and whether the bytes are one file, also held-out data, or a folder of two files. Accepted tokens are within the
// vocabulary, suffice for a sequence, and cover every byte of a bare file.
#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"
#include "train/data/token_source.h"

namespace {

using weft::train::TokenWidth;

void check_ids(const weft::train::TokenStream& stream, std::int64_t vocab) {
  std::vector<std::int32_t> ids(stream.size());
  stream.copy(0, stream.size(), ids.data());
  const bool inside = std::all_of(ids.begin(), ids.end(), [&](std::int32_t id) { return id >= 0 && id < vocab; });
  weft::fuzz::require(inside, "an id outside of the vocabulary");
}

/// A folder with a file to train on and a held-out file, as its name says.
std::string write_folder(const weft::testing::TemporaryFolder& folder, const std::string& ending,
                         std::string_view bytes) {
  static const bool made = std::filesystem::create_directory(folder.path() / "set");
  weft::fuzz::require(made, "no folder for two files");
  // A file of the folder must not remain from a call with another ending.
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "set")) {
    std::filesystem::remove(entry.path());
  }
  const std::size_t cut = bytes.size() / 8 * 4;
  folder.write("set/train" + ending, bytes.substr(0, cut));
  folder.write("set/x_val_0" + ending, bytes.substr(cut));
  return (folder.path() / "set").string();
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  if (size == 0) return 0;
  static const testing::TemporaryFolder folder = fuzz::input_folder();
  constexpr std::array kWidths = {train::TokenWidth::automatic, train::TokenWidth::u16, train::TokenWidth::u32,
                                  train::TokenWidth::automatic};
  const unsigned choice = data[0];
  const std::string ending = (choice & 1U) != 0 ? ".txt" : ".bin";
  const std::string_view bytes = fuzz::text_of(data + 1, size - 1);
  const bool in_folder = (choice & 64U) != 0;
  train::TokenSourceOptions options;
  options.data = in_folder ? write_folder(folder, ending, bytes) : folder.write("data" + ending, bytes);
  options.vocab = (choice & 128U) != 0 ? 128256 : (choice & 2U) != 0 ? 50257 : 257;
  options.seq_len = (choice & 4U) != 0 ? 1 : 16;
  options.width = kWidths.at((choice >> 4U) & 3U);
  if ((choice & 8U) != 0) options.val_data = options.data;
  fuzz::accepted([&] {
    const train::TokenSource source = train::TokenSource::open(options);
    fuzz::require(source.train.size() > static_cast<std::uint64_t>(options.seq_len), "too few tokens accepted");
    fuzz::require(source.held_out.size() >= 2, "too few held-out tokens accepted");
    check_ids(source.train, options.vocab);
    check_ids(source.held_out, options.vocab);
    fuzz::require(train::TokenSource::open(options).digest == source.digest, "another digest of the same files");
    const std::uint64_t tokens = source.train.size() + source.held_out.size();
    fuzz::require(tokens <= 2 * (size + 2), "more tokens than bytes");
  });
  return 0;
}
