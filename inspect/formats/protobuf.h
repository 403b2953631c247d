// Protocol buffers written and read by hand, field by field (https://protobuf.dev/programming-guides/encoding).
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  ProtoMessage& fixed64(std::uint32_t field, std::uint64_t value) { return fixed(field, 1, value, 64); }
  ProtoMessage& number(std::uint32_t field, double value) {
    return fixed64(field, std::bit_cast<std::uint64_t>(value));
  }
  ProtoMessage& number(std::uint32_t field, float value) {
    return fixed(field, 5, std::bit_cast<std::uint32_t>(value), 32);
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

  /// Its length, then itself: how messages follow each other in a file.
  std::string delimited() const {
    ProtoMessage length;
    length.put(bytes_.size());
    return length.bytes_ + bytes_;
  }

 private:
  ProtoMessage& fixed(std::uint32_t field, std::uint32_t wire, std::uint64_t value, int bits) {
    put(std::uint64_t{field} << 3 | wire);
    for (int shift = 0; shift < bits; shift += 8) bytes_ += static_cast<char>(value >> shift & 0xFF);
    return *this;
  }
  void put(std::uint64_t value) {
    for (; value > 0x7F; value >>= 7) bytes_ += static_cast<char>((value & 0x7F) | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

/// Walks the fields of one message. A field is one of three: a number (varint, or the bits of 4 or 8 bytes), or bytes.
///
///   ProtoFields fields(message);
///   while (fields.next()) {
///     if (fields.number() == 1) name = fields.bytes();
///   }
///   if (!fields.good()) …
class ProtoFields {
 public:
  enum class Wire : std::uint8_t { varint = 0, eight_bytes = 1, bytes = 2, four_bytes = 5 };

  explicit ProtoFields(std::string_view message) : rest_(message) {}

  /// false at the end and at the first byte that is no field.
  bool next() {
    if (rest_.empty() || !good_) return false;
    const std::optional<std::uint64_t> tag = take_varint(rest_);
    const auto wire = static_cast<Wire>(tag.value_or(3) & 7);  // 3 isn't in use any more
    field_ = static_cast<std::uint32_t>(tag.value_or(0) >> 3);
    wire_ = wire;
    value_ = 0;
    bytes_ = {};
    if (wire == Wire::varint) return keep(take_varint(rest_));
    if (wire == Wire::eight_bytes || wire == Wire::four_bytes)
      return keep(take_fixed(wire == Wire::four_bytes ? 4 : 8));
    const std::optional<std::uint64_t> size = wire == Wire::bytes ? take_varint(rest_) : std::nullopt;
    good_ = size.has_value() && *size <= rest_.size() && field_ > 0;
    if (!good_) return false;
    bytes_ = rest_.substr(0, *size);
    rest_.remove_prefix(*size);
    return true;
  }

  bool good() const { return good_; }
  std::uint32_t number() const { return field_; }
  bool is_bytes() const { return wire_ == Wire::bytes; }
  std::uint64_t value() const { return value_; }
  double as_double() const {
    return wire_ == Wire::four_bytes ? static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(value_)))
                                     : std::bit_cast<double>(value_);
  }
  std::string_view bytes() const { return bytes_; }

  /// Adds a repeated number to `to`, packed or not. false if it isn't one.
  bool add_to(std::vector<std::uint64_t>& to) const {
    if (!is_bytes()) {
      to.push_back(value_);
      return true;
    }
    for (std::string_view packed = bytes_; !packed.empty();) {
      const std::optional<std::uint64_t> value = take_varint(packed);
      if (!value) return false;
      to.push_back(*value);
    }
    return true;
  }

  /// Takes a varint from the front of `from`; none if it breaks off or is longer than 64 bits.
  static std::optional<std::uint64_t> take_varint(std::string_view& from) {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && !from.empty(); shift += 7) {
      const auto byte = static_cast<std::uint8_t>(from.front());
      from.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

 private:
  std::optional<std::uint64_t> take_fixed(std::size_t size) {
    if (rest_.size() < size) return std::nullopt;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) value |= std::uint64_t{static_cast<std::uint8_t>(rest_[i])} << 8 * i;
    rest_.remove_prefix(size);
    return value;
  }
  bool keep(std::optional<std::uint64_t> value) {
    good_ = value.has_value() && field_ > 0;
    value_ = value.value_or(0);
    return good_;
  }

  std::string_view rest_, bytes_;
  std::uint64_t value_ = 0;
  std::uint32_t field_ = 0;
  Wire wire_ = Wire::varint;
  bool good_ = true;
};

}  // namespace weft::inspect
