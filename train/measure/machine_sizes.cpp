#include "train/measure/machine_sizes.h"

#include <array>
#include <utility>

namespace weft::train {
namespace {

/// The first three are of quick measurements too.
struct Shapes {
  std::array<std::array<std::int64_t, 3>, 6> products;   // m, n, k
  std::array<std::array<std::int64_t, 4>, 4> attention;  // batch, heads, seq, head_dim; the first two when quick
};

// Square products, and products of a layer: many rows with few columns, and few rows with many columns.
constexpr Shapes kOfCpus = {
    {{{128, 128, 128}, {512, 512, 512}, {1024, 2048, 512}, {256, 256, 256}, {1024, 1024, 1024}, {2048, 512, 2048}}},
    {{{2, 4, 128, 64}, {2, 4, 512, 64}, {4, 4, 256, 32}, {1, 4, 1024, 64}}}};
constexpr Shapes kOfGpus = {{{{1024, 1024, 1024},
                              {4096, 4096, 4096},
                              {8192, 2048, 512},
                              {2048, 2048, 2048},
                              {8192, 8192, 2048},
                              {2048, 512, 8192}}},
                            {{{8, 12, 1024, 64}, {2, 16, 2048, 128}, {8, 12, 512, 64}, {1, 16, 4096, 128}}}};

}  // namespace

MachineSizes machine_sizes(DeviceKind device, bool quick) {
  const bool gpu = device == DeviceKind::cuda;
  const Shapes& shapes = gpu ? kOfGpus : kOfCpus;
  const std::size_t products = quick ? 3 : shapes.products.size();
  const std::size_t attention = quick ? 2 : shapes.attention.size();
  MachineSizes sizes;
  sizes.repeats = quick ? 3 : 7;
  sizes.rounds_beside = quick ? 5 : 35;
  if (gpu) sizes.memory_elements = std::int64_t{1} << 26;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const auto& [trans_a, trans_b] : {std::pair{false, false}, {false, true}, {true, false}}) {
      for (std::size_t i = 0; i < products; ++i) {
        const auto [m, n, k] = shapes.products.at(i);
        sizes.gemms.push_back({.m = m, .n = n, .k = k, .trans_a = trans_a, .trans_b = trans_b, .dtype = dtype});
      }
    }
    for (const bool backward : {false, true}) {
      for (std::size_t i = 0; i < attention; ++i) {
        const auto [batch, heads, seq, head_dim] = shapes.attention.at(i);
        sizes.attention.push_back(
            {.backward = backward, .batch = batch, .heads = heads, .seq = seq, .head_dim = head_dim, .dtype = dtype});
      }
    }
  }
  const std::int64_t most = std::int64_t{1} << (gpu ? 28 : 24);
  for (std::int64_t bytes = 1 << 10; bytes <= most; bytes *= quick ? 16 : 4) sizes.collective_bytes.push_back(bytes);
  return sizes;
}

}  // namespace weft::train
