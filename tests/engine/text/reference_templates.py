"""Renders chat templates with `transformers` (jinja2), at a fixed time of the day.

Writes OUT_DIR/templates.json = [{"name", "template", "messages", "generate", "variables", "text"}, ...]; "text" is null
where the reference raises.
"""
import datetime
import json

import transformers.utils.chat_template_utils as reference


class FixedTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 6, 9, 5, 3)  # a Saturday, day 188


CHATS = {
    "user": [("user", "Hello!")],
    "system": [("system", "You are  terse.\n"), ("user", " What is 2 + 2? ")],
    "long": [("system", "Be kind."), ("user", "Hi"), ("assistant", "Hello \u00e9\u00df\U0001f600"), ("user", "More?\n\n"),
             ("assistant", "<think>\nhmm\n</think>\n\nYes."), ("user", "'quoted' \"text\" \\ end")],
    "wrong order": [("assistant", "First!"), ("user", "No.")],
    "twice": [("user", "one"), ("user", "two")],
    "none": [],
}

# Constructs of published templates, written for this test.
CHAT_TEMPLATES = {
    "llama 2": """{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set rest = messages %}{% set system_message = false %}{% endif %}{% for message in rest %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate!') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}""",
    "llama 3": """{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start|>' + message['role'] + '<|stop|>\n\n'+ message['content'] | trim + '<|eot|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant<|stop|>\n\n' }}{% endif %}""",
    "llama 3.1": """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- The system message comes out first. #}
{%- if messages and messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|h|>system<|/h|>\\n\\n" }}
{%- if builtin_tools is defined or tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|h|>' + message['role'] + '<|/h|>\\n\\n'+ message['content'] | trim + '<|eot|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("only one call") }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|h|>assistant<|/h|>\\n\\n' }}
{%- endif %}
""",
    "chatml": """{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}""",
    "qwen 2": """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}""",
    "qwen 3": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {{- tool_call.name ~ (tool_call.arguments | tojson) }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}""",
    "mistral": """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, roles must alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported!") }}
    {%- endif %}
{%- endfor %}
""",
    "bundled": """{{ '<|begin|>' }}{% for m in messages %}{% if m['role'] == 'user' %}{{ '<|user|>' + m['content'] }}{% elif m['role'] == 'assistant' %}{{ '<|assistant|>' + m['content'] + '<|end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}""",
    "llama 2 system in the first turn": """{%- set ns = namespace(system='') -%}
{%- if messages and messages[0].role == 'system' -%}
    {%- set ns.system = '<<SYS>>\\n' ~ messages[0].content | trim ~ '\\n<</SYS>>\\n\\n' -%}
    {%- set messages = messages[1:] -%}
{%- endif -%}
{%- for message in messages -%}
    {%- if message.role not in ['user', 'assistant'] or (message.role == 'user') is ne(loop.index is odd) -%}
        {{- raise_exception('user and assistant take turns, message ' ~ loop.index) -}}
    {%- endif -%}
    {%- if message.role == 'user' -%}
        {{- bos_token ~ '[INST] ' ~ (ns.system if loop.first else '') ~ message.content.strip() ~ ' [/INST]' -}}
    {%- else -%}
        {{- ' ' ~ message.content.strip() ~ ' ' ~ eos_token -}}
    {%- endif -%}
{%- endfor -%}""",
    "overfill": """{% for message in messages %}{{ bos_token if loop.first }}{{ '<|start_header_id|>' ~ message['role'] ~ '<|end_header_id|>\n\n' ~ message['content'] | trim ~ '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}""",
    "days": """{{ strftime_now('%d %b %Y') }}|{{ strftime_now('%A %B %j %H:%M:%S %p %y %m %%') }}|{{ date_string | default(strftime_now("%Y-%m-%d")) }}""",
    "macro": """{%- macro turn(role, text='(empty)', open=true) -%}
  <{{ role }}>{{ text | trim }}{% if open is not sameas true %}!{% endif %}</{{ role }}>
{%- endmacro %}
{% for m in messages if m.content %}
{{ turn(m.role, m.content, open=loop.first) }}
{% else %}
nobody {{ turn('x') }}
{% endfor %}
""",
}

# What is given to a template besides the chat.
VARIABLES = {
    "llama 3.1": [{"date_string": "1 Jan 2000"}, {"tools_in_user_message": False, "date_string": ""}],
    "qwen 3": [{"enable_thinking": False}, {"enable_thinking": True}],
    "days": [{"date_string": "today"}],
    "chatml": [{"bos_token": "", "unused": 1.5}],
}

# One expression or statement each, without messages.
SMALL = [
    "{{ 1 + 2 * 3 - 4 // 3 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 1.5e3 }} {{ 1e16 }} {{ 0.1 + 0.2 }} {{ 4 / 2 }}",
    "{{ 'a' ~ 1 ~ none ~ true ~ 1.0 }} {{ ['a', 1, none, (1,), {'k': 'v\\'s'}] }} {{ \"it's\" }} {{ [\"it's\"] }}",
    "{{ missing }}|{{ missing is defined }}|{{ missing | default('d') }}|{{ '' | default('e', true) }}|{{ missing | length }}",
    "{{ missing.field }}", "{{ missing + 1 }}", "{{ {'a': 1}.b }}|{{ {'a': 1}.b is undefined }}", "{{ none + 1 }}",
    "{{ 'abc'[0] }}{{ 'abc'[-1] }}{{ 'h\u00e9llo'[1:3] }}{{ 'abc'[::-1] }}{{ [1,2,3,4][::2] }}{{ [1,2,3][-2:] }}{{ (1,2,3)[:2] }}{{ 'abc'[5:] }}",
    "{{ 'a,b,,c'.split(',') }} {{ ' a  b c '.split() }} {{ 'a b c d'.split(' ', 2) }} {{ ' a b  c '.split(none, 1) }} {{ ' a b  c '.rsplit(none, 1) }} {{ 'a,b,c'.rsplit(',', 1) }}",
    "{{ 'Hello World'.upper() }}{{ 'Hello'.lower() }}{{ 'hello wORLD it\\'s'.title() }}{{ 'hello wORLD it\\'s' | title }}{{ 'hELLO'.capitalize() }}{{ 'stra\u00dfe \u00e9'.upper() }}",
    "{{ 'xxhixx'.strip('x') }}|{{ '  a '.lstrip() }}|{{ ' a  '.rstrip() }}|{{ '\\n\\ta\u3000'.strip() }}|{{ 'banana'.replace('a', 'o') }}|{{ 'banana'.replace('a', 'o', 1) }}|{{ 'ab'.replace('', '-') }}",
    "{{ 'banana'.count('an') }}{{ 'banana'.find('nan') }}{{ 'banana'.find('x') }}{{ 'ab'.join(['1','2']) }}{{ 'prefix'.removeprefix('pre') }}{{ 'a\\nb\\r\\nc'.splitlines() }}",
    "{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'b' in 'abc' }}{{ 1 in [1,2] }}{{ 'k' in {'k': 1} }}{{ 3 not in [1] }}{{ 'a' in missing }}",
    "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }}{{ ', ' if not loop.last }}{% endfor %}",
    "{% for x in [3,1,2] | sort %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ loop.revindex0 }}{{ loop.cycle('a','b') }} {% endfor %}",
    "{% for x in [1,2,3,4] if x is even %}{{ x }}{{ loop.first }}{{ loop.previtem }}{{ loop.nextitem }}{% endfor %}",
    "{% for x in range(5) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}{% for x in [] %}{% else %}empty{% endfor %}",
    "{% set x = 1 %}{% for i in [1,2] %}{{ x }}{% set x = i + 10 %}{{ x }}{% endfor %}{{ x }}",
    "{% set ns = namespace(n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
    "{% set a, b = 1, 'two' %}{{ b }}{{ a }}{% set t %}  block {{ a }} {% endset %}[{{ t }}]{% set u | trim | upper %}  x {% endset %}[{{ u }}]",
    "{{ {'b': 1, 'a': [1.0, none, true, 'q\"\u00e9\\n']} | tojson }} {{ {'a': [1, {}], 'b': []} | tojson(indent=2) }} {{ 'x' | tojson }} {{ missing | tojson }}",
    "{{ ['b','A','c'] | sort | join('-') }} {{ [1,2,3] | sum }} {{ [1,2,3] | first }}{{ 'abc' | last }} {{ [3,1] | min }}{{ [3,1] | max }} {{ ['a','A','b'] | unique | list }} {{ [1,2] | reverse | list }}",
    "{{ [{'r':'a','n':1},{'r':'b','n':2}] | map(attribute='n') | list }} {{ ['a','b'] | map('upper') | join }} {{ [{'r':'a'},{'r':'b'}] | rejectattr('r','equalto','a') | list }} {{ [0,1,2] | select | list }} {{ [1,2,3] | select('odd') | list }}",
    "{{ '12' | int }}{{ 'x' | int(5) }}{{ 3.7 | int }}{{ '1.5' | float }}{{ true | int }}{{ 5 | string ~ 'a' }}{{ -3 | abs }}{{ {'a': 1} | items | list }}",
    "{{ 1 if true }}|{{ 1 if false }}|{{ 'a' if 0 else 'b' if '' else 'c' }}|{{ not 1 == 2 }}|{{ 1 < 2 < 3 }}|{{ 1 < 3 < 2 }}|{{ 'a' < 'b' }}|{{ 1 == 1.0 }}|{{ true == 1 }}",
    "{{ none or 'x' }}{{ '' and 'y' }}{{ 1 and 2 }}{{ [] or {} }}{{ true and not false }}",
    "{{ 5 is divisibleby 5 }}{{ 4 is divisibleby(3) }}{{ 'a' is string and 1 is number }}{{ {} is mapping }}{{ 'a' is iterable }}{{ 1 is iterable }}{{ [] is sequence }}{{ none is none }}{{ 1 is not none }}{{ 1 is eq 1 }}{{ 'A' is upper }}{{ 2 is in [1,2] }}{{ 1 is sameas true }}{{ true is boolean }}{{ 1.0 is float }}{{ 1 is integer }}{{ true is integer }}",
    "  {% if true %}x{% endif %}", "{% if true %}\n  {% if true %}x{% endif %}\n \t{# c #}\n  {{ 1 }} {% endif %}",
    "{{ 1 }}  {% if true %}y{% endif %}", "{% if true -%} \n  {% if true %}x{% endif %}{% endif %}",
    "a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "  {%+ if true %}x{% endif +%}\n y", "x {#- c -#} y {# c #}\nz", "a \n {{- 1 -}} \n b", "{{ 1 }}\n{{ 2 }}\n",
    "{% raw %}{{ x }} {% if %}{% endraw %}\n!", "a\r\nb\rc\n\n", "{%- set x = 1 -%}   \n  {{ x }}   {%- if x %} y {%- endif %}   ",
    "text {% if false %}a{% elif 1 %}b{% else %}c{% endif %} {{ {'items': 1}['items'] }} {{ {'x': {'y': [1, 2]}}.x.y[1] }} {{ {'a': 1}['get'] is callable }}",
    "{{ 'a' 'b' }} {{ '\\u00e9\\x41\\101\\q' }} {{ \"\\\"\" }} {{ 'tab\\there' }} {{ {'a': 1,}.get('b', 'dflt') }} {{ [1,2,] }} {{ () }} {{ {'a': 1}.keys() | list }} {{ {'a': 1}.values() | list }}",
    "{{ 'line1\nline2\n\nline4' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ {'b': 1, 'A': 2} | dictsort }}",
    "{{ 10 * 'ab' }}{{ [0] * 3 }}{{ [1] + [2] }}{{ 'a' + 1 }}", "{{ 1 // 0 }}", "{{ [1,2][5] }}|{{ [1][0] }}", "{{ 'x'.nothing }}|{{ 'x'.nothing() }}",
    "{% for a in [1,2] %}{% for b in 'xy' %}{{ loop.index }}{{ a }}{{ b }}{% endfor %}{{ loop.index }} {% endfor %}", "{{ range(3) | list }}{{ range(5, 1, -2) | list }}{{ dict(a=1) }}",
    "{% macro f(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}{{ f(1, b=3) }}{{ f('x', 'y') | upper }}", "{{ strftime_now('%%') }}", "{{ raise_exception('no') }}",
    "{{ {'a': {'b': 1}} == {'a': {'b': 1}} }}{{ [1, [2]] == [1, [2]] }}{{ [1] == (1,) }}{{ [1, 2] < [1, 3] }}{{ messages is defined }}{{ tools is none }}",
]

MALFORMED = ["{% if x %}", "{{ x", "{% endfor %}", "{{ 'a }}", "{{ x | nosuchfilter }}", "{{ x is nosuchtest }}", "{{ (1 }}", "{{ 1 + }}",
             "{% for x %}{% endfor %}", "{% set x %}", "{{ [1, 2 }}", "{% else %}", "{# open", "{{ a..b }}", "{% raw %}x", "{{ {1} }}", "{{ x ! }}"]


def write(out):
    cases = []
    reference.datetime = FixedTime

    def add(name, template, chat, generate, **variables):
        messages = [{"role": role, "content": content} for role, content in chat]
        try:
            given = {"bos_token": "<s>", "eos_token": "</s>"} | variables
            text = reference.render_jinja_template([messages], chat_template=template, add_generation_prompt=generate, **given)[0][0]
        except Exception:  # the reason differs in words; that it fails is what is compared
            text = None
        cases.append({"name": name, "template": template, "messages": messages, "generate": generate, "variables": variables, "text": text})

    for name, template in CHAT_TEMPLATES.items():
        for chat_name, chat in CHATS.items():
            for generate in (False, True):
                for variables in [{}] + VARIABLES.get(name, []):
                    add(f"{name}, {chat_name}, {variables}", template, chat, generate, **variables)
    for i, template in enumerate(SMALL + MALFORMED):
        add(f"small {i}", template, [], True)
    (out / "templates.json").write_text(json.dumps(cases), encoding="utf-8")
