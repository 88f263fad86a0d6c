#pragma once

#include <string>
#include <string_view>

namespace mneme {

/// Rewrites a pattern from Oniguruma's (Ruby's) syntax to PCRE2's, to be compiled with UTF, UCP and MULTILINE.
///
/// What differs and is rewritten: \s \S \w \W \h \H \v \b \B and \p{..} by Oniguruma's definitions, POSIX brackets,
/// nested character classes and intersections (&&), the options (?m) and (?i) in groups, {,n}, \uHHHH.
/// Ignoring case, one character never equals several (ß and ss), as it does in Oniguruma.
/// What has no counterpart here throws Error(kUnsupported) naming it: (?~..), \y, \xHH above 7F, {n,m}+, and others.
/// Source: Oniguruma's doc/RE and doc/UNICODE_PROPERTIES; the sets were compared code point by code point.
std::string oniguruma_to_pcre2(std::string_view pattern);

}  // namespace mneme
