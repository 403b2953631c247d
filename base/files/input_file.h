// Files that are read: at offsets, whole, or piece by piece, also if they are compressed with gzip or Zstandard; and
// gzip files written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/files/durable_file.h"
#include "base/text/text_writer.h"

struct z_stream_s;  // zlib's

namespace weft {

/// A path as messages show it: in single quotes.
std::string in_quotes(const std::filesystem::path& path);

/// A file opened once and read at offsets, for data that a run reads as long as it lasts. Reading bytes that are no
/// longer there is an error that names the file. Owns one descriptor. A file that is renamed or removed stays readable;
/// a truncated file doesn't.
class InputFile {
 public:
  /// Throws UserError if the path is missing, is a folder, can't be read or isn't a regular file.
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  /// Bytes of the file when it was opened.
  std::uint64_t size() const { return size_; }
  /// Fills `out` from `offset` on. Allocates nothing, and may be called by several threads at once. Throws
  /// RuntimeFault, naming the file, if it has fewer bytes by now or can't be read.
  void read(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// Calls `look` with the bytes [begin, end) of the file, in order, in pieces of at most 1 MiB. `look` returns whether
/// to go on.
void read_in_pieces(const InputFile& file, std::uint64_t begin, std::uint64_t end,
                    const std::function<bool(std::span<const std::byte>)>& look);

/// The content of a file, read whole; of a file that may be large, read pieces of an InputFile. Nothing is mapped: a
/// file that is truncated meanwhile would end the process by SIGBUS. Throws UserError if the path is missing, is a
/// folder, can't be read, isn't a regular file or has more bytes; RuntimeFault if it is truncated meanwhile.
std::string whole_file(const std::filesystem::path& path, std::uint64_t most_bytes = std::uint64_t{4} << 30);

/// A small text file, read whole. A person's path may name anything, even an endless device: at most `most_bytes` + 1
/// bytes are read. `what` is the file's name in messages: "the configuration file". Throws UserError if the file can't
/// be read or is larger.
std::string read_text_file(const std::filesystem::path& path, std::string_view what, std::size_t most_bytes,
                           std::string_view expected, std::string_view fix);

/// Whether `name` names a file directly in a known folder: neither the folder itself nor anything elsewhere.
bool is_plain_file_name(std::string_view name);

/// Fills the given span from its front and returns the number of bytes; 0 at the end of the text.
using ByteSource = std::function<std::size_t(std::span<char>)>;

/// The text must outlive the source.
ByteSource text_source(std::string_view text);

/// Whether a name is that of a packed text that open_text_file() unpacks: "a.txt.gz", "a.jsonl.zst".
bool is_packed_name(const std::filesystem::path& path);

/// An open file; it is decompressed while it is read if it begins as files of gzip or Zstandard do.
struct OpenedFile {
  ByteSource source;
  std::uint64_t most_bytes = 0;  // an upper bound of the text's length
};

/// Throws UserError if the file can't be read or decompressed; so does the source. `what` is the file's name in
/// messages: "the trace".
OpenedFile open_text_file(const std::filesystem::path& path, std::string_view what);

/// Compresses text piece by piece with gzip; equal text gives equal bytes.
class GzipPacker {
 public:
  explicit GzipPacker(TextSink sink);
  void write(std::string_view text);
  /// Ends the stream; nothing may be added after it.
  void finish();

 private:
  void run(std::string_view text, int flush);
  std::unique_ptr<z_stream_s, void (*)(z_stream_s*)> stream_;
  TextSink sink_;
};

/// Writes durably what `write` hands to its sink, packed with gzip if the path ends in ".gz". Throws RuntimeFault (a
/// full disk).
void write_text_file(const std::filesystem::path& path, Named named, const std::function<void(const TextSink&)>& write);

}  // namespace weft
