// Row ranges and transpositions. Tensors are read row by row, or in tiles where the file holds columns. Pages that have
// been read are given back, so that a rank needs memory for its own arrays alone.
#include "train/checkpoint/parameter_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <queue>
#include <stdexcept>

#include "base/error.h"

namespace weft::train {
namespace {

/// to[c][r] = from[r][c], in tiles that stay in cache.
template <class Element>
void transpose(const Element* from, std::size_t rows, std::size_t cols, Element* to) {
  constexpr std::size_t kTile = 32;
  for (std::size_t r0 = 0; r0 < rows; r0 += kTile) {
    for (std::size_t c0 = 0; c0 < cols; c0 += kTile) {
      for (std::size_t r = r0; r < std::min(rows, r0 + kTile); ++r) {
        for (std::size_t c = c0; c < std::min(cols, c0 + kTile); ++c) to[c * rows + r] = from[r * cols + c];
      }
    }
  }
}

template <class Element>
std::span<const std::byte> pack_elements(const ops::ParameterSpec& spec, const ops::StoredTensor& piece,
                                         const void* data, std::vector<std::byte>& scratch) {
  const auto rows = static_cast<std::size_t>(piece.rows);
  const auto cols = spec.matrix ? static_cast<std::size_t>(spec.cols) : std::size_t{1};
  const Element* first = static_cast<const Element*>(data) + static_cast<std::size_t>(piece.row_begin) * cols;
  if (!piece.transposed) return std::as_bytes(std::span(first, rows * cols));
  scratch.resize(rows * cols * sizeof(Element));  // aligned as operator new aligns
  transpose(first, rows, cols, reinterpret_cast<Element*>(scratch.data()));
  return scratch;
}

void clear(const ops::ParameterShard& shard, const BlockRange& range, DType dtype, void* array) {
  if (array == nullptr) return;
  for (const ops::ElementRun& run : shard.runs_within(range.begin, range.end)) {
    if (run.global >= 0) continue;
    const auto size = static_cast<std::int64_t>(size_of(dtype));
    std::memset(static_cast<std::byte*>(array) + run.local * size, 0, static_cast<std::size_t>(run.count * size));
  }
}

struct Rectangle {
  std::int64_t row_begin, row_end, col_begin, col_end;
};

/// The first row of a range may lack its left part, the last one its right part.
void add_rectangles(const Region& region, std::vector<Rectangle>& rectangles) {
  if (region.elements() <= 0) return;
  const std::int64_t width = region.width();
  const std::int64_t first = region.row_begin + region.range_begin / width;
  const std::int64_t last = region.row_begin + (region.range_end - 1) / width;
  const auto add = [&](std::int64_t row_begin, std::int64_t row_end) {
    const auto [col_begin, col_end] = region.columns_of(row_begin);
    rectangles.push_back({row_begin, row_end, col_begin, col_end});
  };
  add(first, first + 1);
  if (last > first + 1) add(first + 1, last);
  if (last > first) add(last, last + 1);
}

const ops::StoredTensor& stored_at(const ops::ParameterSpec& spec, std::int64_t row) {
  for (const ops::StoredTensor& stored : spec.stored) {
    if (row >= stored.row_begin && row < stored.row_begin + stored.rows) return stored;
  }
  throw std::logic_error(spec.name + ": a row that no tensor stores");
}

/// Adds `count` elements from column `block_col` of a row of the block on, which are at (row, col) of the parameter.
void add_to_row(const ops::ParameterShard& shard, std::int64_t row, std::int64_t col, std::int64_t block_col,
                std::int64_t count, std::int64_t local, std::vector<ParameterPiece>& pieces) {
  const ops::StoredTensor& stored = stored_at(*shard.spec, row);
  const std::int64_t r = row - stored.row_begin, col_begin = col - block_col;
  if (!pieces.empty() && block_col == 0) {
    ParameterPiece& last = pieces.back();
    Region& region = last.region;
    const bool complete = region.range_end == (region.row_end - region.row_begin) * region.width();
    if (last.stored == &stored && region.row_end == r && complete && last.local + region.elements() == local) {
      ++region.row_end;
      region.range_end += count;
      return;
    }
  }
  pieces.push_back({&stored, {r, r + 1, col_begin, col_begin + shard.cols, block_col, block_col + count}, local});
}

/// Adds the elements of a vector, which several tensors may store.
void add_elements(const ops::ParameterSpec& spec, const ops::ElementRun& run, std::vector<ParameterPiece>& pieces) {
  for (const ops::StoredTensor& stored : spec.stored) {
    const std::int64_t first = std::max(run.global, stored.row_begin);
    const std::int64_t last = std::min(run.global + run.count, stored.row_begin + stored.rows);
    if (first >= last) continue;
    const std::int64_t begin = first - stored.row_begin, end = last - stored.row_begin;
    pieces.push_back({&stored, {0, 1, begin, end, 0, end - begin}, run.local + first - run.global});
  }
}

struct Rows {
  std::int64_t begin, end;
};

Rows common_rows(const Region& a, const Region& b) {
  return {std::max(a.row_begin, b.row_begin), std::min(a.row_end, b.row_end)};
}

/// Elements [first, first + count) of the tensor.
template <class Element>
void copy_run(const TensorSource& source, std::int64_t first, std::int64_t count, Element* to) {
  if constexpr (std::is_same_v<Element, float>) {
    source.read(static_cast<std::uint64_t>(first), {to, static_cast<std::size_t>(count)});
  } else {
    std::array<float, 1024> values;
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t part = std::min<std::int64_t>(count - done, std::ssize(values));
      const std::span<float> chunk(values.data(), static_cast<std::size_t>(part));
      source.read(static_cast<std::uint64_t>(first + done), chunk);
      std::ranges::transform(chunk, to + done, [](float value) { return static_cast<Element>(value); });
      done += part;
    }
  }
}

template <class Element>
void copy_rows(const TensorSource& source, const ParameterPiece& piece, Element* array) {
  const Rows rows = common_rows(source.region, piece.region);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const auto [have_first, have_last] = source.region.columns_of(row);
    const auto [want_first, want_last] = piece.region.columns_of(row);
    const std::int64_t first = std::max(have_first, want_first), last = std::min(have_last, want_last);
    if (first >= last) continue;
    copy_run(source, source.region.index(row, first), last - first,
             array + piece.local + piece.region.index(row, first));
  }
}

template <class Element>
void copy_columns(const TensorSource& source, const ParameterPiece& piece, Element* array) {
  const Rows rows = common_rows(source.region, piece.region);
  const std::int64_t height = source.region.row_end - source.region.row_begin;
  const std::int64_t col_begin = std::max(source.region.col_begin, piece.region.col_begin);
  const std::int64_t col_end = std::min(source.region.col_end, piece.region.col_end);
  constexpr std::int64_t kTile = 64;
  const std::int64_t count = std::max<std::int64_t>(0, rows.end - rows.begin);
  std::vector<float> columns(static_cast<std::size_t>(std::clamp<std::int64_t>(col_end - col_begin, 0, kTile) *
                                                      count));  // one after the other, as the file has them
  for (std::int64_t c0 = col_begin; c0 < col_end; c0 += kTile) {
    const std::int64_t c1 = std::min(col_end, c0 + kTile);
    for (std::int64_t c = c0; c < c1; ++c) {
      const std::int64_t first = (c - source.region.col_begin) * height + rows.begin - source.region.row_begin;
      source.read(static_cast<std::uint64_t>(first),
                  {columns.data() + (c - c0) * count, static_cast<std::size_t>(count)});
    }
    for (std::int64_t r0 = rows.begin; r0 < rows.end; r0 += kTile) {
      const std::int64_t r1 = std::min(rows.end, r0 + kTile);
      for (std::int64_t r = r0; r < r1; ++r) {
        const auto [want_first, want_last] = piece.region.columns_of(r);
        for (std::int64_t c = std::max(c0, want_first); c < std::min(c1, want_last); ++c) {
          array[piece.local + piece.region.index(r, c)] =
              static_cast<Element>(columns[static_cast<std::size_t>((c - c0) * count + r - rows.begin)]);
        }
      }
    }
  }
}

template <class Element>
void copy_elements(const TensorSource& source, const ParameterPiece& piece, Element* array) {
  source.transposed ? copy_columns(source, piece, array) : copy_rows(source, piece, array);
}

}  // namespace

BlockRange ParameterState::kept() const {
  return shard == nullptr ? BlockRange{0, spec->rows * spec->cols} : BlockRange{shard->begin, shard->end};
}

BlockRange ParameterState::updated() const {
  return shard == nullptr ? kept() : BlockRange{shard->update_begin, shard->update_end};
}

std::vector<ParameterPiece> ParameterState::pieces(const BlockRange& range) const {
  return shard == nullptr ? pieces_of(*spec) : pieces_of(*shard, range.begin, range.end);
}

void clear_padding(const ParameterState& parameter) {
  if (parameter.shard == nullptr) return;
  clear(*parameter.shard, parameter.kept(), parameter.dtype, parameter.data);
  for (float* array : {parameter.m, parameter.v, parameter.master}) {
    clear(*parameter.shard, parameter.updated(), DType::f32, array);
  }
}

std::vector<std::uint64_t> stored_shape(const ops::ParameterSpec& spec, const ops::StoredTensor& piece) {
  const auto rows = static_cast<std::uint64_t>(piece.rows), cols = static_cast<std::uint64_t>(spec.cols);
  if (!spec.matrix) return {rows};
  return piece.transposed ? std::vector{cols, rows} : std::vector{rows, cols};
}

std::span<const std::byte> pack(const ops::ParameterSpec& spec, const ops::StoredTensor& piece, DType dtype,
                                const void* data, std::vector<std::byte>& scratch) {
  if (dtype == DType::f32) return pack_elements<float>(spec, piece, data, scratch);
  if (dtype == DType::bf16) return pack_elements<bf16>(spec, piece, data, scratch);
  throw std::invalid_argument("pack: parameters are f32 or bf16");
}

std::pair<std::int64_t, std::int64_t> Region::columns_of(std::int64_t row) const {
  if (row < row_begin || row >= row_end) return {0, 0};
  const std::int64_t row_start = (row - row_begin) * width();
  return {col_begin + std::clamp<std::int64_t>(range_begin - row_start, 0, width()),
          col_begin + std::clamp<std::int64_t>(range_end - row_start, 0, width())};
}

Region whole_region(std::int64_t rows, std::int64_t cols) {
  return {0, rows, 0, cols, 0, rows * cols};
}

Region whole_region(const ops::ParameterSpec& spec, const ops::StoredTensor& stored) {
  return spec.matrix ? whole_region(stored.rows, spec.cols) : whole_region(1, stored.rows);
}

std::string cover_fault(std::int64_t rows, std::int64_t cols, std::span<const Region> regions) {
  std::vector<Rectangle> rectangles;
  for (const Region& region : regions) add_rectangles(region, rectangles);
  std::sort(rectangles.begin(), rectangles.end(), [](const Rectangle& a, const Rectangle& b) {
    return a.row_begin != b.row_begin ? a.row_begin < b.row_begin : a.col_begin < b.col_begin;
  });
  // From the first row down: the rectangles that cross the row, by column. Those before it have ended.
  std::map<std::int64_t, const Rectangle*> open;
  using End = std::pair<std::int64_t, std::int64_t>;  // row_end, col_begin
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  std::int64_t covered = 0;
  for (const Rectangle& rectangle : rectangles) {
    for (; !ends.empty() && ends.top().first <= rectangle.row_begin; ends.pop()) open.erase(ends.top().second);
    const auto next = open.lower_bound(rectangle.col_begin);
    const bool crosses_next = next != open.end() && next->first < rectangle.col_end;
    const bool crosses_last = next != open.begin() && std::prev(next)->second->col_end > rectangle.col_begin;
    if (crosses_next || crosses_last) {
      return fmt::format("overlap at [{}, {}]", rectangle.row_begin, crosses_last ? rectangle.col_begin : next->first);
    }
    open.emplace_hint(next, rectangle.col_begin, &rectangle);
    ends.emplace(rectangle.row_end, rectangle.col_begin);
    covered += (rectangle.row_end - rectangle.row_begin) * (rectangle.col_end - rectangle.col_begin);
  }
  if (covered == rows * cols) return "";
  return fmt::format("miss {} of its {} elements", rows * cols - covered, rows * cols);
}

std::vector<ParameterPiece> pieces_of(const ops::ParameterShard& shard, std::int64_t from, std::int64_t to) {
  const ops::ParameterSpec& spec = *shard.spec;
  std::vector<ParameterPiece> pieces;
  for (const ops::ElementRun& run : shard.runs_within(from, to)) {
    if (run.global < 0) continue;
    if (!spec.matrix) {
      add_elements(spec, run, pieces);
      continue;
    }
    for (std::int64_t done = 0; done < run.count;) {
      const std::int64_t block_col = (from + run.local + done) % shard.cols;
      const std::int64_t count = std::min(run.count - done, shard.cols - block_col);
      add_to_row(shard, (run.global + done) / spec.cols, (run.global + done) % spec.cols, block_col, count,
                 run.local + done, pieces);
      done += count;
    }
  }
  return pieces;
}

std::vector<ParameterPiece> pieces_of(const ops::ParameterSpec& spec) {
  std::vector<ParameterPiece> pieces;
  for (const ops::StoredTensor& stored : spec.stored) {
    pieces.push_back({&stored, whole_region(spec, stored), stored.row_begin * (spec.matrix ? spec.cols : 1)});
  }
  return pieces;
}

ElementReader elements_of(const SafetensorsFile& file, const StoredTensorInfo& tensor) {
  return [&file, &tensor](std::uint64_t first, std::span<float> out) { file.read(tensor, first, out); };
}

void expect_shape(const SafetensorsFile& file, const StoredTensorInfo& tensor,
                  const std::vector<std::uint64_t>& shape) {
  if (tensor.shape == shape) return;
  throw UserError(
      fmt::format("{}: tensor '{}' has shape {}", in_quotes(file.path()), tensor.name, shape_text(tensor.shape)),
      fmt::format("{} for this model", shape_text(shape)), "give the model sizes of the file");
}

TensorSource whole_source(const SafetensorsFile& file, const StoredTensorInfo& tensor, const ops::ParameterSpec& spec,
                          const ops::StoredTensor& piece) {
  expect_shape(file, tensor, stored_shape(spec, piece));
  return {elements_of(file, tensor), whole_region(spec, piece), piece.transposed};
}

void copy(const TensorSource& source, const ParameterPiece& piece, DType dtype, void* array) {
  if (source.transposed && !source.region.whole_block()) throw std::logic_error("a range of columns");
  if (dtype == DType::f32) return copy_elements(source, piece, static_cast<float*>(array));
  if (dtype == DType::bf16) return copy_elements(source, piece, static_cast<bf16*>(array));
  throw std::invalid_argument("parameters are f32 or bf16");
}

void copy(const TensorSource& source, const ops::StoredTensor& stored, std::span<const ParameterPiece> pieces,
          DType dtype, void* array) {
  for (const ParameterPiece& piece : pieces) {
    if (piece.stored == &stored) copy(source, piece, dtype, array);
  }
}

}  // namespace weft::train
