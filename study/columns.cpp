#include "study/columns.h"

#include "base/error.h"
#include "base/units.h"

namespace weft::study {

std::vector<CsvRow> read_table(std::string_view text, const std::string& file, const CsvRow& names,
                               const std::string& fix) {
  auto table = read_csv(text);
  if (!table) throw UserError(fmt::format("{} can't be read as CSV", file), join(names), fix);
  if (table->empty() || table->front() != names) {
    throw UserError(fmt::format("{} has the columns {}", file, table->empty() ? "" : join(table->front())), join(names),
                    fix);
  }
  table->erase(table->begin());
  for (std::size_t i = 0; i < table->size(); ++i) {
    if ((*table)[i].size() != names.size()) refuse_row(i + 1, file, names, fix);
  }
  return *std::move(table);
}

void refuse_row(std::size_t number, const std::string& file, const CsvRow& names, const std::string& fix) {
  throw UserError(fmt::format("row {} of {} hasn't a value for each column", number, file), join(names), fix);
}

void refuse_all(std::size_t rows, std::string_view noun, const std::string& reason, const std::string& fix) {
  throw UserError(fmt::format("none of the {} {} has a step; the first: {}", rows, noun, reason), "", fix);
}

std::string ms_text(double ms) {
  return format_time(ms * 1e6);
}

std::string percent_text(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

std::string bytes_text(std::int64_t bytes) {
  return human_bytes(static_cast<std::uint64_t>(bytes));
}

std::string ms_range_text(double low_ms, double high_ms) {
  return fmt::format("{} … {}", ms_text(low_ms), ms_text(high_ms));
}

}  // namespace weft::study
