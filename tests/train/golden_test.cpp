// Models against PyTorch: logits, every gradient and the losses of ten AdamW steps, from tests/reference/golden.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "tests/reference/parity.h"
#include "train/checkpoint/safetensors.h"

namespace weft::train {
namespace {

struct NamedVariant {
  const char* name;
  testing::ParityVariant variant;
};

class Golden : public ::testing::TestWithParam<std::tuple<const char*, NamedVariant>> {
 protected:
  Golden()
      : folder_(std::filesystem::path(WEFT_SOURCE_DIR) / "tests/reference/golden" / std::get<0>(GetParam())),
        expected_(folder_ / "expected.safetensors"),
        results_(testing::run_parity(testing::load_parity_case(folder_), std::get<1>(GetParam()).variant)) {}

  bool bf16() const { return std::get<1>(GetParam()).variant.dtype == DType::bf16; }

  std::vector<float> expected(const std::string& name) const {
    const StoredTensorInfo* info = expected_.find(name);
    if (info == nullptr) throw std::out_of_range("PyTorch has no " + name);
    return expected_.read(*info);
  }
  /// PyTorch's own bf16 error (see cases.py), doubled.
  double bf16_tolerance(const std::string& name) const { return 2.0 * expected("bf16." + name).at(0); }

  /// Expects that our bf16 is at most twice as far from the truth as PyTorch's on the same weights, element by element.
  void expect_bf16_as_near_as_pytorch(const std::string& name) const {
    const double peer = expected("bf16_l2." + name).at(0);
    EXPECT_LE(testing::distance(results_.at(name).values, expected(name)).l2, 2 * peer) << name;
  }

  std::filesystem::path folder_;
  SafetensorsFile expected_;
  testing::ParityResults results_;
};

TEST_P(Golden, LogitsAreThoseOfPyTorch) {
  const testing::Distance found = testing::distance(results_.at("logits").values, expected("logits"));
  EXPECT_LE(found.error, bf16() ? bf16_tolerance("logits") : 1e-4);
  if (bf16()) {
    expect_bf16_as_near_as_pytorch("logits");
  } else {
    EXPECT_GE(found.cosine, 0.99999);
  }
}

TEST_P(Golden, GradientsAreThoseOfPyTorch) {
  std::size_t compared = 0;
  for (const auto& [name, array] : results_) {
    if (!name.starts_with("grad.")) continue;
    ++compared;
    const testing::Distance found = testing::distance(array.values, expected(name));
    EXPECT_LE(found.error, bf16() ? bf16_tolerance(name) : 1e-3) << name;
    if (bf16()) {
      expect_bf16_as_near_as_pytorch(name);
    } else {
      EXPECT_GE(found.cosine, 0.99999) << name;
    }
  }
  const auto& tensors = expected_.tensors();
  const auto wanted =
      std::count_if(tensors.begin(), tensors.end(), [](const auto& info) { return info.name.starts_with("grad."); });
  EXPECT_EQ(compared, static_cast<std::size_t>(wanted));
}

TEST_P(Golden, LossesOfAdamWStepsAreThoseOfPyTorch) {
  const std::vector<float> reference = expected("losses");
  ASSERT_EQ(reference.size(), 10U);
  EXPECT_LE(testing::relative_error(results_.at("losses").values, reference), bf16() ? bf16_tolerance("losses") : 1e-5);
  if (bf16()) expect_bf16_as_near_as_pytorch("losses");
}

const auto kNameOfCase = [](const auto& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name;
};

INSTANTIATE_TEST_SUITE_P(Cases, Golden,
                         ::testing::Combine(::testing::Values("gpt2", "llama_tied", "llama_untied"),
                                            ::testing::Values(NamedVariant{"f32", {}},
                                                              NamedVariant{"f32_accumulated",
                                                                           {.accumulate = true, .recompute = true}},
                                                              NamedVariant{"bf16", {.dtype = DType::bf16}})),
                         kNameOfCase);

// Of transformers, and in fp32 alone: rounded to bf16 a token takes other experts.
INSTANTIATE_TEST_SUITE_P(Experts, Golden,
                         ::testing::Combine(::testing::Values("hf_mixtral", "hf_qwen3_moe"),
                                            ::testing::Values(NamedVariant{"f32", {}},
                                                              NamedVariant{"f32_accumulated",
                                                                           {.accumulate = true, .recompute = true}})),
                         kNameOfCase);

}  // namespace
}  // namespace weft::train
