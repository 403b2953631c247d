// Text read piece by piece, from memory or from a file that may be compressed with gzip; and gzip files written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace weft {

/// Fills the given span from its front and returns the number of bytes; 0 at the end of the text.
using ByteSource = std::function<std::size_t(std::span<char>)>;

/// The text must outlive the source.
ByteSource text_source(std::string_view text);

/// An open file; it is decompressed while it is read if it begins as gzip files do.
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
  using Sink = std::function<void(std::string_view)>;
  explicit GzipPacker(Sink sink);
  ~GzipPacker();
  GzipPacker(const GzipPacker&) = delete;
  GzipPacker& operator=(const GzipPacker&) = delete;

  void write(std::string_view text);
  /// Ends the stream; nothing may be added after it.
  void finish();

 private:
  struct State;
  void run(std::string_view text, int flush);
  std::unique_ptr<State> state_;
  Sink sink_;
};

}  // namespace weft
