// Replaces CUB's header of this name.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/gpu/emulator/gpu.h"

namespace cub {

struct DeviceRadixSort {
  /// Sorts by the bits [begin, end) of the keys; equal keys keep their order. If `area` is null, it only sets
  /// `area_bytes` to the size that it needs.
  template <class Key, class Value, class Count>
  static cudaError_t SortPairs(void* area, std::size_t& area_bytes, const Key* keys, Key* sorted_keys,
                               const Value* values, Value* sorted_values, Count count, int begin, int end,
                               cudaStream_t stream) {
    if (area == nullptr) {
      area_bytes = 1;
      return cudaSuccess;
    }
    return weft::emulator::enqueue(stream, "radix sort", [=] {
      const Key mask = (end - begin == std::numeric_limits<Key>::digits ? Key{0} : Key{1} << (end - begin)) - Key{1};
      std::vector<std::size_t> order(static_cast<std::size_t>(count));
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, {}, [&](std::size_t i) { return keys[i] >> begin & mask; });
      for (std::size_t i = 0; i < order.size(); ++i) {
        sorted_keys[i] = keys[order[i]];
        sorted_values[i] = values[order[i]];
      }
    });
  }
};

}  // namespace cub
