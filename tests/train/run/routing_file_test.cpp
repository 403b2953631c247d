// Files of routing: what goes in comes out, and refusals of files that are about something else.
#include "train/run/routing_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"

namespace weft::train {
namespace {

using testing::refuses;

RoutingInfo info_of_two_layers() {
  return {.model = "mixtral of 3 layers",
          .layers = {0, 2},
          .experts = 4,
          .choices = 2,
          .data = 0x1234,
          .packing = "wrapped",
          .seed = 7,
          .sequences = 2,
          .seq_len = 3};
}

/// Choices of a step, each of the experts `first` and 3.
Choices choices_with(std::uint16_t first) {
  Choices choices;
  for (std::size_t i = 0; i < info_of_two_layers().size(); i += 2) choices.insert(choices.end(), {first, 3});
  return choices;
}

TEST(RoutingFile, GivesBackWhatWasRecorded) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path path = folder.path("routing");
  RoutingInfo info = info_of_two_layers();
  info.first_step = 5, info.first_sequence = 20;
  EXPECT_EQ(info.size(), 2U * 2 * 3 * 2);
  {
    RoutingRecorder recorder(path, info);
    recorder.append(choices_with(0));
    recorder.append(choices_with(2));
  }
  const RoutingFile file(path);
  EXPECT_EQ(file.info().layers, info.layers);
  EXPECT_EQ(file.info().first_step, 5);
  EXPECT_EQ(file.info().first_sequence, 20U);
  EXPECT_EQ(file.end_step(), 7);
  EXPECT_EQ(file.read(5), choices_with(0));
  EXPECT_EQ(file.read(6), choices_with(2));
  EXPECT_NO_THROW(file.expect_fits(info));
  EXPECT_NO_THROW(file.expect_steps(info, 7));
}

TEST(RoutingFile, OfAnotherModelDataOrLengthIsRefused) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path path = folder.path("routing");
  const RoutingInfo info = info_of_two_layers();
  RoutingRecorder(path, info).append(choices_with(0));
  const RoutingFile file(path);
  const auto refusal = [&](const auto& change, const char* part) {
    RoutingInfo other = info;
    change(other);
    EXPECT_TRUE(refuses([&] { file.expect_fits(other); }, {"was recorded with", part}));
  };
  refusal([](RoutingInfo& other) { other.model = "mixtral of 4 layers"; }, "model = mixtral of 3 layers");
  refusal([](RoutingInfo& other) { other.layers = {0, 1, 2}; }, "layers with experts = 0,2");
  refusal([](RoutingInfo& other) { other.experts = 8; }, "model.experts = 4");
  refusal([](RoutingInfo& other) { other.choices = 1; }, "model.experts-per-token = 2");
  refusal([](RoutingInfo& other) { other.data = 1; }, "data digest = 0x0000000000001234");
  refusal([](RoutingInfo& other) { other.seed = 8; }, "seed = 7");
  refusal([](RoutingInfo& other) { other.packing = "documents"; }, "packing = wrapped");
  refusal([](RoutingInfo& other) { other.sequences = 4; }, "global-batch = 2");
  refusal([](RoutingInfo& other) { other.seq_len = 6; }, "seq-len = 3");
  RoutingInfo moved = info;
  moved.first_step = 1, moved.first_sequence = 4;
  EXPECT_TRUE(refuses([&] { file.expect_fits(moved); }, {"has sequence 2 first in step 1", "sequence 4"}));
  EXPECT_TRUE(refuses([&] { file.expect_steps(info, 3); }, {"has the choices of steps 0 to 0", "--steps 1"}));
}

TEST(RoutingFile, OtherFilesAndImpossibleChoicesAreRefused) {
  const testing::TemporaryFolder folder;
  EXPECT_TRUE(refuses([&] { RoutingFile(folder.write("a", "no line")); }, {"is no recorded routing"}));
  EXPECT_TRUE(
      refuses([&] { RoutingFile(folder.write("b", "{\"format\":\"other\",\"version\":1}\n")); }, {"weft-routing"}));
  const std::filesystem::path path = folder.path("routing");
  for (const Choices& wrong : {Choices{3, 3}, Choices{2, 1}, Choices{0, 4}}) {
    Choices choices = choices_with(1);
    std::copy(wrong.begin(), wrong.end(), choices.begin() + 4);
    RoutingRecorder(path, info_of_two_layers()).append(choices);
    EXPECT_TRUE(
        refuses<RuntimeFault>([&] { (void)RoutingFile(path).read(0); }, {"step 0 is no choice of 2 of 4 experts"}));
  }
}

TEST(RoutingFile, ARunThatGoesOnKeepsTheStepsBefore) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path path = folder.path("routing");
  const RoutingInfo begun = info_of_two_layers();
  {
    RoutingRecorder recorder(path, begun);
    for (const std::uint16_t first : {0, 1, 2}) recorder.append(choices_with(first));
  }
  RoutingInfo later = begun;
  later.first_step = 2, later.first_sequence = 4;
  EXPECT_NO_THROW(expect_recordable(path, later));
  RoutingRecorder(path, later).append(choices_with(1));
  const RoutingFile file(path);
  EXPECT_EQ(file.end_step(), 3);
  EXPECT_EQ(file.read(1), choices_with(1));
  EXPECT_EQ(file.read(2), choices_with(1));
  later.first_step = 4, later.first_sequence = 8;
  EXPECT_TRUE(refuses([&] { expect_recordable(path, later); }, {"all steps before 4"}));
  RoutingRecorder(path, begun).append(choices_with(0));  // a new run
  EXPECT_EQ(RoutingFile(path).end_step(), 1);
}

}  // namespace
}  // namespace weft::train
