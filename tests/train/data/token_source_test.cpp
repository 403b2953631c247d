// Text and token files: reading, holding out and refusals.
#include "train/data/token_source.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/train/data/written_tokens.h"
#include "train/data/token_file.h"

namespace weft::train {
namespace {

using Ids = std::vector<std::int32_t>;
constexpr std::int32_t kEnd = 256;

Ids all(const TokenStream& stream) {
  Ids ids(stream.size());
  stream.copy(0, stream.size(), ids.data());
  return ids;
}

template <class Word>
std::string words(const std::vector<Word>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Word)};
}

std::string llmc_header(std::uint32_t magic, std::uint32_t version, std::uint32_t count) {
  std::vector<std::uint32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return words(header);
}

std::string refusal(const TokenSourceOptions& options) {
  return testing::message_of<UserError>([&] { TokenSource::open(options); });
}

TEST(TokenStream, JoinsPartsOfEveryEncoding) {
  const testing::TemporaryFolder folder;
  const auto file = [&](std::string_view name, const std::string& content) {
    return std::make_shared<const InputFile>(folder.write(name, content));
  };
  TokenStream stream(70001);
  const auto wide = file("wide", words<std::uint32_t>({70000}));
  stream.append({file("text", "a\xE9"), TokenEncoding::bytes, 0, 2, true});
  stream.append({file("odd", "?" + words<std::uint16_t>({300, 65535})), TokenEncoding::u16, 1, 2, false});
  stream.append({wide, TokenEncoding::u32, 0, 0, false});  // empty: no part
  stream.append({wide, TokenEncoding::u32, 0, 1, true});
  const Ids expected = {'a', 0xE9, kEnd, 300, 65535, 70000, kEnd};
  ASSERT_EQ(stream.size(), expected.size());
  for (std::size_t begin = 0; begin <= expected.size(); ++begin) {
    for (std::size_t count = 0; begin + count <= expected.size(); ++count) {
      Ids ids(count);
      stream.copy(begin, count, ids.data());
      EXPECT_TRUE(std::equal(ids.begin(), ids.end(), expected.begin() + static_cast<std::ptrdiff_t>(begin)));
    }
  }
  EXPECT_EQ(stream.at(4), 65535);
  EXPECT_THROW(stream.at(7), std::out_of_range);
  Ids ids(8);
  EXPECT_THROW(stream.copy(1, UINT64_MAX, ids.data()), std::out_of_range);
}

TEST(TokenStream, AFileThatChangesIsNamed) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.write("ids.bin", words(std::vector<std::uint16_t>(10, 1)));
  TokenStream stream(5);
  stream.append({std::make_shared<const InputFile>(path), TokenEncoding::u16, 0, 10, false});
  Ids ids(10);
  const auto fault = [&] { return testing::message_of<RuntimeFault>([&] { stream.copy(0, 10, ids.data()); }); };
  EXPECT_EQ(fault(), "");
  std::vector<std::uint16_t> larger(10, 1);
  larger[9] = 5;
  folder.write("ids.bin", words(larger));
  EXPECT_TRUE(has_parts(fault(), {"ids.bin' was changed", "the id 5"}));
  std::filesystem::resize_file(path, 11);
  EXPECT_TRUE(has_parts(fault(), {"ids.bin' was truncated", "has 11 bytes", "had 20"}));
  // A new file of that name is another one.
  std::filesystem::remove(path);
  folder.write("ids.bin", words(std::vector<std::uint16_t>(10, 1)));
  EXPECT_TRUE(has_parts(fault(), {"has 11 bytes"}));
}

TEST(TokenSource, HoldsOutTheLastTenthOfEachTextFile) {
  const testing::TemporaryFolder folder;
  folder.write("b.txt", "klmnopqrstuvwxyzABCDE");  // 21 bytes: 2 held out
  folder.write("a.txt", "0123456789");             // 10 bytes: 1
  const TokenSource source = TokenSource::open({folder.path(), "", 257, 4});
  Ids train, held_out;
  for (const char c : std::string_view("012345678")) train.push_back(c);
  train.push_back(kEnd);
  for (const char c : std::string_view("klmnopqrstuvwxyzABC")) train.push_back(c);
  train.push_back(kEnd);
  EXPECT_EQ(all(source.train), train);
  EXPECT_EQ(all(source.held_out), (Ids{'9', kEnd, 'D', 'E', kEnd}));
  EXPECT_EQ(source.description(), "2 text files, 30 tokens to train on, 5 held out (the last 10 % of each file)");
  EXPECT_TRUE(source.is_text);
}

TEST(TokenSource, TheDigestIsOfTheTokensAndOfWhatIsHeldOut) {
  const testing::TemporaryFolder folder;
  const std::string text = "0123456789", other = "0123456780";
  const std::string a = folder.write("a.txt", text), same = folder.write("b.txt", text);
  const auto digest = [](const std::string& data, const std::string& val_data) {
    return TokenSource::open({data, val_data, 257, 4}).digest;
  };
  EXPECT_EQ(digest(a, ""), digest(same, ""));
  EXPECT_EQ(digest(a, a), digest(same, same));
  EXPECT_NE(digest(a, ""), digest(a, a));
  EXPECT_NE(digest(a, ""), digest(folder.write("c.txt", other), ""));
  EXPECT_NE(digest(a, ""), digest(folder.write("d.txt", text + "9"), ""));
  EXPECT_NE(digest(a, a), digest(a, folder.path("c.txt")));
}

TEST(TokenSource, AFolderLeavesOutLinksCopiesBinariesAndEmptyFiles) {
  const testing::TemporaryFolder folder;
  folder.write("a.txt", "01234567890123456789");
  folder.write("copy.txt", "01234567890123456789");
  folder.write("empty.txt", "");
  folder.write("image.png", std::string("PNG\0\0", 5));
  folder.write("below/c.txt", "not read");
  std::filesystem::create_symlink(folder.path("a.txt"), folder.path("link.txt"));
  const TokenSource source = TokenSource::open({folder.path(), "", 257, 4});
  EXPECT_EQ(source.files, 1U);
  EXPECT_EQ(source.train.size() + source.held_out.size(), 22U);
  EXPECT_EQ(source.notes, (std::vector<std::string>{
                              "below: left out, it is a folder", "copy.txt: left out, it equals a.txt",
                              "empty.txt: left out, it is empty", "image.png: left out, it has a NUL byte at 3"}));
}

TEST(TokenSource, ReadsLlmcAndNanoGptFiles) {
  const testing::TemporaryFolder folder;
  std::vector<std::uint16_t> narrow;
  std::vector<std::uint32_t> wide;
  for (std::uint32_t i = 0; i < 20; ++i) {
    narrow.push_back(static_cast<std::uint16_t>(50256 - i));
    wide.push_back(128255 - i);
  }
  const TokenSource v1 =
      TokenSource::open({folder.write("1.bin", llmc_header(20240520, 1, 20) + words(narrow)), "", 50257, 4});
  const TokenSource v7 =
      TokenSource::open({folder.write("7.bin", llmc_header(20240801, 7, 20) + words(wide)), "", 128256, 4});
  const TokenSource raw = TokenSource::open({folder.write("raw.bin", words(narrow)), "", 50257, 4});
  for (const TokenSource* source : {&v1, &raw}) {
    EXPECT_EQ(source->train.size(), 18U);
    EXPECT_EQ(source->train.at(17), 50239);
    EXPECT_EQ(all(source->held_out), (Ids{50238, 50237}));
    EXPECT_FALSE(source->is_text);
  }
  EXPECT_EQ(v7.train.at(0), 128255);
  EXPECT_EQ(all(v7.held_out), (Ids{128237, 128236}));
}

TEST(TokenSource, AFolderOfTokenFiles) {
  const testing::TemporaryFolder folder;
  folder.write("x_1.bin", words(std::vector<std::uint16_t>(10, 1)));
  folder.write("x_2.bin", words(std::vector<std::uint16_t>(10, 2)));
  EXPECT_EQ(TokenSource::open({folder.path(), "", 257, 4}).description(),
            "2 u16 token files, 18 tokens to train on, 2 held out (the last 10 % of each file)");
  folder.write("readme.txt", "text");
  EXPECT_TRUE(has_parts(refusal({folder.path(), "", 257, 4}), {"2 .bin files among 3 files", "--data"}));
}

TEST(TokenSource, RefusesIdsOutsideTheVocabularyByPosition) {
  const testing::TemporaryFolder folder;
  std::vector<std::uint16_t> narrow(30, 5);
  narrow[17] = 257;
  EXPECT_TRUE(has_parts(refusal({folder.write("raw.bin", words(narrow)), "", 257, 4}),
                        {"raw.bin': read as 16 bits, token 17 has id 257", "token 0 has id 327685", "below 257"}));
  EXPECT_TRUE(has_parts(refusal({folder.path("raw.bin"), "", 257, 4, TokenWidth::u16}), {"token 17 has id 257"}));
  std::vector<std::uint32_t> wide(30, 5);
  wide[29] = UINT32_MAX;
  EXPECT_TRUE(has_parts(refusal({folder.write("7.bin", llmc_header(20240801, 7, 30) + words(wide)), "", 128256, 4}),
                        {"token 29 has id 4294967295"}));
}

TEST(TokenSource, RefusesDamagedAndForeignBinFiles) {
  const testing::TemporaryFolder folder;
  const std::string body = words(std::vector<std::uint16_t>(30, 5));
  const auto bin = [&](const std::string& content) { return refusal({folder.write("t.bin", content), "", 257, 4}); };
  EXPECT_TRUE(has_parts(bin(llmc_header(20240520, 1, 31) + body), {"1084 bytes", "1086 bytes for the 31 tokens"}));
  EXPECT_TRUE(has_parts(bin(llmc_header(20240520, 1, 29) + body), {"1082 bytes for the 29 tokens"}));
  EXPECT_TRUE(has_parts(bin(llmc_header(20240520, 1, UINT32_MAX) + body), {"8589935614 bytes"}));
  EXPECT_TRUE(has_parts(bin(llmc_header(20240520, 2, 30) + body), {"version 2", "version 1"}));
  EXPECT_TRUE(has_parts(bin(llmc_header(20240801, 1, 30) + body), {"version 1", "version 7"}));
  EXPECT_TRUE(has_parts(bin(llmc_header(20240326, 3, 30) + body), {"is an llm.c model"}));
  EXPECT_TRUE(has_parts(bin(llmc_header(20240520, 1, 30).substr(0, 500)), {"truncated: 500 bytes"}));
  EXPECT_TRUE(has_parts(bin(body + "x"), {"61 bytes, an odd number"}));
}

// Each case gives the width that "auto" takes; nullopt if it refuses.
TEST(TokenSource, TheWidthOfBareIdsIsTheOneAtWhichTheyAreInTheVocabulary) {
  const testing::TemporaryFolder folder;
  const auto ids = [](std::uint32_t most, std::size_t count, auto word) {
    std::vector<decltype(word)> values;
    for (std::uint32_t i = 0; i < count; ++i)
      values.push_back(static_cast<decltype(word)>((i * 7919 + 5) % (most + 1)));
    return words(values);
  };
  const auto narrow = [&](std::uint32_t most, std::size_t count) { return ids(most, count, std::uint16_t{}); };
  const auto wide = [&](std::uint32_t most, std::size_t count) { return ids(most, count, std::uint32_t{}); };
  struct Case {
    const char* name;
    std::string content;
    std::int64_t vocab;
    bool accepted;  // as u16
    std::vector<std::string_view> parts;
  };
  const std::vector<Case> cases = {
      {"GPT-2's in 16 bits", narrow(50256, 200), 50257, true, {}},
      {"an odd number of them", narrow(50256, 201), 50257, true, {}},
      {"in 16 bits for a larger vocabulary", narrow(50256, 200), 128256, true, {}},
      {"bytes in 16 bits", narrow(256, 200), 257, true, {}},
      {"GPT-2's in 32 bits", wide(50256, 200), 50257, false, {"at 16 bits and at 32 bits", "--data-dtype u32"}},
      {"bytes in 32 bits", wide(255, 200), 257, false, {"at 16 bits and at 32 bits", "--data-dtype u32"}},
      {"Llama 3's in 32 bits", wide(128255, 200), 128256, false, {"is at most 1", "--data-dtype u32"}},
      {"in 32 bits beyond the vocabulary", wide(128255, 200), 100000, false, {"at most 1", "--data-dtype u16"}},
      {"in 16 bits beyond the vocabulary", narrow(50256, 200), 257, false, {"as 16 bits, token 1 has", "--data-dtype"}},
      {"zeros", std::string(400, '\0'), 50257, false, {"at most 0", "--data-dtype"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const std::string path = folder.write("ids.bin", c.content);
    if (!c.accepted) {
      const std::string message = refusal({path, "", c.vocab, 4});
      for (const std::string_view part : c.parts) EXPECT_TRUE(has_parts(message, {part}));
      continue;
    }
    const TokenSource source = TokenSource::open({path, "", c.vocab, 4});
    EXPECT_EQ(source.train.size() + source.held_out.size(), c.content.size() / 2);
  }
}

TEST(TokenSource, AWidthThatIsToldIsTaken) {
  const testing::TemporaryFolder folder;
  const std::string ids = folder.write("ids.bin", words(std::vector<std::uint32_t>(20, 7)));
  EXPECT_EQ(all(TokenSource::open({ids, "", 257, 4, TokenWidth::u32}).held_out), (Ids{7, 7}));
  EXPECT_EQ(all(TokenSource::open({ids, "", 257, 4, TokenWidth::u16}).held_out), (Ids{7, 0, 7, 0}));
  const std::string odd = folder.write("odd.bin", words(std::vector<std::uint16_t>(21, 7)));
  EXPECT_TRUE(has_parts(refusal({odd, "", 257, 4, TokenWidth::u32}), {"42 bytes", "4 bytes an id"}));
  const std::string header =
      folder.write("header.bin", llmc_header(20240520, 1, 20) + words(std::vector<std::uint16_t>(20, 7)));
  EXPECT_EQ(TokenSource::open({header, "", 257, 4, TokenWidth::u16}).train.size(), 18U);
  EXPECT_TRUE(has_parts(refusal({header, "", 257, 4, TokenWidth::u32}), {"ids of 16 bits", "--data-dtype auto"}));
  EXPECT_TRUE(has_parts(refusal({folder.write("t.txt", "text"), "", 257, 4, TokenWidth::u16}), {"is text"}));
}

TEST(TokenSource, ValFilesOfAFolderAreHeldOutWholly) {
  const testing::TemporaryFolder folder;
  const auto shard = [&](const std::string& name, std::uint16_t id, std::uint32_t count) {
    folder.write(name, llmc_header(20240520, 1, count) + words(std::vector<std::uint16_t>(count, id)));
  };
  shard("x_train_000001.bin", 1, 20);
  shard("x_train_000002.bin", 2, 20);
  shard("x_val_000000.bin", 3, 20);
  shard("interval.bin", 4, 20);  // another word
  const TokenSource source = TokenSource::open({folder.path(), "", 257, 4});
  Ids train(60, 1);
  std::fill(train.begin(), train.begin() + 20, 4);
  std::fill(train.begin() + 40, train.end(), 2);
  EXPECT_EQ(all(source.train), train);
  EXPECT_EQ(all(source.held_out), Ids(20, 3));
  EXPECT_EQ(source.description(), "4 u16 token files, 60 tokens to train on, 20 held out (1 val file)");
  EXPECT_EQ(source.notes.size(), 0U);

  // Other held-out data takes its place; it is trained on no more than before.
  const testing::TemporaryFolder other;
  const std::string val_data = other.write("v.bin", words(std::vector<std::uint16_t>(6, 5)));
  const TokenSource replaced = TokenSource::open({folder.path(), val_data, 257, 4});
  EXPECT_EQ(all(replaced.train), train);
  EXPECT_EQ(all(replaced.held_out), Ids(6, 5));
  EXPECT_EQ(replaced.notes.size(), 1U);
  // Of a folder given as held-out data, its val files are.
  const TokenSource of_folder = TokenSource::open({val_data, folder.path(), 257, 4});
  EXPECT_EQ(all(of_folder.held_out), Ids(20, 3));
  EXPECT_EQ(of_folder.notes.size(), 3U);

  EXPECT_EQ(all(TokenSource::open({folder.path("x_val_000000.bin"), "", 257, 4}).train), Ids(18, 3));
  const testing::TemporaryFolder alone;
  alone.write("val.bin", words(std::vector<std::uint16_t>(20, 5)));
  EXPECT_TRUE(has_parts(refusal({alone.path(), "", 257, 4}), {"val files alone"}));
}

TEST(TokenSource, ValFilesOfAFolderOfTextsAreHeldOutWholly) {
  const testing::TemporaryFolder folder;
  folder.write("a.txt", "0123456789");
  folder.write("invalid.txt", "abcdefghij");  // another word
  folder.write("wiki.valid.txt", "klm");
  folder.write("validation", "no");
  const TokenSource source = TokenSource::open({folder.path(), "", 257, 4});
  EXPECT_EQ(source.train.size(), 22U);
  EXPECT_EQ(all(source.held_out), (Ids{'n', 'o', kEnd, 'k', 'l', 'm', kEnd}));
  EXPECT_EQ(source.description(), "4 text files, 22 tokens to train on, 7 held out (2 val files)");
  // A file alone is trained on, whatever its name.
  EXPECT_EQ(TokenSource::open({folder.write("val.txt", "0123456789"), "", 257, 4}).train.size(), 10U);
}

PathList paths_in(const std::vector<std::filesystem::path>& paths) {
  PathList list;
  for (const auto& path : paths) list.add(path);
  return list;
}

TEST(TokenSource, SeveralPathsAreReadInTheirOrder) {
  const testing::TemporaryFolder folder;
  folder.write("below/2.txt", "2222222222");
  folder.write("below/1.txt", "1111111111");
  folder.write("z.txt", "zzzzzzzzzz");
  folder.write("a[1].txt", "aaaaaaaaaa");
  folder.write("a1.txt", "");
  const auto of = [&](const std::vector<std::string>& names) {
    std::vector<std::filesystem::path> paths;
    for (const std::string& name : names) paths.push_back(folder.path(name));
    return TokenSource::open({paths_in(paths), "", 257, 4});
  };
  const auto firsts = [](const TokenSource& source) {
    std::string text;
    for (std::uint64_t at = 0; at < source.train.size(); at += 10) text += static_cast<char>(source.train.at(at));
    return text;
  };
  EXPECT_EQ(firsts(of({"z.txt", "below"})), "z12");
  EXPECT_EQ(firsts(of({"below", "z.txt"})), "12z");
  EXPECT_EQ(firsts(of({"below/*.txt", "z.txt", "a[1].txt"})), "12za");  // a file of that name, not a1.txt
  EXPECT_EQ(firsts(of({"z.txt", "belo?"})), "z12");
  EXPECT_EQ(all(of({"z.txt", "below"}).held_out), (Ids{'z', kEnd, '1', kEnd, '2', kEnd}));
  EXPECT_NE(of({"z.txt", "below"}).digest, of({"below", "z.txt"}).digest);
  EXPECT_EQ(of({"below/1.txt", "below/2.txt"}).digest, of({"below"}).digest);
  EXPECT_EQ(of({"below/[1-9].txt"}).description(), of({"below"}).description());
  // What is left out of a folder is left out of several files.
  const TokenSource noted = of({"z.txt", "a1.txt", "z.txt", "below/1.txt"});
  EXPECT_EQ(firsts(noted), "z1");
  EXPECT_EQ(noted.notes,
            (std::vector<std::string>{"a1.txt: left out, it is empty", "z.txt: left out, it equals z.txt"}));
  folder.write("my_val.txt", "vv");
  EXPECT_EQ(all(of({"my_val.txt", "z.txt"}).held_out), (Ids{'v', 'v', kEnd}));
  const TokenSource val = TokenSource::open(
      {folder.path("z.txt"), paths_in({folder.path("below/2.txt"), folder.path("below/1.txt")}), 257, 4});
  EXPECT_EQ(val.held_out.at(0), '2');
  EXPECT_EQ(val.held_out.size(), 22U);
}

TEST(TokenSource, SeveralPathsAreOfOneKind) {
  const testing::TemporaryFolder folder;
  const std::string text = folder.write("t.txt", "0123456789");
  const std::string bin = folder.write("t.bin", words(std::vector<std::uint16_t>(30, 5)));
  folder.write("bins/1.bin", words(std::vector<std::uint16_t>(30, 6)));
  folder.write("bins/1.bin.json", "{}");
  EXPECT_TRUE(has_parts(refusal({paths_in({text, bin}), "", 257, 4}),
                        {"t.txt' is text and", "t.bin' is tokens", "data of one kind", "tokenize the text"}));
  EXPECT_TRUE(has_parts(refusal({paths_in({folder.path("bins"), text}), "", 257, 4}), {"bins' is tokens"}));
  EXPECT_TRUE(has_parts(refusal({paths_in({text, folder.path("none*")}), "", 257, 4}),
                        {"none*' doesn't exist", "check the path"}));
  EXPECT_EQ(TokenSource::open({paths_in({bin, folder.path("bins/*")}), "", 257, 4}).files, 2U);
}

TEST(TokenSource, TellsWhereDocumentsBegin) {
  const testing::TemporaryFolder folder;
  const auto starts_of = [](const TokenStream& stream) {
    Ids starts(stream.size());
    stream.document_starts(0, starts);
    return starts;
  };
  const auto masked = [](const PathList& data, ValSplit split = ValSplit::tail) {
    return TokenSource::open({.data = data, .seq_len = 4, .split = split, .documents = true});
  };
  const std::string file = testing::write_documents(folder, "1.bin", {{1, 2, 3}, {4, 5, 6, 7, 8, 9}, {10, 11, 12}});
  const std::string other = testing::write_documents(folder, "2.bin", {Ids(15, 7), Ids(5, 8)});
  const TokenSource both = masked(paths_in({file, other}));
  Ids expected = {0, 0, 0, 3, 3, 3, 3, 3, 3, 9, 9};
  expected.insert(expected.end(), 15, 11);
  expected.insert(expected.end(), 3, 26);
  EXPECT_EQ(starts_of(both.train), expected);
  EXPECT_EQ(starts_of(both.held_out), (Ids{0, 1, 1}));
  EXPECT_NE(both.digest, TokenSource::open({.data = paths_in({file, other}), .seq_len = 4}).digest);
  const TokenSource by_document = masked(paths_in({file, other}), ValSplit::documents);
  EXPECT_EQ(by_document.train.size() + by_document.held_out.size(), 32U);
  EXPECT_EQ(starts_of(by_document.train).front(), 0);
  // Of texts, the end of a text belongs to the document before it.
  for (const char* name : {"texts/a.txt", "texts/b.txt"}) folder.write(name, name + std::string(9, 'x'));
  expected.assign(19, 0);
  expected.insert(expected.end(), 19, 19);
  EXPECT_EQ(starts_of(masked(folder.path("texts")).train), expected);
  std::filesystem::remove(folder.path("1.bin.json"));
  EXPECT_TRUE(refuses(
      [&] {
        masked(paths_in({file, other}));
      },
      {"1.bin", "no description", "leave --document-mask and --packing documents out"}));
}

TEST(TokenSource, HoldsOutDocuments) {
  const testing::TemporaryFolder folder;
  std::vector<std::vector<std::int32_t>> documents, others;
  for (std::int32_t d = 0; d < 20; ++d) (d < 13 ? documents : others).emplace_back(2, d);
  const std::string first = testing::write_documents(folder, "1.bin", documents);
  const std::string second = testing::write_documents(folder, "2.bin", others);
  const auto open = [&](const PathList& data, ValSplit split) {
    return TokenSource::open({data, "", 257, 4, TokenWidth::automatic, false, split});
  };
  const TokenSource source = open(paths_in({first, second}), ValSplit::documents);
  Ids train, held_out;
  for (std::int32_t d = 0; d < 20; ++d) {
    Ids& where = is_held_out_document(static_cast<std::uint64_t>(d), 20) ? held_out : train;
    where.insert(where.end(), {d, d});
  }
  EXPECT_EQ(held_out.size(), 4U);
  EXPECT_EQ(all(source.train), train);
  EXPECT_EQ(all(source.held_out), held_out);
  EXPECT_EQ(source.description(), "2 u16 token files, 36 tokens to train on, 4 held out (2 of 20 documents)");
  EXPECT_EQ(source.digest, open(paths_in({first, second}), ValSplit::documents).digest);
  EXPECT_NE(source.digest, open(paths_in({first, second}), ValSplit::tail).digest);

  // A text is a document.
  folder.write("texts/a.txt", "0123456789");
  folder.write("texts/b.txt", "abcdefghij");
  const TokenSource texts = open(folder.path("texts"), ValSplit::documents);
  EXPECT_EQ(texts.train.size(), 11U);
  EXPECT_EQ(texts.held_out.size(), 11U);

  const auto refused = [&](const PathList& data) {
    return refusal({data, "", 257, 4, TokenWidth::automatic, false, ValSplit::documents});
  };
  EXPECT_TRUE(has_parts(refused(folder.path("texts/a.txt")),
                        {"a.txt' is one document", "2 or more", "--val-split tail, or --val-data"}));
  const std::string bare = folder.write("bare.bin", words(std::vector<std::uint16_t>(30, 5)));
  EXPECT_TRUE(has_parts(refused(bare), {"bare.bin' has no description", "weft tokenize"}));
  // With held-out files nothing is split.
  EXPECT_EQ(TokenSource::open({bare, first, 257, 4, TokenWidth::automatic, false, ValSplit::documents}).train.size(),
            30U);
}

TEST(TokenSource, WhatIsNotLearntIsNoTarget) {
  const testing::TemporaryFolder folder;
  std::vector<std::vector<std::int32_t>> documents;
  for (std::int32_t d = 0; d < 10; ++d) documents.push_back({d, d, d, d});
  const std::string path = testing::write_documents(folder, "x.bin", documents, 3);
  const auto learnt = [](const TokenStream& stream) {
    Ids targets = all(stream);
    stream.drop_ignored(0, targets);
    std::erase(targets, -1);
    EXPECT_EQ(stream.learnt(0, stream.size()), targets.size());
    return targets;
  };
  const TokenSource tail = TokenSource::open({path, "", 257, 4});
  EXPECT_EQ(learnt(tail.train), (Ids{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(learnt(tail.held_out), (Ids{9}));
  const TokenSource by_document =
      TokenSource::open({path, "", 257, 4, TokenWidth::automatic, false, ValSplit::documents});
  EXPECT_EQ(learnt(by_document.train).size(), 9U);
  EXPECT_EQ(learnt(by_document.held_out).size(), 1U);
  // Any part of the stream.
  Ids targets(7, 5);
  tail.train.drop_ignored(2, targets);
  EXPECT_EQ(targets, (Ids{-1, 5, -1, -1, -1, 5, -1}));
  EXPECT_EQ(tail.train.learnt(2, 9), 2U);

  const std::string same = testing::write_documents(folder, "y.bin", documents);
  EXPECT_NE(TokenSource::open({same, "", 257, 4}).digest, tail.digest);
  const std::string prompts = testing::write_documents(folder, "z.bin", documents, 4);
  EXPECT_TRUE(has_parts(refusal({prompts, same, 257, 4}), {"z.bin' has no completion", "count in the loss"}));
}

TEST(TokenSource, AFolderMayHoldMoreFilesThanMayBeOpenAtFirst) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  constexpr rlim_t kFew = 64;
  if (before.rlim_max <= 4 * kFew) GTEST_SKIP() << "at most " << before.rlim_max << " files may be open";
  const testing::TemporaryFolder folder;
  for (rlim_t i = 0; i < 2 * kFew; ++i) folder.write(std::to_string(i), "file " + std::to_string(i));
  const rlimit few{kFew, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_EQ(TokenSource::open({folder.path(), folder.path("1"), 257, 4}).files, 2 * kFew + 1);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(TokenSource, RefusesFilesOfAnotherKindByName) {
  const testing::TemporaryFolder folder;
  const std::string text(4000, 'a'), json = R"({"text": "loom"})";
  struct Case {
    std::string name, content;
    std::string_view kind;
  };
  const std::vector<Case> cases = {
      {"a.npy", "\x93NUMPY" + text, "a NumPy array"},
      {"ids.bin", "\x93NUMPY" + text, "a NumPy array"},
      {"data-00000-of-00001.arrow", "ARROW1" + text, "an Arrow file"},
      {"data.txt", words<std::uint32_t>({0xffffffff, 648, 16, 0, 0}) + text, "an Arrow file"},
      {"rows.parquet", "PAR1" + text, "a Parquet file"},
      {"rows.bin", "PAR1" + text, "a Parquet file"},
      {"dataset_dict.json", R"({"splits": ["train"]})", "save_to_disk()"},
      {"rows.json", json, "a JSON file"},
      {"rows.jsonl", json + "\n" + json + "\n", "a JSON file"},
      {"rows", json + "\n" + json + "\n", "a JSON file"},
      {"list.txt", " [\n  1,\n  2\n]\n", "a JSON file"},
      {"long.txt", "{\"text\": \"" + std::string(100'000, 'a') + "\"}\n" + json, "a JSON file"},
      {"text.gz", std::string("\x1f\x8b\x08\0\0\0", 6) + text, "a gzip file"},
      {"rows.zip", "PK\x03\x04" + text, "a zip archive"},
      {"text.txt", "BZh91AY&SY" + text, "a bzip2 file"},
      {"ids.bin", "BZh51AY&SY" + text, "a bzip2 file"},
      {"rows.parquet", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "Git LFS"},
      {"text.txt", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "Git LFS"},
      {"text.txt", std::string("\xff\xfeH\0i\0", 6), "UTF-16"},
      {"text.txt", std::string("\0H\0i\0\n", 6), "UTF-16"},
      {"w.bin", std::string("\x10\0\0\0\0\0\0\0", 8) + R"({"a":{"dtype":"F)", "a safetensors file"},
  };
  for (const Case& c : cases) {
    const testing::TemporaryFolder of_text;
    of_text.write("a.txt", text);
    const std::string path = of_text.write(c.name, c.content);
    const std::string quoted = "'" + path + "' is ";
    EXPECT_TRUE(has_parts(refusal({path, "", 257, 4}), {quoted, c.kind}));
    EXPECT_TRUE(has_parts(refusal({of_text.path(), "", 257, 4}), {quoted, c.kind}));
  }
  // A data set of Hugging Face's: a card and folders of Parquet files.
  folder.write("README.md", text);
  folder.write("data/train-00000-of-00001.parquet", "PAR1");
  EXPECT_TRUE(has_parts(refusal({folder.path(), "", 257, 4}), {"data/train-00000-of-00001.parquet"}));
  const testing::TemporaryFolder packed;
  packed.write("README.md", text);
  packed.write("data/train.jsonl.gz", "\x1f\x8b");
  EXPECT_TRUE(has_parts(refusal({packed.path(), "", 257, 4}), {"data/train.jsonl.gz"}));
}

TEST(TokenSource, AFileAsShortAsTheStartOfBzip2IsText) {
  const testing::TemporaryFolder folder;
  EXPECT_TRUE(has_parts(refusal({folder.write("text.txt", "BZh"), "", 257, 4}), {"has 4 tokens to train on"}));
}

TEST(TokenSource, ACardIsNoPartOfItsDataSet) {
  const testing::TemporaryFolder folder, below;
  const std::string text(60, 'a');
  folder.write("README.md", "---\nlicense: mit\n---\nabout");
  folder.write("train.txt", text);
  const TokenSource source = TokenSource::open({folder.path(), "", 257, 4});
  EXPECT_EQ(source.files, 1U);
  EXPECT_EQ(source.train.size() + source.held_out.size(), 62U);
  EXPECT_EQ(source.notes, std::vector<std::string>{"README.md: left out, it describes the data set"});
  below.write("README.md", text);
  below.write(".gitattributes", text + text);
  below.write("data/train.txt", text);
  EXPECT_TRUE(has_parts(refusal({below.path(), "", 257, 4}), {"holds no text", "README.md: left out"}));
}

TEST(TokenSource, TextMayBeginLikeJson) {
  const testing::TemporaryFolder folder;
  const std::string more(60, 'a');
  for (const std::string begin :
       {"[Verse 1]\n", "{\\bf Title}\n", "[1] A footnote.\n", "[1] [2] both\n", "[1, 2", "{ x"}) {
    EXPECT_EQ(refusal({folder.write("t.txt", begin + more), "", 257, 4}), "") << begin;
  }
}

TEST(TokenSource, TextNeedsTheVocabularyOfBytes) {
  const testing::TemporaryFolder folder;
  const std::string text = folder.write("t.txt", std::string(400, 'a'));
  for (const std::int64_t vocab : {256, 258, 50257}) {
    EXPECT_TRUE(has_parts(refusal({text, "", vocab, 4}),
                          {"t.txt' is text", "vocabulary of " + std::to_string(vocab), "--model.vocab 257"}));
  }
}

TEST(TokenSource, RefusesWhatCannotBeTrainedOn) {
  const testing::TemporaryFolder folder;
  EXPECT_TRUE(has_parts(refusal({folder.path("none"), "", 257, 4}), {"none' doesn't exist"}));
  EXPECT_TRUE(has_parts(refusal({folder.path(), "", 257, 4}), {"holds no text and no tokens"}));
  EXPECT_TRUE(has_parts(refusal({folder.write("e.txt", ""), "", 257, 4}), {"e.txt' is empty"}));
  EXPECT_TRUE(has_parts(refusal({folder.write("n.txt", std::string("ab\0", 3)), "", 257, 4}), {"NUL byte at 2"}));
  const std::string text = folder.write("t.txt", std::string(1099, 'a'));
  EXPECT_TRUE(has_parts(refusal({text, "", 257, 1024}), {"991 tokens to train on", "1,025 or more", "--seq-len"}));
  EXPECT_TRUE(has_parts(refusal({folder.write("s.txt", "012345678"), "", 257, 4}), {"0 held-out tokens"}));
  const std::string bin = folder.write("t.bin", words(std::vector<std::uint16_t>(30, 5)));
  EXPECT_TRUE(has_parts(refusal({text, bin, 257, 4}), {"is text and", "is tokens"}));
  EXPECT_TRUE(has_parts(refusal({text, folder.path("none"), 257, 4}), {"none' doesn't exist"}));
}

TEST(TokenSource, TheDefaultIsTheLicencesOfTheSystem) {
  if (!std::filesystem::exists("/usr/share/common-licenses")) {
    EXPECT_TRUE(has_parts(refusal({"", "", 257, 64}), {"/usr/share/common-licenses", "give --data"}));
    return;
  }
  const TokenSource source = TokenSource::open({"", "", 257, 64});
  EXPECT_GT(source.train.size(), 50'000U);
  EXPECT_GT(source.files, 3U);
}

}  // namespace
}  // namespace weft::train
