// Protocol buffers by hand (https://protobuf.dev/programming-guides/encoding): the few kinds of fields that traces
// need.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weft::inspect {

/// One message, field by field.
///
///   ProtoMessage thread;
///   thread.varint(1, 7).text(5, "compute0");
///   packet.message(60, thread);
class ProtoMessage {
 public:
  ProtoMessage& varint(std::uint32_t field, std::uint64_t value) {
    put(std::uint64_t{field} << 3);
    put(value);
    return *this;
  }
  /// int64 and int32: negative numbers take ten bytes.
  ProtoMessage& integer(std::uint32_t field, std::int64_t value) {
    return varint(field, static_cast<std::uint64_t>(value));
  }
  ProtoMessage& fixed64(std::uint32_t field, std::uint64_t value) {
    put(std::uint64_t{field} << 3 | 1);
    for (int shift = 0; shift < 64; shift += 8) bytes_ += static_cast<char>(value >> shift & 0xFF);
    return *this;
  }
  ProtoMessage& number(std::uint32_t field, double value) {
    return fixed64(field, std::bit_cast<std::uint64_t>(value));
  }
  ProtoMessage& text(std::uint32_t field, std::string_view value) {
    put(std::uint64_t{field} << 3 | 2);
    put(value.size());
    bytes_ += value;
    return *this;
  }
  ProtoMessage& message(std::uint32_t field, const ProtoMessage& value) { return text(field, value.bytes_); }
  /// A repeated number; nothing if there is none.
  ProtoMessage& packed(std::uint32_t field, std::span<const std::uint64_t> values) {
    if (values.empty()) return *this;
    ProtoMessage list;
    for (const std::uint64_t value : values) list.put(value);
    return message(field, list);
  }

  std::string_view bytes() const { return bytes_; }
  void clear() { bytes_.clear(); }

  /// Its length, then itself: how messages follow each other in a file.
  std::string delimited() const {
    ProtoMessage length;
    length.put(bytes_.size());
    return length.bytes_ + bytes_;
  }

 private:
  void put(std::uint64_t value) {
    for (; value > 0x7F; value >>= 7) bytes_ += static_cast<char>((value & 0x7F) | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace weft::inspect
