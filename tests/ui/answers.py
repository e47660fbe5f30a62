"""What the scripted server answers to the tests' questions."""

from __future__ import annotations

from tests.e2e.scripts import ENDLESS, Json

TABLE = """\
The rocky planets, **inner** first:

| Planet | Radius (km) | Day (hours) | Moons |
| --- | ---: | ---: | :---: |
| Mercury | 2440 | 4223 | 0 |
| Venus | 6052 | 2802 | 0 |
| Earth | 6371 | 24 | 1 |
| Mars | 3390 | 25 | 2 |

What stands out:

1. Venus turns *backwards*.
2. Earth and Mars have nearly the same day:
   - Earth needs `23.9` hours
   - Mars needs `24.6` hours
3. Only ~~three~~ two of them have moons.

> A day is the time from noon to noon.

See [the list](https://example.org/planets) for more.
"""

CODE = """\
## Greeting

This greets by name:

```python
def greet(name: str) -> str:
    # An f-string keeps it short.
    return f"Hello, {name}!"
```

The same as a request:

```json
{"greet": true, "count": 3, "names": ["Ada", null]}
```

And the output:

```
Hello, Ada! This line is so long that it is wider than a phone, whatever the size of its letters.
```
"""

# About 200 kB in blocks of several kinds.
SECTION = (
    "### Part\n\nSome *text* with a [link](https://example.org/) and `code`, long enough to fill a "
    "line or two of the page, as models like to write it.\n\n- one\n- two\n\n"
    '```python\nfor i in range(10):\n    print(f"{i}: {i * i}")\n```\n\n'
)
HUGE = SECTION * (200_000 // len(SECTION)) + "The very end."

LINES = "".join(f"Line {number} of a long answer.\n\n" for number in range(1, 61))

ANSWERS: list[Json] = [
    ENDLESS,
    {
        "match": {"user": "planets"},
        "parts": [{"reasoning": "A table shows it best.\n\nFour rows will do."}, {"text": TABLE}],
    },
    {"match": {"user": "code"}, "parts": [{"text": CODE}]},
    {"match": {"user": "lines"}, "parts": [{"text": LINES}], "token_delay_ms": 2},
    {
        "match": {"user": "ponder"},
        "parts": [{"reasoning": "Hm, and then again, "}],
        "finish": "length",
        "token_delay_ms": 20,
    },
    {
        "match": {"user": "weather", "after_tool_result": True},
        "parts": [{"text": "It is warm in Rome."}],
    },
    {
        "match": {"user": "weather", "tools": True},
        "parts": [
            {"reasoning": "The tool knows."},
            {"tool_call": {"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}},
        ],
    },
    {
        "match": {"user": "busy"},
        "parts": [{"text": "Now there is room."}],
        "refuse": {"kind": "rate_limit", "retry_after": 2, "times": 1},
    },
    {
        "match": {"user": "warming"},
        "parts": [{"text": "Warm now."}],
        "refuse": {"kind": "loading", "retry_after": 1, "times": 1},
    },
    {"match": {"user": "too long"}, "refuse": {"kind": "context_length"}},
    {"match": {"user": "break off"}, "parts": [{"text": "one two three four"}], "cut_at": 2},
    {"match": {"user": "go wrong"}, "parts": [{"text": "one two three four"}], "error_at": 2},
]
