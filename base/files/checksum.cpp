// CRC-32C, by the processor's instruction if the build has SSE 4.2, else by table.
#include "base/files/checksum.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/files/document.h"

#ifdef __SSE4_2__
#include <nmmintrin.h>
#endif

namespace weft {
namespace {

#ifdef __SSE4_2__

std::uint32_t extend(std::uint32_t state, std::span<const std::byte> bytes) {
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  std::uint64_t wide = state;
  for (; left >= sizeof(std::uint64_t); left -= sizeof(std::uint64_t), at += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    wide = _mm_crc32_u64(wide, word);
  }
  state = static_cast<std::uint32_t>(wide);
  for (; left > 0; --left, ++at) state = _mm_crc32_u8(state, static_cast<unsigned char>(*at));
  return state;
}

#else

constexpr std::array<std::uint32_t, 256> make_table() {
  constexpr std::uint32_t kReversedPolynomial = 0x82f63b78U;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1U) != 0 ? kReversedPolynomial : 0U);
    table[i] = value;
  }
  return table;
}

std::uint32_t extend(std::uint32_t state, std::span<const std::byte> bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = make_table();
  for (const std::byte byte : bytes) {
    state = (state >> 8) ^ kTable[(state ^ static_cast<std::uint32_t>(byte)) & 0xffU];
  }
  return state;
}

#endif

std::string checksum_without_key(nlohmann::json document) {
  document.erase(kChecksumKey);
  const std::string text = document.dump();  // keys in sorted order, without blanks
  return Crc32c().add(std::as_bytes(std::span(text.data(), text.size()))).text();
}

}  // namespace

Crc32c& Crc32c::add(std::span<const std::byte> bytes) {
  state_ = extend(state_, bytes);
  return *this;
}

std::string Crc32c::text() const {
  return fmt::format("{:08x}", value());
}

std::string checksum_of_rest(std::string_view object) {
  return checksum_without_key(nlohmann::json::parse(object));
}

void expect_checksum(const DocumentValue& document) {
  const std::string checksum = checksum_without_key(document.json());
  const DocumentValue said = document[kChecksumKey];
  if (said.json() == checksum) return;
  document.refuse("has the checksum " + checksum, said.shown() + ", which the file states: it was altered");
}

}  // namespace weft
