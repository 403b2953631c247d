#include "base/text/escape.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace weft {
namespace {

constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

}  // namespace

std::string xml_characters(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? ' ' : c;
    if (out.ends_with("\uFFFE") || out.ends_with("\uFFFF")) out.back() = '\xBD';
  }
  return out;
}

std::string xml_escaped(std::string_view text) {
  constexpr std::array<std::pair<char, std::string_view>, 4> kEntities = {
      {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}}};
  std::string out;
  for (const char c : xml_characters(text)) {
    if (const auto found = std::ranges::find(kEntities, c, [](const auto& each) { return each.first; });
        found != kEntities.end()) {
      out += found->second;
    } else {
      out += c;
    }
  }
  return out;
}

std::string script_escaped(std::string_view json) {
  std::string out;
  out.reserve(json.size() + json.size() / 16);
  for (const char c : json) out += c == '<' ? std::string_view("\\u003c") : std::string_view(&c, 1);
  return out;
}

std::string base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8U | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out += i + k <= bytes.size() ? kLetters[group >> (18 - 6 * k) & 63U] : '=';
    }
  }
  return out;
}

std::optional<std::string> base64_decoded(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::size_t letters = text.size();
  while (letters > 0 && text.size() - letters < 2 && text[letters - 1] == '=') --letters;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t group = 0, bits = 0;
  for (std::size_t i = 0; i < letters; ++i) {
    const std::size_t value = kLetters.find(text[i]);
    if (value == std::string_view::npos) return std::nullopt;
    group = group << 6U | static_cast<std::uint32_t>(value), bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(group >> bits & 0xFFU);
    group &= (1U << bits) - 1;
  }
  if (group != 0) return std::nullopt;  // bits that no byte has
  return bytes;
}

std::string csv_line(const CsvRow& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) line += (i > 0 ? "," : "") + csv_cell(cells[i]);
  return line + "\n";
}

std::optional<std::vector<CsvRow>> read_csv(std::string_view text) {
  std::vector<CsvRow> rows;
  CsvRow row;
  std::string cell;
  bool quoted = false, closed = false;  // within quotes; after them
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c != '"') {
        cell += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        cell += text[++i];
      } else {
        quoted = false, closed = true;
      }
      continue;
    }
    const bool line_end = c == '\r' && i + 1 < text.size() && text[i + 1] == '\n';
    if (line_end) continue;
    if (c == ',' || c == '\n') {
      row.push_back(std::exchange(cell, {}));
      closed = false;
      if (c == '\n') rows.push_back(std::exchange(row, {}));
    } else if (c == '"') {
      if (!cell.empty() || closed) return std::nullopt;
      quoted = true;
    } else {
      if (closed) return std::nullopt;
      cell += c;
    }
  }
  return rows;
}

}  // namespace weft
