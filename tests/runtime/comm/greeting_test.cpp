// Who knows the token comes in; strangers are turned away by name, and hold nobody up.
#include "runtime/comm/greeting.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/runtime/comm/tcp_ranks.h"

namespace weft::comm {
namespace {

constexpr const char* kToken = "the token of this test";

std::span<const std::byte> as_sent(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class Greeting : public ::testing::Test {
 protected:
  Call call(const std::string& token, const std::string& words) const {
    return {{weft::testing::kLoopback.with_port(port_)}, token, words, "rank 0 of this test"};
  }
  Socket stranger() const {
    std::string why;
    auto socket = Socket::connected(weft::testing::kLoopback.with_port(port_), seconds_from_now(10), why);
    if (!socket) throw std::runtime_error(why);
    return std::move(*socket);
  }
  std::optional<Guest> next(double seconds) { return door_.next(seconds_from_now(seconds)); }

  std::vector<std::string> turned_away_;
  int port_ = 0;
  Door door_{[this] {
               Socket listener = Socket::listening(weft::testing::kLoopback);
               port_ = listener.local().port();
               return listener;
             }(),
             kToken, [this](const std::string&, const std::string& why) { turned_away_.push_back(why); }};
};

TEST_F(Greeting, LetsInWhoKnowsTheToken) {
  std::optional<Socket> caller;
  const std::jthread thread([&] { caller = call_at(call(kToken, "three words more"), seconds_from_now(20)); });
  std::optional<Guest> guest = next(20);
  ASSERT_TRUE(guest);
  EXPECT_EQ(guest->words, "three words more");
  ASSERT_TRUE(guest->socket.send_all(as_sent("hello"), seconds_from_now(5)));
  EXPECT_TRUE(turned_away_.empty());
}

TEST_F(Greeting, TurnsAwayAnotherToken) {
  std::string refusal;
  std::jthread thread([&] {
    refusal =
        weft::testing::message_of<UserError>([&] { call_at(call("another token", "words"), seconds_from_now(20)); });
  });
  while (turned_away_.empty()) EXPECT_FALSE(next(0.05));
  thread.join();
  EXPECT_EQ(turned_away_, std::vector<std::string>{"it has another token"});
  EXPECT_TRUE(has_parts(refusal, {"rank 0 of this test has another token", "--token-file"}));
}

// One says nothing, one speaks another protocol, one leaves, many come at once: a guest needn't wait for them.
TEST_F(Greeting, StrangersHoldNobodyUp) {
  const Socket silent = stranger();
  const Socket browser = stranger();
  ASSERT_TRUE(browser.send_all(as_sent("GET / HTTP/1.1\r\nHost: loom\r\n\r\n"), seconds_from_now(5)));
  stranger().close();
  EXPECT_FALSE(next(0.2));
  std::vector<Socket> crowd;
  for (int i = 0; i < 300; ++i) crowd.push_back(stranger());
  std::optional<Socket> caller;
  const std::jthread thread([&] { caller = call_at(call(kToken, "me"), seconds_from_now(30)); });
  const std::optional<Guest> guest = next(30);
  ASSERT_TRUE(guest);
  EXPECT_EQ(guest->words, "me");
  EXPECT_TRUE(std::ranges::find(turned_away_, "it isn't Weft") != turned_away_.end());
  EXPECT_TRUE(std::ranges::find(turned_away_, "it left without an answer") != turned_away_.end());
}

TEST_F(Greeting, RefusesWhatAnswersInItsPlace) {
  const Socket listener = Socket::listening(weft::testing::kLoopback);
  const Call to{{listener.local()}, kToken, "words", "rank 0 of this test"};
  const std::jthread server([&] {
    Socket socket;
    while (!socket.open()) socket = listener.accepted();
    std::ignore = socket.send_all(as_sent(std::string(100, 'x')), seconds_from_now(5));
  });
  EXPECT_TRUE(weft::testing::refuses([&] { call_at(to, seconds_from_now(20)); }, {"isn't Weft", "a port"}));
}

// A fake rank 0 that lets everybody in doesn't get one in.
TEST_F(Greeting, RefusesADoorThatDoesntKnowTheToken) {
  Socket listener = Socket::listening(weft::testing::kLoopback);
  const Call to{{listener.local()}, kToken, "words", "rank 0 of this test"};
  const std::jthread server([&] {
    Socket socket;
    while (!socket.open()) socket = listener.accepted();
    std::vector<std::byte> seen(11 + 32 + 4 + 5 + 32);
    const std::string challenge = "weft-tcp-1\n" + std::string(32, 'c');
    std::ignore = socket.send_all(as_sent(challenge), seconds_from_now(5));
    std::ignore = socket.receive_all(seen, seconds_from_now(5));
    std::ignore = socket.send_all(as_sent("y" + std::string(32, 'p')), seconds_from_now(5));
  });
  EXPECT_TRUE(weft::testing::refuses([&] { call_at(to, seconds_from_now(20)); }, {"has another token"}));
}

TEST_F(Greeting, NobodyAnswers) {
  const Call to{{weft::testing::kLoopback.with_port(weft::testing::free_port())}, kToken, "words", "rank 0"};
  EXPECT_TRUE(weft::testing::refuses([&] { call_at(to, seconds_from_now(0.2)); },
                                     {"rank 0 didn't answer in time", "Connection refused", "--peer-timeout"}));
}

TEST(Answer, ReadsBack) {
  const Answer answer{random_bytes(), std::string("words\0 more", 11), random_bytes()};
  const std::vector<std::byte> bytes = to_bytes(answer);
  EXPECT_EQ(answer_length(bytes), bytes.size());
  const Answer back = parse_answer(bytes);
  EXPECT_EQ(back.words, answer.words);
  EXPECT_EQ(back.challenge, answer.challenge);
  EXPECT_EQ(back.proof, answer.proof);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(parse_answer(std::span(bytes).first(size)), UserError) << size;
  }
}

TEST(Answer, OfNonsenseIsRefused) {
  EXPECT_THROW(answer_length(as_sent("SSH-2.0-OpenSSH_9.2")), UserError);
  std::vector<std::byte> bytes = to_bytes({{}, std::string(100, 'x'), {}});
  bytes[45] = std::byte{0xff};  // the length's third byte
  EXPECT_THROW(answer_length(bytes), UserError);
}

}  // namespace
}  // namespace weft::comm
