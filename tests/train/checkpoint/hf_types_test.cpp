#include "train/checkpoint/hf_types.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/base/messages.h"
#include "tests/ops/tiny_model.h"

namespace weft::train {
namespace {

TEST(HfTypes, EveryModelHasItsType) {
  std::set<std::string_view> found;
  for (const testing::ModelKind kind : testing::kEveryKind) {
    if (kind == testing::ModelKind::gpt2) continue;
    const std::string type = kind == testing::ModelKind::llama_biased ? "llama" : to_string(kind);
    EXPECT_EQ(hf_type_of(testing::tiny_model(kind)).type, type);
    found.insert(hf_type_of(testing::tiny_model(kind)).type);
  }
  EXPECT_EQ(found.size(), hf_types().size());
}

TEST(HfTypes, AreNamedInMessages) {
  EXPECT_TRUE(hf_type_names().starts_with("gpt2, llama, mistral"));
  EXPECT_TRUE(hf_type_names().ends_with(" or qwen3_moe"));
  EXPECT_TRUE(hf_class_names().starts_with("GPT2LMHeadModel, LlamaForCausalLM"));
}

TEST(HfTypes, NoTypeIsForeignToo) {
  for (const HfType& type : hf_types()) EXPECT_TRUE(foreign_part(type.type).empty()) << type.type;
  EXPECT_FALSE(foreign_part("gemma2").empty());
  EXPECT_TRUE(foreign_part("unheard_of").empty());
}

}  // namespace
}  // namespace weft::train
