#include "mneme/text/template_lexer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "mneme/text/template_fault.h"

namespace mneme::jinja {
namespace {

using ::testing::ElementsAre;

// The tokens written together: data in quotes, tags as their brackets.
std::string shown(std::string_view source) {
  std::string text;
  for (const Token& token : tokenize(source)) {
    switch (token.type) {
      case TokenType::kData: text += "'" + token.text + "'"; break;
      case TokenType::kVariableBegin: text += "{{"; break;
      case TokenType::kVariableEnd: text += "}}"; break;
      case TokenType::kBlockBegin: text += "{%"; break;
      case TokenType::kBlockEnd: text += "%}"; break;
      case TokenType::kEnd: break;
      default: text += token.text + " ";
    }
  }
  return text;
}

int failing_line(std::string_view source) {
  try {
    tokenize(source);
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind, ErrorKind::kCorruptData) << fault.message;
    return fault.line;
  }
  return 0;
}

TEST(TemplateLexer, WhiteSpaceAroundTags) {
  EXPECT_EQ(shown("a\n  {% x %}\nb"), "'a\n'{%x %}'b'");
  EXPECT_EQ(shown("a\n  {%+ x +%}\nb"), "'a\n  '{%x %}'\nb'");
  EXPECT_EQ(shown("a \n {%- x -%} \n b"), "'a'{%x %}'b'");
  EXPECT_EQ(shown("a\n  {{ x }}\nb"), "'a\n  '{{x }}'\nb'");
  EXPECT_EQ(shown("a {{- x -}} b"), "'a'{{x }}'b'");
  EXPECT_EQ(shown("a\n  {# x #}\nb"), "'a\n''b'");
  EXPECT_EQ(shown("  {% x %}  {% y %}"), "{%x %}'  '{%y %}");
}

TEST(TemplateLexer, TheLastLineEndGoesAndTheOthersAreUnified) {
  EXPECT_EQ(shown("a\r\nb\rc\n"), "'a\nb\nc'");
  EXPECT_EQ(shown("a\n\n"), "'a\n'");
  EXPECT_EQ(shown("\n"), "");
}

TEST(TemplateLexer, RawBlocksAreData) {
  EXPECT_EQ(shown("{% raw %}{{ x }}{% y %}{% endraw %}z"), "'{{ x }}{% y %}''z'");
  EXPECT_EQ(shown("a {%- raw -%} x {%- endraw -%} b"), "'a''x''b'");
}

TEST(TemplateLexer, TagsEndOutsideOfBracketsOnly) {
  EXPECT_EQ(shown("{{ {'a': {}}['%}'] }}"), "{{{ a : { } } [ %} ] }}");
  EXPECT_EQ(shown("{{ a-}}b"), "{{a }}'b'");
}

TEST(TemplateLexer, LinesAreCounted) {
  const std::vector<Token> tokens = tokenize("a\n{{ x\n}}\n{#\n#}{{ y }}");
  std::vector<int> lines;
  for (const Token& token : tokens) {
    if (token.type == TokenType::kName) lines.push_back(token.line);
  }
  EXPECT_THAT(lines, ElementsAre(2, 5));
}

TEST(TemplateLexer, WhatIsOpenIsNamedWithItsLine) {
  EXPECT_EQ(failing_line("a\n{# x"), 2);
  EXPECT_EQ(failing_line("a\n\n{% raw %}x"), 3);
  EXPECT_EQ(failing_line("\n\n\n{{ 'x"), 4);
  EXPECT_EQ(failing_line("{{ (] }}"), 1);
  EXPECT_EQ(failing_line("{{ ) }}"), 1);
  EXPECT_EQ(failing_line("{{ x ? }}"), 1);
  EXPECT_EQ(failing_line("{{ '\\x1' }}"), 1);
  EXPECT_EQ(failing_line("{{ '\\ud800' }}"), 1);
  EXPECT_EQ(failing_line("{{ '\\N{DASH}' }}"), 1);
  EXPECT_EQ(failing_line("{{ 99999999999999999999 }}"), 1);
  EXPECT_EQ(failing_line("\xff"), 1);
}

}  // namespace
}  // namespace mneme::jinja
