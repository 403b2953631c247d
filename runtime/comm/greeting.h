// The greeting of two processes: each proves to the other that it knows the run's token, which isn't sent.
//
//   door   → caller   name of the protocol, challenge
//   caller → door     name of the protocol, challenge, words, digest of both challenges and the words with the token
//   door   → caller   whether the digest is right, digest of both challenges with the token
//
// Whoever doesn't know the token is turned away and disturbs nobody: all callers are served at once, and none for long.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/keyed_digest.h"
#include "runtime/comm/socket.h"

namespace weft::comm {

/// What a caller answers.
struct Answer {
  Digest challenge;
  std::string words;  // who it is and what it wants
  Digest proof;
};
inline constexpr std::size_t kMostWords = 4096;

/// The length of an answer that begins so: empty while that isn't known. Throws UserError if it can't be an answer.
std::optional<std::size_t> answer_length(std::span<const std::byte> begin);
/// Throws UserError, unless the bytes are one answer.
Answer parse_answer(std::span<const std::byte> bytes);
std::vector<std::byte> to_bytes(const Answer& answer);

/// A caller that knows the token.
struct Guest {
  Socket socket;
  std::string words;
};

/// Receives callers at a listening socket.
class Door {
 public:
  /// `turned_away` is told the address of a caller, and why it is turned away.
  using TurnedAway = std::function<void(const std::string& from, const std::string& why)>;
  Door(Socket listener, std::string token, TurnedAway turned_away);

  /// The next guest; empty if none comes before the deadline.
  std::optional<Guest> next(Deadline deadline);

 private:
  struct Caller {
    Socket socket;
    std::string from;
    Digest challenge{};
    std::vector<std::byte> read;
    Deadline patience;
  };

  void wait(Deadline deadline);
  void accept();
  std::optional<Guest> serve(Caller& caller);
  void turn_away(Caller& caller, const std::string& why);

  Socket listener_;
  std::string token_;
  TurnedAway turned_away_;
  std::vector<Caller> callers_;
};

/// How a call is made and described.
struct Call {
  std::vector<Address> addresses;
  std::string token, words;
  std::string whom;                          // "rank 0 at 127.0.0.1:29500", for messages
  std::function<void()> between_tries = {};  // may throw
};

/// Calls at a door until somebody opens. Throws UserError if nobody does before the deadline, and at once if who opens
/// doesn't know the token.
Socket call_at(const Call& call, Deadline deadline);

}  // namespace weft::comm
