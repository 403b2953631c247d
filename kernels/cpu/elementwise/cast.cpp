// Conversion between float dtypes; see cast.h.
#include "kernels/cpu/elementwise/cast.h"

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {

void cast(Workers& workers, const Matrix& x, const Matrix& out) {
  const auto views = common_shape(x, out);
  const auto from_type = [&]<class From>(std::type_identity<From>) {
    const auto to_type = [&]<class To>(std::type_identity<To>) {
      for_pieces(workers, views[0].rows, views[0].cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
        const From* from = elements<From>(views[0], row) + begin;
        To* to = elements<To>(views[1], row) + begin;
        for_vectors(n, [&](std::int64_t i, auto lanes) { lanes.store(to + i, lanes.load(from + i)); });
      });
    };
    with_element_type(to_type, out);
  };
  with_element_type(from_type, x);
}

}  // namespace weft::cpu
