#include "train/run/run_token.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/files/input_file.h"
#include "base/keyed_digest.h"

namespace weft::train {
namespace {

constexpr std::size_t kLeastCharacters = 16, kMostCharacters = 4096;

UserError not_made(const std::string& path, const std::string& why) {
  return {fmt::format("the token file {} can't be made: {}", in_quotes(path), why),
          "a file with the secret of all ranks", "name one that is there: --token-file FILE"};
}

/// Makes the file whole or not at all: other processes may make it at the same time.
void make_token(const std::string& path) {
  std::string part = path + ".XXXXXX";
  const int file = ::mkostemp(part.data(), O_CLOEXEC);  // only this user may read it
  if (file < 0) throw not_made(path, std::strerror(errno));
  std::string text;
  for (const std::byte byte : random_bytes()) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  text += '\n';
  const bool written = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  int error = written && ::fsync(file) == 0 ? 0 : errno;
  ::close(file);
  if (error == 0 && ::link(part.c_str(), path.c_str()) != 0 && errno != EEXIST) error = errno;
  ::unlink(part.c_str());
  if (error != 0) throw not_made(path, std::strerror(error));
}

}  // namespace

std::string read_token(const std::string& named, const std::string& own) {
  const std::string& path = named.empty() ? own : named;
  if (path.empty()) {
    throw UserError("no token file: this user has no home folder", "a file with the secret of all ranks",
                    "--token-file FILE, the same for all ranks");
  }
  std::error_code none;
  if (named.empty() && !std::filesystem::exists(path, none)) make_token(path);
  std::string token = read_text_file(path, "the token file", kMostCharacters, "a file with the secret of all ranks",
                                     "make one: head -c 32 /dev/urandom | base64 > FILE; chmod 600 FILE");
  while (!token.empty() && static_cast<unsigned char>(token.back()) <= ' ') token.pop_back();
  if (token.size() < kLeastCharacters) {
    throw UserError(fmt::format("the token in {} has {} characters", in_quotes(path), token.size()),
                    fmt::format("at least {}, which nobody guesses", kLeastCharacters),
                    "head -c 32 /dev/urandom | base64 > FILE");
  }
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0 && (facts.st_mode & (S_IRGRP | S_IROTH)) != 0) {
    throw UserError(fmt::format("other users may read the token file {}", in_quotes(path)), "a secret",
                    fmt::format("chmod 600 {}", path));
  }
  return token;
}

}  // namespace weft::train
