#include "inspect/import/readers/nsight_file.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "base/utf8.h"
#include "inspect/import/impossible_records.h"
#include "inspect/import/trace_import.h"

namespace weft::inspect {
namespace {

constexpr const char* kNsightFix = "export it again: nsys export --type sqlite";
constexpr int kRangeEvents[] = {59, 60};                   // NVTX: a range pushed and popped, or started and ended
constexpr std::int64_t kMostTime = std::int64_t{1} << 61;  // so that sums of two times fit into 63 bits

class Database {
 public:
  explicit Database(const std::filesystem::path& path) : path_(path.string()) {
    // The file isn't changed, and no journal is written beside it.
    const std::string uri = "file:" + escaped(path_) + "?immutable=1";
    sqlite3* opened = nullptr;
    const int code = sqlite3_open_v2(uri.c_str(), &opened, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
    database_.reset(opened);
    if (code != SQLITE_OK) refuse(opened == nullptr ? "no memory" : sqlite3_errmsg(opened));
    sqlite3_limit(opened, SQLITE_LIMIT_LENGTH, kMostBytesOfRow);
    sqlite3_progress_handler(opened, kStepsBetweenLooks, is_late, this);
    refuse_code();
  }

  [[noreturn]] void refuse(std::string_view found) const {
    throw UserError(fmt::format("'{}': {}", path_, found), "a database of Nsight Systems", kNsightFix);
  }

  /// Refuses what the last call found.
  [[noreturn]] void refuse_error() const {
    if (sqlite3_errcode(database_.get()) == SQLITE_INTERRUPT)
      refuse(fmt::format("reading it takes more than {} minutes", kMostTimeOfReading.count()));
    refuse(sqlite3_errmsg(database_.get()));
  }

  sqlite3* get() const { return database_.get(); }

 private:
  static constexpr int kStepsBetweenLooks = 100'000, kMostBytesOfRow = 64 << 20;
  static constexpr std::chrono::minutes kMostTimeOfReading{30};

  static int is_late(void* self) {
    return std::chrono::steady_clock::now() - static_cast<Database*>(self)->opened_at_ > kMostTimeOfReading ? 1 : 0;
  }
  /// Refuses views, triggers, virtual tables and generated columns: the file's author wrote their code, which may never
  /// end. Exports have none of them.
  void refuse_code() const {
    sqlite3_stmt* found = nullptr;
    const char* const query =
        "SELECT type, name FROM sqlite_master WHERE type IN ('view', 'trigger') OR sql LIKE 'create virtual%' "
        "OR (type = 'table' AND coalesce(rootpage, 0) = 0) UNION ALL SELECT 'generated column', one.name || '.' || "
        "part.name FROM sqlite_master AS one, pragma_table_xinfo(one.name) AS part WHERE part.hidden > 1 LIMIT 1";
    if (sqlite3_prepare_v2(database_.get(), query, -1, &found, nullptr) != SQLITE_OK) refuse_error();
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(found, sqlite3_finalize);
    const int code = sqlite3_step(found);
    if (code == SQLITE_DONE) return;
    if (code != SQLITE_ROW) refuse_error();
    const auto text = [&](int column) {
      const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(found, column));
      return utf8_or_ascii(bytes == nullptr ? "" : bytes);
    };
    refuse(fmt::format("it has a {} '{}', which is code", text(0) == "table" ? "virtual table" : text(0), text(1)));
  }

  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close(database); }
  };
  static std::string escaped(const std::string& path) {
    std::string out;
    for (const char c : path) {
      const bool plain =
          std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '/' || c == '.' || c == '-' || c == '_';
      out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return out;
  }

  std::string path_;
  std::chrono::steady_clock::time_point opened_at_ = std::chrono::steady_clock::now();
  std::unique_ptr<sqlite3, Close> database_;
};

/// Rows of a query, one after the other.
class Rows {
 public:
  Rows(const Database& database, const std::string& query, std::initializer_list<std::int64_t> values = {})
      : database_(database) {
    sqlite3_stmt* prepared = nullptr;
    const int code = sqlite3_prepare_v2(database.get(), query.c_str(), -1, &prepared, nullptr);
    statement_.reset(prepared);
    if (code != SQLITE_OK) database.refuse_error();
    int index = 0;
    for (const std::int64_t value : values) sqlite3_bind_int64(prepared, ++index, value);
  }

  bool next() {
    const int code = sqlite3_step(statement_.get());
    if (code != SQLITE_ROW && code != SQLITE_DONE) database_.refuse_error();
    if (++rows_ > kMostRows) database_.refuse(fmt::format("a query has more than {} rows", kMostRows));
    return code == SQLITE_ROW;
  }
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  bool is_null(int column) const { return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL; }
  std::string text(int column) const {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
    return utf8_or_ascii(bytes == nullptr ? "" : bytes);
  }
  /// Nanoseconds that fit into sums.
  std::int64_t time(int column) const { return std::clamp<std::int64_t>(integer(column), -kMostTime, kMostTime); }
  std::int32_t small(int column, std::int32_t absent) const {
    return is_null(column) ? absent
                           : static_cast<std::int32_t>(std::clamp<std::int64_t>(integer(column), -1, INT32_MAX));
  }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  static constexpr std::int64_t kMostRows = 200'000'000;

  const Database& database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  std::int64_t rows_ = 0;
};

constexpr const char* kKernels = "CUPTI_ACTIVITY_KIND_KERNEL";
constexpr const char* kCopies = "CUPTI_ACTIVITY_KIND_MEMCPY";
constexpr const char* kSets = "CUPTI_ACTIVITY_KIND_MEMSET";
constexpr const char* kCalls = "CUPTI_ACTIVITY_KIND_RUNTIME";
constexpr const char* kSyncs = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
constexpr const char* kEvents = "CUPTI_ACTIVITY_KIND_CUDA_EVENT";

/// The columns of a table; none if the database lacks it, since tables are only made when something is in them.
std::set<std::string> columns_of(const Database& database, std::string_view table) {
  std::set<std::string> columns;
  Rows rows(database, fmt::format("PRAGMA table_info({})", table));
  while (rows.next()) columns.insert(rows.text(1));
  return columns;
}

/// The process in a serialized thread or process of Nsight Systems.
std::int64_t process_of(std::int64_t global) {
  return (global >> 24) & 0xFFFFFF;
}

struct NsightProcess {
  std::int64_t pid = 0, device = 0, ops = 0;
  bool has_others = false;  // of its process: devices that are ranks of their own
};

/// Processes, and devices of one process. A device with few of the kernels is none of its own.
std::vector<NsightProcess> processes_of(const Database& database) {
  const std::set<std::string> columns = columns_of(database, kKernels);
  if (columns.empty()) database.refuse("there is no table of kernels");
  std::map<std::int64_t, std::map<std::int64_t, std::int64_t>> kernels;  // by process and device
  const std::string process = columns.contains("globalPid") ? "globalPid" : "0";
  Rows rows(database,
            fmt::format("SELECT {}, deviceId, COUNT(*) FROM {} GROUP BY {}, deviceId", process, kKernels, process));
  while (rows.next()) kernels[process_of(rows.integer(0))][rows.small(1, 0)] += rows.integer(2);
  std::vector<NsightProcess> out;
  for (const auto& [pid, of_device] : kernels) {
    const std::vector<std::int32_t> devices = devices_of_ranks(of_device);
    for (const std::int32_t device : devices) out.push_back({pid, device, of_device.at(device), devices.size() > 1});
    if (devices.empty()) out.push_back({pid, of_device.begin()->first, of_device.begin()->second});
  }
  std::ranges::sort(out, {}, [](const NsightProcess& p) { return std::pair(p.device, p.pid); });
  return out;
}

/// Queries of NVTX ranges, one a table: versions of Nsight Systems give the table a suffix, or several with one each.
/// `more`: a further condition.
std::vector<std::string> mark_queries(const Database& database, std::string_view more = "") {
  std::vector<std::string> tables, queries;
  Rows found(database,
             "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'NVTX_EVENTS*' ORDER BY name");
  while (found.next()) tables.push_back(found.text(0));
  for (const std::string& table : tables) {
    const bool plain = std::ranges::all_of(table, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
    if (!plain) continue;
    const std::set<std::string> columns = columns_of(database, table);
    const bool texts = columns.contains("text"), ids = columns.contains("textId");
    const bool ranges = columns.contains("start") && columns.contains("end") && columns.contains("globalTid");
    if (!ranges || (!texts && !ids)) continue;
    const char* const text = !ids ? "e.text" : texts ? "COALESCE(e.text, s.value)" : "s.value";
    queries.push_back(fmt::format("SELECT e.start, e.end, e.globalTid, {} FROM {} AS e {} WHERE e.end IS NOT NULL{}{}",
                                  text, table, ids ? "LEFT JOIN StringIds AS s ON s.id = e.textId" : "",
                                  columns.contains("eventType")
                                      ? fmt::format(" AND e.eventType IN ({}, {})", kRangeEvents[0], kRangeEvents[1])
                                      : std::string(),
                                  more));
  }
  return queries;
}

/// The number of a range that marks a step; none of others.
std::optional<std::int64_t> marked_number(const std::string& text) {
  const std::string lower = lower_ascii(text);
  for (const std::string_view word : {"profilerstep#", "step ", "step_", "iteration ", "iteration_", "iter "}) {
    if (!lower.starts_with(word)) continue;
    if (const auto number = number_in<std::int64_t>(std::string_view(lower).substr(word.size()))) return number;
  }
  return std::nullopt;
}

class NsightReader {
 public:
  NsightReader(const Database& database, const NsightProcess& process, const TraceOutline& outline,
               const std::optional<MarkedStep>& step)
      : database_(database), pid_(process.pid), rules_(outline.communication) {
    if (process.has_others) device_ = static_cast<std::int32_t>(process.device);
    out_.file = outline.file;
    out_.rank = outline.rank;
    begin_ = step ? step->window.begin : -kMostTime;
    end_ = step ? step->window.end : kMostTime;
    latest_ = step ? std::min(step->latest_work, kMostTime) : kMostTime;
  }

  DeviceTrace run() && {
    read_kernels();
    read_copies(kCopies, DeviceWork::copy);
    read_copies(kSets, DeviceWork::set);
    read_calls();
    read_syncs();
    read_marks();
    std::ranges::stable_sort(out_.ops, {}, &DeviceOp::begin);
    if (device_) keep_device(out_, *device_);
    mend_records(out_);
    return std::move(out_);
  }

 private:
  bool ours(const Rows& rows, int column) const { return process_of(rows.integer(column)) == pid_; }

  void read_kernels() {
    const std::set<std::string> columns = columns_of(database_, kKernels);
    const char* name = columns.contains("demangledName") ? "demangledName" : "shortName";
    Rows rows(
        database_,
        fmt::format("SELECT k.start, k.end, k.deviceId, k.streamId, k.correlationId, s.value, {} FROM {} AS k LEFT "
                    "JOIN StringIds AS s ON s.id = k.{} WHERE k.start >= ?1 AND k.start < ?2",
                    columns.contains("globalPid") ? "k.globalPid" : "0", kKernels, name),
        {begin_, latest_});
    while (rows.next()) {
      if (!ours(rows, 6)) continue;
      const std::string text = rows.text(5);
      DeviceOp op = op_of(rows, text, DeviceWork::kernel);
      const auto [told, added] = communication_.try_emplace(op.name);
      if (added) told->second = communication_of(text, rules_);
      if (told->second) {
        op.collective = static_cast<std::uint32_t>(out_.collectives.size());
        out_.collectives.emplace_back().kind = *told->second;
      }
      out_.ops.push_back(op);
    }
  }

  DeviceOp op_of(const Rows& rows, std::string_view name, DeviceWork work) {
    DeviceOp op;
    op.begin = rows.time(0);
    op.end = std::max(op.begin, rows.time(1));
    op.device = rows.small(2, 0);
    op.stream = rows.small(3, 0);
    op.correlation = rows.is_null(4) ? kNoCorrelation : rows.integer(4);
    op.name = out_.names.number(name);
    op.work = work;
    return op;
  }

  void read_copies(const char* table, DeviceWork work) {
    const std::set<std::string> columns = columns_of(database_, table);
    if (columns.empty()) return;
    Rows rows(
        database_,
        fmt::format("SELECT start, end, deviceId, streamId, correlationId, bytes, {}, {} FROM {} WHERE start >= ?1 AND "
                    "start < ?2",
                    columns.contains("globalPid") ? "globalPid" : "0", columns.contains("copyKind") ? "copyKind" : "0",
                    table),
        {begin_, latest_});
    while (rows.next()) {
      if (!ours(rows, 6)) continue;
      const std::int64_t kind = rows.integer(7);
      const char* name = work == DeviceWork::set ? "Memset"
                         : kind == 1             ? "Memcpy HtoD"
                         : kind == 2             ? "Memcpy DtoH"
                         : kind == 8             ? "Memcpy DtoD"
                         : kind == 10            ? "Memcpy PtoP"
                                                 : "Memcpy";
      DeviceOp op = op_of(rows, name, work);
      op.bytes = static_cast<double>(std::max<std::int64_t>(0, rows.integer(5)));
      out_.ops.push_back(op);
    }
  }

  void read_calls() {
    if (columns_of(database_, kCalls).empty()) return;
    Rows rows(database_,
              fmt::format(
                  "SELECT r.start, r.end, r.globalTid, r.correlationId, s.value FROM {} AS r LEFT JOIN StringIds AS s "
                  "ON s.id = r.nameId WHERE r.start >= ?1 AND r.start < ?2 ORDER BY r.start",
                  kCalls),
              {begin_, end_});
    while (rows.next()) {
      if (!ours(rows, 2)) continue;
      const std::string name = rows.text(4);
      out_.calls.push_back({rows.time(0), std::max(rows.time(0), rows.time(1)), rows.integer(3),
                            rows.integer(2) & 0xFFFFFF, out_.names.number(name), host_call_kind(name)});
    }
  }

  /// Which cudaEventRecord a wait is for: the last one of its event before it.
  void read_syncs() {
    const std::set<std::string> columns = columns_of(database_, kSyncs), events = columns_of(database_, kEvents);
    if (columns.empty()) return;
    struct Record {
      std::int64_t event, time, correlation;
      std::int32_t stream;
    };
    std::vector<Record> records;
    if (!events.empty()) {
      Rows rows(
          database_,
          fmt::format(
              "SELECT e.eventId, r.start, e.correlationId, e.streamId, r.globalTid FROM {} AS e JOIN {} AS r ON "
              "r.correlationId = e.correlationId AND r.start >= ?1 AND r.start < ?2{}",
              kEvents, kCalls, events.contains("globalPid") ? " AND (r.globalTid >> 24) = (e.globalPid >> 24)" : ""),
          {begin_, end_});
      while (rows.next()) {
        if (ours(rows, 4)) records.push_back({rows.integer(0), rows.time(1), rows.integer(2), rows.small(3, -1)});
      }
      std::ranges::sort(records, {}, [](const Record& r) { return std::pair(r.event, r.time); });
    }
    Rows rows(database_,
              fmt::format(
                  "SELECT start, end, deviceId, streamId, correlationId, syncType, eventId, {} FROM {} WHERE start >= "
                  "?1 AND start < ?2 ORDER BY start",
                  columns.contains("globalPid") ? "globalPid" : "0", kSyncs),
              {begin_, end_});
    while (rows.next()) {
      if (!ours(rows, 7)) continue;
      const std::int64_t type = rows.integer(5);  // CUpti_ActivitySynchronizationType
      SyncRecord sync{.kind = type == 1   ? HostCallKind::event_sync
                              : type == 2 ? HostCallKind::wait
                              : type == 3 ? HostCallKind::stream_sync
                                          : HostCallKind::device_sync,
                      .begin = rows.time(0),
                      .end = std::max(rows.time(0), rows.time(1)),
                      .correlation = rows.integer(4),
                      .device = rows.small(2, 0),
                      .stream = rows.small(3, -1)};
      const std::pair<std::int64_t, std::int64_t> wanted(rows.integer(6), sync.begin);
      const auto after =
          std::ranges::upper_bound(records, wanted, {}, [](const Record& r) { return std::pair(r.event, r.time); });
      if (after != records.begin() && std::prev(after)->event == wanted.first) {
        sync.record_correlation = std::prev(after)->correlation;
        sync.wait_on_stream = std::prev(after)->stream;
      }
      out_.syncs.push_back(sync);
    }
  }

  void read_marks() {
    for (const std::string& query : mark_queries(database_, " AND e.start < ?2 AND e.end > ?1")) {
      Rows rows(database_, query, {begin_, end_});
      while (rows.next()) {
        const std::string text = rows.text(3);
        if (!ours(rows, 2) || marked_number(text)) continue;
        out_.marks.push_back({rows.time(0), rows.time(1), rows.integer(2) & 0xFFFFFF, out_.names.number(text)});
      }
    }
    std::ranges::sort(out_.marks, {},
                      [](const HostMark& mark) { return std::tuple(mark.begin, -mark.end, mark.name); });
  }

  const Database& database_;
  std::int64_t pid_, begin_, end_, latest_;
  std::optional<std::int32_t> device_;
  std::vector<CommunicationRule> rules_;
  std::unordered_map<std::uint32_t, std::optional<std::string>> communication_;  // by name
  DeviceTrace out_;
};

}  // namespace

std::vector<TraceOutline> read_nsight_outlines(const std::filesystem::path& path) {
  const Database database(path);
  const std::vector<NsightProcess> processes = processes_of(database);
  std::vector<TraceOutline> out(processes.size());
  for (std::size_t i = 0; i < processes.size(); ++i) {
    out[i].file = path.string();
    out[i].events = processes[i].ops;
  }
  for (const std::string& query : mark_queries(database)) {
    Rows rows(database, query);
    while (rows.next()) {
      const std::optional<std::int64_t> number = marked_number(rows.text(3));
      if (!number) continue;
      for (std::size_t i = 0; i < processes.size(); ++i) {
        if (process_of(rows.integer(2)) != processes[i].pid) continue;
        out[i].steps.push_back({.number = *number,
                                .window = {rows.time(0), std::max(rows.time(0), rows.time(1))},
                                .thread = rows.integer(2) & 0xFFFFFF});
      }
    }
  }
  for (TraceOutline& outline : out) sort_steps(outline.steps);
  return out;
}

DeviceTrace read_nsight_events(const std::filesystem::path& path, std::size_t process, const TraceOutline& outline,
                               const std::optional<MarkedStep>& step) {
  const Database database(path);
  return NsightReader(database, processes_of(database).at(process), outline, step).run();
}

/// A database may hold several processes, which are ranks then.
const TraceReader kNsightReader = {
    .name = "nsight",
    .reads = [](std::string_view head) { return head.starts_with("SQLite format 3"); },
    .open =
        [](const std::vector<std::filesystem::path>& files, const TellImport&) {
          std::vector<RankTrace> traces;
          for (const std::filesystem::path& file : files) {
            const std::vector<TraceOutline> outlines = read_nsight_outlines(file);
            for (std::size_t process = 0; process < outlines.size(); ++process) {
              traces.push_back(
                  {outlines[process], [process](const auto& outline, const auto& step, TraceChannels& channels) {
                     return recover_step(read_nsight_events(outline.file, process, outline, step), step, channels);
                   }});
            }
          }
          if (traces.size() == 1) traces.front().outline.rank = 0;
          return traces;
        }};

}  // namespace weft::inspect
