// Conversion between float dtypes; see cast.h.
#include <type_traits>

#include "kernels/cpu/chunks.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/cast.h"
#include "kernels/cuda/items.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

template <int kWidth, class From, class To>
__global__ void __launch_bounds__(kThreads)
    cast_kernel(const From* x, std::int64_t x_stride, To* out, std::int64_t out_stride, const Items items,
                std::int64_t count) {
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (item >= count) return;
  visit<kWidth>(items, item, [&](auto width, std::int64_t row, std::int64_t column) {
    float values[decltype(width)::value];
    load(x + row * x_stride + column, values);
    store(out + row * out_stride + column, values);
  });
}

}  // namespace

void cast(const Launch& launch, const Matrix& x, const Matrix& out) {
  const auto views = cpu::common_shape(x, out);
  if (cpu::count(views[0]) == 0) return;
  with_float_type(x.dtype, [&](auto* from_type) {
    with_float_type(out.dtype, [&](auto* to_type) {
      using From = std::remove_pointer_t<decltype(from_type)>;
      using To = std::remove_pointer_t<decltype(to_type)>;
      constexpr int kWidth = 16 / sizeof(To);  // consecutive threads store to adjacent addresses
      const bool wide = loads_vectors(views[0], kWidth) && loads_vectors(views[1], kWidth);
      const Items items = items_of(views[0].rows, views[0].cols, kWidth, wide);
      start("cast", launch, cast_kernel<kWidth, From, To>, blocks_for(items.count(), kThreads), kThreads, 0,
            static_cast<const From*>(views[0].data), views[0].row_stride, static_cast<To*>(views[1].data),
            views[1].row_stride, items, items.count());
    });
  });
}

}  // namespace weft::cuda
