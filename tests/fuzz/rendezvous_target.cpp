// What processes tell each other when they meet over TCP: whatever is accepted is written as something that reads back
// equal. The first byte chooses the reader.
#include <algorithm>

#include "runtime/comm/control.h"
#include "runtime/comm/rendezvous.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace weft;

void read_answer(std::span<const std::byte> bytes) {
  comm::Answer answer;
  if (!fuzz::accepted([&] { answer = comm::parse_answer(bytes); })) return;
  fuzz::require(std::ranges::equal(comm::to_bytes(answer), bytes), "an answer that differs when it is written");
}

void read_introduction(std::string_view text) {
  comm::Introduction one;
  if (!fuzz::accepted([&] { one = comm::parse_introduction(text); })) return;
  fuzz::require(one.rank >= 0 && one.rank < one.ranks, "a rank outside of its world");
  fuzz::require(comm::parse_introduction(comm::to_text(one)) == one,
                "an introduction that differs when it is read back");
}

void read_peers(std::string_view text) {
  std::vector<comm::Peer> peers;
  if (!fuzz::accepted([&] { peers = comm::parse_peers(text); })) return;
  fuzz::require(comm::parse_peers(comm::to_text(peers)) == peers, "peers that differ when they are read back");
}

/// Frames come in two pieces.
void read_frames(std::span<const std::byte> bytes) {
  comm::FrameReader reader;
  try {
    for (const auto& piece : {bytes.first(bytes.size() / 3), bytes.subspan(bytes.size() / 3)}) {
      reader.add(piece);
      while (const auto frame = reader.next()) {
        if (frame->kind == comm::Frame::Kind::result) {
          const auto all = comm::parse_result(frame->content);
          fuzz::require(comm::to_content(all) == frame->content, "a result that differs when it is written");
        }
        if (frame->kind == comm::Frame::Kind::end) {
          fuzz::require(comm::to_content(comm::parse_end(frame->content)) == frame->content,
                        "an end that differs when it is written");
        }
      }
    }
  } catch (const RuntimeFault&) {
    return;
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text = fuzz::text_of(data + 1, size - 1);
  const auto bytes = std::as_bytes(std::span(text));
  switch (data[0] % 4) {
    case 0:
      read_answer(bytes);
      break;
    case 1:
      read_introduction(text);
      break;
    case 2:
      read_peers(text);
      break;
    default:
      read_frames(bytes);
  }
  return 0;
}
