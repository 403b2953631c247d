#include "base/files/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/zstd_source.h"
#include "base/printable.h"

namespace weft {
namespace {

constexpr std::uint64_t kMostUnpacked = 1032;  // bytes from one compressed byte: deflate's highest ratio
constexpr const char* kCopyAgain = "copy or make the file again";

struct CloseFile {
  void operator()(gzFile_s* file) const { gzclose_r(file); }
};

void end_stream(z_stream_s* stream) {
  deflateEnd(stream);
  delete stream;
}

}  // namespace

std::string in_quotes(const std::filesystem::path& path) {
  return "'" + printable_line(path.string()) + "'";
}

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code error;
  const auto status = std::filesystem::status(path_, error);
  const std::string name = in_quotes(path_);
  if (!std::filesystem::exists(status)) throw UserError(name + " doesn't exist", "a file", "check the path");
  if (std::filesystem::is_directory(status)) throw UserError(name + " is a folder", "a file", "name a file in it");
  if (!std::filesystem::is_regular_file(status))
    throw UserError(name + " isn't a regular file", "a file", "copy its content to a file");
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0 && (errno == EMFILE || errno == ENFILE)) {
    throw UserError(name + " can't be opened: " + std::strerror(errno), "fewer files open at once",
                    "join them into fewer files, or raise the limit: ulimit -n 65536");
  }
  struct stat info {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &info) != 0) {
    const int cause = errno;
    if (descriptor_ >= 0) ::close(descriptor_);
    throw UserError(name + " can't be opened: " + std::strerror(cause), "a readable file", "check its permissions");
  }
  size_ = static_cast<std::uint64_t>(info.st_size);
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw RuntimeFault(fmt::format("{} can't be read: {}", in_quotes(path_), std::strerror(errno)));
    if (got == 0) {
      struct stat info {};
      const auto found = ::fstat(descriptor_, &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : offset;
      throw RuntimeFault(
          fmt::format("{} was truncated while it was in use: it has {} bytes, and had {} when it was opened",
                      in_quotes(path_), found, size_));
    }
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

void read_in_pieces(const InputFile& file, std::uint64_t begin, std::uint64_t end,
                    const std::function<bool(std::span<const std::byte>)>& look) {
  constexpr std::uint64_t kPiece = 1 << 20;
  std::vector<std::byte> buffer(std::min(kPiece, end - begin));
  while (begin < end) {
    const std::span<std::byte> piece(buffer.data(), std::min<std::uint64_t>(buffer.size(), end - begin));
    file.read(begin, piece);
    if (!look(piece)) return;
    begin += piece.size();
  }
}

std::string whole_file(const std::filesystem::path& path, std::uint64_t most_bytes) {
  const InputFile file(path);
  if (file.size() > most_bytes) {
    throw UserError(fmt::format("{} is larger than {} bytes", in_quotes(path), most_bytes), "a file of its kind",
                    "check the path");
  }
  std::string content(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(content)));
  return content;
}

std::string read_text_file(const std::filesystem::path& path, std::string_view what, std::size_t most_bytes,
                           std::string_view expected, std::string_view fix) {
  constexpr std::size_t kPiece = std::size_t{1} << 16;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  while (file && text.size() <= most_bytes) {
    const std::size_t kept = text.size(), piece = std::min(most_bytes + 1 - kept, std::max(kept, kPiece));
    text.resize(kept + piece);
    file.read(text.data() + kept, static_cast<std::streamsize>(piece));
    text.resize(kept + static_cast<std::size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad() || (file.fail() && !file.eof())) {
    throw UserError(fmt::format("{} {} can't be read", what, path.string()), expected, fix);
  }
  if (text.size() > most_bytes) {
    throw UserError(fmt::format("{} is larger than {} bytes", path.string(), most_bytes), expected, fix);
  }
  return text;
}

bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

ByteSource text_source(std::string_view text) {
  return [text](std::span<char> to) mutable {
    const std::size_t count = std::min(to.size(), text.size());
    if (count > 0) std::memcpy(to.data(), text.data(), count);
    text.remove_prefix(count);
    return count;
  };
}

bool is_packed_name(const std::filesystem::path& path) {
  return path.extension() == ".gz" || path.extension() == ".zst";
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
  if (is_zstd_file(InputFile(path))) return {zstd_source(path), size * kMostUnpackedByZstd};
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

GzipPacker::GzipPacker(TextSink sink) : stream_(new z_stream{}, end_stream), sink_(std::move(sink)) {
  constexpr int kGzip = 15 + 16, kMemory = 8;
  if (deflateInit2(stream_.get(), Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw RuntimeFault("zlib can't be started");
  }
}

void GzipPacker::write(std::string_view text) {
  if (!text.empty()) run(text, Z_NO_FLUSH);
}

void GzipPacker::finish() {
  run({}, Z_FINISH);
}

void GzipPacker::run(std::string_view text, int flush) {
  z_stream& stream = *stream_;
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

void write_text_file(const std::filesystem::path& path, Named named,
                     const std::function<void(const TextSink&)>& write) {
  DurableFile file(path, named);
  const TextSink to_file = [&](std::string_view text) { file.write(std::as_bytes(std::span(text))); };
  if (path.extension() == ".gz") {
    GzipPacker packer(to_file);
    write([&](std::string_view text) { packer.write(text); });
    packer.finish();
  } else {
    write(to_file);
  }
  file.commit();
}

}  // namespace weft
