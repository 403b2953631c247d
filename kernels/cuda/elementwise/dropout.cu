// Dropout; see elementwise.h. A piece of 16 bytes begins at a multiple of its number of elements, so that it draws one
// quad of random words. If rows aren't aligned, each element draws its whole quad.
#include "kernels/cuda/elementwise/elementwise.h"
#include "kernels/cuda/items.cuh"
#include "kernels/formulas.h"

namespace weft::cuda {
namespace {

template <class T, int kWidth, bool kResidual>
struct Dropout : ItemWork {
  struct Item {
    Raw<T, kWidth> x, residual;
    std::uint32_t kept;  // a bit for each element
  };

  DropoutMask mask;
  kernels::DropoutChance chance;
  Stream<const T> x, residual;
  Stream<T> y;
  std::int64_t cols;
  // Read once a thread.
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::int64_t first_row = 0, part = 0;
  std::int64_t begun = 0;  // rows of a cut sequence's part before the matrix's first

  __device__ bool begin() {
    seed = static_cast<std::uint64_t>(mask.random[0]);
    step = static_cast<std::uint32_t>(mask.random[1]);
    first_row = mask.random[2] + mask.row_offset;
    begun = mask.seq > 0 ? first_row % mask.seq : 0;
    part = mask.coordinate != nullptr ? *mask.coordinate : 0;
    return true;
  }
  __device__ std::int64_t global_row(std::int64_t row) const {
    if (mask.seq == 0) return first_row + row;
    const auto [sequence, within] = place_of(begun + row, mask.seq);
    return first_row - begun + sequence * mask.stride + within;
  }
  __device__ void load(std::int64_t row, std::int64_t column, Item& item) const {
    item.x = fetch<kWidth>(x.at(row, column));
    if constexpr (kResidual) item.residual = fetch<kWidth>(residual.at(row, column));
  }
  __device__ void prepare(std::int64_t row, std::int64_t column, Item& item) const {
    const auto element = static_cast<std::uint64_t>((global_row(row) * mask.parts + part) * cols + column);
    static_assert(kernels::kDropoutElements % kWidth == 0);
    const PhiloxBlock drawn = philox_quad(seed, step, mask.site, element / kernels::kDropoutElements);
    const std::uint32_t in_quad = static_cast<std::uint32_t>(element) & (kernels::kDropoutElements - kWidth);
    item.kept = 0;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      item.kept |= kernels::dropout_bits(drawn, in_quad + i) >= chance.threshold ? 1U << i : 0U;
    }
  }
  __device__ void finish(std::int64_t row, std::int64_t column, const Item& item) const {
    float values[kWidth], more[kWidth];
    unpack(item.x, values);
    if constexpr (kResidual) unpack(item.residual, more);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      values[i] = (item.kept >> i & 1) != 0 ? values[i] * chance.scale : 0.0F;
      if constexpr (kResidual) values[i] += more[i];
    }
    store(y.at(row, column), values);
  }
};

}  // namespace

void dropout(const Launch& launch, const DropoutMask& mask, const Matrix& x, const Matrix* residual, const Matrix& y) {
  const Matrix& base = residual != nullptr ? *residual : x;
  require_one_type(x, base, y);
  const bool vectors = vectorizable(x) && vectorizable(base) && vectorizable(y);
  with_pieces(x.dtype, vectors, [&]<class T, int kWidth>(Pieces<T, kWidth>) {
    const auto run = [&]<bool kResidual>(std::bool_constant<kResidual>) {
      const Dropout<T, kWidth, kResidual> work{{},
                                               mask,
                                               kernels::dropout_chance(mask.p),
                                               stream_of<const T>(x),
                                               stream_of<const T>(base),
                                               stream_of<T>(y),
                                               x.cols};
      for_items<2, kWidth>(launch, "dropout", x.rows, x.cols, work);
    };
    residual != nullptr ? run(std::true_type{}) : run(std::false_type{});
  });
}

}  // namespace weft::cuda
