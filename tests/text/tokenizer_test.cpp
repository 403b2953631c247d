// The byte tokenizer, and the text of tokens as they come.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/text/formats/small_tokenizers.h"

namespace weft::text {
namespace {

TEST(ByteTokenizer, OneIdAByte) {
  EXPECT_EQ(ByteTokenizer().encode("Hi \xC3\xA9"), (std::vector<std::int32_t>{72, 105, 32, 0xC3, 0xA9}));
  EXPECT_TRUE(ByteTokenizer().encode("").empty());
}

TEST(ByteTokenizer, DecodesWhatItEncoded) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(ByteTokenizer().decode(ByteTokenizer().encode(all)), all);
}

TEST(ByteTokenizer, RefusesIdsOutOfRange) {
  const auto decode = [](std::int32_t id) {
    return testing::message_of<UserError>([&] { ByteTokenizer().decode(std::vector<std::int32_t>{1, id}); });
  };
  EXPECT_TRUE(has_parts(decode(257), {"token 1 has id 257", "257 (bytes)"}));
  EXPECT_TRUE(has_parts(decode(-1), {"token 1 has id -1"}));
}

TEST(ByteTokenizer, NamesItsTokens) {
  const ByteTokenizer bytes;
  EXPECT_EQ(bytes.token_text(' '), "\xC4\xA0");  // "Ġ"
  EXPECT_EQ(bytes.token_text(256), "<|endoftext|>");
  EXPECT_EQ(bytes.token_text(257), std::nullopt);
  EXPECT_EQ(bytes.token_id("\xC4\xA0"), ' ');
  EXPECT_EQ(bytes.token_id("ab"), std::nullopt);
  EXPECT_EQ(bytes.facts().end, 256);
  const std::vector<std::int32_t> ended{72, ByteTokenizer::kEndOfText, 105};
  EXPECT_EQ(bytes.decode(ended), "H<|endoftext|>i");
  EXPECT_EQ(bytes.decode(ended, true), "Hi");
}

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
