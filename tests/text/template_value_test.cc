#include "mneme/text/template_value.h"

#include <gtest/gtest.h>

#include <string>

#include "mneme/text/template_fault.h"
#include "mneme/text/template_object.h"

namespace mneme::jinja {
namespace {

TEST(TemplateValue, TruthIsPythons) {
  for (const Value& value : {Value(), Value(None{}), Value(false), Value(0), Value(0.0), Value(""), Value::list({}),
                             Value::tuple({}), Value(std::make_shared<Dict>())}) {
    EXPECT_FALSE(value.truthy()) << value.type_name();
  }
  for (const Value& value :
       {Value(true), Value(-1), Value(0.5), Value("0"), Value::list({Value(0)}), Value::iterator("generator", {})}) {
    EXPECT_TRUE(value.truthy()) << value.type_name();
  }
}

TEST(TemplateValue, TypesHavePythonsNames) {
  EXPECT_EQ(Value().type_name(), "Undefined");
  EXPECT_EQ(Value(None{}).type_name(), "NoneType");
  EXPECT_EQ(Value(true).type_name(), "bool");
  EXPECT_EQ(Value(1).type_name(), "int");
  EXPECT_EQ(Value(1.0).type_name(), "float");
  EXPECT_EQ(Value("").type_name(), "str");
  EXPECT_EQ(Value::tuple({}).type_name(), "tuple");
  EXPECT_EQ(Value(std::make_shared<Dict>()).type_name(), "dict");
}

TEST(TemplateDict, KeepsOrderAndReplacesBelowAndAboveTheIndexThreshold) {
  for (const int n : {3, 8, 9, 100}) {
    Dict dict;
    for (int i = 0; i < n; ++i) dict.set("key" + std::to_string(i), Value(i));
    for (int i = 0; i < n; i += 2) dict.set("key" + std::to_string(i), Value(-i));
    ASSERT_EQ(dict.entries().size(), static_cast<std::size_t>(n));
    for (int i = 0; i < n; ++i) {
      const std::string key = "key" + std::to_string(i);
      EXPECT_EQ(*dict.entries()[static_cast<std::size_t>(i)].key.text(), key);
      ASSERT_NE(dict.find(key), nullptr);
      EXPECT_EQ(dict.find(key)->integer(), i % 2 == 0 ? -i : i);
    }
    EXPECT_EQ(dict.find("key"), nullptr);
  }
}

TEST(TemplateDict, ACopyHasAnIndexOfItsOwn) {
  Dict copy;
  {
    Dict dict;
    for (int i = 0; i < 20; ++i) dict.set("key" + std::to_string(i), Value(i));
    copy = dict;
  }
  EXPECT_EQ(copy.find("key19")->integer(), 19);
}

TEST(TemplateValue, NestingIsBounded) {
  Value value = Value::list({});
  const auto nest = [&] { value = Value::list({value}); };
  for (int i = 1; i < kMaxNesting; ++i) nest();
  EXPECT_EQ(value.nesting(), kMaxNesting);
  EXPECT_THROW(nest(), Fault);
  Dict dict;
  EXPECT_THROW(dict.set("a", value), Fault);
  EXPECT_THROW(Value::iterator("generator", {value}), Fault);
}

}  // namespace
}  // namespace mneme::jinja
