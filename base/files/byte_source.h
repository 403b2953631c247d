// Text that comes piece by piece: from memory, or from a file that may be compressed with gzip; and such files written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace weft {

/// Fills what it is given from the front and returns how much; 0 at the end.
using ByteSource = std::function<std::size_t(std::span<char>)>;

/// The text must outlive the source.
ByteSource text_source(std::string_view text);

/// An open file, unpacked while it is read if it begins as gzip does.
struct OpenedFile {
  ByteSource source;
  std::uint64_t most_bytes = 0;  // no more text than this can come of it
};

/// Throws UserError, the source too, when it can't be read or unpacked. `what` is what messages call it: "the trace".
OpenedFile open_text_file(const std::filesystem::path& path, std::string_view what);

/// Compresses text piece by piece; equal text gives equal bytes.
class GzipPacker {
 public:
  using Sink = std::function<void(std::string_view)>;
  explicit GzipPacker(Sink sink);
  ~GzipPacker();
  GzipPacker(const GzipPacker&) = delete;
  GzipPacker& operator=(const GzipPacker&) = delete;

  void write(std::string_view text);
  /// Nothing may be written afterwards.
  void finish();

 private:
  struct State;
  void run(std::string_view text, int flush);
  std::unique_ptr<State> state_;
  Sink sink_;
};

}  // namespace weft
