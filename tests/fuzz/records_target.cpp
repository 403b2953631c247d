// Lines of JSON to train on: an accepted line has pieces, whose texts are the record's text in their order.
#include <cstddef>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"
#include "text/corpus/text_files.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  static const testing::TemporaryFolder folder = fuzz::input_folder();
  const auto path = folder.write("data.jsonl", fuzz::text_of(data, size));
  const auto whole = [](std::string_view text, std::size_t) { return text.size(); };
  fuzz::accepted([&] {
    text::TextFiles files({path}, {.all_json = true, .part_bytes = 256}, whole);
    std::size_t records = 0;
    while (const auto part = files.next()) {
      ++records;
      std::string together;
      const text::TextContent content = files.content(*part);
      for (const text::TextPiece& piece : std::get<std::vector<text::TextPiece>>(content)) together += piece.text;
      fuzz::require(files.text(*part) == together, "a text that isn't its pieces");
    }
    fuzz::require(records <= size, "more records than bytes");
    fuzz::require(files.bytes_read() <= files.bytes(), "more read than there is");
  });
  return 0;
}
