// Event files, read back record by record.
#include "train/run/tensorboard_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tests/base/temporary_folder.h"
#include "tests/runtime/protobuf_walker.h"

namespace weft::train {
namespace {

std::vector<std::string_view> records(std::string_view file) {
  std::vector<std::string_view> all;
  while (!file.empty()) {
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    const std::string_view record = file.substr(12, length);
    EXPECT_EQ(file.substr(0, 16 + length), tfrecord(record));
    file.remove_prefix(16 + length);
    all.push_back(record);
  }
  return all;
}

std::map<std::string, float> scalars_of(std::string_view summary) {
  std::map<std::string, float> scalars;
  for (const testing::ProtoField& value : testing::fields_of(summary)) {
    const auto bits = static_cast<std::uint32_t>(testing::field_of(value.bytes, 2).value);
    scalars[std::string(testing::field_of(value.bytes, 1).bytes)] = std::bit_cast<float>(bits);
  }
  return scalars;
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

// Computed bit by bit from the definition of CRC-32C.
TEST(TfRecord, HasLengthAndMaskedChecksums) {
  using namespace std::string_view_literals;
  EXPECT_EQ(tfrecord(""), "\0\0\0\0\0\0\0\0\x29\x03\x98\x07\xd8\xea\x82\xa2"sv);
  EXPECT_EQ(tfrecord("weft"), "\4\0\0\0\0\0\0\0\x42\x45\x52\x04weft\xb7\xf7\x29\x8a"sv);
}

TEST(TensorBoardFile, HoldsAStepsScalars) {
  const testing::TemporaryFolder folder;
  StepMetrics metrics;
  metrics.step = 300;
  metrics.wall_time = 1'790'000'000.25;
  metrics.loss = 5.5;
  metrics.lr = 1e-3;
  metrics.tokens_seen = 4096;
  TensorBoardFile file(folder.path("tensorboard"), 300);
  file.write(metrics);
  metrics.step = 301, metrics.val_loss = 4.25;
  file.write(metrics);

  const auto files = files_in(folder.path("tensorboard"));
  ASSERT_EQ(files.size(), 1U);
  EXPECT_TRUE(files.front().filename().string().starts_with(kEventFileStart));
  const std::string bytes = testing::TemporaryFolder::read(files.front());
  const std::vector<std::string_view> events = records(bytes);
  ASSERT_EQ(events.size(), 4U);
  using testing::field_of;
  EXPECT_EQ(field_of(events[0], 3).bytes, "brain.Event:2");
  EXPECT_EQ(field_of(events[1], 2).value, 300U);
  EXPECT_EQ(field_of(field_of(events[1], 7).bytes, 1).value, 1U);
  EXPECT_EQ(std::bit_cast<double>(field_of(events[2], 1).value), 1'790'000'000.25);
  EXPECT_EQ(field_of(events[2], 2).value, 300U);
  const std::map<std::string, float> scalars = scalars_of(field_of(events[2], 5).bytes);
  EXPECT_EQ(scalars.at("train/loss"), 5.5F);
  EXPECT_EQ(scalars.at("train/lr"), 1e-3F);
  EXPECT_EQ(scalars.at("data/tokens_seen"), 4096.0F);
  EXPECT_FALSE(scalars.contains("val/loss"));
  EXPECT_EQ(scalars_of(field_of(events[3], 5).bytes).at("val/loss"), 4.25F);
}

TEST(TensorBoardFile, ARunThatContinuesHasAFileOfItsOwn) {
  const testing::TemporaryFolder folder;
  const TensorBoardFile one(folder.path("tensorboard"), 0), two(folder.path("tensorboard"), 5);
  EXPECT_EQ(files_in(folder.path("tensorboard")).size(), 2U);
}

TEST(TensorBoardFile, AFileInTheFoldersPlaceIsAFault) {
  const testing::TemporaryFolder folder;
  EXPECT_THROW(TensorBoardFile(folder.write("tensorboard", ""), 0), RuntimeFault);
}

}  // namespace
}  // namespace weft::train
