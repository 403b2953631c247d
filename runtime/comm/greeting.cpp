#include "runtime/comm/greeting.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>

#include "base/error.h"

namespace weft::comm {
namespace {

constexpr std::string_view kProtocol = "weft-tcp-1\n";
constexpr double kPatience = 10;           // seconds that a caller has for its answer
constexpr std::size_t kMostCallers = 256;  // at once
constexpr std::byte kWelcome{'y'}, kUnknown{'n'};

constexpr std::size_t kChallengeLength = kProtocol.size() + sizeof(Digest);
constexpr std::size_t kHeadLength = kChallengeLength + sizeof(std::uint32_t);  // of an answer, without its words

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

std::vector<std::byte> challenge_bytes(const Digest& challenge) {
  std::vector<std::byte> bytes;
  append(bytes, as_bytes(kProtocol));
  append(bytes, challenge);
  return bytes;
}

/// Proofs of the two sides differ, so that none can be sent back.
Digest proof(std::string_view side, const std::string& token, const Digest& of_door, const Digest& of_caller,
             std::string_view words) {
  std::vector<std::byte> bytes;
  for (const std::span<const std::byte> part :
       {as_bytes(side), std::span<const std::byte>(of_door), std::span<const std::byte>(of_caller), as_bytes(words)}) {
    append(bytes, part);
  }
  return keyed_digest(as_bytes(token), bytes);
}

bool begins_as_ours(std::span<const std::byte> bytes) {
  const std::size_t known = std::min(bytes.size(), kProtocol.size());
  return std::ranges::equal(bytes.first(known), as_bytes(kProtocol).first(known));
}

std::uint32_t number_at(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < sizeof number; ++i) number |= std::to_integer<std::uint32_t>(bytes[at + i]) << (8 * i);
  return number;
}

UserError not_an_answer(std::string_view why) {
  return {fmt::format("a caller's answer {}", why), "a process of this run", "look for what else uses this port"};
}

/// One try. Empty: nobody is there yet, and `why` tells more.
std::optional<Socket> try_call(const Call& call, const Address& address, Deadline deadline, std::string& why) {
  std::optional<Socket> socket = Socket::connected(address, deadline, why);
  if (!socket) return std::nullopt;
  std::array<std::byte, kChallengeLength> asked{};
  if (!socket->receive_all(asked, deadline)) {
    why = "it ended the connection, or said nothing";
    return std::nullopt;
  }
  if (!begins_as_ours(asked)) {
    throw UserError(fmt::format("what answers in the place of {} isn't Weft", call.whom), "a process of the same run",
                    "give the run a port that nothing else uses");
  }
  Digest theirs{};
  std::copy(asked.begin() + kProtocol.size(), asked.end(), theirs.begin());
  const Digest own = random_bytes();
  const auto answer = to_bytes({own, call.words, proof("caller", call.token, theirs, own, call.words)});
  std::array<std::byte, 1 + sizeof(Digest)> verdict{};
  if (!socket->send_all(answer, deadline) || !socket->receive_all(verdict, deadline)) {
    why = "it ended the connection";
    return std::nullopt;
  }
  Digest shown{};
  std::copy(verdict.begin() + 1, verdict.end(), shown.begin());
  if (verdict[0] == kWelcome && equal_digests(shown, proof("door", call.token, theirs, own, ""))) return socket;
  throw UserError(fmt::format("{} has another token: it belongs to another run or user", call.whom),
                  "one token for all ranks", "give all ranks the same --token-file, and each run a port of its own");
}

}  // namespace

std::optional<std::size_t> answer_length(std::span<const std::byte> begin) {
  if (!begins_as_ours(begin)) throw not_an_answer("is of another protocol");
  if (begin.size() < kHeadLength) return std::nullopt;
  const std::uint32_t words = number_at(begin, kChallengeLength);
  if (words > kMostWords) throw not_an_answer("is too long");
  return kHeadLength + words + sizeof(Digest);
}

Answer parse_answer(std::span<const std::byte> bytes) {
  const std::optional<std::size_t> length = answer_length(bytes);
  if (!length || *length != bytes.size()) throw not_an_answer("is cut");
  Answer answer;
  std::copy_n(bytes.begin() + kProtocol.size(), answer.challenge.size(), answer.challenge.begin());
  const auto words = bytes.subspan(kHeadLength, bytes.size() - kHeadLength - sizeof(Digest));
  answer.words.assign(reinterpret_cast<const char*>(words.data()), words.size());
  std::ranges::copy(bytes.last(sizeof(Digest)), answer.proof.begin());
  return answer;
}

std::vector<std::byte> to_bytes(const Answer& answer) {
  std::vector<std::byte> bytes = challenge_bytes(answer.challenge);
  for (std::size_t i = 0; i < sizeof(std::uint32_t); ++i) {
    bytes.push_back(static_cast<std::byte>(answer.words.size() >> (8 * i)));
  }
  append(bytes, as_bytes(answer.words));
  append(bytes, answer.proof);
  return bytes;
}

Door::Door(Socket listener, std::string token, TurnedAway turned_away)
    : listener_(std::move(listener)), token_(std::move(token)), turned_away_(std::move(turned_away)) {}

std::optional<Guest> Door::next(Deadline deadline) {
  for (;;) {
    accept();
    std::optional<Guest> guest;
    for (Caller& caller : callers_) {
      if (!guest) guest = serve(caller);
    }
    std::erase_if(callers_, [](const Caller& caller) { return !caller.socket.open(); });
    if (guest || std::chrono::steady_clock::now() >= deadline) return guest;
    wait(deadline);
  }
}

void Door::wait(Deadline deadline) {
  std::vector<pollfd> all = {{listener_.get(), POLLIN, 0}};
  for (const Caller& caller : callers_) {
    all.push_back({caller.socket.get(), POLLIN, 0});
    deadline = std::min(deadline, caller.patience);
  }
  ::poll(all.data(), all.size(), milliseconds_until(deadline));
}

void Door::accept() {
  for (;;) {
    Caller caller{listener_.accepted(), "", random_bytes(), {}, seconds_from_now(kPatience)};
    if (!caller.socket.open()) return;
    if (callers_.size() == kMostCallers) {  // a caller of ours tries again
      turn_away(callers_.front(), "too many others call");
      callers_.erase(callers_.begin());
    }
    caller.from = caller.socket.peer().text();
    // A new connection has room for these bytes.
    if (!caller.socket.send_all(challenge_bytes(caller.challenge), std::chrono::steady_clock::now())) continue;
    callers_.push_back(std::move(caller));
  }
}

std::optional<Guest> Door::serve(Caller& caller) {
  try {
    for (;;) {
      // No more than the answer is read: what follows belongs to the guest's owner.
      const std::size_t length = answer_length(caller.read).value_or(kHeadLength);
      if (caller.read.size() == length && length > kHeadLength) break;
      const std::size_t known = caller.read.size();
      caller.read.resize(length);
      const std::optional<std::size_t> received = caller.socket.receive_some(std::span(caller.read).subspan(known));
      caller.read.resize(known + received.value_or(0));
      if (!received) {
        turn_away(caller, "it left without an answer");
        return std::nullopt;
      }
      if (*received > 0) continue;
      if (std::chrono::steady_clock::now() > caller.patience) turn_away(caller, "it says nothing");
      return std::nullopt;
    }
  } catch (const UserError&) {
    turn_away(caller, "it isn't Weft");
    return std::nullopt;
  }
  Answer answer = parse_answer(caller.read);
  const bool known =
      equal_digests(answer.proof, proof("caller", token_, caller.challenge, answer.challenge, answer.words));
  std::vector<std::byte> verdict = {known ? kWelcome : kUnknown};
  append(verdict, known ? proof("door", token_, caller.challenge, answer.challenge, "") : Digest{});
  if (!caller.socket.send_all(verdict, seconds_from_now(1)) || !known) {
    turn_away(caller, known ? "it left" : "it has another token");
    return std::nullopt;
  }
  return Guest{std::move(caller.socket), std::move(answer.words)};
}

void Door::turn_away(Caller& caller, const std::string& why) {
  caller.socket.close();
  turned_away_(caller.from, why);
}

Socket call_at(const Call& call, Deadline deadline) {
  constexpr auto kFirstPause = std::chrono::milliseconds(5), kLongestPause = std::chrono::milliseconds(200);
  std::string why = "its name isn't known here";
  for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    if (call.between_tries) call.between_tries();
    for (const Address& address : call.addresses) {
      if (std::optional<Socket> socket = try_call(call, address, deadline, why)) return std::move(*socket);
    }
    if (std::chrono::steady_clock::now() + pause >= deadline) break;
    std::this_thread::sleep_for(pause);
  }
  throw UserError(
      fmt::format("{} didn't answer in time ({})", call.whom, why), "all ranks, started within the limit",
      "start them together, look whether rank 0 ended with an error, or set --peer-timeout to more seconds");
}

}  // namespace weft::comm
