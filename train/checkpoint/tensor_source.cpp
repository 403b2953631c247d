// Row by row, or in tiles where the file holds columns. Pages that have been read are given back, so that a rank needs
// memory for its own arrays alone.
#include "train/checkpoint/tensor_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>

#include "base/error.h"
#include "train/checkpoint/parameter_state.h"

namespace weft::train {
namespace {

constexpr std::int64_t kTile = 64;

struct Rows {
  std::int64_t begin, end;
};

Rows common_rows(const Region& a, const Region& b) {
  return {std::max(a.row_begin, b.row_begin), std::min(a.row_end, b.row_end)};
}

template <class Element>
void convert(std::span<const float> values, Element* to) {
  std::transform(values.begin(), values.end(), to, [](float value) { return static_cast<Element>(value); });
}

/// Elements [first, first + count) of the tensor.
template <class Element>
void copy_run(const TensorSource& source, std::int64_t first, std::int64_t count, Element* to) {
  if constexpr (std::is_same_v<Element, float>) {
    source.file->read(*source.tensor, static_cast<std::uint64_t>(first), {to, static_cast<std::size_t>(count)});
  } else {
    std::array<float, 1024> values;
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t part = std::min<std::int64_t>(count - done, std::ssize(values));
      const std::span<float> chunk(values.data(), static_cast<std::size_t>(part));
      source.file->read(*source.tensor, static_cast<std::uint64_t>(first + done), chunk);
      convert(chunk, to + done);
      done += part;
    }
  }
}

/// Releases a file's elements when enough of them have been read, from the first to the last.
class ReadBehind {
 public:
  ReadBehind(const TensorSource& source, std::int64_t first) : source_(source), kept_from_(first) {}
  ~ReadBehind() { release(); }
  ReadBehind(const ReadBehind&) = delete;
  ReadBehind& operator=(const ReadBehind&) = delete;

  /// All elements before `end` have been read.
  void read_to(std::int64_t end) {
    constexpr std::int64_t kKept = std::int64_t{16} << 20;  // elements: at most 128 MiB
    end_ = end;
    if (end_ - kept_from_ >= kKept) release();
  }

 private:
  void release() {
    if (end_ <= kept_from_) return;
    source_.file->release(*source_.tensor, static_cast<std::uint64_t>(kept_from_),
                          static_cast<std::uint64_t>(end_ - kept_from_));
    kept_from_ = end_;
  }

  const TensorSource& source_;
  std::int64_t kept_from_, end_ = 0;
};

template <class Element>
void copy_rows(const TensorSource& source, const ParameterPiece& piece, Element* array) {
  const Rows rows = common_rows(source.region, piece.region);
  std::optional<ReadBehind> behind;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const auto [have_first, have_last] = source.region.columns_of(row);
    const auto [want_first, want_last] = piece.region.columns_of(row);
    const std::int64_t first = std::max(have_first, want_first), last = std::min(have_last, want_last);
    if (first >= last) continue;
    const std::int64_t from = source.region.index(row, first);
    copy_run(source, from, last - first, array + piece.local + piece.region.index(row, first));
    if (!behind) behind.emplace(source, from);
    behind->read_to(from + last - first);
  }
}

template <class Element>
void copy_columns(const TensorSource& source, const ParameterPiece& piece, Element* array) {
  const Rows rows = common_rows(source.region, piece.region);
  const std::int64_t height = source.region.row_end - source.region.row_begin;
  const std::int64_t col_begin = std::max(source.region.col_begin, piece.region.col_begin);
  const std::int64_t col_end = std::min(source.region.col_end, piece.region.col_end);
  std::array<float, kTile * kTile> tile;
  ReadBehind behind(source, (col_begin - source.region.col_begin) * height);
  // The file's columns are the outer loop, so that each of them is read once.
  for (std::int64_t c0 = col_begin; c0 < col_end; c0 += kTile) {
    const std::int64_t c1 = std::min(col_end, c0 + kTile);
    for (std::int64_t r0 = rows.begin; r0 < rows.end; r0 += kTile) {
      const std::int64_t r1 = std::min(rows.end, r0 + kTile);
      for (std::int64_t c = c0; c < c1; ++c) {
        const std::int64_t first = (c - source.region.col_begin) * height + r0 - source.region.row_begin;
        source.file->read(*source.tensor, static_cast<std::uint64_t>(first),
                          {tile.data() + (c - c0) * kTile, static_cast<std::size_t>(r1 - r0)});
      }
      for (std::int64_t r = r0; r < r1; ++r) {
        const auto [want_first, want_last] = piece.region.columns_of(r);
        for (std::int64_t c = std::max(c0, want_first); c < std::min(c1, want_last); ++c) {
          array[piece.local + piece.region.index(r, c)] =
              static_cast<Element>(tile.at(static_cast<std::size_t>((c - c0) * kTile + r - r0)));
        }
      }
    }
    behind.read_to((c1 - source.region.col_begin) * height);
  }
}

template <class Element>
void copy_elements(const TensorSource& source, const ParameterPiece& piece, Element* array) {
  source.transposed ? copy_columns(source, piece, array) : copy_rows(source, piece, array);
}

}  // namespace

TensorSource whole_source(const SafetensorsFile& file, const StoredTensorInfo& tensor, const ops::ParameterSpec& spec,
                          const ops::StoredTensor& piece) {
  const auto shape = stored_shape(spec, piece);
  if (tensor.shape != shape) {
    throw UserError(
        fmt::format("{}: tensor '{}' has shape {}", in_quotes(file.path()), tensor.name, shape_text(tensor.shape)),
        fmt::format("{} for this model", shape_text(shape)), "give the model sizes of the file");
  }
  return {&file, &tensor, whole_region(spec, piece), piece.transposed};
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
