// Texts packed with Zstandard: all frames are read in pieces of any size, and damaged ones are refused by name.
#include "base/files/zstd_source.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tests/base/files/zstd_packed.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"

namespace weft {
namespace {

using testing::zstd_packed;
using testing::zstd_skippable;

/// What open_text_file() reads of a file with this content, in pieces of `piece` bytes.
std::string unpacked(std::string_view content, std::size_t piece = 1 << 16) {
  const testing::TemporaryFolder folder;
  const OpenedFile file = open_text_file(folder.write("a.zst", std::string(content)), "the text");
  std::string text, buffer(piece, '\0');
  while (const std::size_t count = file.source(std::span(buffer))) text.append(buffer, 0, count);
  EXPECT_LE(text.size(), file.most_bytes);
  EXPECT_EQ(file.source(std::span(buffer)), 0U);  // the end stays the end
  return text;
}

std::string refusal_of(std::string_view content) {
  return testing::message_of<UserError>([&] { unpacked(content); });
}

/// Text that takes several blocks and is no repetition.
std::string long_text(std::size_t bytes) {
  std::string text;
  for (std::uint32_t i = 1; text.size() < bytes; i = i * 1664525 + 1013904223) text += std::to_string(i) + "\n";
  text.resize(bytes);
  return text;
}

TEST(ZstdSource, ReadsFramesInPiecesOfAnySize) {
  const std::string text = long_text(700'000);
  const std::string packed = zstd_packed(text);
  ASSERT_LT(packed.size(), text.size());
  for (const std::size_t piece : {std::size_t{1000}, std::size_t{131072}, std::size_t{1} << 20}) {
    EXPECT_EQ(unpacked(packed, piece), text) << piece;
  }
  EXPECT_EQ(unpacked(zstd_packed("warp and weft"), 1), "warp and weft");
  EXPECT_EQ(unpacked(zstd_packed("")), "");
}

TEST(ZstdSource, ReadsFramesOfEveryForm) {
  const std::string text = long_text(300'000);
  EXPECT_EQ(unpacked(zstd_packed(text, {{ZSTD_c_checksumFlag, 1}})), text);
  EXPECT_EQ(unpacked(zstd_packed(text, {{ZSTD_c_contentSizeFlag, 0}})), text);
  EXPECT_EQ(unpacked(zstd_packed(text, {{ZSTD_c_compressionLevel, 19}, {ZSTD_c_windowLog, 27}})), text);
  EXPECT_EQ(unpacked(zstd_packed(text) + zstd_packed("between") + zstd_packed("") + zstd_packed(text)),
            text + "between" + text);
  EXPECT_EQ(unpacked(zstd_skippable("an index") + zstd_packed("one ") + zstd_skippable("") +
                     zstd_skippable(std::string(400'000, 'x')) + zstd_packed("two") + zstd_skippable("the end")),
            "one two");
  EXPECT_EQ(unpacked(zstd_skippable("nothing else")), "");
}

// A small file may hold far more text, of which a reader holds a piece.
TEST(ZstdSource, BoundsTheTextOfRepetitions) {
  const std::string text(50'000'000, 'a');
  const std::string packed = zstd_packed(text);
  EXPECT_LT(packed.size(), 10'000U);
  EXPECT_EQ(unpacked(packed), text);
}

TEST(ZstdSource, RefusesTruncatedFilesAtEveryByte) {
  const std::string first = zstd_packed("one and only", {{ZSTD_c_checksumFlag, 1}});
  const std::string both = first + zstd_skippable("skipped") + zstd_packed("two");
  for (std::size_t size = 4; size < both.size(); ++size) {
    if (size == first.size() || size == first.size() + zstd_skippable("skipped").size()) continue;
    EXPECT_TRUE(has_parts(refusal_of(both.substr(0, size)), {"a.zst' is truncated or damaged"})) << size;
  }
  const std::string large = zstd_packed(long_text(700'000));
  for (const std::size_t size : {large.size() / 3, large.size() - 1}) {
    EXPECT_TRUE(has_parts(refusal_of(large.substr(0, size)), {"truncated"})) << size;
  }
}

TEST(ZstdSource, RefusesDamagedFiles) {
  const std::string text = long_text(20'000);
  std::string damaged = zstd_packed(text, {{ZSTD_c_checksumFlag, 1}});
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  EXPECT_TRUE(has_parts(refusal_of(damaged), {"a.zst' is truncated or damaged", "checksum"}));
  EXPECT_TRUE(has_parts(refusal_of(zstd_packed(text) + "no frame"), {"a.zst' is truncated or damaged"}));
}

TEST(ZstdSource, RefusesDictionariesAndLargeWindowsByName) {
  // A frame's descriptor says with flag 1 that a byte with its dictionary's number follows, after that of the window.
  const std::string packed = zstd_packed(long_text(3000), {{ZSTD_c_contentSizeFlag, 0}});
  std::string named = packed.substr(0, 6) + '\x07' + packed.substr(6);
  named[4] = static_cast<char>(named[4] | 1);
  EXPECT_TRUE(has_parts(refusal_of(named), {"a.zst' can't be unpacked", "dictionary"}));
  std::string stated = packed;
  stated[5] = static_cast<char>((28 - 10) << 3);  // 2^28 bytes, whatever it needs
  EXPECT_TRUE(has_parts(refusal_of(stated), {"a.zst' can't be unpacked", "128 MiB", "--long"}));
}

TEST(ZstdSource, IsToldByTheContentAlone) {
  const testing::TemporaryFolder folder;
  const auto text_of = [&](const std::string& name, const std::string& content) {
    const OpenedFile file = open_text_file(folder.write(name, content), "the text");
    std::string text(100, '\0');
    text.resize(file.source(std::span(text)));
    return text;
  };
  EXPECT_EQ(text_of("packed.txt", zstd_packed("warp")), "warp");
  EXPECT_EQ(text_of("plain.zst", "weft"), "weft");
  EXPECT_EQ(text_of("short.zst", "\x28\xb5\x2f"), "\x28\xb5\x2f");
  for (const char* name : {"a.txt.gz", "a.jsonl.zst"}) EXPECT_TRUE(is_packed_name(name)) << name;
  for (const char* name : {"a.txt", "zst", "a.zst.txt"}) EXPECT_FALSE(is_packed_name(name)) << name;
}

}  // namespace
}  // namespace weft
