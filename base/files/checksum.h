// The checksum of stored files: CRC-32C, computed while a file is written and compared when it is read back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weft {

class DocumentValue;

/// CRC-32C (Castagnoli), as in RFC 3720 appendix B.4, iSCSI and ext4: "123456789" has e3069283. It detects every error
/// burst of up to 32 bits; it is no protection against deliberate changes.
///
///   Crc32c checksum;
///   checksum.add(header), checksum.add(data);
///   checksum.text();  // "e3069283"
class Crc32c {
 public:
  Crc32c& add(std::span<const std::byte> bytes);
  std::uint32_t value() const { return ~state_; }
  /// The value as eight lower-case hexadecimal digits.
  std::string text() const;

 private:
  std::uint32_t state_ = 0xffffffffU;
};

/// The member of a JSON document that holds the checksum of the others.
inline constexpr const char* kChecksumKey = "crc32c";

/// The checksum of all members of a JSON object except kChecksumKey.
std::string checksum_of_rest(std::string_view object);

/// Refuses a document whose checksum differs from the one that it states.
void expect_checksum(const DocumentValue& document);

}  // namespace weft
