#include "tools/studies/result_flags.h"

#include <fmt/format.h>

#include "base/files/durable_file.h"
#include "base/printable.h"
#include "base/text/text_table.h"

namespace weft::tools {

void ResultFlags::check() const {
  for (const std::string& file : files) {
    study::expect_form(file);
    expect_writable(file);
  }
  if (!svg.empty()) expect_writable(svg);
}

void ResultFlags::write(const study::Results& results) const {
  for (const std::string& file : files) write_durable(file, results.file(file), Named::by_person);
  if (!svg.empty()) write_durable(svg, results.picture().svg(), Named::by_person);
}

void ResultFlags::print(const study::Results& results, const std::string& in_folder) const {
  if (json) return say("{}\n", results.json().text());
  say(stdout, results.text(output_width()));
  if (!in_folder.empty() && !folder.empty() && !quiet) say("{}: {}\n", folder, in_folder);
}

void add_result_flags(Command& command, ResultFlags& flags, const std::string& what) {
  command.add({.names = "--json", .target = &flags.json, .help = fmt::format("print the {} as JSON", what)});
  command.add({.names = "--quiet", .target = &flags.quiet, .help = "print only the result and errors"});
}

}  // namespace weft::tools
