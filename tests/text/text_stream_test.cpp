#include "text/text_stream.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/utf8.h"
#include "tests/base/temporary_folder.h"
#include "tests/text/formats/small_tokenizers.h"
#include "text/byte_tokenizer.h"

namespace weft::text {
namespace {

TEST(TextStream, HoldsCharactersBack) {
  const ByteTokenizer bytes;
  TextStream stream(bytes);
  EXPECT_EQ(stream.add('a'), "a");
  EXPECT_EQ(stream.add(0xE4), "");
  EXPECT_EQ(stream.add(0xB8), "");
  EXPECT_EQ(stream.add(0xAD), "\xE4\xB8\xAD");
  EXPECT_EQ(stream.add(0xFF), "\xFF");  // no character begins so
  EXPECT_EQ(stream.add(0xC3), "");
  EXPECT_EQ(stream.add(300), "");  // no token
  EXPECT_EQ(stream.finish(), "\xC3");
  EXPECT_EQ(stream.finish(), "");
}

TEST(TextStream, LongTextsComeWhole) {
  const ByteTokenizer bytes;
  std::string text;
  for (int i = 0; i < 300; ++i) text += i % 3 == 0 ? "\xF0\x9F\x98\x80" : "x\xC3\xA9";
  TextStream stream(bytes);
  std::string made;
  for (const std::int32_t id : bytes.encode(text)) {
    const std::string piece = stream.add(id);
    EXPECT_TRUE(is_utf8(piece));
    made += piece;
  }
  EXPECT_EQ(made + stream.finish(), text);
}

// The first token of a text loses its blank, the first token behind a prompt doesn't.
TEST(TextStream, GoesOnBehindAPrompt) {
  const testing::TemporaryFolder folder;
  folder.write("tokenizer.json", testing::small_llama().text());
  const TokenizerPointer tokenizer = load_tokenizer(folder.path());
  const std::vector<std::int32_t> prompt = tokenizer->encode("ab");
  TextStream behind(*tokenizer, prompt), alone(*tokenizer);
  EXPECT_EQ(behind.add(9), " ab");
  EXPECT_EQ(alone.add(9), "ab");
  std::string made;
  for (int i = 0; i < 100; ++i) made += alone.add(9);
  EXPECT_EQ(made.size(), 300U);
}

}  // namespace
}  // namespace weft::text
