// Event files, read back record by record.
#include "train/run/tensorboard_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tests/base/temporary_folder.h"

namespace weft::train {
namespace {

/// A field of a message: its number, and its bytes without length, or the value of a varint.
struct WireField {
  std::uint64_t number = 0, value = 0;
  std::string_view bytes;
};

std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7U) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if ((byte & 0x80U) == 0) return value;
  }
}

std::vector<WireField> wire_fields(std::string_view bytes) {
  std::vector<WireField> fields;
  while (!bytes.empty()) {
    const std::uint64_t tag = take_varint(bytes);
    WireField field;
    field.number = tag >> 3U;
    switch (tag & 7U) {
      case 0:
        field.value = take_varint(bytes);
        break;
      case 1:
        field.bytes = bytes.substr(0, 8);
        break;
      case 5:
        field.bytes = bytes.substr(0, 4);
        break;
      default: {
        const std::uint64_t length = take_varint(bytes);
        field.bytes = bytes.substr(0, length);
      }
    }
    bytes.remove_prefix(field.bytes.size());
    fields.push_back(field);
  }
  return fields;
}

template <typename T>
T number_in(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::vector<std::string_view> records(std::string_view file) {
  std::vector<std::string_view> all;
  while (!file.empty()) {
    const auto length = number_in<std::uint64_t>(file);
    const std::string_view record = file.substr(12, length);
    EXPECT_EQ(file.substr(0, 16 + length), tfrecord(record));
    file.remove_prefix(16 + length);
    all.push_back(record);
  }
  return all;
}

std::map<std::string, float> scalars_of(std::string_view summary) {
  std::map<std::string, float> scalars;
  for (const WireField& value : wire_fields(summary)) {
    const std::vector<WireField> parts = wire_fields(value.bytes);
    scalars[std::string(parts.at(0).bytes)] = number_in<float>(parts.at(1).bytes);
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
  EXPECT_EQ(wire_fields(events[0]).at(1).bytes, "brain.Event:2");
  const std::vector<WireField> start = wire_fields(events[1]);
  EXPECT_EQ(start.at(1).value, 300U);
  EXPECT_EQ(start.at(2).number, 7U);
  EXPECT_EQ(wire_fields(start.at(2).bytes).at(0).value, 1U);
  const std::vector<WireField> step = wire_fields(events[2]);
  EXPECT_EQ(number_in<double>(step.at(0).bytes), 1'790'000'000.25);
  EXPECT_EQ(step.at(1).value, 300U);
  EXPECT_EQ(step.at(2).number, 5U);
  const std::map<std::string, float> scalars = scalars_of(step.at(2).bytes);
  EXPECT_EQ(scalars.at("train/loss"), 5.5F);
  EXPECT_EQ(scalars.at("train/lr"), 1e-3F);
  EXPECT_EQ(scalars.at("data/tokens_seen"), 4096.0F);
  EXPECT_FALSE(scalars.contains("val/loss"));
  EXPECT_EQ(scalars_of(wire_fields(events[3]).at(2).bytes).at("val/loss"), 4.25F);
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
