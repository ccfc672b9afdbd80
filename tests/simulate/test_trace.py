"""Traces as they come: kinds, columns, clocks, texts; and what is wrong with them, counted and named."""

from __future__ import annotations

import gzip
import io
import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.errors import UnreadableInput, UsageError
from kvplan.simulate.engine import run_steps
from kvplan.simulate.event import run_events
from kvplan.simulate.replay import jobs
from kvplan.simulate.request import Request
from kvplan.simulate.settings import Selection, Settings
from kvplan.simulate.trace import read_trace, select
from kvplan.simulate.trace.layout import Layout, parse_columns
from kvplan.simulate.trace.lines import MAX_BLANK, MAX_LINE
from kvplan.simulate.trace.problems import Problems
from kvplan.simulate.trace.values import nanoseconds, tokens, whole

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
"""


def read(tmp_path, text: str | bytes, layout: Layout | None = None, *, strict: bool = False):
    path = tmp_path / "trace"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    problems = Problems(strict)
    rows = list(select(read_trace(str(path), layout or Layout(), problems), Selection()))
    return rows, {code: (seen.count, seen.first_row) for code, seen in problems.seen.items()}


def lengths(rows: list[Request]) -> list[tuple[int, int, int]]:
    return [(row.arrival_ns, row.prompt, row.output) for row in rows]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (AZURE, [(0, 374, 44), (4_314_579_000, 396, 109)]),
        ("10,3\n20,4\n", [(0, 10, 3), (0, 20, 4)]),
        ("0.5,10,3\n2.25,20,4\n", [(0, 10, 3), (1_750_000_000, 20, 4)]),
        ("Timestamp;Model;Request tokens;Response tokens\n5;gpt;100;7\n", [(0, 100, 7)]),
        ("input_len\toutput_len\n8\t9\n\n8\t1\n", [(0, 8, 9), (0, 8, 1)]),
        ('{"prompt_tokens": 5, "completion_tokens": 6, "created": 1}\n', [(0, 5, 6)]),
        ('\n{"usage": {"prompt_tokens": 5, "completion_tokens": 6}}\n', [(0, 5, 6)]),
        ('"prompt","output"\n"10",3\n20,"4"\r\n', [(0, 10, 3), (0, 20, 4)]),
        ('prompt,output,text\n10,3,"a, ""b"""\n', [(0, 10, 3)]),
        ("\ufeff" + AZURE, [(0, 374, 44), (4_314_579_000, 396, 109)]),
    ],
)
def test_kinds(tmp_path, text, found):
    rows, problems = read(tmp_path, text)
    assert lengths(rows) == found
    assert problems == {}


def test_mooncake(tmp_path):
    record = {"timestamp": 3, "input_length": 1100, "output_length": 5, "hash_ids": [7, 8, 9]}
    rows, _ = read(tmp_path, "\n".join(json.dumps({**record, "timestamp": time}) for time in (3, 5)))
    assert rows[0].spans == ((7, 512), (8, 512), (9, 76))
    assert rows[1].arrival_ns == 2_000_000  # its numbers are milliseconds
    short, problems = read(tmp_path, json.dumps({**record, "hash_ids": [7]}))
    assert short[0].spans == ((7, 512), (("row", 0), 588))
    assert problems == {"short_hash_ids": (1, 0)}


def test_columns_of_ones_own(tmp_path):
    layout = Layout(columns=parse_columns("prompt=in.n,output=out,arrival=at"), unit="ms")
    rows, _ = read(tmp_path, '{"at": 1, "in": {"n": 3}, "out": 2}\n{"at": 2, "in": {"n": 4}, "out": 2}', layout)
    assert lengths(rows) == [(0, 3, 2), (1_000_000, 4, 2)]
    with pytest.raises(UsageError, match="propmt=a"):
        parse_columns("propmt=a")
    with pytest.raises(UnreadableInput, match="no column 'in'"):
        read(tmp_path, "a,b\n1,2\n", Layout(columns={"prompt": "in", "output": "b"}))
    with pytest.raises(UnreadableInput, match="prompt or output"):
        read(tmp_path, "a,b\n1,2\n")


def test_compressed_and_piped(tmp_path, monkeypatch):
    packed = gzip.compress(AZURE.encode())
    assert len(read(tmp_path, packed)[0]) == 2
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(packed)))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert len(list(read_trace("-", Layout(), Problems()))) == 2


def test_a_gzip_that_breaks_off_gives_what_it_has(tmp_path):
    text = "prompt,output\n" + "".join(f"{n % 977 + 1},{n % 89 + 1}\n" for n in range(5000))
    rows, problems = read(tmp_path, gzip.compress(text.encode())[:-4000])
    assert 0 < len(rows) < 5000
    assert list(problems) == ["truncated_gzip"]
    with pytest.raises(UnreadableInput, match="breaks off"):
        read(tmp_path, gzip.compress(text.encode())[:-4000], strict=True)


@pytest.mark.parametrize(
    ("text", "code", "first", "left"),
    [
        ("prompt,output\n5,6\n,6\n7\n", "no_lengths", 1, 1),
        ("prompt,output\n5,6\n-1,6\n", "bad_lengths", 1, 1),
        ("prompt,output\n5,6\n99999999999999999999,6\n1e999999999,6\n", "bad_lengths", 1, 1),
        ("prompt,output\n5,6\n0,6\nnan,6\n1.5,6\n", "bad_lengths", 1, 1),
        ("prompt,output\n5,0\n", "nothing_sampled", 0, 1),
        ("arrival,prompt,output\n5,6,7\n4,6,7\n", "clock_backwards", 1, 2),
        ("arrival,prompt,output\n5,6,7\nsoon,6,7\n", "bad_time", 1, 2),
        ('prompt,output\n5,6\n"5,6\n5,6\n5,"6', "open_quote", 1, 2),
        ('prompt,output,text\n5,6,a\n5,6,"two\nlines"\n', "open_quote", 1, 1),
        ("prompt,output\n5,6\n" + "5" * 200_000 + ",6\n", "unreadable_row", 1, 1),
        ("id,prompt,output\na,6,7\nb,6,7\na,6,7\n", "duplicate_id", 2, 3),
        ("priority,prompt,output\n-1,6,7\nx,6,7\n0.5,6,7\n", "bad_priority", 1, 3),
        (
            '{"priority": 1, "input_len": 5, "output_len": 6}\n{"priority": 1e308, "input_len": 5, "output_len": 6}',
            "bad_priority",
            1,
            2,
        ),
        ('{"prompt_tokens": 5, "completion_tokens": 6}\n{"prompt_tok\n[1]\n', "unreadable_row", 1, 1),
        ('{"prompt_tokens": 5, "completion_tokens": 6}\n' + "[" * 100_000, "unreadable_row", 1, 1),
        ('{"prompt_tokens": true, "completion_tokens": 6}\n{"input_len": 5, "output_len": 6}', "bad_lengths", 0, 1),
    ],
)
def test_what_is_wrong_is_counted_and_named(tmp_path, text, code, first, left):
    rows, problems = read(tmp_path, text)
    assert len(rows) == left
    assert problems[code][1] == first
    with pytest.raises(UnreadableInput, match=f"row {first}: "):
        read(tmp_path, text, strict=True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ('[{"prompt_tokens": 5}]', "one JSON list"),
        ("\x00\x01\x02\n" * 5, "prompt or output"),
        ("a,b,c,d\n1,2,3,4\n", "prompt or output"),
        ('"prompt,output\n5,6\n', "first line of the CSV cannot be read: the quote is not closed"),
        ("prompt,output\n" + '"5,6\n' * 2000, "no request in 1,000 rows"),
        ("1,2,3,4\n", "4 columns without a header"),
        ("{}\n" * 2000, "no request in 1,000 rows"),
        ("prompt,output\n,\n", "no request in it"),
        ("prompt,output\n", "no request in it"),
    ],
)
def test_what_is_no_trace(tmp_path, text, says):
    with pytest.raises(UnreadableInput, match=says):
        read(tmp_path, text)


@pytest.mark.parametrize("blank", ["\n", " \t\r\n"])
@pytest.mark.parametrize(
    ("start", "left"),
    [("", 0), ("prompt,output\n", 0), ("prompt,output\n5,6\n", 1), ('{"input_len": 5, "output_len": 6}\n', 1)],
)
def test_blank_lines_without_end_are_bounded(tmp_path, start, left, blank):
    line = '{"input_len": 7, "output_len": 8}\n' if "{" in start else "7,8\n"
    if left:
        rows, problems = read(tmp_path, start + blank * MAX_BLANK + line)
        assert (len(rows), list(problems)[-1]) == (left, "blank_lines")
    else:
        with pytest.raises(UnreadableInput, match="no request in it" if start else "is empty"):
            read(tmp_path, start + blank * MAX_BLANK + line)
    rows, problems = read(tmp_path, start + blank * (MAX_BLANK - 1) + line)
    assert len(rows) == left + 1  # fewer are passed over
    assert "blank_lines" not in problems


def test_an_open_quote_costs_its_own_row(tmp_path):
    """Read as CSV has it, the quote of row 1 would swallow as many of the rows behind it as a field may hold."""
    rows, problems = read(tmp_path, "prompt,output\n5,6\n" + '"5,6\n' + "5,6\n" * 40_000)
    assert [row.row for row in rows] == [0, *range(2, 40_002)]
    assert problems == {"open_quote": (1, 1)}


def test_what_is_no_file(tmp_path):
    for path in (str(tmp_path), str(tmp_path / "none"), "/dev/null", "/dev/zero", "a\x00b"):
        with pytest.raises(UnreadableInput):
            next(read_trace(path, Layout(), Problems()))


def test_a_line_without_end_is_bounded(tmp_path):
    rows, problems = read(tmp_path, b'{"prompt_tokens": 5, "completion_tokens": 6}\n' + b" " * (2 * MAX_LINE) + b"x\n")
    assert len(rows) == 1
    assert problems == {}  # its beginning is blank
    _, problems = read(tmp_path, b'{"prompt_tokens": 5, "completion_tokens": 6}\n' + b"x" * (2 * MAX_LINE))
    assert problems == {"unreadable_row": (1, 1)}


def test_request_logs_share_messages(tmp_path):
    system = {"role": "system", "content": "be brief " * 10}
    ask = {"role": "user", "content": "why?"}
    first = {
        "custom_id": "1",
        "body": {"messages": [system, ask]},
        "response": {
            "body": {
                "usage": {"prompt_tokens": 30, "completion_tokens": 9},
                "choices": [{"message": {"role": "assistant", "content": "because"}}],
            }
        },
    }
    answer = {"role": "assistant", "content": "because"}
    second = {
        "messages": [system, ask, answer, {"role": "user", "content": "oh"}],
        "usage": {"prompt_tokens": 45, "completion_tokens": 2},
    }
    rows, problems = read(tmp_path, f"{json.dumps(first)}\n{json.dumps(second)}\n")
    assert problems == {}
    assert [(row.prompt, row.output) for row in rows] == [(30, 9), (45, 2)]
    assert rows[0].spans[0][0] == rows[1].spans[0][0]
    assert (rows[0].answer, 9) in rows[1].spans  # what it answered is what the next prompt repeats
    assert all(sum(count for _, count in row.spans) == row.prompt for row in rows)


def test_conversations_are_a_request_a_turn(tmp_path):
    said = [("human", "a" * 40), ("gpt", "b" * 80), ("human", "c" * 8), ("gpt", "d" * 4)]
    record = {"id": "x", "conversations": [{"from": who, "value": text} for who, text in said]}
    rows, _ = read(tmp_path, json.dumps(record), Layout(chars_per_token=4))
    assert [(row.prompt, row.output) for row in rows] == [(10, 20), (32, 1)]
    assert rows[1].spans[:2] == (rows[0].spans[0], (rows[0].answer, 20))
    with pytest.raises(UnreadableInput, match="no request in it"):
        read(tmp_path, json.dumps(record))  # nothing measures its texts


def test_a_conversation_without_end_is_bounded(tmp_path):
    turns = [{"from": "gpt" if turn % 2 else "human", "value": "word"} for turn in range(20_000)]
    rows, problems = read(tmp_path, json.dumps({"conversations": turns}), Layout(chars_per_token=4))
    assert len(rows) == 500
    assert problems == {"too_many_turns": (1, 0)}


def test_a_tokenizer_is_the_users(tmp_path):
    with pytest.raises(UsageError, match="tokenizer"):
        read(tmp_path, '{"messages": []}', Layout(tokenizer="none.json"))


def test_rows_are_selected_and_the_clock_starts_with_them(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("arrival,prompt,output\n" + "".join(f"{n},{n + 1},1\n" for n in range(10)), encoding="utf-8")
    rows = list(select(read_trace(str(path), Layout(), Problems()), Selection(3, 2)))
    assert [(row.row, row.arrival_ns, row.prompt) for row in rows] == [(3, 0, 4), (4, 10**9, 5)]


@pytest.mark.parametrize(
    ("value", "unit", "found"),
    [
        ("2023-11-16 18:15:46.6805900", "s", 1_700_158_546_680_590_000),
        ("1970-01-01T00:00:01Z", "s", 10**9),
        ("1970-01-01T02:00:00+02:00", "s", 0),
        ("1.5", "ms", 1_500_000),
        (1700158546.25, "s", 1_700_158_546_250_000_000),
        (1700158546123456789, "ns", 1_700_158_546_123_456_789),
        ("2023-02-30 00:00:00", "s", None),
        ("inf", "s", None),
        ("1e999999999", "s", None),
        (True, "s", None),
        ([], "s", None),
    ],
)
def test_times(value, unit, found):
    assert nanoseconds(value, unit) == found


def test_a_clock_that_runs_backwards_keeps_the_order_of_the_rows(tmp_path):
    rows, problems = read(tmp_path, "arrival,prompt,output\n5,6,7\n9,6,7\n7,6,7\n8,6,7\n")
    assert [row.arrival_ns for row in rows] == [0, 4 * 10**9, 2 * 10**9, 3 * 10**9]
    assert problems == {"clock_backwards": (2, 2)}
    requests = []
    told = Settings(num_blocks=11, max_num_seqs=1, max_model_len=64, arrival="clock")
    for run in (run_steps, run_events):
        run(jobs(rows, told, Problems()), told, lambda _: None, lambda row, _: requests.append(row))
    assert [row.seq for row in requests] == [0, 1, 2, 3] * 2
    assert requests[:4] == requests[4:]


def test_lengths():
    assert [tokens(value) for value in ("12", " 12 ", "12.0", 12.0, 12)] == [12] * 5
    assert [tokens(value) for value in ("-1", "", "x", "1.5", "١٢", None, 2**40, float("nan"), [])] == [None] * 9


def test_whole_numbers():
    assert [whole(value) for value in ("-5", " -5 ", "-5.0", -5.0, -5)] == [-5] * 5
    assert whole(2**63) == 2**63
    assert [whole(value) for value in ("x", "", "0.5", 0.5, True, 1e308, "1e308", 2**63 + 1, {})] == [None] * 9


def test_priorities_below_zero_are_the_most_urgent(tmp_path):
    records = [{"input_len": 20, "output_len": 4, "priority": priority} for priority in (0, 0, None, -5)]
    rows, problems = read(tmp_path, "\n".join(map(json.dumps, records)))
    assert [row.priority for row in rows] == [0, 0, 0, -5]
    assert problems == {}
    told = Settings(num_blocks=11, max_num_seqs=1, max_num_batched_tokens=64, max_model_len=64, policy="priority")
    served: list[int] = []
    run_steps(jobs(rows, told, Problems()), told, lambda _: None, lambda row, _: served.append(row.seq))
    assert served == [3, 0, 1, 2]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["timestamp", "input_length", "output_length", "hash_ids", "messages", "conversations", "usage", "prompt", "body",
     "response", "choices", "prompt_tokens", "completion_tokens", "content", "role", "from", "value", "id", "created"]
)  # fmt: skip
RECORDS = st.dictionaries(NAMES, VALUES | st.dictionaries(NAMES, VALUES) | st.lists(st.dictionaries(NAMES, VALUES)))


@given(
    st.binary(max_size=300)
    | st.lists(RECORDS, max_size=5).map(lambda rows: "\n".join(map(json.dumps, rows)).encode())
    | st.lists(st.lists(st.text(max_size=12), max_size=5), max_size=6).map(
        lambda rows: ("prompt,output,arrival,id,priority\n" + "\n".join(map(",".join, rows))).encode()
    ),
    st.sampled_from([None, 3.5]),
)
@settings(max_examples=400, deadline=None)
def test_anything_is_read_or_refused(tmp_path_factory, data, chars):
    path = tmp_path_factory.getbasetemp() / "anything"
    path.write_bytes(data)
    try:
        rows = list(select(read_trace(str(path), Layout(chars_per_token=chars), Problems()), Selection()))
    except (UnreadableInput, UsageError):
        return
    for row in rows:
        assert 1 <= row.prompt <= 2**26
        assert 0 <= row.output <= 2**24
        assert not row.spans or sum(count for _, count in row.spans) == row.prompt
        assert all(count > 0 for _, count in row.spans)
        hash((row.spans, row.answer))
