// Texts packed with Zstandard, for tests of those who read them.
#pragma once

#include <zstd.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::testing {

/// One frame. `settings`: of the frame, such as its checksum.
inline std::string zstd_packed(std::string_view text,
                               const std::vector<std::pair<ZSTD_cParameter, int>>& settings = {}) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  for (const auto& [setting, value] : settings) ZSTD_CCtx_setParameter(context, setting, value);
  const std::size_t size = ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size());
  ZSTD_freeCCtx(context);
  if (ZSTD_isError(size)) throw std::logic_error(ZSTD_getErrorName(size));
  out.resize(size);
  return out;
}

/// A frame that readers of Zstandard skip.
inline std::string zstd_skippable(std::string_view content) {
  std::string frame = "\x51\x2a\x4d\x18";
  for (int shift = 0; shift < 32; shift += 8) frame += static_cast<char>(content.size() >> shift);
  return frame.append(content);
}

}  // namespace weft::testing
