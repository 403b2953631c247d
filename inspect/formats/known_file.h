// What a file is by its first bytes, so that a command that can't read it says so and names the command that can.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace weft::inspect {

enum class KnownFormat : std::uint8_t {
  graph_file,       // an open graph
  weft_trace,       // what Weft recorded
  pytorch_profile,  // Kineto
  execution_trace,  // of PyTorch: operators and tensors without a device's times
  chakra_json,
  jax_profile,
  tensorflow_profile,
  nsight_database
};

/// "a JAX profile"
std::string_view to_string(KnownFormat format);

/// At most so many bytes from a file's begin, unpacked. `what` stands for the file in messages. Throws UserError.
std::string head_of_file(const std::filesystem::path& file, std::size_t most, std::string_view what);

/// By the head of a text; none if it is something else.
std::optional<KnownFormat> known_format(std::string_view head);
/// The same of a file, packed with gzip or not; none if it can't be read.
std::optional<KnownFormat> known_format_of(const std::filesystem::path& file);

/// Throws UserError on a file that `weft trace import` knows and can't read.
void refuse_foreign_trace(const std::filesystem::path& file);

/// Throws UserError with the fitting command if the file isn't a trace that Weft recorded, but of a known format.
void expect_weft_trace(const std::filesystem::path& file);

/// Throws UserError that names `weft trace import` if the file is a trace, whoever recorded it.
void refuse_trace(const std::filesystem::path& file);

}  // namespace weft::inspect
