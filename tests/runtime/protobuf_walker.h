// Reads protocol buffers field by field, independently of Weft's writer.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace weft::testing {

struct ProtoField {
  std::uint32_t field = 0, wire = 0;  // wire type: 0 varint, 1 eight bytes, 2 bytes, 5 four bytes
  std::uint64_t value = 0;
  std::string_view bytes = {};
};

inline std::uint64_t take_varint(std::string_view& text) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (text.empty()) break;
    const auto byte = static_cast<unsigned char>(text.front());
    text.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  ADD_FAILURE() << "a varint without an end";
  return value;
}

inline std::string_view take_bytes(std::string_view& text, std::uint64_t count) {
  if (count > text.size()) {
    ADD_FAILURE() << "a field of " << count << " bytes where " << text.size() << " are left";
    count = text.size();
  }
  const std::string_view bytes = text.substr(0, count);
  text.remove_prefix(count);
  return bytes;
}

inline std::vector<ProtoField> fields_of(std::string_view text) {
  std::vector<ProtoField> fields;
  while (!text.empty()) {
    const std::uint64_t tag = take_varint(text);
    ProtoField field{static_cast<std::uint32_t>(tag >> 3), static_cast<std::uint32_t>(tag & 7)};
    if (field.wire == 0) {
      field.value = take_varint(text);
    } else if (field.wire == 1 || field.wire == 5) {
      const std::string_view bytes = take_bytes(text, field.wire == 1 ? 8 : 4);
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        field.value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
      }
    } else if (field.wire == 2) {
      field.bytes = take_bytes(text, take_varint(text));
    } else {
      ADD_FAILURE() << "wire type " << field.wire;
      break;
    }
    fields.push_back(field);
  }
  return fields;
}

/// The last field of that number, as protobuf reads it; a zero if there is none.
inline ProtoField field_of(std::string_view message, std::uint32_t number) {
  ProtoField found;
  for (const ProtoField& field : fields_of(message)) {
    if (field.field == number) found = field;
  }
  return found;
}

inline std::vector<ProtoField> all_of(std::string_view message, std::uint32_t number) {
  std::vector<ProtoField> found;
  for (const ProtoField& field : fields_of(message)) {
    if (field.field == number) found.push_back(field);
  }
  return found;
}

/// Repeated numbers, packed or not.
inline std::vector<std::uint64_t> numbers_of(std::string_view message, std::uint32_t number) {
  std::vector<std::uint64_t> values;
  for (const ProtoField& field : all_of(message, number)) {
    if (field.wire != 2) values.push_back(field.value);
    for (std::string_view list = field.bytes; !list.empty();) values.push_back(take_varint(list));
  }
  return values;
}

}  // namespace weft::testing
