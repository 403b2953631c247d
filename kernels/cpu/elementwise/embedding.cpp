// Embedding look-ups and their gradients; see elementwise.h.
#include <fmt/format.h>

#include "base/error.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/elementwise/elementwise.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {
namespace {

// Data is checked when it is read; this is the last check, since a bad index would read foreign memory.
void check_index(const char* what, std::int64_t index, std::int64_t size) {
  if (index < 0 || index >= size) {
    throw RuntimeFault(fmt::format("{} {} is outside its embedding table of {} rows", what, index, size));
  }
}

// The row of a token in its table; nothing if another shard has it.
std::optional<std::int64_t> row_of(std::int64_t token, const Matrix& table, std::optional<std::int64_t> first_token) {
  if (!first_token.has_value()) {
    check_index("token", token, table.rows);
    return token;
  }
  if (token < 0) throw RuntimeFault(fmt::format("token {} is negative", token));
  const std::int64_t row = token - *first_token;
  return row >= 0 && row < table.rows ? std::optional(row) : std::nullopt;
}

// to[n] += from[n]
template <class T>
void add_row(const T* from, std::int64_t n, float* to) {
  for_vectors(n, [&](std::int64_t i, auto lanes) { lanes.store(to + i, lanes.load(to + i) + lanes.load(from + i)); });
}

}  // namespace

void embedding_forward(Workers& workers, const Matrix& tokens, const Matrix& wte, const Matrix* wpe,
                       std::int64_t seq_len, std::int64_t offset, const Matrix& out,
                       std::optional<std::int64_t> first_token) {
  const Matrix& table = wpe != nullptr ? *wpe : wte;
  with_element_type(common_dtype(wte, table, out), [&]<class T>(std::type_identity<T>) {
    for_rows(workers, out.rows, out.cols, [&](std::int64_t row) {
      const auto held = row_of(tokens.i32()[row], wte, first_token);
      T* to = elements<T>(out, row);
      if (!held.has_value()) {
        std::fill_n(to, out.cols, T(0.0F));
        return;
      }
      const T* embedding = elements<T>(wte, *held);
      if (wpe == nullptr) {
        transform(
            out.cols, to, [](Floats v) { return v; }, embedding);
        return;
      }
      const std::int64_t place = offset + row % seq_len;
      check_index("position", place, table.rows);
      transform(
          out.cols, to, [](Floats word, Floats position) { return word + position; }, embedding,
          static_cast<const T*>(elements<T>(table, place)));
    });
  });
}

void embedding_backward(Workers& workers, const Matrix& tokens, const Matrix& dout, const Matrix& dwte, bool accumulate,
                        std::optional<std::int64_t> first_token) {
  with_element_type(dout.dtype, [&]<class T>(std::type_identity<T>) {
    // A chunk owns a range of the vocabulary and examines every token: rows are added in order, without atomics.
    const std::int64_t vocab = dwte.rows, per_chunk = std::max<std::int64_t>(16, ceil_div(vocab, 32));
    for (std::int64_t row = 0; row < dout.rows; ++row) row_of(tokens.i32()[row], dwte, first_token);
    workers.run(ceil_div(vocab, per_chunk), [&](std::int64_t chunk) {
      const std::int64_t begin = chunk * per_chunk, end = std::min(vocab, begin + per_chunk);
      if (!accumulate) {
        for (std::int64_t row = begin; row < end; ++row) std::fill_n(dwte.f32(row), dwte.cols, 0.0F);
      }
      for (std::int64_t row = 0; row < dout.rows; ++row) {
        const std::int64_t token = tokens.i32()[row] - first_token.value_or(0);
        if (token >= begin && token < end) add_row(elements<T>(dout, row), dout.cols, dwte.f32(token));
      }
    });
  });
}

void position_backward(Workers& workers, const Matrix& dout, std::int64_t seq_len, const Matrix& dwpe, bool accumulate,
                       std::int64_t first) {
  with_element_type(dout.dtype, [&]<class T>(std::type_identity<T>) {
    // A chunk owns some positions and walks over them sequence by sequence, so that it reads long runs of rows.
    constexpr std::int64_t kPlaces = 16;
    workers.run(ceil_div(dwpe.rows, kPlaces), [&](std::int64_t chunk) {
      const std::int64_t begin = chunk * kPlaces, end = std::min(dwpe.rows, begin + kPlaces);
      if (!accumulate) {
        for (std::int64_t place = begin; place < end; ++place) std::fill_n(dwpe.f32(place), dwpe.cols, 0.0F);
      }
      for (std::int64_t row = 0; row < dout.rows; row += seq_len) {
        const std::int64_t last = std::min(end, first + std::min(seq_len, dout.rows - row));
        for (std::int64_t place = std::max(begin, first); place < last; ++place) {
          add_row(elements<T>(dout, row + place - first), dout.cols, dwpe.f32(place));
        }
      }
    });
  });
}

}  // namespace weft::cpu
