// Hugging Face's config.json: an accepted file is written as a config.json that reads back as the same sizes.
#include "tests/fuzz/fuzz_target.h"
#include "train/checkpoint/hf_config.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  ops::ModelConfig model;
  if (!fuzz::accepted([&] { model = train::read_hf_config(fuzz::text_of(data, size), "config.json").model; })) return 0;
  const std::string text = train::hf_config_json(model, DType::f32);
  const ops::ModelConfig again = train::read_hf_config(text, "written.json").model;
  fuzz::require(train::hf_config_json(again, DType::f32) == text,
                "a model that differs when it is read back:\n" + text);
  return 0;
}
