// Embedding look-ups and their gradients; see elementwise.h. To compute a gradient without atomics, the rows are sorted
// by token, which keeps their order within a token. A token's rows are then a range of the sorted rows: a thread adds
// one column of a range from its first row to its last. If a token covers whole blocks of kRun sorted rows, these
// blocks are first summed in parallel.
#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <stdexcept>
#include <type_traits>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/elementwise/elementwise.h"
#include "kernels/cuda/items.cuh"

namespace weft::cuda {
namespace {

constexpr int kRun = 32;
constexpr int kColumnThreads = 256;
constexpr int kColumns = 4;  // for each thread if rows are aligned: adjacent fp32 numbers

// The row of a token in its table; -1 if another shard has it, or after reporting a fault.
__device__ std::int64_t row_of(std::int64_t token, std::int64_t table_rows, const std::int64_t* coordinate,
                               Fault* fault, bool& ok) {
  const std::int64_t row = coordinate != nullptr ? token - *coordinate * table_rows : token;
  const bool held = row >= 0 && row < table_rows;
  ok = token >= 0 && (held || coordinate != nullptr);
  if (!ok) report(fault, Fault::token_outside_table);
  return ok && held ? row : -1;
}

template <class T, int kWidth, bool kPositions>
struct Embedding : ItemWork {
  struct Item {
    std::int32_t token;
    bool ok;
    Raw<T, kWidth> word, position;
  };

  const std::int32_t* tokens;
  Stream<const T> wte, wpe;
  std::int64_t wte_rows, wpe_rows, seq_len;
  const std::int64_t *offset, *coordinate;
  Stream<T> out;
  Fault* fault;
  std::int64_t first_place = 0;

  __device__ bool begin() {
    if (kPositions && offset != nullptr) first_place = *offset;
    return true;
  }
  __device__ void find(std::int64_t row, Item& item) const { item.token = tokens[row]; }
  __device__ void load(std::int64_t row, std::int64_t column, Item& item) const {
    const std::int64_t held = row_of(item.token, wte_rows, coordinate, fault, item.ok);
    if (!item.ok) return;
    item.word = item.position = {};
    if (held < 0) return;
    if constexpr (kPositions) {
      const std::int64_t at = first_place + place_of(row, seq_len).piece;
      item.ok = at >= 0 && at < wpe_rows;
      if (!item.ok) return report(fault, Fault::position_outside_table);
      item.position = fetch<kWidth>(wpe.at(at, column));
    }
    item.word = fetch<kWidth>(wte.at(held, column));
  }
  __device__ void finish(std::int64_t row, std::int64_t column, const Item& item) const {
    if (!item.ok) return;
    float values[kWidth];
    unpack(item.word, values);
    if constexpr (kPositions) {
      float more[kWidth];
      unpack(item.position, more);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) values[i] += more[i];
    }
    store(out.at(row, column), values);
  }
};

// Scratch of embedding_backward: parts of one area, each 256-byte aligned. CUB's own, whose size only it knows, is the
// rest of the area.
struct Sorting {
  static constexpr std::int64_t kAlignment = 256;

  std::uint32_t *tokens, *sorted_tokens;  // rows of the table; the index after the last means no row
  std::int32_t *rows, *sorted_rows;
  std::int32_t* begins;  // [vocab + 1]: index of each token's first sorted row
  float* runs;           // sums of whole runs, [⌊rows/kRun⌋, cols]
  std::byte* temporary;  // CUB's
  std::int64_t bytes = 0;

  Sorting(std::int64_t count, std::int64_t cols, std::int64_t vocab, std::byte* base) {
    const auto part = [&]<class Number>(Number*& pointer, std::int64_t n) {
      pointer = base != nullptr ? reinterpret_cast<Number*>(base + bytes) : nullptr;
      bytes += (n * static_cast<std::int64_t>(sizeof(Number)) + kAlignment - 1) / kAlignment * kAlignment;
    };
    part(tokens, count);
    part(sorted_tokens, count);
    part(rows, count);
    part(sorted_rows, count);
    part(begins, vocab + 1);
    part(runs, count / kRun * cols);
    part(temporary, 0);
  }

  // Without an area: sets its size.
  void sort(void* area, std::size_t& area_bytes, std::int64_t count, std::int64_t vocab, cudaStream_t stream) const {
    const int bits = std::bit_width(static_cast<std::uint64_t>(vocab));
    check(cub::DeviceRadixSort::SortPairs(area, area_bytes, tokens, sorted_tokens, rows, sorted_rows,
                                          static_cast<int>(count), 0, bits, stream),
          "embedding_backward: sort");
  }
};

__global__ void __launch_bounds__(kElementwiseThreads)
    number_rows_kernel(const std::int32_t* tokens, std::int64_t count, std::int64_t vocab,
                       const std::int64_t* coordinate, std::uint32_t* keys, std::int32_t* rows, Fault* fault) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kElementwiseThreads + threadIdx.x;
  if (i >= count) return;
  bool ok = false;
  const std::int64_t row = row_of(tokens[i], vocab, coordinate, fault, ok);
  keys[i] = static_cast<std::uint32_t>(row >= 0 ? row : vocab);
  rows[i] = static_cast<std::int32_t>(i);
}

// begins[v] = the number of tokens below v, by bisection.
__global__ void __launch_bounds__(kElementwiseThreads)
    find_begins_kernel(const std::uint32_t* sorted, std::int64_t count, std::int64_t vocab, std::int32_t* begins) {
  const std::int64_t v = static_cast<std::int64_t>(blockIdx.x) * kElementwiseThreads + threadIdx.x;
  if (v > vocab) return;
  std::int64_t low = 0, high = count;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (static_cast<std::int64_t>(sorted[middle]) < v) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  begins[v] = static_cast<std::int32_t>(low);
}

template <int kWidth>
__device__ void add_to(float (&sums)[kWidth], const float (&more)[kWidth]) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) sums[i] += more[i];
}

// sums += from(first), ..., from(count - 1), in this order. kBatch of them are loaded concurrently; for the remainder,
// half as many, and so on.
template <int kBatch, class T, int kWidth, class From>
__device__ void add_all(std::int64_t first, std::int64_t count, const From& from, float (&sums)[kWidth]) {
#pragma unroll 1
  for (; first + kBatch <= count; first += kBatch) {
    float values[kBatch][kWidth];
#pragma unroll
    for (int u = 0; u < kBatch; ++u) load(static_cast<const T*>(from(first + u)), values[u]);
#pragma unroll
    for (int u = 0; u < kBatch; ++u) add_to(sums, values[u]);
  }
  if constexpr (kBatch > 1) add_all<kBatch / 2, T>(first, count, from, sums);
}

// sums += one column of sorted rows [begin, end), in order.
template <class T, int kWidth>
__device__ void add_rows(const Stream<const T>& dout, const std::int32_t* rows, std::int64_t begin, std::int64_t end,
                         std::int64_t col, float (&sums)[kWidth]) {
  add_all<8, T>(
      begin, end, [&](std::int64_t i) { return dout.data + rows[i] * dout.stride + col; }, sums);
}

// Block (r, c): part c of the columns of run r's sum, if the whole run belongs to one token.
template <class T, int kWidth>
__global__ void __launch_bounds__(kColumnThreads)
    add_runs_kernel(Stream<const T> dout, std::int64_t cols, std::int64_t vocab, const std::uint32_t* sorted_tokens,
                    const std::int32_t* sorted_rows, float* runs) {
  const std::int64_t run = blockIdx.x, begin = run * kRun;
  const std::uint32_t token = sorted_tokens[begin];
  if (token != sorted_tokens[begin + kRun - 1] || token >= vocab) return;
  const std::int64_t col = (static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * kWidth;
  if (col >= cols) return;
  float sums[kWidth] = {};
  add_rows<T, kWidth>(dout, sorted_rows, begin, begin + kRun, col, sums);
  store(runs + run * cols + col, sums);
}

// Block (v, c): part c of the columns of token v's gradient.
template <class T, int kWidth>
__global__ void __launch_bounds__(kColumnThreads)
    add_tokens_kernel(Stream<const T> dout, std::int64_t cols, const std::int32_t* begins,
                      const std::int32_t* sorted_rows, const float* runs, Stream<float> dwte, bool accumulate) {
  const std::int64_t token = blockIdx.x, begin = begins[token], end = begins[token + 1];
  const std::int64_t col = (static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * kWidth;
  if (col >= cols || (accumulate && begin == end)) return;
  float* const to = dwte.data + token * dwte.stride + col;
  float sums[kWidth] = {};
  if (accumulate) load(to, sums);
  const std::int64_t first_run = (begin + kRun - 1) / kRun, end_run = end / kRun;
  if (first_run < end_run) {
    add_rows<T, kWidth>(dout, sorted_rows, begin, first_run * kRun, col, sums);
    add_all<4, float>(
        first_run, end_run, [&](std::int64_t run) { return runs + run * cols + col; }, sums);
    add_rows<T, kWidth>(dout, sorted_rows, end_run * kRun, end, col, sums);
  } else {
    add_rows<T, kWidth>(dout, sorted_rows, begin, end, col, sums);
  }
  store(to, sums);
}

template <class T, int kWidth>
__global__ void __launch_bounds__(kColumnThreads)
    position_backward_kernel(Stream<const T> dout, std::int64_t rows, std::int64_t cols, std::int64_t seq_len,
                             Stream<float> dwpe, bool accumulate, const std::int64_t* first) {
  const std::int64_t place = blockIdx.x, in_sequence = place - (first != nullptr ? *first : 0);
  const bool used = in_sequence >= 0 && in_sequence < seq_len;
  const std::int64_t col = (static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * kWidth;
  if (col >= cols || (accumulate && !used)) return;
  float* to = dwpe.data + place * dwpe.stride + col;
  float sums[kWidth] = {};
  if (accumulate) load(to, sums);
  if (used) {
    const std::int64_t sequences = (rows - in_sequence + seq_len - 1) / seq_len;
    const T* const from = dout.data + in_sequence * dout.stride + col;
    add_all<8, T>(
        0, sequences, [&](std::int64_t i) { return from + i * seq_len * dout.stride; }, sums);
  }
  store(to, sums);
}

// Blocks of columns for `rows` rows of `pieces` pieces each, in equal parts.
struct ColumnGrid {
  dim3 blocks;
  unsigned threads;

  ColumnGrid(std::int64_t rows, std::int64_t pieces) {
    const unsigned parts = blocks_for(pieces, kColumnThreads);
    threads = blocks_for(blocks_for(pieces, parts), kWarp) * kWarp;
    blocks = dim3(static_cast<unsigned>(rows), blocks_for(pieces, threads));
  }
};

// Calls body(integral_constant of a thread's number of columns).
template <class Body>
void with_columns(bool wide, const Body& body) {
  if (wide) {
    body(std::integral_constant<int, kColumns>{});
  } else {
    body(std::integral_constant<int, 1>{});
  }
}

}  // namespace

void embedding_forward(const Launch& launch, const Matrix& tokens, const Matrix& wte, const Matrix* wpe,
                       std::int64_t seq_len, const std::int64_t* offset, const Matrix& out,
                       const std::int64_t* coordinate) {
  const Matrix& table = wpe != nullptr ? *wpe : wte;
  require_one_type(wte, table, out);
  const bool vectors = vectorizable(wte) && vectorizable(table) && vectorizable(out);
  with_pieces(wte.dtype, vectors, [&]<class T, int kWidth>(Pieces<T, kWidth>) {
    const auto run = [&]<bool kPositions>(std::bool_constant<kPositions>) {
      const Embedding<T, kWidth, kPositions> work{{},
                                                  tokens.i32(),
                                                  stream_of<const T>(wte),
                                                  stream_of<const T>(table),
                                                  wte.rows,
                                                  table.rows,
                                                  seq_len,
                                                  offset,
                                                  coordinate,
                                                  stream_of<T>(out),
                                                  launch.fault};
      for_items<4, kWidth>(launch, "embedding_forward", out.rows, out.cols, work);
    };
    wpe != nullptr ? run(std::true_type{}) : run(std::false_type{});
  });
}

void embedding_backward(const Launch& launch, const Matrix& tokens, const Matrix& dout, const Matrix& dwte,
                        bool accumulate, const std::int64_t* coordinate) {
  const std::int64_t count = dout.rows, cols = dwte.cols, vocab = dwte.rows;
  if (vocab == 0 || cols == 0) return;
  const Sorting sorting(count, cols, vocab, launch.scratch);
  if (count > 0) {
    start("embedding_backward: rows", launch, number_rows_kernel, blocks_for(count, kElementwiseThreads),
          kElementwiseThreads, 0, tokens.i32(), count, vocab, coordinate, sorting.tokens, sorting.rows, launch.fault);
    auto temporary_bytes = static_cast<std::size_t>(launch.scratch_bytes - sorting.bytes);
    if (launch.part != LaunchPart::attributes) {
      sorting.sort(sorting.temporary, temporary_bytes, count, vocab, launch.stream);
    }
  }
  start("embedding_backward: begins", launch, find_begins_kernel, blocks_for(vocab + 1, kElementwiseThreads),
        kElementwiseThreads, 0, sorting.sorted_tokens, count, vocab, sorting.begins);
  with_float_type(dout.dtype, [&]<class T>(T*) {
    with_columns(vectorizable(dout) && vectorizable(dwte), [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      if (count >= kRun) {
        const ColumnGrid grid(count / kRun, cols / kWidth);
        start("embedding_backward: runs", launch, add_runs_kernel<T, kWidth>, grid.blocks, grid.threads, 0,
              stream_of<const T>(dout), cols, vocab, sorting.sorted_tokens, sorting.sorted_rows, sorting.runs);
      }
      const ColumnGrid grid(vocab, cols / kWidth);
      start("embedding_backward: tokens", launch, add_tokens_kernel<T, kWidth>, grid.blocks, grid.threads, 0,
            stream_of<const T>(dout), cols, sorting.begins, sorting.sorted_rows, sorting.runs, stream_of<float>(dwte),
            accumulate);
    });
  });
}

std::int64_t embedding_backward_scratch_bytes(std::int64_t rows, std::int64_t cols, std::int64_t vocab) {
  const Sorting sorting(rows, cols, vocab, nullptr);
  std::size_t temporary_bytes = 0;
  sorting.sort(nullptr, temporary_bytes, rows, vocab, nullptr);
  return sorting.bytes + static_cast<std::int64_t>(temporary_bytes);
}

void position_backward(const Launch& launch, const Matrix& dout, std::int64_t seq_len, const Matrix& dwpe,
                       bool accumulate, const std::int64_t* first) {
  if (dwpe.rows == 0 || dwpe.cols == 0) return;
  with_float_type(dout.dtype, [&]<class T>(T*) {
    with_columns(vectorizable(dout) && vectorizable(dwpe), [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      const ColumnGrid grid(dwpe.rows, dwpe.cols / kWidth);
      start("position_backward", launch, position_backward_kernel<T, kWidth>, grid.blocks, grid.threads, 0,
            stream_of<const T>(dout), dout.rows, dwpe.cols, seq_len, stream_of<float>(dwpe), accumulate, first);
    });
  });
}

}  // namespace weft::cuda
