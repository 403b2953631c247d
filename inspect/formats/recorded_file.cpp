#include "inspect/formats/recorded_file.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/error.h"
#include "inspect/formats/json_members.h"
#include "inspect/formats/recorded_events.h"
#include "inspect/formats/recorded_table.h"

namespace weft::inspect {
namespace {

plan::Recording read_from(ByteSource source, std::uint64_t most_bytes, const std::string& name) {
  JsonPull in(std::move(source), name);
  plan::Recording out;
  std::optional<RecordedTable> table;
  read_object(in, kAllMembers, JsonMember{"weft", [&] { table = read_recorded_table(in, out); }},
              JsonMember{"traceEvents", [&] {
                           if (!table) {
                             throw UserError(fmt::format("'{}' has events, but no \"weft\" before them: another "
                                                         "program's trace, or an old one",
                                                         name),
                                             "a trace that Weft wrote",
                                             "write the trace again with this version of Weft");
                           }
                           read_recorded_events(in, *table, out, most_bytes);
                         }});
  in.finish();
  return out;
}

}  // namespace

plan::Recording read_recording(const std::filesystem::path& path) {
  OpenedFile file = open_text_file(path, "the trace");
  return read_from(std::move(file.source), file.most_bytes, path.string());
}

plan::Recording parse_recording(std::string_view text, const std::string& name) {
  return read_from(text_source(text), text.size(), name);
}

}  // namespace weft::inspect
