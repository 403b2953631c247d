// Routing, and rows by expert; see experts.h.
#include "kernels/cpu/experts/experts.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/routing.h"

namespace weft::cpu {
namespace {

std::int32_t* integers(const Matrix& matrix, std::int64_t row) {
  return matrix.i32() + row * matrix.row_stride;
}

// The parts of a row's chosen experts in the sum of all exponentials, or of their own alone.
struct Shares {
  float most, total;

  Shares(const float* logits, std::int64_t experts, const std::int32_t* chosen, std::int64_t choices, bool normalise)
      : most(max_of(logits, experts)), total(0.0F) {
    if (!normalise) {
      total = sum_of(
          experts, [this](Floats logit) { return exponential(logit); }, logits);
      return;
    }
    for (std::int64_t j = 0; j < choices; ++j) total += exponential(broadcast(logits[chosen[j]]))[0];
  }

  Floats exponential(Floats logit) const { return softmax_exp(logit - most); }
  float of(float logit) const { return exponential(broadcast(logit))[0] / total; }
};

}  // namespace

void route(Workers& workers, RouteKind kind, const Matrix& logits, const Matrix& chosen, const Matrix& weights) {
  const std::int64_t experts = logits.cols, choices = chosen.cols;
  for_rows(workers, logits.rows, experts, [&](std::int64_t row) {
    const float* const from = logits.f32(row);
    std::int32_t* const to = integers(chosen, row);
    if (!kind.given) kernels::choose(from, experts, to, choices);
    const Shares shares(from, experts, to, choices, kind.normalise);
    for (std::int64_t j = 0; j < choices; ++j) weights.f32(row)[j] = shares.of(from[to[j]]);
  });
}

void route_backward(Workers& workers, bool normalise, const Matrix& logits, const Matrix& chosen,
                    const Matrix& dweights, const Matrix& dlogits) {
  const std::int64_t experts = logits.cols, choices = chosen.cols;
  with_element_type(dlogits.dtype, [&]<class T>(std::type_identity<T>) {
    for_rows(workers, logits.rows, experts, [&](std::int64_t row) {
      const float* const from = logits.f32(row);
      const float* const d = dweights.f32(row);
      const std::int32_t* const of_row = integers(chosen, row);
      T* const to = elements<T>(dlogits, row);
      const Shares shares(from, experts, of_row, choices, normalise);
      float mean = 0.0F;
      for (std::int64_t j = 0; j < choices; ++j) mean += shares.of(from[of_row[j]]) * d[j];
      if (normalise) {
        std::fill_n(to, experts, T(0.0F));
      } else {
        const float factor = -mean / shares.total;
        for_vectors(experts, [&](std::int64_t i, auto lanes) {
          lanes.store(to + i, shares.exponential(lanes.load(from + i)) * factor);
        });
      }
      for (std::int64_t j = 0; j < choices; ++j) to[of_row[j]] = T(shares.of(from[of_row[j]]) * (d[j] - mean));
    });
  });
}

void sort_by_expert(Workers& workers, const Matrix& chosen, const Matrix& slots, const Matrix& sources,
                    const Matrix& offsets) {
  workers.run(1, [&](std::int64_t) {
    std::int32_t* const end = offsets.i32();
    std::fill_n(end, offsets.cols, 0);
    for (std::int64_t row = 0; row < chosen.rows; ++row) {
      const std::int32_t* const experts = integers(chosen, row);
      for (std::int64_t j = 0; j < chosen.cols; ++j) ++end[experts[j] + 1];
    }
    for (std::int64_t e = 1; e < offsets.cols; ++e) end[e] += end[e - 1];
    // An expert's offset moves on as its rows are placed, to where the next expert's rows begin.
    for (std::int64_t row = 0; row < chosen.rows; ++row) {
      const std::int32_t* const experts = integers(chosen, row);
      std::int32_t* const places = integers(slots, row);
      for (std::int64_t j = 0; j < chosen.cols; ++j) {
        places[j] = end[experts[j]]++;
        sources.i32()[places[j]] = static_cast<std::int32_t>(row);
      }
    }
    for (std::int64_t e = offsets.cols - 1; e > 0; --e) end[e] = end[e - 1];
    end[0] = 0;
  });
}

void offsets_of_rank(Workers& workers, const Matrix& table, std::int64_t place, const Matrix& offsets) {
  workers.run(1, [&](std::int64_t) {
    const std::int64_t experts = offsets.cols - 1;
    std::int32_t* const begin = offsets.i32();
    begin[0] = 0;
    for (std::int64_t e = 0; e < experts; ++e) {
      begin[e + 1] = begin[e];
      for (std::int64_t rank = 0; rank < table.rows; ++rank) {
        const std::int32_t* const given = integers(table, rank) + place * experts + e;
        begin[e + 1] += given[1] - given[0];
      }
    }
  });
}

void count_choices(Workers& workers, const Matrix& logits, const Matrix& chosen, const Matrix& offsets,
                   const ChoiceCounts& told) {
  const std::int64_t experts = logits.cols, per_chunk = std::max<std::int64_t>(1, kChunkElements / experts);
  std::mutex mutex;
  kernels::Nearness all;  // a minimum and a sum of integers, which no order of chunks changes
  workers.run(ceil_div(logits.rows, per_chunk), [&](std::int64_t chunk) {
    kernels::Nearness of_chunk;
    for (std::int64_t row = chunk * per_chunk; row < std::min(logits.rows, (chunk + 1) * per_chunk); ++row) {
      of_chunk.take(kernels::nearness_of(logits.f32(row), experts, integers(chosen, row), chosen.cols));
    }
    const std::lock_guard lock(mutex);
    all.take(of_chunk);
  });
  for (std::int64_t e = 0; e < experts; ++e) told.counts.i32()[e] = offsets.i32()[e + 1] - offsets.i32()[e];
  *told.margin.f32() = all.margin;
  *told.flips.i32() = all.flips;
}

void gather_rows(Workers& workers, const Matrix& x, const Matrix& sources, const Matrix& out) {
  const auto bytes = static_cast<std::int64_t>(size_of(common_dtype(x, out)));
  const auto* const from = static_cast<const std::byte*>(x.data);
  auto* const to = static_cast<std::byte*>(out.data);
  for_rows(workers, out.rows, out.cols, [&](std::int64_t row) {
    std::memcpy(to + row * out.row_stride * bytes, from + sources.i32()[row] * x.row_stride * bytes,
                static_cast<std::size_t>(out.cols * bytes));
  });
}

void combine_rows(Workers& workers, const Matrix& y, const Matrix& slots, const Matrix* weights, const Matrix& out) {
  with_element_type(common_dtype(y, out), [&]<class T>(std::type_identity<T>) {
    for_rows(workers, out.rows, out.cols * slots.cols, [&](std::int64_t row) {
      const std::int32_t* const from = integers(slots, row);
      const float* const factors = weights != nullptr ? weights->f32(row) : nullptr;
      T* const to = elements<T>(out, row);
      for_vectors(out.cols, [&](std::int64_t i, auto lanes) {
        Floats sum{};
        for (std::int64_t j = 0; j < slots.cols; ++j) {
          const Floats values = lanes.load(elements<T>(y, from[j]) + i);
          sum += factors != nullptr ? factors[j] * values : values;
        }
        lanes.store(to + i, sum);
      });
    });
  });
}

void combine_rows_backward(Workers& workers, const CombinedRows& forward, const Matrix& dout, const Matrix& dy,
                           const Matrix& dweights) {
  const std::int64_t choices = forward.slots.cols, cols = dout.cols;
  with_element_type(common_dtype(forward.y, dout, dy), [&]<class T>(std::type_identity<T>) {
    for_rows(workers, dout.rows, cols * choices, [&](std::int64_t row) {
      const T* const d = elements<T>(dout, row);
      const std::int32_t* const slots = integers(forward.slots, row);
      for (std::int64_t j = 0; j < choices; ++j) {
        const float weight = forward.weights.f32(row)[j];
        const T* const y = elements<T>(forward.y, slots[j]);
        transform(
            cols, elements<T>(dy, slots[j]), [=](Floats value) { return weight * value; }, d);
        dweights.f32(row)[j] = sum_of(
            cols, [](Floats a, Floats b) { return a * b; }, d, y);
      }
    });
  });
}

}  // namespace weft::cpu
