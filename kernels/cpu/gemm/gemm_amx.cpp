// Blocks of two by two AMX tiles; see gemm_amx.h.
#include "kernels/cpu/gemm/gemm_amx.h"

#include <atomic>
#include <cstddef>

#include "kernels/cpu/simd.h"

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace weft::cpu {

bool allow_amx_tiles() {
#if defined(__x86_64__)
  constexpr long kAskPermission = 0x1023, kTileData = 18;
  return ::syscall(SYS_arch_prctl, kAskPermission, kTileData) == 0;
#else
  return false;
#endif
}

#if defined(__AVX512F__) && defined(__x86_64__)

namespace {

constexpr int kTiles = 8, kRows = 16, kRowBytes = 64;

// The operand of LDTILECFG (Intel, Architecture Instruction Set Extensions, "Intel AMX Palettes").
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

constexpr TileConfig whole_tiles() {
  TileConfig config;
  for (int tile = 0; tile < kTiles; ++tile) config.row_bytes[tile] = kRowBytes, config.rows[tile] = kRows;
  return config;
}
constinit const TileConfig kWholeTiles = whole_tiles();

// Not in the constructor itself: GCC 12 ignores the target attribute of a constructor.
[[gnu::target("amx-tile")]] void configure() {
  _tile_loadconfig(&kWholeTiles);
}
[[gnu::target("amx-tile")]] void release() {
  _tile_release();
}

// The compiler doesn't know that tile instructions access memory. Earlier stores must be done before tiles are loaded,
// and memory must not be read before tiles are stored to it.
void keep_order() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

// Rows of floats, `stride` apart; 0 if all are the same row.
template <class T>
struct Rows {
  T* first;
  std::int64_t stride;
};

template <int kRowTiles, int kColTiles>
constexpr bool kAll = kRowTiles == 2 && kColTiles == 2;

// Sums begin with `start` and are written to `end`. Tiles 0 … 3 hold the sums, row by row; 4 and 5 hold A, 6 and 7 hold
// B.
template <int kRowTiles, int kColTiles>
[[gnu::target("amx-tile,amx-bf16")]] void multiply(const TileArguments& tile, const Rows<const float>& start,
                                                   const Rows<float>& end) {
  const auto bytes = [](std::int64_t floats) { return static_cast<std::size_t>(floats) * sizeof(float); };
  const bool packed = tile.a_row_bytes == 0;
  const std::int64_t a_row_bytes = packed ? kRowBytes : tile.a_row_bytes;
  const std::int64_t a_step = packed ? kAmxRows * kAmxDepth : kAmxDepth;
  const float* a = tile.a;
  const float* a2 = tile.a + kRows * a_row_bytes / std::int64_t{sizeof(float)};
  const float* b = tile.b;
  const float* from = start.first;
  const std::size_t from_bytes = bytes(start.stride), to_bytes = bytes(end.stride), b_bytes = bytes(tile.b_cols);
  keep_order();
  _tile_loadd(0, from, from_bytes);
  if constexpr (kColTiles == 2) _tile_loadd(1, from + kLanes, from_bytes);
  from += kRows * start.stride;
  if constexpr (kRowTiles == 2) _tile_loadd(2, from, from_bytes);
  if constexpr (kAll<kRowTiles, kColTiles>) _tile_loadd(3, from + kLanes, from_bytes);
  LinesAhead ahead = tile.ahead != nullptr ? *tile.ahead : LinesAhead{};
  for (std::int64_t k = 0; k < tile.depth; k += kAmxDepth) {
    for (int line = 0; line < 16; ++line) ahead.fetch();
    _tile_loadd(4, a, a_row_bytes);
    _tile_loadd(6, b, b_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kRowTiles == 2) {
      _tile_loadd(5, a2, a_row_bytes);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (kColTiles == 2) {
      _tile_loadd(7, b + kLanes, b_bytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kAll<kRowTiles, kColTiles>) _tile_dpbf16ps(3, 5, 7);
    a += a_step, a2 += a_step;
    b += kAmxDepth * tile.b_cols;
  }
  if (tile.ahead != nullptr) *tile.ahead = ahead;
  float* to = end.first;
  _tile_stored(0, to, to_bytes);
  if constexpr (kColTiles == 2) _tile_stored(1, to + kLanes, to_bytes);
  to += kRows * end.stride;
  if constexpr (kRowTiles == 2) _tile_stored(2, to, to_bytes);
  if constexpr (kAll<kRowTiles, kColTiles>) _tile_stored(3, to + kLanes, to_bytes);
  keep_order();
}

void multiply(const TileArguments& tile, const Rows<const float>& start, const Rows<float>& end) {
  const bool two_rows = tile.rows > kRows, two_cols = tile.b_cols > kLanes;
  if (two_rows) return two_cols ? multiply<2, 2>(tile, start, end) : multiply<2, 1>(tile, start, end);
  two_cols ? multiply<1, 2>(tile, start, end) : multiply<1, 1>(tile, start, end);
}

}  // namespace

AmxTiles::AmxTiles() {
  configure();
}
AmxTiles::~AmxTiles() {
  release();
}

void multiply_amx_tile(const TileArguments& tile) {
  const bool whole = tile.rows % kRows == 0 && tile.cols == tile.b_cols;
  alignas(64) static constexpr float kZeros[kAmxCols] = {};
  if (whole && tile.beside_caches) {
    alignas(64) float sums[kAmxRows * kAmxCols];
    multiply(tile, {kZeros, 0}, {sums, kAmxCols});
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      for (std::int64_t i = 0; i < tile.cols; i += kLanes) {
        store_beside_caches(tile.c + r * tile.ldc + i, load(sums + r * kAmxCols + i));
      }
    }
    return;
  }
  if (whole && !(tile.add && tile.bias != nullptr)) {
    const float* row = tile.bias != nullptr ? tile.bias : kZeros;
    return multiply(tile, tile.add ? Rows<const float>{tile.c, tile.ldc} : Rows<const float>{row, 0},
                    {tile.c, tile.ldc});
  }
  alignas(64) float sums[kAmxRows * kAmxCols] = {};
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    for_vectors(tile.cols, [&](std::int64_t i, auto lanes) {
      Floats value{};
      if (tile.add) value = lanes.load(tile.c + r * tile.ldc + i);
      if (tile.bias != nullptr) value = tile.add ? value + lanes.load(tile.bias + i) : lanes.load(tile.bias + i);
      store(sums + r * kAmxCols + i, value);
    });
  }
  multiply(tile, {sums, kAmxCols}, {sums, kAmxCols});
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    for_vectors(tile.cols, [&](std::int64_t i, auto lanes) {
      lanes.store(tile.c + r * tile.ldc + i, load(sums + r * kAmxCols + i));
    });
  }
}

#else

AmxTiles::AmxTiles() = default;
AmxTiles::~AmxTiles() = default;

#endif

}  // namespace weft::cpu
