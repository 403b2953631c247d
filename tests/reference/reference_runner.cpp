// Runs one case of the comparison with PyTorch and writes Weft's results, for tests/reference/compare.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <span>
#include <string_view>
#include <vector>

#include "tests/reference/parity.h"
#include "train/checkpoint/safetensors.h"

namespace {

constexpr const char* kUsage =
    "usage: reference_runner CASE_FOLDER RESULT.safetensors [--bf16] [--accumulate] [--recompute] [--two-threads]\n";

int run(int argc, char** argv) {
  weft::testing::ParityVariant variant;
  for (const std::string_view flag : std::span(argv + 3, static_cast<std::size_t>(argc - 3))) {
    if (flag == "--bf16") {
      variant.dtype = weft::DType::bf16;
    } else if (flag == "--accumulate") {
      variant.accumulate = true;
    } else if (flag == "--recompute") {
      variant.recompute = true;
    } else if (flag == "--two-threads") {
      variant.threads = 2;
    } else {
      fmt::print(stderr, "{}", kUsage);
      return 2;
    }
  }
  const weft::testing::ParityResults results =
      weft::testing::run_parity(weft::testing::load_parity_case(argv[1]), variant);
  std::vector<weft::train::TensorToWrite> tensors;
  for (const auto& [name, array] : results) {
    tensors.push_back({name, weft::train::stored_type(weft::DType::f32), array.shape,
                       [&values = array.values](auto&) { return std::as_bytes(std::span(values)); }});
  }
  weft::train::write_safetensors(argv[2], std::move(tensors));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "{}", kUsage);
    return 2;
  }
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "reference_runner: {}\n", error.what());
    return 3;
  }
}
