// Templates are not trusted: each of these would hang, or use up memory or the stack, and ends in one Error instead.
#include "mneme/text/template_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "mneme/base/error.h"
#include "mneme/text/chat_template.h"
#include "mneme/text/template_fault.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::mneme::testing::thrown;

using ::testing::HasSubstr;

std::string repeated(const std::string& piece, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += piece;
  return text;
}

std::string ends(ErrorKind kind, const std::string& source) {
  const Json messages = Json::array({{{"role", "user"}, {"content", "Hello"}}});
  return thrown(kind, [&] { ChatTemplate(source, "the template").render(messages); });
}

TEST(TemplateLimits, LoopsEnd) {
  const std::string loop = "{% for i in range(100000) %}";
  const std::string end = "{% endfor %}";
  EXPECT_THAT(ends(ErrorKind::kInvalidArgument, loop + loop + end + end), HasSubstr("10000000 steps"));
  EXPECT_THAT(
      ends(ErrorKind::kInvalidArgument, "{% macro f(n) %}{% for i in range(9) %}{% if n %}{{ f(n - 1) }}{% endif %}" +
                                            end + "{% endmacro %}{{ f(40) }}"),
      HasSubstr("10000000 steps"));
}

TEST(TemplateLimits, TextsDoNotGrowWithoutEnd) {
  const ErrorKind memory = ErrorKind::kOutOfMemory;
  const std::string x = "{% set ns = namespace(x='0123456789abcdef') %}";
  EXPECT_THAT(ends(memory, x + "{% for i in range(64) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}"),
              HasSubstr("536870912"));
  EXPECT_THAT(ends(memory, x + "{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"),
              HasSubstr("536870912"));
  EXPECT_THAT(ends(memory, x + "{% for i in range(64) %}{% set ns.x = ns.x|replace('', ns.x) %}{% endfor %}"),
              HasSubstr("536870912"));
  EXPECT_THAT(ends(memory, x + "{% for i in range(64) %}{% set ns.x = ns.x|list|join(ns.x) %}{% endfor %}"),
              HasSubstr("536870912"));
  EXPECT_THAT(ends(memory, "{{ 'a' * 1000000000000 }}"), HasSubstr("536870912"));
  EXPECT_THAT(ends(memory, "{{ 'a'.center(1000000000000) }}"), HasSubstr("536870912"));
  EXPECT_THAT(ends(memory, "{{ [1]|tojson(indent=1000000000000) }}"), HasSubstr("536870912"));
  EXPECT_THAT(ends(memory, "{{ 'a\\tb'.expandtabs(1000000000000) }}"), HasSubstr("536870912"));
  EXPECT_THAT(ends(memory, "{% set x = 'a' * 1000000 %}{% for i in range(100) %}{{ x }}{% endfor %}"),
              HasSubstr("67108864"));
}

TEST(TemplateLimits, ListsDoNotGrowWithoutEnd) {
  EXPECT_THAT(ends(ErrorKind::kOutOfMemory, "{{ ([1] * 1000000000000)|length }}"), HasSubstr("536870912"));
  EXPECT_THAT(ends(ErrorKind::kOutOfMemory,
                   "{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"),
              HasSubstr("536870912"));
  EXPECT_THAT(ends(ErrorKind::kOutOfMemory, "{{ [1]|batch(1000000000000, 0)|list }}"), HasSubstr("536870912"));
  EXPECT_THAT(ends(ErrorKind::kOutOfMemory, "{{ [1]|slice(1000000000000)|list }}"), HasSubstr("536870912"));
  EXPECT_THAT(ends(ErrorKind::kInvalidArgument, "{{ range(1000000000000) }}"), HasSubstr("Range too big"));
}

TEST(TemplateLimits, FormatsAreBounded) {
  EXPECT_THAT(ends(ErrorKind::kInvalidArgument, "{{ '%1000000000d' % 1 }}"), HasSubstr("width exceeds"));
  EXPECT_THAT(ends(ErrorKind::kInvalidArgument, "{{ '%.1000000f' % 1 }}"), HasSubstr("precision"));
  EXPECT_THAT(ends(ErrorKind::kInvalidArgument, "{{ '{:1000000000}'.format(1) }}"), HasSubstr("width exceeds"));
  EXPECT_THAT(ends(ErrorKind::kInvalidArgument, "{{ '{:{:{:{}}}}'.format(1, 2, 3, 4) }}"), HasSubstr("recursion"));
  EXPECT_THAT(ends(ErrorKind::kInvalidArgument, "{{ strftime_now('%c' * 1000) }}"), HasSubstr("4094"));
}

TEST(TemplateLimits, SourcesDoNotNestWithoutEnd) {
  const ErrorKind corrupt = ErrorKind::kCorruptData;
  const int n = 100'000;
  for (const std::string piece : {"(", "[", "{1:", "not ", "-", "x[", "x(", "1 if 1 else ", "x|f(", "(-"}) {
    EXPECT_THAT(ends(corrupt, "{{ " + repeated(piece, n)), HasSubstr("nests deeper than 200")) << piece;
  }
  for (const std::string piece :
       {"{% if 1 %}", "{% for x in y %}", "{% macro m() %}", "{% set x %}", "{% filter upper %}"}) {
    EXPECT_THAT(ends(corrupt, repeated(piece, n)), HasSubstr("nests deeper than 200")) << piece;
  }
  EXPECT_THAT(ends(corrupt, "{% set " + repeated("(", n)), HasSubstr("nests deeper"));
}

TEST(TemplateLimits, ChainsDoNotBecomeDeepTrees) {
  for (const std::string piece :
       {" + 1", " * 1", ".a", "[0]", "|upper", " and 1", " or 0", "()", " is odd()", " ** 1", " if 1"}) {
    EXPECT_THAT(ends(ErrorKind::kCorruptData, "{{ 1" + repeated(piece, 100'000) + " }}"), HasSubstr("deeper than 400"))
        << piece;
  }
}

TEST(TemplateLimits, MacrosDoNotRecurseWithoutEnd) {
  EXPECT_THAT(ends(ErrorKind::kInvalidArgument, "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
              HasSubstr("1000 evaluations"));
  EXPECT_THAT(ends(ErrorKind::kInvalidArgument,
                   "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{{ caller() }}{% endmacro %}{% call f() "
                   "%}{% endcall %}"),
              HasSubstr("1000 evaluations"));
}

TEST(TemplateLimits, ValuesDoNotNestWithoutEnd) {
  const std::string nest = "{% set ns = namespace(x=[]) %}{% for i in range(5000) %}{% set ns.x = ";
  for (const std::string value : {"[ns.x]", "(ns.x,)", "{'a': ns.x}", "dict(a=ns.x)", "[ns.x]|batch(1)|list",
                                  "[ns.x].index", "joiner(ns.x)", "cycler(ns.x)"}) {
    EXPECT_THAT(ends(ErrorKind::kInvalidArgument, nest + value + " %}{% endfor %}"),
                HasSubstr("nests deeper than 1000"))
        << value;
  }
}

TEST(TemplateLimits, SharedPartsAreNotWalkedWithoutEnd) {
  const std::string twice =
      "{% set ns = namespace(x=[], y=[]) %}{% for i in range(100) %}{% set ns.x = [ns.x, ns.x] %}"
      "{% set ns.y = [ns.y, ns.y] %}{% endfor %}";
  EXPECT_THAT(ends(ErrorKind::kInvalidArgument, twice + "{{ ns.x == ns.y }}"), HasSubstr("steps"));
  EXPECT_THAT(ends(ErrorKind::kInvalidArgument, twice + "{{ ns.x < ns.y }}"), HasSubstr("steps"));
  EXPECT_THAT(ends(ErrorKind::kInvalidArgument, twice + "{{ ns.x }}"), HasSubstr("steps"));
  EXPECT_THAT(ends(ErrorKind::kInvalidArgument, twice + "{{ ns.x|tojson }}"), HasSubstr("steps"));
  const std::string tuples =
      "{% set ns = namespace(x=()) %}{% for i in range(100) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}";
  EXPECT_THAT(ends(ErrorKind::kInvalidArgument, tuples + "{{ {ns.x: 1} }}"), HasSubstr("steps"));
}

TEST(TemplateLimits, NamespacesThatHoldThemselvesPrintAndLeakNothing) {
  const std::string cycle = "{% set ns = namespace() %}{% set ns.self = [ns] %}";
  EXPECT_THAT(ends(ErrorKind::kInvalidArgument, cycle + "{{ ns }}"), HasSubstr("1000 evaluations"));
  const std::string macros = "{% macro a() %}{% macro b() %}{% endmacro %}{% set ns.b = b %}{% endmacro %}";
  const Json messages = Json::array();
  EXPECT_EQ(ChatTemplate(cycle + macros + "{{ a() }}{% set ns.c = a %}ok", "m").render(messages), "ok");
}

TEST(TemplateLimits, SearchesAreLinear) {
  // Each of these has a quadratic worst case under a naive search.
  const std::string texts = "{% set hay = 'a' * 2000000 %}{% set needle = 'a' * 1000000 ~ 'b' %}";
  const Json messages = Json::array();
  EXPECT_EQ(
      ChatTemplate(
          texts + "{{ needle in hay }}{{ hay.rfind(needle) }}{{ hay.split(needle)|length }}{{ hay.count(needle) }}",
          "m")
          .render(messages),
      "False-110");
}

TEST(TemplateRun, CountsWhatItBuilds) {
  jinja::Run run(std::nullopt, {.n_bytes_built = 100});
  run.build(60);
  EXPECT_THROW(run.build(41), jinja::Fault);
}

}  // namespace
}  // namespace mneme
