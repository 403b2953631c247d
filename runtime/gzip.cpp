#include "runtime/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>

namespace weft {

std::string gzip(std::string_view bytes) {
  z_stream stream{};
  constexpr int kGzipForm = 15 + 16;
  if (deflateInit2(&stream, 6, Z_DEFLATED, kGzipForm, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("zlib can't begin to compress");
  }
  std::string out;
  std::string chunk(1 << 16, '\0');
  std::size_t at = 0;
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    const std::size_t part = std::min<std::size_t>(bytes.size() - at, std::numeric_limits<int>::max());
    // zlib doesn't write to its input, but its C interface says it might.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + at));  // NOLINT
    stream.avail_in = static_cast<uInt>(part);
    const bool last = at + part == bytes.size();
    do {
      stream.next_out = reinterpret_cast<Bytef*>(chunk.data());  // NOLINT
      stream.avail_out = static_cast<uInt>(chunk.size());
      status = deflate(&stream, last ? Z_FINISH : Z_NO_FLUSH);
      if (status == Z_STREAM_ERROR) {
        deflateEnd(&stream);
        throw std::runtime_error("zlib can't compress");
      }
      out.append(chunk, 0, chunk.size() - stream.avail_out);
    } while (stream.avail_out == 0);
    at += part;
  }
  deflateEnd(&stream);
  return out;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8U | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out += i + k <= bytes.size() ? kLetters[group >> (18 - 6 * k) & 63U] : '=';
    }
  }
  return out;
}

}  // namespace weft
