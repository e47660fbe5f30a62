"""Verifiers for Chat Completions, Completions, Messages and Responses (see `wire`)."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from bench.wire import Answer, Json, Wire, expect, the_one


def _user(text: str) -> list[Json]:
    return [{"role": "user", "content": text}]


class Chat(Wire):
    """OpenAI Chat Completions."""

    path = "/v1/chat/completions"
    grammar = "role( (thinking|text|call|arguments))* (finish( usage)?|error) done"

    def body(self, text: str, **fields: object) -> Json:
        """Write a request that asks `text`."""
        return {"messages": _user(text), **fields}

    def read_whole(self, body: Json) -> Answer:
        """Read an answer that was not streamed."""
        (choice,) = body["choices"]
        message = choice["message"]
        calls = [_called(call["function"]) for call in message.get("tool_calls", [])]
        answer = Answer(body["id"], calls=calls, finish=choice["finish_reason"])
        answer.text = message["content"] or ""
        answer.thinking = message.get("reasoning_content", "")
        return answer

    def kind(self, event: Any) -> str:
        """Name an event for the grammar."""
        if isinstance(event, str):
            return event
        if not event["choices"]:
            return "usage"
        (choice,) = event["choices"]
        delta, finish = choice["delta"], choice["finish_reason"]
        if finish:
            return "error" if finish == "error" and "error" in event else "finish"
        if delta == {"role": "assistant", "content": ""}:
            return "role"
        if "tool_calls" in delta:
            return "call" if "id" in delta["tool_calls"][0] else "arguments"
        kinds = {("content",): "text", ("reasoning_content",): "thinking"}
        return kinds.get(tuple(delta), f"what:{delta}")

    def fold(self, events: list[Json]) -> Answer:
        """Put the answer together from a stream's events."""
        answer = Answer(the_one([event["id"] for event in events]))
        the_one([(e["object"], e["created"], e["model"]) for e in events])
        calls: list[Json] = []
        for choice in (choice for event in events for choice in event["choices"]):
            delta = choice["delta"]
            answer.text += delta.get("content") or ""
            answer.thinking += delta.get("reasoning_content") or ""
            for piece in delta.get("tool_calls", []):
                _add_call(calls, piece)
            answer.finish = choice["finish_reason"] or answer.finish
        answer.calls = [_called(call) for call in calls]
        _tell_error(answer, events[-1])
        return answer


def _add_call(calls: list[Json], piece: Json) -> None:
    if "id" in piece:
        calls.append({"name": piece["function"]["name"], "arguments": ""})
    expect(piece["index"] == len(calls) - 1, f"a piece of another call: {piece}")
    calls[-1]["arguments"] += piece["function"].get("arguments") or ""


def _called(call: Json) -> tuple[str, Any]:
    return call["name"], _parse(call["arguments"])


def _parse(arguments: str) -> Any:
    # Those of a call that was cut stay text.
    with contextlib.suppress(ValueError):
        return json.loads(arguments)
    return arguments


def _tell_error(answer: Answer, last: Json) -> None:
    if error := last.get("error"):
        expect("request_id" in error, f"an error without request_id: {last}")
        answer.error, answer.error_type = error["message"], error["type"]
        answer.request_id = error["request_id"]


class Completions(Wire):
    """OpenAI Completions."""

    path = "/v1/completions"
    grammar = "(text )*(finish|error) done"

    def body(self, text: str, **fields: object) -> Json:
        """Write a request that asks `text`."""
        return {"prompt": text, **fields}

    def read_whole(self, body: Json) -> Answer:
        """Read an answer that was not streamed."""
        (choice,) = body["choices"]
        finish, seed = choice["finish_reason"], body["system_fingerprint"]
        return Answer(body["id"], text=choice["text"], finish=finish, seed=seed)

    def kind(self, event: Any) -> str:
        """Name an event for the grammar."""
        if isinstance(event, str):
            return event
        (choice,) = event["choices"]
        if choice["finish_reason"]:
            expect(choice["text"] == "", "the last chunk has text")
            return "error" if "error" in event else "finish"
        return "text"

    def fold(self, events: list[Json]) -> Answer:
        """Put the answer together from a stream's events."""
        answer = Answer(the_one([event["id"] for event in events]))
        answer.seed = the_one([event["system_fingerprint"] for event in events])
        the_one([(e["object"], e["created"], e["model"]) for e in events])
        answer.text = "".join(event["choices"][0]["text"] for event in events)
        answer.finish = events[-1]["choices"][0]["finish_reason"]
        _tell_error(answer, events[-1])
        return answer


_BLOCK = "content_block_start( content_block_delta| ping)* content_block_stop"
_OPEN_BLOCK = "content_block_start( content_block_delta| ping)*"


class Messages(Wire):
    """Anthropic Messages."""

    path = "/v1/messages"
    grammar = (
        rf"error|message_start ping( {_BLOCK}| ping)*"
        rf"( message_delta message_stop|( {_OPEN_BLOCK})? error)"
    )

    def body(self, text: str, **fields: object) -> Json:
        """Write a request that asks `text`; it may think."""
        thinking = {"type": "enabled", "budget_tokens": 1024}
        return {"messages": _user(text), "max_tokens": 4096, "thinking": thinking, **fields}

    def error_of(self, body: Json) -> Json:
        """Find the error object of a refusal."""
        expect(body["type"] == "error" and set(body["error"]) == {"type", "message"}, f"{body}")
        error: Json = body["error"]
        return error

    def read_whole(self, body: Json) -> Answer:
        """Read an answer that was not streamed."""
        answer = Answer(body["id"], finish=body["stop_reason"])
        for block in body["content"]:
            answer.text += block.get("text", "")
            answer.thinking += block.get("thinking", "")
            if block["type"] == "tool_use":
                answer.calls.append((block["name"], block["input"]))
        return answer

    def kind(self, event: Any) -> str:
        """Name an event for the grammar."""
        return str(event["type"])

    def fold(self, events: list[Json]) -> Answer:
        """Put the answer together from a stream's events."""
        answer = Answer()
        blocks: list[Json] = []
        for event in events:
            match event["type"]:
                case "message_start":
                    answer.id = event["message"]["id"]
                case "content_block_start":
                    blocks.append({**event["content_block"], "json": ""})
                    expect(event["index"] == len(blocks) - 1, f"the wrong index: {event}")
                case "content_block_delta":
                    expect(event["index"] == len(blocks) - 1, f"a closed block: {event}")
                    _add_delta(blocks[-1], event["delta"])
                case "content_block_stop":
                    expect(event["index"] == len(blocks) - 1, f"the wrong block: {event}")
                    _end_block(blocks[-1])
                case "message_delta":
                    answer.finish = event["delta"]["stop_reason"]
                case "error":
                    _tell_error(answer, {"error": {**event, **event["error"]}})
        whole = self.read_whole({"id": answer.id, "stop_reason": answer.finish, "content": blocks})
        answer.text, answer.thinking, answer.calls = whole.text, whole.thinking, whole.calls
        return answer


def _add_delta(block: Json, delta: Json) -> None:
    fields = {
        "text_delta": ("text", "text", "text"),
        "thinking_delta": ("thinking", "thinking", "thinking"),
        "signature_delta": ("thinking", "signature", "signature"),
        "input_json_delta": ("tool_use", "json", "partial_json"),
    }
    kind, place, source = fields[delta["type"]]
    expect(block["type"] == kind, f"{delta} in a block of {block['type']}")
    block[place] += delta[source]


def _end_block(block: Json) -> None:
    if block["type"] == "thinking":
        expect(block["signature"] == "mashbox-local", "thinking without its signature")
    if block["type"] == "tool_use":
        block["input"] = _parse(block["json"])


_PARTS = r"part\.added( text\.delta)* text\.done part\.done"
_ARGUMENTS = r"arguments\.delta( arguments\.delta)* arguments\.done"
_ITEM = rf"item\.added( {_PARTS}| {_ARGUMENTS}) item\.done"
_OPEN_ITEM = r"item\.added( part\.added)?( (text|arguments)\.delta)*"
_SHORT = {
    "output_item.": "item.",
    "content_part.": "part.",
    "output_text.": "text.",
    "reasoning_text.": "text.",
    "function_call_arguments.": "arguments.",
    "custom_tool_call_input.": "arguments.",
}


class Responses(Wire):
    """OpenAI Responses."""

    path = "/v1/responses"
    grammar = (
        rf"created in_progress( {_ITEM}| in_progress)*"
        rf"( completed| incomplete|( {_OPEN_ITEM})? error failed)"
    )

    def body(self, text: str, **fields: object) -> Json:
        """Write a request that asks `text`."""
        return {"input": text, **fields}

    def read_whole(self, body: Json) -> Answer:
        """Read an answer that was not streamed."""
        answer = Answer(body["id"], finish=body["status"])
        for item in body["output"]:
            if item["type"] == "function_call":
                answer.calls.append(_called(item))
            elif item["type"] == "custom_tool_call":
                answer.calls.append((item["name"], item["input"]))
            elif item["type"] == "message":
                answer.text += "".join(part["text"] for part in item["content"])
            else:
                answer.thinking += "".join(part["text"] for part in item["content"])
        return answer

    def kind(self, event: Any) -> str:
        """Name an event for the grammar."""
        kind = event["type"].removeprefix("response.")
        for long, short in _SHORT.items():
            kind = kind.replace(long, short)
        return str(kind)

    def fold(self, events: list[Json]) -> Answer:
        """Put the answer together from a stream's events."""
        numbers = [event["sequence_number"] for event in events]
        expect(numbers == list(range(1, len(events) + 1)), f"numbered {numbers}")
        frames = [event["response"] for event in events if "response" in event]
        the_one([frame["id"] for frame in frames])
        items = [event["item"] for event in events if event["type"].endswith("item.done")]
        expect(frames[-1]["output"] == items, "the response differs from its items")
        _check_deltas(events, items)
        answer = self.read_whole(frames[-1])
        for event in events:
            if event["type"] == "error":
                _tell_error(answer, {"error": {**event, "type": frames[-1]["error"]["code"]}})
                answer.text += _unfinished(events, "output_text", len(items))
                answer.thinking += _unfinished(events, "reasoning_text", len(items))
        return answer


def _check_deltas(events: list[Json], items: list[Json]) -> None:
    for index, item in enumerate(items):
        own = [event for event in events if event.get("output_index") == index]
        the_one([event.get("item_id") or event["item"]["id"] for event in own])
        told = _told(item)
        deltas = "".join(e["delta"] for e in own if e["type"].endswith("delta"))
        expect(deltas == told, f"{told!r} was streamed as {deltas!r}")


def _told(item: Json) -> str:
    told: str = (
        item["content"][0]["text"]
        if "content" in item
        else item.get("arguments", item.get("input"))
    )
    return told


def _unfinished(events: list[Json], kind: str, index: int) -> str:
    name = f"response.{kind}.delta"
    own = (e for e in events if e["type"] == name and e["output_index"] == index)
    return "".join(event["delta"] for event in own)


WIRES: tuple[Wire, ...] = (Chat(), Completions(), Messages(), Responses())
