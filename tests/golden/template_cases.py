"""What make_templates.py renders: conversations, options, and snippets of the template language."""

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather <now> of a \"city\" & its suburbs.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "City, e.g. Zürich"},
                "days": {"type": "integer", "minimum": 1, "maximum": 14},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "nullable": True},
                "factor": {"type": "number", "default": 0.5},
            },
            "required": ["city"],
        },
        "return": {"type": "array", "items": {"type": "number"}},
    },
}
SEARCH = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Searches.",
        "parameters": {"type": "object", "properties": {"query": {"type": ["string", "null"]}, "tags": {"type": "array", "items": {"type": "string"}}}},
    },
}
CALL = {"id": "call12345", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 2, "exact": True, "note": None}}}

USER = {"role": "user", "content": "Hello, how are you?"}
SYSTEM = {"role": "system", "content": "You are a helpful assistant."}

CONVERSATIONS = {
    "user": [USER],
    "system": [SYSTEM, USER],
    "turns": [USER, {"role": "assistant", "content": "I'm doing great. "}, {"role": "user", "content": " Tell me <b>more</b> & \"more\"\n\nplease\n"}],
    "system turns": [SYSTEM, USER, {"role": "assistant", "content": "Fine."}, {"role": "user", "content": "日本語も? 👩‍👩‍👧 \u2029 ok"}],
    "ends with assistant": [USER, {"role": "assistant", "content": "Hi John, "}],
    "two users": [USER, USER],
    "assistant first": [{"role": "assistant", "content": "Yes?"}, USER],
    "unknown role": [USER, {"role": "critic", "content": "Bad."}, USER],
    "parts": [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": [{"type": "text", "text": "What is "}, {"type": "image", "image": "a.png"}, {"type": "text", "text": "this?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "A cat, "}]},
    ],
    "tool call": [
        SYSTEM,
        {"role": "user", "content": "Weather in Zürich?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "name": "get_weather", "tool_call_id": "call12345", "content": "{\"temperature\": 21.5, \"rain\": false}"},
        {"role": "assistant", "content": "It is 21.5 degrees."},
        {"role": "user", "content": "Thanks."},
    ],
    "open tool call": [
        {"role": "user", "content": "Weather and news?"},
        {"role": "assistant", "content": "", "tool_calls": [CALL, {"id": "call67890", "type": "function", "function": {"name": "search", "arguments": "{\"query\": \"news\"}"}}]},
        {"role": "tool", "name": "get_weather", "tool_call_id": "call12345", "content": {"temperature": 21}},
        {"role": "tool", "name": "search", "tool_call_id": "call67890", "content": "none"},
    ],
    "one open tool call": [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "name": "get_weather", "tool_call_id": "call12345", "content": "21"},
    ],
    "thinking": [
        USER,
        {"role": "assistant", "content": "<think>\nShall I greet?\n</think>\n\nHello.", "reasoning_content": "Shall I greet?"},
        {"role": "user", "content": "And now?"},
        {"role": "assistant", "content": "Now this.", "thinking": "Something new"},
    ],
    "empty content": [{"role": "user", "content": ""}, {"role": "assistant", "content": "  "}, {"role": "user", "content": "x"}],
    "developer": [{"role": "developer", "content": "Answer in rhymes."}, USER],
    "no content": [USER, {"role": "assistant"}],
}

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}

OPTIONS = {
    "plain": {**TOKENS},
    "prompt": {**TOKENS, "add_generation_prompt": True},
    "tools": {**TOKENS, "add_generation_prompt": True, "tools": [WEATHER, SEARCH]},
    "no thinking": {**TOKENS, "add_generation_prompt": True, "enable_thinking": False, "reasoning_effort": "high", "builtin_tools": ["browser", "python"], "date_string": "1 Jan 2025"},
    "documents": {"add_generation_prompt": True, "documents": [{"title": "Title 1", "text": "Text 1"}, {"title": "T2", "text": "Two\nlines"}]},
    "continue": {**TOKENS, "continue_final_message": True},
}

SNIPPET_MESSAGES = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hi", "n": 3},
    {"role": "assistant", "content": None, "n": 1, "deep": {"list": [1, 2, {"x": "y"}]}},
]
SNIPPET_VARIABLES = {
    "bos_token": "<s>", "text": "  Hello Wörld, it's me.  ", "word": "straße", "numbers": [3, 1, 2, 10, -4], "half": 0.5,
    "nested": {"b": [1, 2.5, None, True], "a": {"k": "v\n\"q\" 'p'"}, "é": "ü"}, "empty": [], "nothing": None, "yes": True,
    "mixed": ["b", "A", "c", "a", "B"], "lines": "one\ntwo\n\n  three\n", "html": "<a href='x'>T & C</a>",
}

# Each is a template of its own, rendered with the messages and variables above. One a line; those of several lines
# stand at the end.
_LINES = r"""
{{ 1 + 2 * 3 }} {{ 7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ -2 ** 2 }}
{{ 2 ** 3 ** 2 }} {{ 1.5 + 1 }} {{ 7.5 // 2 }} {{ -7.5 // 2 }} {{ 7.5 % 2 }} {{ -7.5 % 2 }} {{ 1e3 }} {{ 1e16 }} {{ 1e-5 }} {{ 0.1 + 0.2 }}
{{ 1_000 + 0x1F + 0o17 + 0b101 }} {{ 1.5e-3 }} {{ 1_0.2_5 }} {{ 10 / 5 }} {{ 4 // 2.0 }} {{ 123456789012345680.0 }} {{ 0.0001 }} {{ 5e-324 }}
{{ true + 1 }} {{ true * 3 }} {{ -true }} {{ +false }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 1 == '1' }} {{ [1] == (1,) }} {{ {'a': 1} == {'a': 1.0} }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 1 + 'a' }}
{{ 'a' + 1 }}
{{ 'a' + none }}
{{ 'ab' * 3 }}{{ 2 * 'x' }}{{ 'x' * -1 }}{{ [1, 2] * 2 }}{{ (1,) * 2 }} {{ [1] + [2] }} {{ (1,) + (2,) }}
{{ [1] + (2,) }}
{{ 'a' * 'b' }}
{{ 'a' < 'b' }} {{ 'B' < 'a' }} {{ [1, 2] < [1, 3] }} {{ (1,) < (1, 0) }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 <= 1 >= 1 }} {{ 3 > 2 != 1 }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ {} < {} }}
{{ not true }} {{ not '' }} {{ true and 'x' }} {{ false or 'y' }} {{ '' and 1 }} {{ 0 or none }} {{ not not 1 }} {{ 1 and 2 or 3 }} {{ not 1 == 2 }}
{{ 'a' in 'abc' }} {{ 'd' not in 'abc' }} {{ 1 in [1, 2] }} {{ 'b' in nested }} {{ 3 in numbers }} {{ '' in 'x' }} {{ none in [none] }} {{ 2 in (1, 2.0) }}
{{ 1 in 'abc' }}
{{ 1 in 5 }}
{{ 1 in none }}
{{ 'x' in missing }}
{{ missing in 'x' }}
{{ 'a' ~ 1 ~ none ~ true ~ 1.0 ~ [1, 'b'] ~ missing }}
{{ 'a' 'b' "c" }} {{ 'it''s' }} {{ "tab\there \\ \x41 \u00e9 \U0001F600 \101 \q" }}
{{ 'yes' if yes else 'no' }} {{ 'x' if false }}|{{ 'a' if false else 'b' if false else 'c' }} {{ ('x' if false) is defined }}
{{ ('x' if false).y }}
{{ [] }} {{ [1, 'two', 3.0, none, true, [4], (5,), ()] }} {{ {} }} {{ {'a': 1, 'b': {'c': []}} }} {{ (1, 2) }} {{ {1: 'x', none: 2, (1, 2): 3, 1.5: 4} }}
{{ [1, 2,] }} {{ (1,) }} {{ {'a': 1,} }} {{ 1, 2 }}
{{ {'a': 1, 'a': 2} }} {{ {1: 'a', true: 'b', 1.0: 'c'} }}
{{ {[]: 1} }}
{{ "it's" }} {{ ["it's", 'say "hi"', 'both \' and "', 'back\\slash', 'new\nline\ttab', '\x07\x7f', 'é\u200b\ue000😀', '\u2028'] }}
{{ nested }} {{ nested.a }} {{ nested['b'] }} {{ nested.b[1] }} {{ nested.b.3 }} {{ nested['a']['k'] }} {{ nested.b[-1] }}
{{ nested.missing }}|{{ nested['missing'] }}|{{ nested.b[9] }}|{{ nested.b['x'] }}|{{ 5['x'] }}|{{ none.x }}|{{ 'abc'[7] }}|{{ 'abc'.foo }}
{{ missing }}|{{ missing is defined }}|{{ missing|length }}|{{ missing|list }}|{{ missing == missing2 }}|{{ missing == none }}|{{ not missing }}
{{ missing.x }}
{{ missing['x'] }}
{{ missing() }}
{{ missing + 1 }}
{{ -missing }}
{{ missing < 1 }}
{{ nested.missing.deeper }}
{{ nested.b[9].x }}
{{ messages[0].nope.x }}
{{ nested.items()|list }} {{ nested.keys() }} {{ nested.values()|list|length }} {{ nested.get('b') }} {{ nested.get('zz') }} {{ nested.get('zz', 'dflt') }} {{ nested['items'] is callable }}
{{ {'items': 5}.items() }} {{ {'items': 5}['items'] }} {{ {'keys': 7}.keys is callable }} {{ {'a': 1}.items() }} {{ {'a': 1}.copy() }}
{{ 'Hello'[1:3] }} {{ 'Hello'[::-1] }} {{ 'Hello'[-3:] }} {{ 'Hello'[:-1] }} {{ 'Hello'[10:] }}|{{ 'Hello'[3:1] }}|{{ 'Hello'[::2] }} {{ 'Hello'[-1:-4:-1] }} {{ 'Wörld'[1:2] }} {{ 'Hello'[none:2] }}
{{ numbers[1:] }} {{ numbers[:-1] }} {{ numbers[::-1] }} {{ numbers[::2] }} {{ numbers[-2:] }} {{ numbers[5:] }} {{ numbers[1:100:3] }} {{ (1, 2, 3)[1:] }} {{ numbers[-100:2] }} {{ numbers[100:-100:-2] }}
{{ numbers[::0] }}
{{ nothing[1:] }}
{{ missing[1:] }}
{{ nested['a':] }}
{{ numbers['a':] }}
{{ 'hello'[0] }} {{ 'hello'[-1] }} {{ 'wörld'[1] }} {{ numbers[true] }} {{ range(5)[2] }} {{ range(10)[2:8:3] }} {{ range(3) }} {{ range(1, 9, 2)|list }} {{ range(5, 0, -2)|list }}
{{ range(100001) }}
{{ range(0, 10, 0) }}
{{ range('a') }}
{{ 'abc'.__class__ }}
{{ ''.__class__.__mro__ }}
{{ nested.__class__ is defined }} {{ nested._private is defined }} {{ {'_x': 5}._x }}
{{ numbers.append(5) }}
{{ numbers.sort() }}
{{ nested.update({'x': 1}) }}
{{ nested.pop('b') }}
{{ numbers.append is defined }} {{ numbers.index(10) }} {{ numbers.count(3) }} {{ numbers.copy() }}
{{ numbers.index(99) }}
{{ 5() }}
{{ 'abc'() }}
{{ text.strip() }}|{{ text.lstrip() }}|{{ text.rstrip() }}|{{ text.strip(' H.') }}|{{ 'xxyxx'.strip('x') }}|{{ '\u3000a\xa0'.strip() }}|{{ 'abc'.rstrip('cb') }}|{{ 'éaé'.lstrip('é') }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b c '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a b c d'.split(none, 2) }} {{ 'a b c d'.rsplit(maxsplit=1) }} {{ 'a--b--c'.split('--')[-1] }} {{ 'a b'.split(' ', 0) }} {{ 'xaax'.rsplit('aa', 1) }}
{{ 'abc'.split('') }}
{{ 'a\nb\r\nc\x0bd\u2028e'.splitlines() }} {{ 'a\nb\n'.splitlines(true) }} {{ ''.splitlines() }} {{ '\n'.splitlines() }} {{ 'a\r\rb'.splitlines(keepends=true) }}
{{ 'hello'.startswith('he') }} {{ 'hello'.endswith('lo') }} {{ 'hello'.startswith(('x', 'h')) }} {{ 'hello'.endswith(('x', 'y')) }} {{ 'hello'.startswith('l', 2) }} {{ 'hello'.endswith('l', 0, 4) }} {{ ''.startswith('') }} {{ ''.startswith('', 1) }}
{{ 'hello'.startswith(1) }}
{{ 'hello'.replace('l', 'L') }} {{ 'hello'.replace('l', 'L', 1) }} {{ 'abc'.replace('', '-') }} {{ 'abc'.replace('', '-', 2) }} {{ 'aaa'.replace('aa', 'b') }} {{ 'a'.replace('b', 'c') }}
{{ 'Hello Wörld'.upper() }} {{ 'HELLO ÀÉ'.lower() }} {{ "they're bill's".title() }} {{ 'hELLO wORLD'.capitalize() }} {{ 'aBc'.swapcase() }} {{ word.upper() }} {{ 'ΑΣ'.lower() }} {{ 'ßa'.capitalize() }} {{ 'STRASSE'.casefold() }}
{{ 'hello'.find('l') }} {{ 'hello'.rfind('l') }} {{ 'hello'.find('z') }} {{ 'hello'.index('o') }} {{ 'wörld'.find('l') }} {{ 'hello'.count('l') }} {{ 'aaa'.count('aa') }} {{ 'abc'.count('') }} {{ 'hello'.find('l', 3) }} {{ 'hello'.find('l', 0, 2) }} {{ 'hello'.rindex('e') }}
{{ 'hello'.index('z') }}
{{ '-'.join(['a', 'b']) }} {{ ''.join('abc') }} {{ ', '.join({'x': 1, 'y': 2}) }}
{{ '-'.join([1, 2]) }}
{{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'abc'.partition('=') }} {{ 'abc'.rpartition('=') }} {{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.py'.removesuffix('.py') }} {{ 'x'.removesuffix('') }}
{{ 'a'.center(4) }}|{{ 'ab'.center(5, '*') }}|{{ 'a'.ljust(3, '.') }}|{{ 'a'.rjust(3) }}|{{ '42'.zfill(5) }}|{{ '-42'.zfill(5) }}|{{ 'a\tb'.expandtabs(4) }}|{{ 'abc'.center(6) }}|{{ 'é'.ljust(2, '-') }}
{{ '123'.isdigit() }} {{ '12a'.isdigit() }} {{ ''.isdigit() }} {{ 'abc'.isalpha() }} {{ 'é'.isalpha() }} {{ 'a1'.isalnum() }} {{ ' \t'.isspace() }} {{ 'Abc'.istitle() }} {{ 'abc'.islower() }} {{ 'ABC1'.isupper() }} {{ '²'.isdigit() }} {{ '½'.isnumeric() }} {{ '٣'.isdecimal() }} {{ 'a_1'.isidentifier() }} {{ 'é'.isascii() }} {{ 'a\n'.isprintable() }}
{{ '{} and {}'.format(1, 'b') }} {{ '{0}{1}{0}'.format('a', 'b') }} {{ '{x:>5}|{y:05d}|{z:.2f}'.format(x='a', y=42, z=3.14159) }} {{ '{{}}'.format() }} {{ '{!r}'.format('a') }} {{ '{:,}'.format(1234567) }} {{ '{:x} {:#b} {:o} {:e} {:%}'.format(255, 5, 8, 12345.678, 0.25) }} {{ '{a[k]} {b[0]} {a.k}'.format(a={'k': 1}, b=[2]) }} {{ '{:{}}|'.format('x', 4) }} {{ '{:*^7}'.format('abc') }} {{ '{:+d} {: d}'.format(3, 4) }} {{ '{:.3}'.format('abcdef') }} {{ '{:<6}|{:>6}|{:^6}|'.format(1, 2.5, true) }} {{ '{:g} {:.3g}'.format(0.0001, 1234567.0) }} {{ '{:08.3f}'.format(-3.14159) }} {{ '{:c}'.format(65) }} {{ '{a}'.format_map({'a': 7}) }}
{{ '{} {}'.format(1) }}
{{ '{x}'.format(1) }}
{{ '{'.format(1) }}
{{ '{:d}'.format('x') }}
{{ '{0.__class__}'.format('x') }}
{{ '%s is %d years, %.2f%%' % ('x', 5, 1.5) }} {{ '%05d|%-5s|%5s|%x|%r' % (42, 'a', 'b', 255, 'q') }} {{ '%(a)s-%(b)03d' % {'a': 'x', 'b': 7} }} {{ '%s' % 'one' }} {{ '%s' % [1] }} {{ '%+d % d' % (1, 2) }} {{ '%e %g' % (1234.5, 0.00001) }} {{ '%c%c' % ('a', 66) }} {{ '%5.1f|' % 2.25 }} {{ '%d' % 3.9 }} {{ '%i' % true }} {{ '%*d' % (4, 2) }}
{{ '%s %s' % 'one' }}
{{ '%d' % 'x' }}
{{ '%s' % (1, 2) }}
{{ 'a'.upper(1) }}
{{ 'a'.nomethod() }}
{{ text|trim }}|{{ '  x '|trim('x ') }}|{{ 5|trim }}|{{ 'xax'|trim(chars='x') }}
{{ 'hello world-foo (bar)'|title }} {{ 'hELLO'|capitalize }} {{ 'x'|upper ~ 'Y'|lower }} {{ none|upper }} {{ "it's 3d"|title }} {{ 12|lower }}
{{ missing|default('d') }} {{ missing|d }}|{{ ''|default('x') }}|{{ ''|default('x', true) }} {{ none|default('x') }} {{ none|default('x', boolean=true) }} {{ nested.zz|default([]) }} {{ missing|default(default_value=4) }}
{{ 'abc'|length }} {{ 'wörld👍'|count }} {{ numbers|length }} {{ nested|length }} {{ ()|length }} {{ range(4)|length }} {{ nested.items()|length }}
{{ 5|length }}
{{ none|length }}
{{ (numbers|map('string'))|length }}
{{ numbers|first }} {{ numbers|last }} {{ 'abc'|first }} {{ 'abc'|last }} {{ empty|first }}|{{ empty|last }}|{{ nested|first }} {{ nested|last }} {{ (numbers|select('odd'))|first }}
{{ (numbers|select('odd'))|last }}
{{ empty|first + 1 }}
{{ numbers|join(', ') }} {{ 'abc'|join('-') }} {{ messages|join('|', attribute='role') }} {{ [1, none, true]|join }} {{ empty|join(',') }}|{{ nested|join(1) }} {{ [1,2]|join(d='+') }}
{{ 5|join }}
{{ 'aXbX'|replace('X', 'y') }} {{ 'aaa'|replace('a', 'b', 2) }} {{ 12321|replace(2, 'x') }} {{ 'a'|replace('', '_') }} {{ 'aaa'|replace('a', 'b', count=1) }}
{{ numbers|sort }} {{ numbers|sort(reverse=true) }} {{ mixed|sort }} {{ mixed|sort(case_sensitive=true) }} {{ mixed|sort(true) }} {{ messages[1:]|sort(attribute='n')|map(attribute='role')|join(',') }} {{ nested|sort }} {{ [[2, 'a'], [1, 'b']]|sort(attribute='0') }} {{ [{'a': 1, 'b': 2}, {'a': 1, 'b': 1}]|sort(attribute='a,b') }}
{{ [1, 'a']|sort }}
{{ [none, 1]|sort }}
{{ mixed|unique|list }} {{ [1, 1.0, true, 2]|unique|list }} {{ mixed|unique(true)|join }} {{ messages|unique(attribute='role')|map(attribute='role')|list }}
{{ numbers|reverse|list }} {{ 'abc'|reverse }} {{ (1, 2)|reverse|list }} {{ nested|reverse|list }} {{ 'wö'|reverse }}
{{ 5|reverse }}
{{ numbers|min }} {{ numbers|max }} {{ mixed|min }} {{ mixed|max }} {{ empty|min }}|{{ messages[1:]|max(attribute='n') == messages[1] }} {{ mixed|max(case_sensitive=true) }} {{ numbers|sum }} {{ [1.5, 2]|sum }} {{ messages[1:]|sum(attribute='n') }} {{ numbers|sum(start=10) }} {{ empty|sum }}
{{ ['a']|sum }}
{{ [1, 'a']|max }}
{{ nested|dictsort }} {{ {'b': 1, 'A': 2}|dictsort }} {{ {'b': 1, 'A': 2}|dictsort(true) }} {{ {'b': 1, 'a': 2}|dictsort(by='value', reverse=true) }} {{ {'b': 2, 'a': 1}|dictsort(false, 'value') }}
{{ numbers|dictsort }}
{{ nested|items|list|length }} {{ missing|items|list }} {% for k, v in nested|items %}{{ k }};{% endfor %}
{{ numbers|items|list }}
{{ numbers|batch(2)|list }} {{ numbers|batch(2, 'x')|list }} {{ numbers|slice(2)|list }} {{ numbers|slice(3, 'x')|list }} {{ numbers|batch(10, 0)|list }}
{{ messages|groupby('role')|map('first')|list }} {% for g in [{'k': 'b', 'v': 1}, {'k': 'A', 'v': 2}, {'k': 'B', 'v': 3}]|groupby('k') %}{{ g[0] }}:{{ g[1]|map(attribute='v')|join('+') }};{% endfor %}{{ [{'k': 1}, {}]|groupby('k', default=0)|length }}
{{ '42'|int }} {{ '42.9'|int }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ 3.99|int }} {{ '0x1f'|int(0, 16) }} {{ ' 12 '|int }} {{ '1_000'|int }} {{ none|int }} {{ true|int }} {{ '-5'|int }} {{ '101'|int(base=2) }} {{ []|int(default=3) }} {{ '1e3'|int }} {{ -3.99|int }}
{{ missing|int }}
{{ '3.5'|float }} {{ 'x'|float }} {{ 'x'|float(1.5) }} {{ 5|float }} {{ '1e3'|float }} {{ 'inf'|float }} {{ 'nan'|float }} {{ ' 2 '|float }} {{ none|float }} {{ '0x10'|float }}
{{ -5|abs }} {{ -2.5|abs }} {{ (-5)|abs }} {{ true|abs }} {{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 42.55|round(1) }} {{ 42.55|round(1, 'floor') }} {{ 42.1|round(method='ceil') }} {{ 5|round }} {{ 1234|round(-2) }} {{ 1250|round(-2) }} {{ 1.5|round|int }} {{ -0.5|round }} {{ 1234.5|round(-2) }} {{ 15|round(-1) }} {{ 25|round(-1) }}
{{ 'x'|abs }}
{{ 'x'|round }}
{{ 5|round(1, 'up') }}
{{ nested|tojson }} {{ 'é"\\\n\t\x01<>&\''|tojson }} {{ [1, 2.0, none, true, false, 1e20, 'x']|tojson }} {{ {}|tojson }} {{ []|tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ (1, 2)|tojson }} {{ '\x7f\u2028😀'|tojson }}
{{ nested|tojson(indent=2) }}
{{ nested|tojson(indent=4) }} {{ {'a': [], 'b': {}}|tojson(indent=1) }} {{ [1]|tojson(indent=0) }} {{ [1, [2]]|tojson(indent='\t') }}
{{ nested|tojson(ensure_ascii=true) }} {{ '😀é\x7f'|tojson(true) }} {{ {'b': 1, 'a': 2}|tojson(sort_keys=true) }} {{ [1, {'a': 2}]|tojson(separators=(',', ':')) }} {{ [1, {'a': 2}]|tojson(indent=2, separators=(',', ':')) }} {{ nested|tojson(indent=none) }}
{{ missing|tojson }}
{{ nested.items()|tojson }}
{{ range(3)|tojson }}
{{ {(1, 2): 3}|tojson }}
{{ html|escape }} {{ html|e }} {{ html|safe }} {{ html|striptags }} {{ '<!-- c -->a  b\n&amp;&lt;'|striptags }} {{ 'a b/c?é&'|urlencode }} {{ {'a b': 'c/d', 'e': 1}|urlencode }} {{ [('x', 2)]|urlencode }} {{ html|forceescape }}
{{ lines|indent }}|{{ lines|indent(2, true) }}|{{ lines|indent(2, blank=true) }}|{{ 'a\nb'|indent('> ') }}|{{ ''|indent }}|{{ 'a\n\nb\n'|indent(1, first=true) }}|{{ '\n'|indent(2, true, true) }}
{{ 5|indent }}
{{ 'foo bar baz qux'|truncate(9) }} {{ 'foo bar baz qux'|truncate(9, true) }} {{ 'foo bar baz qux'|truncate(11) }} {{ 'foo bar baz qux'|truncate(11, false, '...', 0) }} {{ 'foo'|truncate(5) }} {{ 'foobarbazquxquux'|truncate(6, end='-') }}
{{ 'foo bar'|truncate(1) }}
{{ 'Hello, wörld! a_b 3'|wordcount }} {{ 'ab'|center(6) }}| {{ 'x'|string ~ 1|string }} {{ '%s-%s'|format(1, 'b') }} {{ '%(x)s'|format(x=2) }} {{ 'abc'|list }} {{ nested|list }} {{ 1000|filesizeformat }} {{ 1500000|filesizeformat }} {{ 2048|filesizeformat(true) }} {{ 1|filesizeformat }} {{ {'b': 1, 'a': [1]}|pprint }} {{ 'x'|pprint }}
{{ numbers|map('abs')|list }} {{ numbers|map('string')|join('+') }} {{ messages|map(attribute='role')|list }} {{ messages|map(attribute='n', default=0)|list }} {{ mixed|map('upper')|list }} {{ mixed|map('replace', 'a', 'z')|join }} {{ messages|map(attribute='deep.list.2.x', default='-')|list }} {{ [[1, 2], [3, 4]]|map(attribute=0)|list }} {{ [[1, 2], [3]]|map('sum')|list }}
{{ numbers|map()|list }}
{{ numbers|map('nofilter')|list }}
{{ numbers|map(attribute='a', foo=1)|list }}
{{ numbers|select('odd')|list }} {{ numbers|reject('odd')|list }} {{ numbers|select('gt', 2)|list }} {{ [0, 1, '', 'a', none]|select|list }} {{ [0, 1]|reject|list }} {{ messages|selectattr('role', 'equalto', 'user')|list|length }} {{ messages|rejectattr('role', '==', 'user')|map(attribute='role')|join(',') }} {{ messages|selectattr('n')|list|length }} {{ messages|selectattr('n', 'defined')|list|length }} {{ messages|selectattr('role', 'in', ['user', 'system'])|list|length }} {{ numbers|select('divisibleby', 2)|list }} {{ messages|selectattr('content', 'none')|list|length }} {{ messages|rejectattr('deep')|list|length }}
{{ 'yes' if messages|selectattr('role', 'equalto', 'nobody') else 'no' }} {{ 'yes' if messages|selectattr('role', 'equalto', 'nobody')|list else 'no' }} {{ numbers|select('odd') is iterable }} {{ numbers|select('odd') is sequence }}
{{ numbers|select('notest')|list }}
{{ messages|selectattr()|list }}
{{ nested|attr('items') is callable }} {{ nested|attr('b') is defined }} {{ 'x'|attr('upper')() }}
{{ x|nofilter }}
{{ 1 is notest }}
{{ 1 is defined }} {{ missing is undefined }} {{ none is none }} {{ 'a' is string }} {{ 1 is number }} {{ true is number }} {{ true is integer }} {{ 1 is integer }} {{ 1.0 is float }} {{ 1.0 is integer }} {{ true is boolean }} {{ 1 is boolean }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ 0 is false }}
{{ nested is mapping }} {{ numbers is mapping }} {{ numbers is iterable }} {{ 'a' is iterable }} {{ 5 is iterable }} {{ none is iterable }} {{ numbers is sequence }} {{ nested is sequence }} {{ 'a' is sequence }} {{ 5 is sequence }} {{ range(2) is sequence }} {{ nested.keys() is sequence }} {{ missing is iterable }} {{ missing is sequence }} {{ range is callable }} {{ 5 is callable }} {{ missing is callable }} {{ 'a'.upper is callable }} {{ () is iterable }}
{{ 4 is even }} {{ 3 is odd }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(4) }} {{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 'Abc' is lower }} {{ 1 is eq 1 }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 2 is gt(1) }} {{ 2 is ge 2 }} {{ 2 is le 1 }} {{ 'a' is in 'abc' }} {{ 1 is in [1] }} {{ 1 is sameas 1 }} {{ true is sameas true }} {{ 1 is sameas true }} {{ none is sameas none }} {{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ 'x' is not none }} {{ 1 is not string }} {{ missing is not defined }} {{ 1 is equalto 1.0 }} {{ 3 is greaterthan 2 }} {{ 1 is lessthan 2 }}
{{ 'a' is string and 1 is number or false }} {{ not 1 is odd }} {{ 1 is odd == true }} {{ numbers|length is gt 3 }} {{ (1 is string) ~ 'x' }} {{ 2 * 3 is even }}
{{ 'x' is even }}
{{ 1 is divisibleby 0 }}
{{ 1 is defined is defined }}
{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ m.role }};{% endfor %}
{% for m in messages %}{{ loop.previtem.role }}<{{ m.role }}>{{ loop.nextitem.role if loop.nextitem is defined }};{% endfor %}
{% for m in messages %}{{ loop.previtem.role if loop.previtem }}<{{ m.role }}>{{ loop.cycle('a', 'b') }}{{ loop.changed(m.n) }};{% endfor %}
{% for x in [] %}x{% else %}none{% endfor %} {% for x in [1] %}x{% else %}none{% endfor %} {% for x in missing %}x{% else %}undef{% endfor %} {% for c in 'abç' %}[{{ c }}]{% endfor %} {% for k in nested %}{{ k }}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for x in none %}{% endfor %}
{% for a, b in [(1, 2), [3, 4], 'xy'] %}{{ a }}-{{ b }};{% endfor %} {% for k, v in nested.items() %}{{ k }}={{ v }};{% endfor %} {% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %} {% for (a, b) in [(1, 2)] %}{{ a }}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% for x in numbers if x > 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% else %}no{% endfor %} {% for x in numbers if x > 99 %}{% else %}no{% endfor %} {% for m in messages if m.role == 'user' and m.content %}{{ m.content }}{% endfor %}
{% for x in numbers %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %} {% for x in numbers %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %} {% for a in [1, 2] %}{% for b in [1, 2, 3] %}{% if b == 2 %}{% break %}{% endif %}{{ a }}{{ b }} {% endfor %}{% endfor %} {% for x in [1] %}{% break %}{% else %}else{% endfor %}
{% break %}
{% for x in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}
{% for x in [1, 2] %}{% for y in [3, 4] %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %} {{ loop is defined }}
{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }} {% if true %}{% set x = 9 %}{% endif %}{{ x }}
{% set ns = namespace(x=1, found=false) %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}{% set ns.found = true %}{% endfor %}{{ ns.x }}{{ ns.found }} {{ ns.nope is defined }} {{ ns['x'] }} {{ namespace({'a': 5}, b=6).a }}
{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }} {{ ns }}
{% set ns = namespace(_x=1) %}
{% set ns = namespace() %}{% set ns._x = 1 %}
{% set d = {} %}{% set d.x = 1 %}
{% set nope.x = 1 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }} {% set c = 1, 2 %}{{ c }} {% set a = b %}{{ a }} {% set t = () %}{{ t }}
{% set a, b = 1 %}
{% set x %}  block {{ 1 + 1 }} text {% endset %}[{{ x }}] {% set y | upper | trim %} shout {% endset %}[{{ y }}] {% set z | replace('a', 'b') %}banana{% endset %}{{ z }}
{% macro m(a, b=2, c=a) %}{{ a }}-{{ b }}-{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 5) }}{{ m(1, c=7) }}{{ m(b=3, a=4) }}{{ m() }} {{ m }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(zz=2) }}
{% macro m(a, a2=1) %}{{ a.x }}{% endmacro %}{{ m() }}
{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }} {% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}
{% macro wrap(tag) %}<{{ tag }}>{{ caller() }}</{{ tag }}>{% endmacro %}{% call wrap('b') %}body {{ 1 }}{% endcall %} {% macro each(xs) %}{% for x in xs %}{{ caller(x) }}{% endfor %}{% endmacro %}{% call(x) each([1, 2]) %}[{{ x }}]{% endcall %} {% macro none_() %}x{% endmacro %}
{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}
{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}
{% set outer = 1 %}{% macro m() %}{{ outer }}{% set outer = 5 %}{{ outer }}{% endmacro %}{{ m() }}{% set outer = 2 %}{{ m() }}{{ outer }}
{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}
{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}
{% with a = 1, b = 2 %}{{ a + b }}{% set c = 5 %}{% endwith %}{{ a }}{{ c }} {% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }} {% set a = 7 %}{% with a = 1, b = a %}{{ b }}{% endwith %}
{% filter upper %}abc {{ 'd' }}{% endfilter %} {% filter replace('a', 'b') | upper %}banana{% endfilter %}
{% if 0 %}a{% elif '' %}b{% elif [] %}c{% else %}d{% endif %} {% if messages and messages[0].role == 'system' %}sys{% endif %} {% if missing %}x{% else %}y{% endif %}
{% block title %}in block {{ text|trim }}{% endblock %} {% block other scoped %}x{% endblock other %}
{% generation %}generated {{ 1 }}{% set g = 1 %}{% endgeneration %}{{ g }}
{% print 1 + 1, 'x' %}
{% raw %}{{ not }} {% parsed %}{# here #}{% endraw %} {%- raw -%}  {{ x }}  {%- endraw -%}  y
a {#- comment -#} b {# {{ x }} #} c {#+ x +#} d
{{ bos_token -}}   x   {{- bos_token }}
 {% if true %} a {% endif %} b
{{ '{{' }} {{ '%}' }} {{ {'a': {'b': 1}}['a']['b'] }} {{ {} }}
text { not a tag } %} }} #} {
{{ joiner() is callable }} {% set j = joiner(', ') %}{% for x in [1, 2, 3] %}{{ j() }}{{ x }}{% endfor %} {% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.next() }}
{{ dict(a=1, b=2) }} {{ dict([('x', 1)]) }} {{ dict({'a': 1}, b=2) }} {{ dict() }} {{ dict(**{'k': 1}) }} {{ dict.fromkeys(['a', 'b'], 0) }}
{{ dict(1) }}
{{ strftime_now('%d %b %Y') }} {{ strftime_now('%Y-%m-%d %H:%M:%S') }} {{ strftime_now('%A %B %-d') }} {{ strftime_now('') }}|
{{ raise_exception('Conversation roles must alternate') }}
{{ lipsum(unknown_argument=1) }}
{{ numbers|random(1) }}
{% include 'x' %}
{% import 'x' as y %}
{% extends 'x' %}
{% from 'x' import y %}
{% unknown %}
{% if %}x{% endif %}
{% for x in %}{% endfor %}
{% for x of y %}{% endfor %}
{% set 1 = 2 %}
{% set true = 2 %}
{% set x.y.z = 2 %}
{% macro %}{% endmacro %}
{% macro m(a=1, b) %}{% endmacro %}
{{ 1 + }}
{{ (1 }}
{{ [1, 2 }}
{{ {'a' 1} }}
{{ 'open }}
{{ x | }}
{{ x is }}
{{ x. }}
{{ f(a=1, 2) }}
{{ f(**{}, a=1) }}
{{ 1 2 }}
{{ ) }}
{{ }}
{{ x ? y }}
{{ !x }}
{{ `x` }}
{{ '\x1' }}
{% raw %}x
{# open
{{ x
{% x
{{ 1__0 }}
{{ 09 }}
{% endif %}
{% call 5 %}{% endcall %}
{% set x | %}{% endset %}
{{ [1, 2, 3].0 }} {{ nested.b.0 }} {{ [[1, 2]].0.1 }}
{{ (numbers|map('string'))[0] }}
{{ messages[-1]['deep']['list'][-1].x }} {{ messages[2].deep.list|length }} {{ messages|length - 1 }} {{ messages[messages|length - 1].n }}
{{ (messages|selectattr('role', 'equalto', 'system')|first).content }} {{ messages[::-1][0].role }} {{ messages[1:]|map(attribute='role')|list }} {{ (messages|last).role }} {{ (messages|reverse|list)[0].role }}
{% set m = messages[0] %}{{ m.content if m.content is string else '' }} {{ messages[2].content or 'empty' }} {{ messages[2].content is none }} {{ messages[0].n is defined and messages[0].n }}
{{ numbers|list|sort|reverse|join(',')|replace(',', ';')|upper }} {{ ('a' ~ 'b')|upper }} {{ 'a' ~ 'b'|upper }} {{ -1|abs }} {{ 2 + 3|string|length }} {{ '5'|int + 1 }} {{ 'a,b'.split(',')|last }} {{ not false|string }}
{% set it = numbers|map('string') %}{{ it|join }}|{{ it|join }}
{{ range(3)|map('string')|join }} {{ range(3) == range(3) }} {{ range(2) is mapping }} {{ 2 in range(5) }} {{ range(0) and 1 }} {{ range(10)|sum }} {{ range(5)|batch(2)|map('list')|list }}
{{ numbers(1) }}
{{ 1 if namespace is callable }}
{{ x if x is defined else y if y is defined else 'neither' }} {{ (x or y) is defined }} {{ none or false or 0 or '' or 'last' }} {{ [none, 1]|select('none')|list }}
{{ ({'a': {'b': 2}}).a.b }} {{ {'a-b': 1}['a-b'] }} {{ {'x': 1}.x + {'y': 2}['y'] }} {{ [{'a': 1}][0].a }} {{ ((1)) }} {{ (1, (2, 3))[1][0] }}
{{ 'a' if 1 == 1 and not 2 == 3 or false else 'b' }} {{ 1 if 2 in [2, 3] and 'x' not in 'abc' }} {{ 5 if not none }} {{ (1 if true) + 1 }}
{{ "\n"|tojson }} {{ '\u0041'|length }} {{ 'a\\nb' }} {{ "a'b"|tojson }} {{ 'x' == "x" }} {{ '' == '' }} {{ 'É'.lower() == 'é' }}
{{ 100000 * 100000 }} {{ 9007199254740993 }} {{ 9007199254740993 * 1.0 }} {{ 1e308 * 10 }} {{ -1e308 * 10 }} {{ 0.1 }} {{ 100.0 }} {{ 1.10 }} {{ 3.0e10 }} {{ 12345678901234567.0 }} {{ 0.00001234 }}
{{ messages is string }} {{ text is string and text|length > 3 }} {{ text|trim|length }}
""".lstrip("\n")

SNIPPETS = [line for line in _LINES.split("\n") if line] + [
    '  {% if true %}\n    x\n  {% endif %}\ny\n',
    '  {%+ if true %}x{% endif +%}\nz\n',
    'a\n    {%- if true -%}\n    b\n    {%- endif -%}\nc\n',
    '{% for x in [1, 2] %}\n  {{ x }}\n{% endfor %}\nend\n',
    '  {# comment #}\n  {{ 1 }}  \n',
    '  {% set x = 1 %}  \n{{ x }}\n',
    '\t{% set x = 1 -%}\n\n\tx\n',
    '{% if true %}x\n{% endif %}\n',
    "{{ 'line\\\nend' }}",
    "", "\n", "x\n", "x\n\n", "{{ 'x' }}\n", "a\r\nb\rc\n", "{% if true %}\r\nx\r\n{% endif %}\r\n", "\n\n{% set x = 1 %}\n\nx", "{{ 'a\r\nb' }}",
    "{%- for m in messages -%}\n  {{- m.role -}}\n{%- endfor -%}\n", "x {%- if true %} y {%- endif %} z", "\u00a0{% if true %}x{% endif %}", "é{{ 'ü' }}",
    "  {%- set x = 1 %}\n  {{- x }}\n", "{% if true -%}\n\n  x\n\n{%- endif %}", "{{ 1 }}\n{{ 2 }}\n{# c #}\n{{ 3 }}", "{{\n1\n+\n2\n}}", "{%\nif true\n%}x{% endif %}",
]
