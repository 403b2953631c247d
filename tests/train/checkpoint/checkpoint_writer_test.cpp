// Checkpoints written during the next steps: their content, the waits for them, and their errors.
#include "train/checkpoint/checkpoint_writer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/comm/local.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/train/model_arrays.h"

namespace weft::train {
namespace {

class Writer : public ::testing::TestWithParam<DType> {
 protected:
  CheckpointInfo info(std::int64_t step) const { return {step, 7, 4096, GetParam(), model_, "", {}}; }
  std::string difference(const std::filesystem::path& path, const testing::ModelArrays& expected) const {
    testing::ModelArrays loaded(model_, GetParam(), 0);
    load_checkpoint(path, loaded.states());
    return testing::first_difference(expected, loaded, true);
  }

  const testing::TemporaryFolder folder_;
  const std::unique_ptr<comm::World> world_ = std::move(comm::make_local_worlds(1).front());
  const ops::ModelConfig model_ = testing::small_model(ops::Family::gpt2, true);
};

INSTANTIATE_TEST_SUITE_P(Dtypes, Writer, ::testing::Values(DType::f32, DType::bf16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST_P(Writer, HoldsWhatThereWasWhenSaveReturned) {
  const testing::ModelArrays expected(model_, GetParam(), 1);
  testing::ModelArrays arrays = expected;
  CheckpointWriter writer(*world_, folder_.path(), {});
  writer.save(info(5), arrays.states());
  for (const ParameterState& parameter : arrays.states()) {  // the next step
    const auto elements = static_cast<std::size_t>(parameter.spec->rows * parameter.spec->cols);
    std::fill_n(static_cast<std::byte*>(parameter.data), elements * size_of(parameter.dtype), std::byte{1});
    std::fill_n(parameter.m, elements, -1.0F);
    std::fill_n(parameter.v, elements, -2.0F);
    if (parameter.master != nullptr) std::fill_n(parameter.master, elements, -3.0F);
  }
  writer.finish();
  const auto path = writer.written();
  ASSERT_EQ(path, checkpoint_path(folder_.path(), 5));
  EXPECT_EQ(difference(*path, expected), "");
  EXPECT_FALSE(writer.written().has_value());  // reported once
}

TEST_P(Writer, OneIsWrittenAfterTheOther) {
  std::vector<testing::ModelArrays> states;
  CheckpointWriter writer(*world_, folder_.path(), {.keep_last = 3, .keep_every = 0});
  for (int i = 1; i <= 5; ++i) {
    states.emplace_back(model_, GetParam(), static_cast<float>(i));
    writer.save(info(i), states.back().states());
  }
  writer.finish();
  const auto found = complete_checkpoints(folder_.path());
  ASSERT_EQ(found.size(), 3U);
  for (const CheckpointFolder& checkpoint : found) {
    EXPECT_EQ(difference(checkpoint.path, states.at(static_cast<std::size_t>(checkpoint.step - 1))), "");
  }
}

TEST_P(Writer, IsWaitedForWhenItGoes) {
  const testing::ModelArrays arrays(model_, GetParam(), 1);
  CheckpointWriter(*world_, folder_.path(), {}).save(info(1), arrays.states());
  EXPECT_EQ(difference(find_checkpoint(folder_.path()), arrays), "");
}

TEST_P(Writer, SavesTheEndOfARunWithoutACopy) {
  const testing::ModelArrays arrays(model_, GetParam(), 1);
  CheckpointWriter writer(*world_, folder_.path(), {});
  writer.save_now(info(1), arrays.states());
  EXPECT_EQ(difference(writer.written().value(), arrays), "");
}

TEST_P(Writer, AFaultReachesWhoeverAsksNext) {
  const testing::ModelArrays arrays(model_, GetParam(), 1);
  const std::string blocked = folder_.write("blocked/checkpoints", "a file where the folder must be");
  const auto run_dir = std::filesystem::path(blocked).parent_path();
  CheckpointWriter writer(*world_, run_dir, {});
  const std::initializer_list<std::string_view> parts = {"step_00000001' can't be written"};
  writer.save(info(1), arrays.states());
  EXPECT_TRUE(refuses<RuntimeFault>([&] { writer.save(info(2), arrays.states()); }, parts));
  writer.save(info(1), arrays.states());
  EXPECT_TRUE(refuses<RuntimeFault>([&] { writer.finish(); }, parts));
  writer.finish();  // reported once
  EXPECT_FALSE(writer.written().has_value());
}

TEST_P(Writer, ClearsAwayWhatAKilledRunLeft) {
  folder_.write("checkpoints/.writing_step_00000003/model.safetensors.tmp", "half");
  folder_.write("checkpoints/.removing_step_00000001/manifest.json", "{}");
  folder_.write("checkpoints/step_00000002/manifest.json", "{}");
  const CheckpointWriter writer(*world_, folder_.path(), {});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path("checkpoints")), {}), 1);
}

TEST_P(Writer, ItsMemoryIsThatOfTheArrays) {
  const testing::ModelArrays arrays(model_, GetParam(), 1);
  const std::int64_t element = GetParam() == DType::bf16 ? 2 + 3 * 4 : 3 * 4;
  const std::int64_t exact = model_.parameters() * element;
  EXPECT_GE(snapshot_bytes(arrays.states()), exact);
  EXPECT_LT(snapshot_bytes(arrays.states()), exact + 64 * 4 * static_cast<std::int64_t>(arrays.specs().size()));
}

}  // namespace
}  // namespace weft::train
