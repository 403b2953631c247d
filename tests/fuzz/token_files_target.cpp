// Text and token files. The first byte chooses: text or .bin, the vocabulary and the length of a sequence. Accepted
// tokens are inside of the vocabulary, and there are enough for a sequence.
#include <algorithm>
#include <vector>

#include "tests/fuzz/fuzz_target.h"
#include "train/token_source.h"

namespace {

void check_ids(const weft::TokenStream& stream, std::int64_t vocab) {
  std::vector<std::int32_t> ids(stream.size());
  stream.copy(0, stream.size(), ids.data());
  const bool inside = std::all_of(ids.begin(), ids.end(), [&](std::int32_t id) { return id >= 0 && id < vocab; });
  weft::fuzz::require(inside, "an id outside of the vocabulary");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  if (size == 0) return 0;
  static const fuzz::InputFolder folder;
  const unsigned choice = data[0];
  TokenSourceOptions options;
  options.data = folder.write((choice & 1U) != 0 ? "data.txt" : "data.bin", fuzz::text_of(data + 1, size - 1)).string();
  options.vocab = (choice & 2U) != 0 ? 50257 : 257;
  options.seq_len = (choice & 4U) != 0 ? 1 : 16;
  if ((choice & 8U) != 0) options.val_data = options.data;
  fuzz::accepted([&] {
    const TokenSource source = TokenSource::open(options);
    fuzz::require(source.train().size() > static_cast<std::uint64_t>(options.seq_len), "too few tokens accepted");
    fuzz::require(source.held_out().size() >= 2, "too few held-out tokens accepted");
    check_ids(source.train(), options.vocab);
    check_ids(source.held_out(), options.vocab);
  });
  return 0;
}
