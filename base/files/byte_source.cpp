#include "base/files/byte_source.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace weft {
namespace {

constexpr std::uint64_t kMostUnpacked = 1032;  // bytes from one compressed byte: deflate's highest ratio
constexpr const char* kCopyAgain = "copy or make the file again";

struct CloseFile {
  void operator()(gzFile_s* file) const { gzclose_r(file); }
};

}  // namespace

ByteSource text_source(std::string_view text) {
  return [text](std::span<char> to) mutable {
    const std::size_t count = std::min(to.size(), text.size());
    if (count > 0) std::memcpy(to.data(), text.data(), count);
    text.remove_prefix(count);
    return count;
  };
}

OpenedFile open_text_file(const std::filesystem::path& path, std::string_view what) {
  const std::string name = path.string();
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  const std::shared_ptr<gzFile_s> file(error ? nullptr : gzopen(name.c_str(), "rb"), CloseFile());
  if (!file) {
    throw UserError(fmt::format("can't read {} '{}'{}", what, name, error ? ": " + error.message() : ""),
                    "a file that can be read", "check the path");
  }
  constexpr unsigned kBuffer = 1 << 18;
  gzbuffer(file.get(), kBuffer);
  const bool packed = gzdirect(file.get()) == 0;
  const auto read = [file, name](std::span<char> to) {
    const int count = gzread(file.get(), to.data(), static_cast<unsigned>(std::min<std::size_t>(to.size(), 1 << 30)));
    int problem = Z_OK;
    const char* message = gzerror(file.get(), &problem);
    if (count < 0 || (problem != Z_OK && problem != Z_STREAM_END)) {
      throw UserError(fmt::format("'{}' is truncated or damaged: {}", name, message), "a whole file", kCopyAgain);
    }
    return static_cast<std::size_t>(count);
  };
  return {read, packed ? size * kMostUnpacked : size};
}

struct GzipPacker::State {
  z_stream stream{};
};

GzipPacker::GzipPacker(Sink sink) : state_(std::make_unique<State>()), sink_(std::move(sink)) {
  constexpr int kGzip = 15 + 16, kMemory = 8;
  if (deflateInit2(&state_->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw RuntimeFault("zlib can't be started");
  }
}

GzipPacker::~GzipPacker() {
  deflateEnd(&state_->stream);
}

void GzipPacker::write(std::string_view text) {
  if (!text.empty()) run(text, Z_NO_FLUSH);
}

void GzipPacker::finish() {
  run({}, Z_FINISH);
}

void GzipPacker::run(std::string_view text, int flush) {
  z_stream& stream = state_->stream;
  std::array<char, 1 << 16> out;
  stream.next_in = reinterpret_cast<z_const Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  do {
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    if (deflate(&stream, flush) == Z_STREAM_ERROR) throw RuntimeFault("zlib can't compress");
    sink_({out.data(), out.size() - stream.avail_out});
  } while (stream.avail_out == 0);
}

}  // namespace weft
