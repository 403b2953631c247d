#include "base/files/zstd_source.h"

#include <fmt/format.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace weft {
namespace {

constexpr int kMostWindowBits = 27;  // what the command zstd unpacks without --long=31

struct FreeStream {
  void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
};

/// Unpacks a file; its state between two pieces.
class ZstdReader {
 public:
  explicit ZstdReader(const std::filesystem::path& path)
      : file_(path), stream_(ZSTD_createDStream()), packed_(ZSTD_DStreamInSize()) {
    if (stream_ == nullptr || ZSTD_isError(ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kMostWindowBits)))
      throw RuntimeFault("libzstd can't be started");
  }

  std::size_t read(std::span<char> to) {
    ZSTD_outBuffer out{to.data(), to.size(), 0};
    while (out.pos < out.size) {
      if (in_.pos == in_.size && !refill() && !full_) {
        if (within_frame_) refuse("it ends within a frame", "a whole file", kCopyAgain);
        break;
      }
      const std::size_t left = ZSTD_decompressStream(stream_.get(), &out, &in_);
      if (ZSTD_isError(left)) refuse_error(left);
      within_frame_ = left > 0;
      full_ = within_frame_ && out.pos == out.size;  // the stream may hold more of the text
    }
    return out.pos;
  }

 private:
  static constexpr const char* kCopyAgain = "copy or make the file again";

  /// False at the end of the file.
  bool refill() {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(packed_.size(), file_.size() - offset_));
    file_.read(offset_, std::span(packed_).first(count));
    offset_ += count;
    in_ = {packed_.data(), count, 0};
    return count > 0;
  }

  [[noreturn]] void refuse_error(std::size_t error) const {
    const ZSTD_ErrorCode code = ZSTD_getErrorCode(error);
    if (code == ZSTD_error_dictionary_wrong) {
      refuse("it was packed with a dictionary", "a file without one", "unpack it: zstd -d -D DICTIONARY FILE");
    }
    if (code == ZSTD_error_frameParameter_windowTooLarge) {
      refuse(fmt::format("it needs a window of more than {} MiB", 1 << (kMostWindowBits - 20)), "a smaller window",
             "unpack it: zstd -d --long=31 FILE");
    }
    refuse(ZSTD_getErrorName(error), "a whole file", kCopyAgain);
  }

  [[noreturn]] void refuse(std::string_view cause, std::string_view expected, std::string_view fix) const {
    const bool damaged = fix == kCopyAgain;
    throw UserError(fmt::format("{} {}: {}", in_quotes(file_.path()),
                                damaged ? "is truncated or damaged" : "can't be unpacked", cause),
                    expected, fix);
  }

  const InputFile file_;
  const std::unique_ptr<ZSTD_DStream, FreeStream> stream_;
  std::vector<std::byte> packed_;
  ZSTD_inBuffer in_ = {nullptr, 0, 0};
  std::uint64_t offset_ = 0;
  bool within_frame_ = false, full_ = false;
};

}  // namespace

bool is_zstd_file(const InputFile& file) {
  std::array<std::uint8_t, 4> begin{};
  if (file.size() < begin.size()) return false;
  file.read(0, std::as_writable_bytes(std::span(begin)));
  constexpr std::array<std::uint8_t, 4> kFrame = {0x28, 0xb5, 0x2f, 0xfd};
  const bool skipped = begin[0] >> 4U == 5 && begin[1] == 0x2a && begin[2] == 0x4d && begin[3] == 0x18;
  return begin == kFrame || skipped;
}

ByteSource zstd_source(const std::filesystem::path& path) {
  const auto reader = std::make_shared<ZstdReader>(path);
  return [reader](std::span<char> to) { return reader->read(to); };
}

}  // namespace weft
