// The files that `weft compare -o NAME` writes: a table of numbers, Markdown or JSON, by the name's ending.
#pragma once

#include <cstdint>
#include <string>

#include "study/comparison.h"

namespace weft::study {

enum class ComparisonFile : std::uint8_t {
  csv,
  markdown,
  json,
  folder,     // for `weft report`, see comparison_folder.h
  as_printed  // to a device or a pipe
};

/// Throws UserError, which lists the endings, if `output` has another one.
ComparisonFile comparison_file_of(const std::string& output);

/// A row a policy, with what comparison_json() has of it: its keys, joined by "_", are the headings. Fields with
/// commas, quotes or new lines are quoted (RFC 4180).
std::string comparison_csv(const Comparison& comparison);

/// The content of a file of that format; not of a folder, nor of what is printed.
std::string comparison_file(const Comparison& comparison, ComparisonFile format);

}  // namespace weft::study
