#include "runtime/comm/control.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"

namespace weft::comm {
namespace {

constexpr int kCodeOfUserError = 2;
constexpr double kSecondsToAgree = 2;  // ranks that throw the same error do so at start-up, well within this time
constexpr std::uint64_t kMostContent = std::uint64_t{1} << 40;
constexpr std::size_t kFrameHead = 1 + sizeof(std::uint64_t);

void append_number(std::vector<std::byte>& to, std::uint64_t number) {
  for (std::size_t i = 0; i < sizeof number; ++i) to.push_back(static_cast<std::byte>(number >> (8 * i)));
}

/// Takes a number off the front.
std::uint64_t take_number(std::span<const std::byte>& bytes) {
  if (bytes.size() < sizeof(std::uint64_t)) throw RuntimeFault("a message of another rank is cut");
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < sizeof number; ++i) number |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  bytes = bytes.subspan(sizeof number);
  return number;
}

std::vector<std::byte> take_bytes(std::span<const std::byte>& bytes, std::uint64_t count) {
  if (count > bytes.size()) throw RuntimeFault("a message of another rank is cut");
  std::vector<std::byte> taken(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
  bytes = bytes.subspan(count);
  return taken;
}

}  // namespace

void FrameReader::add(std::span<const std::byte> bytes) {
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(at_));
  at_ = 0;
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

std::optional<Frame> FrameReader::next() {
  std::span<const std::byte> rest = std::span(bytes_).subspan(at_);
  if (rest.size() < kFrameHead) return std::nullopt;
  const auto kind = static_cast<Frame::Kind>(rest[0]);
  rest = rest.subspan(1);
  const std::uint64_t length = take_number(rest);
  if (kind > Frame::Kind::end || length > kMostContent) throw RuntimeFault("a message of another rank isn't one");
  if (rest.size() < length) return std::nullopt;
  at_ += kFrameHead + length;
  return Frame{kind, take_bytes(rest, length)};
}

std::vector<std::byte> to_bytes(const Frame& frame) {
  std::vector<std::byte> bytes = {static_cast<std::byte>(frame.kind)};
  append_number(bytes, frame.content.size());
  bytes.insert(bytes.end(), frame.content.begin(), frame.content.end());
  return bytes;
}

std::vector<std::byte> to_content(const std::vector<std::vector<std::byte>>& of_ranks) {
  std::vector<std::byte> bytes;
  append_number(bytes, of_ranks.size());
  for (const auto& each : of_ranks) append_number(bytes, each.size());
  for (const auto& each : of_ranks) bytes.insert(bytes.end(), each.begin(), each.end());
  return bytes;
}

std::vector<std::vector<std::byte>> parse_result(std::span<const std::byte> content) {
  const std::uint64_t count = take_number(content);
  if (count > content.size() / sizeof(std::uint64_t)) throw RuntimeFault("a message of another rank is cut");
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t i = 0; i < count; ++i) sizes.push_back(take_number(content));
  std::vector<std::vector<std::byte>> of_ranks;
  for (const std::uint64_t size : sizes) of_ranks.push_back(take_bytes(content, size));
  if (!content.empty()) throw RuntimeFault("a message of another rank is too long");
  return of_ranks;
}

std::vector<std::byte> to_content(const RunEnd& end) {
  std::vector<std::byte> bytes;
  append_number(bytes, static_cast<std::uint64_t>(static_cast<std::int64_t>(end.rank)));
  append_number(bytes, static_cast<std::uint64_t>(end.code));
  append_number(bytes, end.reported ? 1 : 0);
  const auto text = std::as_bytes(std::span(end.text));
  bytes.insert(bytes.end(), text.begin(), text.end());
  return bytes;
}

RunEnd parse_end(std::span<const std::byte> content) {
  RunEnd end;
  const auto rank = static_cast<std::int64_t>(take_number(content));
  const std::uint64_t code = take_number(content), reported = take_number(content);
  if (rank < -1 || rank > (1 << 20) || code > 255 || reported > 1) {
    throw RuntimeFault("a message of another rank isn't one");
  }
  end.rank = static_cast<int>(rank);
  end.code = static_cast<int>(code);
  end.reported = reported == 1;
  end.text.assign(reinterpret_cast<const char*>(content.data()), content.size());
  return end;
}

Control::Control(int rank, Meeting meeting)
    : rank_(rank),
      ranks_(static_cast<int>(meeting.peers.size())),
      peers_(std::move(meeting.peers)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      deposits_(peers_.size()) {
  if (rank != 0) address_of_rank_0_ = meeting.connections.front().peer();
  for (std::size_t i = 0; i < meeting.connections.size(); ++i) {
    if (!meeting.connections[i].open()) continue;
    Connection& connection = connections_.emplace_back();
    connection.rank = rank == 0 ? static_cast<int>(i) : 0;
    connection.socket = std::move(meeting.connections[i]);
  }
  thread_ = std::thread([this] { run(); });
}

Control::~Control() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    stop_by_ = seconds_from_now(1);
  }
  wake();
  thread_.join();
}

std::vector<std::vector<std::byte>> Control::exchange(std::span<const std::byte> bytes, bool last) {
  std::unique_lock lock(mutex_);
  if (end_) throw PeerLost(end_->text);
  leaving_ = last;
  if (rank_ == 0) {
    deposit(0, {bytes.begin(), bytes.end()}, last);
  } else {
    post(connections_.front(), last ? Frame::Kind::last_deposit : Frame::Kind::deposit, bytes);
  }
  changed_.wait(lock, [&] { return result_ || end_; });
  if (!result_) throw PeerLost(end_->text);
  auto all = std::move(*result_);
  result_.reset();
  over_ = last;
  return all;
}

std::optional<RunEnd> Control::end_within(double seconds) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, seconds_from_now(seconds), [&] { return end_.has_value(); });
  return end_;
}

void Control::expect_peers() {
  if (!ended()) return;
  const std::lock_guard lock(mutex_);
  throw PeerLost(end_->text);
}

void Control::throw_lost(int rank, const std::string& during) {
  // Rank 0 notices too, and knows whether the rank said why it leaves.
  if (const std::optional<RunEnd> end = end_within(1)) throw PeerLost(end->text);
  throw PeerLost(fmt::format("the connection to {} broke during {}",
                             name_of(rank, peers_[static_cast<std::size_t>(rank)]), during));
}

void Control::tell_failure(const std::string& reason, int exit_code) {
  std::unique_lock lock(mutex_);
  const RunEnd failure{rank_, exit_code, true, reason};
  if (rank_ == 0) {
    take_failure(0, failure);
  } else if (!end_) {
    post(connections_.front(), Frame::Kind::failure, to_content(failure));
  }
  changed_.wait_until(lock, seconds_from_now(1), [&] { return all_sent(); });
}

void Control::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wait(lock);
    for (Connection& connection : connections_) {
      if (!connection.socket.open()) continue;
      std::string why = "it ended without a word: it was killed, or its machine or the network failed";
      bool lives = false;
      try {
        lives = send(connection) && receive(connection);
      } catch (const RuntimeFault& error) {
        why = error.what();
      }
      if (!lives) lose(connection, why);
    }
    if (!failures_.empty() && !end_ && std::chrono::steady_clock::now() >= agreement_) conclude(failures_.front());
    if (all_sent()) changed_.notify_all();
    if (stopping_ && (all_closed() || std::chrono::steady_clock::now() >= stop_by_)) return;
  }
}

// A connection that is closed while bytes of the other side arrive would be reset there, and what it sent last be lost.
// So each side says that it sends no more, and closes when the other one has said so.
bool Control::all_closed() {
  bool closed = true;
  for (Connection& connection : connections_) {
    if (!connection.socket.open()) continue;
    closed = false;
    if (connection.idle()) ::shutdown(connection.socket.get(), SHUT_WR);
  }
  return closed;
}

// Until something can be done. What was posted meanwhile is sent by the caller of this function.
void Control::wait(std::unique_lock<std::mutex>& lock) {
  std::vector<pollfd> all = {{wake_.get(), POLLIN, 0}};
  for (const Connection& connection : connections_) {
    if (!connection.socket.open()) continue;
    const auto events = static_cast<short>(connection.idle() ? POLLIN : POLLIN | POLLOUT);
    all.push_back({connection.socket.get(), events, 0});
  }
  int longest = -1;
  if (!failures_.empty() && !end_) longest = milliseconds_until(agreement_);
  if (stopping_) longest = milliseconds_until(stop_by_);
  lock.unlock();
  ::poll(all.data(), all.size(), longest);
  std::uint64_t woken = 0;
  if (all.front().revents != 0) (void)!::read(wake_.get(), &woken, sizeof woken);
  lock.lock();
}

bool Control::send(Connection& connection) {
  while (!connection.idle()) {
    const auto sent = connection.socket.send_some(std::span(connection.out).subspan(connection.sent));
    if (!sent) return false;
    if (*sent == 0) return true;
    connection.sent += *sent;
  }
  connection.out.clear();
  connection.sent = 0;
  return true;
}

bool Control::receive(Connection& connection) {
  std::array<std::byte, 1 << 16> bytes;
  for (;;) {
    const std::optional<std::size_t> received = connection.socket.receive_some(bytes);
    if (!received) return false;
    if (*received == 0) return true;
    connection.reader.add(std::span(bytes).first(*received));
    while (std::optional<Frame> frame = connection.reader.next()) handle(connection, std::move(*frame));
  }
}

void Control::handle(Connection& connection, Frame frame) {
  switch (frame.kind) {
    case Frame::Kind::deposit:
    case Frame::Kind::last_deposit:
      if (rank_ == 0) deposit(connection.rank, std::move(frame.content), frame.kind == Frame::Kind::last_deposit);
      return;
    case Frame::Kind::failure:
      if (rank_ == 0) take_failure(connection.rank, parse_end(frame.content));
      return;
    case Frame::Kind::result: {
      if (rank_ == 0) return;
      auto all = parse_result(frame.content);
      if (static_cast<int>(all.size()) != ranks_) throw RuntimeFault("rank 0 sent the bytes of other ranks");
      result_ = std::move(all);
      changed_.notify_all();
      return;
    }
    case Frame::Kind::end:
      RunEnd end = parse_end(frame.content);
      if (end.rank >= ranks_) throw RuntimeFault("rank 0 told of a rank that isn't there");
      if (rank_ != 0) conclude(std::move(end));
      return;
  }
}

void Control::deposit(int rank, std::vector<std::byte> bytes, bool last) {
  if (end_) return;
  deposits_[static_cast<std::size_t>(rank)] = std::move(bytes);
  if (last) ++last_deposits_;
  if (!std::ranges::all_of(deposits_, [](const auto& each) { return each.has_value(); })) return;
  if (last_deposits_ != 0 && last_deposits_ != ranks_) {
    return conclude({rank, 3, false, "some ranks ended while others went on"});
  }
  std::vector<std::vector<std::byte>> all;
  for (auto& each : deposits_) all.push_back(*std::exchange(each, std::nullopt));
  over_ = last_deposits_ == ranks_;
  const std::vector<std::byte> content = to_content(all);
  for (Connection& connection : connections_) post(connection, Frame::Kind::result, content);
  result_ = std::move(all);
  changed_.notify_all();
}

void Control::take_failure(int rank, const RunEnd& failure) {
  if (end_) return;
  RunEnd end = failure;
  end.rank = rank;
  if (end.code != kCodeOfUserError) return conclude(end);
  if (failures_.empty()) agreement_ = seconds_from_now(kSecondsToAgree);
  failures_.push_back(end);
  if (end.text != failures_.front().text) return conclude(failures_.front());
  if (static_cast<int>(failures_.size()) == ranks_) return conclude({-1, kCodeOfUserError, true, end.text});
  wake();  // for the time limit
}

void Control::lose(Connection& connection, const std::string& why) {
  connection.socket.close();
  connection.out.clear();
  connection.sent = 0;
  if (over_ || end_ || (leaving_ && result_)) return;  // after the last exchange
  if (!failures_.empty()) return conclude(failures_.front());
  conclude({connection.rank, 3, false,
            fmt::format("{} is lost: {}", name_of(connection.rank, peers_[static_cast<std::size_t>(connection.rank)]),
                        why)});
}

void Control::conclude(RunEnd end) {
  if (end_) return;
  if (rank_ == 0) {
    const std::vector<std::byte> content = to_content(end);
    for (Connection& connection : connections_) post(connection, Frame::Kind::end, content);
  }
  end_ = std::move(end);
  ended_.store(true);
  changed_.notify_all();
}

void Control::post(Connection& connection, Frame::Kind kind, std::span<const std::byte> content) {
  if (!connection.socket.open()) return;
  const std::vector<std::byte> bytes = to_bytes({kind, {content.begin(), content.end()}});
  connection.out.insert(connection.out.end(), bytes.begin(), bytes.end());
  wake();
}

bool Control::all_sent() const {
  return std::ranges::all_of(connections_, &Connection::idle);
}

void Control::wake() const {
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

}  // namespace weft::comm
