// Recordings from files: what write_chrome_trace() wrote, of one rank or of many, packed with gzip or not.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/plan/recording.h"

namespace weft::inspect {

/// Equal to the recording that was written. Throws UserError, with line and byte, on a file that breaks off, is of
/// another version or of another program, or contradicts itself: a task that is named twice or runs twice or never in a
/// step, edges against the order of tasks (all orders without a cycle have none), times outside of their step. Memory
/// is bounded by the length of the text. Reads a million events in about a second (bench/trace.cpp).
plan::Recording read_recording(const std::filesystem::path& path);

/// `name` stands for the text in messages.
plan::Recording parse_recording(std::string_view text, const std::string& name);

}  // namespace weft::inspect
