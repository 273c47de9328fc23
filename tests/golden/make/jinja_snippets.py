"""Small templates that compare xrun with Jinja: whitespace, scoping, operators, filters, tests, methods.

Each is rendered with VARIABLES; the golden has the text, or null if Jinja fails.
"""

VARIABLES = {
    "s": "Hello, Wörld 🙂", "t": "  padded\t\n", "e": "", "n": 7, "z": 0, "m": -3, "f": 2.5, "g": 1e20,
    "yes": True, "no": False, "nil": None, "l": [3, 1, 2], "w": ["b", "A", "c", "a"], "el": [],
    "d": {"b": 1, "a": [1, 2.0, None, True, "x'y"], "items": "key"}, "ed": {},
    "q": 'say "hi" \'now\'\n', "html": "<a href='x'>&</a>",
    "rows": [{"role": "user", "n": 1, "tag": "x"}, {"role": "tool", "n": 2},
             {"role": "user", "n": 3, "tag": "y", "deep": {"k": [5, 6]}}],
    "nested": [[1, [2, [3]]], {"k": {"v": []}}], "big": 9007199254740993, "small": 1e-7,
}

WHITESPACE = [
    "a\n", "a\n\n", "\n", "", " {% if yes %} \n x \n {% endif %} \n y", "x {%- if yes -%} y {%- endif -%} z",
    "{% if yes %}\n\nx\n{% endif %}\n", "  {% set a = 1 %}\n  {{ a }}\n", "a {#- c -#} b", "a {# c #} b\n{# d #}\n c",
    "  {#- x #}\n", "{{ 1 }}\n{{ 2 }}", "{{- 1 -}}\n {{ 2 }}", "  {{ 1 }}  ", "  {%+ if yes %}x{% endif %}", "{% if yes +%}\nx{% endif %}",
    "{% raw %} {{ x }} {% if %} {% endraw %}!", "{%- raw -%} {{ x }} {%- endraw -%} !", "x\r\ny\rz\n", "{% for i in l %}\n{{ i }}\n{% endfor %}\n",
    "{% for i in l -%}\n  {{ i }},\n{%- endfor %}", "a\n  {% if no %}\nb\n  {% else %}\nc\n  {% endif %}\nd", "{{ '}}' }}{{ '%}' }}{{ \"#}\" }}",
    "{{ {'a': {'b': 1}}['a']['b'] }}", "{%if yes%}x{%endif%}", "{{'a'}}{{\"b\"}}", "# not a line statement\n## nor this", "{ { } } { % % }",
    "\t{% set x = 1 %}\tend", "a{% set x = 1 %}\n\n\nb", "{# a\nmulti\nline #}\nx", "x{##}y", "x{#-#}y", " \n {%- set a = 1 %} \n x",
    "x\u00a0{%- if yes %}y{% endif %}", "{% if yes -%}\u3000\u2028 y{% endif %}", "a\n\u00a0 {% if yes %}b{% endif %}", "a\u0085 {% if yes %}b{% endif %}", "{{\u00a0n\u2003}}", "{{ n\u00a0+\u3000n }}",
]

SCOPES = [
    "{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}",
    "{% set ns = namespace(x=1) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
    "{% if yes %}{% set y = 5 %}{% endif %}{{ y }}", "{% for i in l %}{% set inner = i %}{% endfor %}[{{ inner }}]",
    "{% macro m(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=4, a=0) }} {{ m() }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(c=2) }}",
    "{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k=4) }}",
    "{% macro m() %}{{ v }}{% endmacro %}{% set v = 3 %}{{ m() }}{% set v = 4 %}{{ m() }}",
    "{% macro m(x, y=x) %}{{ x }}{{ y }}{% endmacro %}{{ m(1) }}", "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    "{% macro m() %}  a  {% endmacro %}[{{ m() }}][{{ m()|trim }}][{{ m() ~ 1 }}]{{ m() is string }}", "{% set b %}block {{ n }}{% endset %}[{{ b }}]{{ b is string }}",
    "{% set b | upper %}block {{ n }}{% endset %}{{ b }}", "{% set b | replace('o', '0') | upper %}foo{% endset %}{{ b }}",
    "{% filter upper %}abc {{ s }}{% endfilter %}", "{% filter replace('a', 'b') | trim %} aaa {% endfilter %}",
    "{% macro box() %}<{{ caller() }}>{% endmacro %}{% call box() %}in {{ n }}{% endcall %}",
    "{% macro box() %}<{{ caller(1, 2) }}>{% endmacro %}{% call(a, b) box() %}{{ a + b }}{% endcall %}",
    "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}[{{ a }}]", "{% with %}{% set q2 = 1 %}{{ q2 }}{% endwith %}[{{ q2 }}]",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = [3, 4] %}{{ a }}{{ b }}", "{% set a, b = 'xy' %}{{ a }}{{ b }}", "{% set a, b = [1] %}",
    "{% set (a, b) = (1, 2) %}{{ b }}", "{% set x = 1, 2 %}{{ x }}", "{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}{{ ns.b }}", "{% set d2 = {} %}{% set d2.a = 1 %}",
    "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns['b'] }}", "{% set ns = namespace(_a=1) %}", "{% set ns = namespace() %}{% set ns._a = 1 %}",
    "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }};{% endfor %}",
    "{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {{ loop.previtem is defined }};{% endfor %}", "{% for i in l %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for i in [1, 1, 2, 2, 1] %}{{ loop.changed(i) }}{% endfor %}", "{% for i in l if i > 1 %}{{ loop.index }}:{{ i }}/{{ loop.length }} {% endfor %}",
    "{% for i in el %}x{% else %}empty{% endfor %}", "{% for i in l if i > 9 %}x{% else %}none{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}", "{% for c in s %}{{ c }}|{% endfor %}", "{% for i in nil %}{% endfor %}", "{% for i in n %}{% endfor %}", "{% for i in undef %}x{% else %}u{% endfor %}",
    "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in l %}{% for j in l %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}", "{% break %}", "{% for a, b in [[1, 2], [3, 4]] %}{{ a * b }} {% endfor %}",
    "{% for a, b in [[1, 2, 3]] %}{% endfor %}", "{% for x in nested recursive %}{{ x if x is number else '' }}{% if x is sequence and x is not string and x is not mapping %}({{ loop(x) }}){% endif %}{% endfor %}",
    "{% for x in l %}{{ loop.depth }}{% for y in l %}{{ loop.depth }}{% endfor %}{% endfor %}", "{% for i in l %}{% set last = loop %}{% endfor %}{{ last }}",
    "{% if no %}a{% elif z %}b{% elif n %}c{% else %}d{% endif %}",
    "{{ loop }}", "{% set loop = 5 %}{{ loop }}", "{% for i in l %}{% set x %}{{ loop.index }}{% endset %}{{ x }}{% endfor %}", "{% macro m() %}{{ loop }}{% endmacro %}{% for i in l %}{{ m() }}{% endfor %}",
    "{% set x = 1 %}{% macro m() %}{% set x = 2 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}", "{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% include 'x' %}", "{% unknown %}", "{% if yes %}", "{{ 1", "{% for %}", "{{ }}", "{{ a b }}", "{% endif %}", "{{ 1 + }}", "{{ (1 }}", "{{ 'abc }}", "{% set 1 = 2 %}", "{% set true = 2 %}", "{# open",
    "{% raw %}x", "{% macro m(a=1, b) %}{% endmacro %}", "{{ f(a=1, 2) }}",
    "{% macro m(a, b=2) %}{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m['name'] }}",
]

EXPRESSIONS = [
    # printing
    "s", "t", "n", "m", "f", "g", "big", "small", "yes", "nil", "l", "w", "d", "ed", "el", "q", "[q]", "[s]", "nested", "(1,)", "(1, 2)", "()", "1, 2", "{}", "{'a': 1, 2: 'b', none: true}", "[nil, yes, 1.0, 'é\\u200b\\x00\\n\\\\']",
    "1.0", "1e3", "1.5e-10", "123456789012345678.0", "0x1F", "0b101", "0o17", "1_000", "100000 * 100000", "1/3", "[1.0, 1e16, 1e15]", "undef", "[undef]", "'a' 'b'", "'\\u00e9\\t\\101\\q'", "\"it's\"",
    # arithmetic
    "1 + 2 * 3", "(1 + 2) * 3", "7 / 2", "6 / 2", "7 // 2", "-7 // 2", "-7 % 3", "7 % -3", "7.5 // 2", "-7.5 % 2", "2 ** 10", "2 ** -1", "2 ** 0.5", "-2 ** 2", "2 ** 3 ** 2", "1 / 0", "1 // 0", "1 % 0", "yes + 1", "+n", "-n", "- -n", "-f",
    "'a' + 'b'", "'a' + 1", "1 + 'a'", "'ab' * 3", "3 * 'ab'", "'a' * -1", "l + [4]", "l + (1,)", "(1, 2) + (3,)", "[0] * 3", "l - 1", "nil + 1", "undef + 1", "1 + undef", "undef + 'a'", "'x' ~ 1 ~ none ~ undef ~ 2.0", "1 ~ 2 + 3", "s ~ l",
    # comparison and logic
    "1 < 2 < 3", "1 < 2 > 3", "1 == 1.0", "yes == 1", "'a' < 'b'", "'a' < 1", "nil < 1", "[1, 2] < [1, 3]", "[1] == (1,)", "l == [3, 1, 2]", "{'a': 1} == {'a': 1.0}", "nil == none", "nil == 0", "undef == undef2", "undef == none", "undef == ''", "undef != 1", "undef < 1",
    "1 in l", "9 in l", "9 not in l", "'ell' in s", "1 in s", "'b' in d", "'zz' in d", "1 in d.values()", "('b', 1) in d.items()", "1 in n", "1 in nil", "1 in undef", "undef in l", "[1] in d", "not yes", "not undef", "not 1 in l", "yes and n", "z and n", "z or e or 'last'", "undef or 'u'", "nil and undef.x",
    "1 if yes else 2", "1 if no else 2", "1 if no", "(1 if no) is undefined", "1 if no else 2 if no else 3", "(1 if yes else 2) + 1", "'a' if n > 5 and not no else 'b'",
    # access
    "d.b", "d['b']", "d.a[1]", "d.a.1", "d.missing", "d.missing.x", "d['missing']", "d.items", "d['items']", "l[0]", "l[-1]", "l[9]", "l[9].x", "l['x']", "l[1.0]", "l[yes]", "s[0]", "s[7]", "s[-1]", "s[99]", "s.x", "n.x", "nil.x", "nil['x']", "nil.x.y", "undef.x", "undef['x']",
    "d.__class__", "s.__class__", "d['__class__']", "rows[0].role", "rows[2].deep.k[1]", "rows[0]['deep']", "rows[-1].tag", "l.append(1)", "l.append is defined", "d.update({})", "d.pop('b')", "(1, 2)[1]", "[[1, 2], [3]][1][0]", "d.get('b')", "d.get('x')", "d.get('x', 5)", "d.keys()", "d.values()", "d.items()", "d.keys()|list", "d.items()|list", "d.items()|first", "d.items()[0]", "ed.keys()",
    # slices
    "l[1:]", "l[:1]", "l[::-1]", "l[-2:]", "l[:-1]", "l[::2]", "l[2:0:-1]", "l[5:]", "l[-9:2]", "s[1:4]", "s[::-1]", "s[-3:]", "s[7:8]", "s[::3]", "s[:0]", "e[::-1]", "l[::0]", "l['a':]", "l[nil:2]", "n[1:]", "nil[1:]", "undef[1:]", "d[1:]", "(1, 2, 3)[1:]", "range(10)[2:5]", "l[1:2, 0]", "s[2:-2]", "s[-1:-5:-1]",
    # calls
    "range(3)|list", "range(1, 4)|list", "range(6, 0, -2)|list", "range(3)", "range(1, 9, 2)", "range(0)|length", "range()", "range(1, 2, 0)", "range(200000)|length", "range(3)[1]", "range('a')", "dict(a=1)", "dict([['x', 1]])", "dict(d, c=3)", "dict(1)", "n()", "undef()", "d.nope()", "s.nope()", "raise_exception('no')", "raise_exception('no', 1)", "9007199254740993 == 9007199254740992.0", "9007199254740993 > 9007199254740992.0", "9007199254740992 == 9007199254740992.0", "-9007199254740993 < -9007199254740992.0", "9007199254740993 in [9007199254740992.0]", "7 < 7.5", "-7.5 < -7", "l|max(1, 2, 3)", "dict(**{'k': 1})", "range(*[1, 3])|list", "dict(*[], **{})", "namespace(a=1)",
    "07", "00", "0_0", "07.5", "[0, 07]", "1_000",
]

FILTERS = [
    "t|trim", "t|trim|length", "'xxaxx'|trim('x')", "5|trim", "s|length", "l|length", "d|length", "n|length", "undef|length", "nil|length", "l|count", "s|upper", "s|lower", "'ÀÉ İ'|lower", "'hELLO wORLD'|capitalize", "'hello-world (foo) [bar] it\\'s'|title", "5|upper", "nil|lower", "e|capitalize",
    "l|first", "l|last", "el|first", "el|last", "s|first", "s|last", "d|first", "l|join", "l|join(', ')", "rows|join(',', attribute='role')", "s|join('-')", "el|join('x')", "n|join", "d|join(',')", "w|join('<')",
    "undef|default('x')", "nil|default('x')", "e|default('x', true)", "e|default('x')", "undef|d", "undef|default(boolean=true, default_value='k')", "d.nope|default([])|length", "undef.x|default(1)",
    "l|list", "s|list", "d|list", "undef|list", "d|items|list", "undef|items|list", "d|items|length", "rows|map(attribute='role')|list", "rows|map(attribute='tag')|list", "rows|map(attribute='tag', default='-')|list", "rows|map(attribute='deep.k.1')|list", "w|map('upper')|list", "l|map('string')|join('+')", "w|map('replace', 'a', 'z')|list", "l|map|list", "w|map('nofilter')|list", "nested|map('length')|list",
    "rows|selectattr('role', 'equalto', 'user')|list|length", "rows|selectattr('tag')|map(attribute='n')|list", "rows|selectattr('tag', 'defined')|map(attribute='n')|list", "rows|rejectattr('role', 'eq', 'user')|map(attribute='n')|list", "rows|selectattr('n', 'gt', 1)|map(attribute='n')|list", "rows|selectattr('role', 'in', ['tool'])|list|length", "l|select('odd')|list", "l|reject('odd')|list", "[0, 1, '', 'a']|select|list", "[0, 1]|reject|list", "l|select('greaterthan', 1)|list", "l|select('nothing')|list", "rows|selectattr('nope', 'undefined')|list|length",
    "(rows|selectattr('role', 'equalto', 'zzz')) is defined", "'yes' if rows|selectattr('role', 'equalto', 'zzz') else 'no'", "rows|selectattr('n')|first", "(l|map('string'))[0]", "l|map('string')|length", "l|map('string')|last", "l|select('odd')|join", "rows|map(attribute='role')|unique|list",
    "l|sort", "w|sort", "w|sort(case_sensitive=true)", "w|sort(reverse=true)", "l|sort(true)", "rows|sort(attribute='n', reverse=true)|map(attribute='n')|list", "[1, 'a']|sort", "w|unique|list", "w|unique(true)|list", "[1, 1.0, true, 2]|unique|list", "l|min", "l|max", "w|min", "w|max", "el|max", "rows|max(attribute='n')", "l|reverse|list", "s|reverse", "n|reverse", "l|reverse",
    "d|dictsort", "{'b': 1, 'A': 2, 'a': 3}|dictsort", "{'b': 1, 'A': 2}|dictsort(true)", "{'b': 1, 'a': 2}|dictsort(by='value')", "{'b': 1, 'a': 2}|dictsort(reverse=true)", "d|dictsort(false, 'nope')", "l|dictsort",
    "s|replace('l', 'L')", "s|replace('l', 'L', 1)", "s|replace('', '-')", "5|replace('5', 'five')", "s|string", "5|string", "nil|string", "l|string", "d|string", "f|string + 'x'", "html|safe", "html|safe + '<'", "'<' + html|safe", "html|safe ~ '<'", "(html|safe)|length", "html|safe|replace('<', '(')", "(html|safe)[0:3] + '<'", "5|safe + '1'",
    "'3'|int", "'3.7'|int", "'x'|int", "'x'|int(5)", "f|int", "-2.7|int", "(-2.7)|int", "nil|int", "yes|int", "' 42 '|int", "'1e3'|int", "'3.5'|float", "'x'|float", "'x'|float(1.5)", "n|float", "nil|float", "2.5|round", "3.5|round", "2.567|round(2)", "2.1|round(0, 'ceil')", "2.9|round(method='floor')", "1234|round(-2)", "n|round", "2.675|round(2)", "2.5|round|int",
    "'a\\nb\\n\\nc'|indent", "'a\\nb'|indent(2, true)", "'a\\n\\nb'|indent(2, blank=true)", "'a\\nb'|indent('> ')", "'a\\nb\\n'|indent(2)",

    "s|tojson", "q|tojson", "html|tojson", "l|tojson", "d|tojson", "nested|tojson", "nil|tojson", "yes|tojson", "f|tojson", "g|tojson", "small|tojson", "el|tojson", "ed|tojson", "d|tojson(indent=2)", "nested|tojson(indent=4)", "ed|tojson(indent=2)", "el|tojson(indent=2)", "s|tojson(ensure_ascii=true)", "d|tojson(separators=(',', ':'))", "d|tojson(sort_keys=true)", "d|tojson(indent=1, separators=(', ', ' : '))", "{1: 2, none: 3, true: 4, 1.5: 5}|tojson", "(1, 2)|tojson", "undef|tojson", "[undef]|tojson", "d.items()|tojson", "range(3)|tojson", "d|tojson(indent='\\t')", "'\\x7f\\x1f\\u2028/'|tojson", "{(1, 2): 3}|tojson", "namespace()|tojson", "d|tojson|length", "l|tojson(indent=0)",
    "l|nope", "l|first|string", "n|string|length", "l[0]|string ~ 'x'", "'a,b'.split(',')|join('|')", "w|map('lower')|sort|join", "(l|join(' ')).split()", "'abc'|list|reverse|join",
    "'ΑΣ'|lower", "'ΑΣΑ ΟΔΟΣ'|title", "'ΑΒΣ ΣΣ-ΣΑΣ'|title", "'ΟΔΟΣ'|capitalize", "'1_0'|int", "'٣'|int", "'_1'|int", "'1__0'|int", "'1_'|int", "'+-5'|int", "'-_5'|int", "'1_0.5'|float", "'1_.5'|float", "'\u00a07 '|int", "'1 2'|int", "'𝟙𝟚'|int",
]

TESTS = [name if " is " in name else "%s is %s" % tuple(name.split(" ", 1)) for name in [
    "undef defined", "undef undefined", "nil defined", "d.nope defined", "n not_a_test", "nil none", "undef none", "yes boolean", "n boolean", "yes true", "n true", "no false", "z false", "n integer", "yes integer", "f float", "n number", "yes number", "s number", "s string", "n string", "(html|safe) string",
    "d mapping", "l mapping", "l iterable", "s iterable", "n iterable", "undef iterable", "nil iterable", "l sequence", "s sequence", "d sequence", "n sequence", "undef sequence", "d.items() sequence", "(l|map('string')) sequence", "(l|map('string')) iterable", "range(3) sequence", "n odd", "n even", "f even", "s even",
    "n eq(7)", "n equalto 7", "n ne 7", "n gt 3", "n ge 7", "n lt 3", "n le 7", "n greaterthan 3", "n in [7, 8]", "n in(l)", "n not string", "n not defined", "d.b defined", "d.b.c defined", "d.x.y defined", "loop defined", "messages defined", "strftime_now defined", "raise_exception defined", "namespace defined",
]] + ["n is defined and s is string", "n is not none and n > 3", "not n is string", "n is string or yes", "[n is string, 1]", "n is number and not (s is number)", "undef is defined or undef is none", "'x' if n is odd else 'y'", "n is string is string"]

METHODS = [
    "t.strip()", "t.lstrip()", "t.rstrip()", "'xxaxx'.strip('x')", "'abcba'.strip('ab')", "'abc'.lstrip('ba')", "t.strip(none)", "'\\u3000x\\u00a0'.strip()", "'éaé'.strip('é')", "'a b  c'.split()", "'a,b,,c'.split(',')", "'a,b,c'.split(',', 1)", "'a b c'.split(none, 1)", "'a,b,c'.split(',')[-1]", "'abc'.split('')", "e.split(',')", "e.split()", "' a '.split(' ')", "'a--b'.split('--')", "'aXbXc'.split(sep='X', maxsplit=1)", "'aaa'.split('aa')",
    "s.startswith('Hell')", "s.startswith(('x', 'H'))", "s.startswith('W', 7)", "s.endswith('🙂')", "s.endswith(('a', 'b'))", "s.startswith(1)", "s.startswith('')", "s.endswith('ld', 0, 12)", "'a'.startswith('', 1)", "'a'.startswith('', 2)", "'abc'.startswith('', 2, 1)", "'abc'.endswith('', -2, -3)", "'abc'.endswith('', 1, 9)",
    "s.replace('l', 'L')", "s.replace('l', 'L', 1)", "s.replace('', '.')", "s.upper()", "s.lower()", "'hELLO wORLD'.capitalize()", "'hello world-foo it\\'s'.title()",
    "'12'.isdigit()", "'²'.isdigit()", "e.isdigit()", "'{} {}'.format(1, 'a')", "'{}'.format()", "s.upper", "s.title()",
    "s.strip().split(',')[0].upper()", "(s ~ t).strip()", "'a b'.split(' ', -1)", "'x'.strip('')", "s.lower().startswith('hello')", "'think>a</think>b'.split('</think>')[-1]", "'a\\n\\nb'.lstrip('\\n')",
    "'ΑΣ'.lower()", "'ΑΣ.'.lower()", "'Α.Σ'.lower()", "'Σ'.lower()", "'ΣΑΣ’ΣΑ'.lower()", "'ΟΔΟΣ x'.capitalize()", "'ΟΔΟΣ'.title()", "'中a'.title()", "'①'.isdigit()",
]


def snippets():
    yield from WHITESPACE
    yield from SCOPES
    for group in (EXPRESSIONS, FILTERS, TESTS, METHODS):
        for expression in group:
            yield "{{ %s }}" % expression
