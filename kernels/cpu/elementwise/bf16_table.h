// Functions of one bf16 by table lookup. bf16 has 65536 values, of which data use some thousands, so the entries in use
// are in the first-level cache. For kernels bound by arithmetic: with eight lanes, bf16 needs half the bytes of fp32
// but as many operations.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {

/// With sixteen lanes, the formulas take about as few instructions an element as a lookup.
inline constexpr bool kTables = kLanes == 8;

/// f of every bf16, computed at the first call with the bits of the vector formula. Call it inside chunks, where
/// denormals are flushed in the same way as when f is computed.
template <Floats (*f)(Floats)>
const float* bf16_table() {
  struct Table {
    alignas(64) std::array<float, 65536> values;
    Table() {
      for (std::uint32_t first = 0; first < values.size(); first += kLanes) {
        const Words bits = lanes_cast<Words>(lane_numbers()) + first;
        store(values.data() + first, f(lanes_cast<Floats>(bits << 16)));
      }
    }
  };
  static const Table table;
  return table.values.data();
}

template <int kStep>
[[gnu::always_inline]] inline Floats look_up(const float* table, const bf16* x) {
  const auto of = [&](int lane) { return table[x[lane * kStep].bits]; };
  return Floats{of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7)};
}
/// In the order of load_pair.
[[gnu::always_inline]] inline Pair look_up_pair(const float* table, const bf16* x) {
  return {look_up<2>(table, x), look_up<2>(table, x + 1)};
}
[[gnu::always_inline]] inline Pair look_up_pair(const float* table, const Fetching<bf16>& x) {
  fetch_line(x.ahead);
  return look_up_pair(table, x.now);
}

template <class T>
const T* without_fetching(const T* x) {
  return x;
}
template <class T>
const T* without_fetching(const Fetching<T>& x) {
  return x.now;
}

/// f of the elements of `in`, a pointer or a Fetching, as an input of transform() and similar functions; see mapped().
template <Floats (*f)(Floats), class In>
class Mapped {
 public:
  explicit Mapped(const In& in) : in_(in) {
    if constexpr (kLookUp) table_ = bf16_table<f>();
  }
  Mapped operator+(std::int64_t i) const {
    Mapped later = *this;
    later.in_ = in_ + i;
    return later;
  }

  [[gnu::always_inline]] friend inline Pair load_pair(const Mapped& mapped) {
    if constexpr (kLookUp) {
      return look_up_pair(mapped.table_, mapped.in_);
    } else {
      const Pair pair = load_pair(without_fetching(mapped.in_));
      return {f(pair.first), f(pair.second)};
    }
  }
  friend inline Floats load(const Mapped& mapped) { return f(load(mapped.in_)); }
  friend inline Floats load_partial(const Mapped& mapped, std::int64_t count) {
    return f(load_partial(mapped.in_, count));
  }

 private:
  static constexpr bool kLookUp = kTables && (std::is_same_v<In, const bf16*> || std::is_same_v<In, Fetching<bf16>>);

  In in_;
  const float* table_ = nullptr;
};

/// f of each element, by lookup if that is faster. Only a lookup makes Fetching fetch, since it leaves the CPU less
/// time to predict reads.
///
///   transform(n, dx, [](Floats slope, Floats d) { return d * slope; }, mapped<gelu_derivative>(x), dy);
template <Floats (*f)(Floats), class T>
Mapped<f, const T*> mapped(const T* in) {
  return Mapped<f, const T*>(in);
}
template <Floats (*f)(Floats), class T>
Mapped<f, Fetching<T>> mapped(const Fetching<T>& in) {
  return Mapped<f, Fetching<T>>(in);
}

}  // namespace weft::cpu
