// SHA-256 and HMAC (FIPS 180-4, RFC 2104), by which a process proves that it knows a secret without sending it.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace weft {

using Digest = std::array<std::byte, 32>;

Digest sha256(std::span<const std::byte> message);

/// HMAC-SHA-256.
Digest keyed_digest(std::span<const std::byte> key, std::span<const std::byte> message);

/// Takes the same time wherever the digests differ, so that nobody finds one byte by byte.
bool equal_digests(const Digest& a, const Digest& b);

/// 32 bytes of the system's generator that nobody can foresee. Throws RuntimeFault if it has none.
Digest random_bytes();

}  // namespace weft
