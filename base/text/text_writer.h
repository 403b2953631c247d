// Text that is made piece by piece: kept whole, or handed on as it grows.
#pragma once

#include <fmt/core.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace weft {

/// Takes a text piece by piece, since a whole text of a million events would take hundreds of megabytes.
using TextSink = std::function<void(std::string_view)>;

class TextWriter {
 public:
  TextWriter() = default;
  /// Hands its text to `sink` whenever there are 64 KiB of it. flush() hands on the rest.
  explicit TextWriter(TextSink sink) : sink_(std::move(sink)) {}

  void add(std::string_view text) {
    text_ += text;
    hand_on();
  }
  template <class... Values>
  void put(fmt::format_string<Values...> format, Values&&... values) {
    put_formatted(format, fmt::make_format_args(values...));
  }
  void flush() {
    sink_(text_);
    text_.clear();
  }
  /// The whole text of a writer without a sink.
  std::string text() && { return std::move(text_); }

 private:
  static constexpr std::size_t kPiece = 1 << 16;

  void put_formatted(fmt::string_view format, fmt::format_args values);
  void hand_on() {
    if (sink_ && text_.size() > kPiece) flush();
  }

  TextSink sink_;
  std::string text_;
};

}  // namespace weft
