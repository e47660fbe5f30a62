# Generated from openapi.json by `python -m codegen`; do not edit.
"""Models of the schemas of openapi.json."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StrictBool
from typing_extensions import TypeAliasType

from generated._base import (
    ApiModel,
    ByJsonType,
    JsonArray,
    NullIsDefault,
    OnlyFalse,
    StrictFloat,
    StrictInt,
)


class RoutedExpertsKernel(ApiModel):
    """A routed-expert kernel."""

    id: str | None = None
    """Kernel id."""
    version: str | None = None
    """Kernel version."""
    package: str | None = None
    """Package the kernel comes from."""


class Model(ApiModel):
    """The model this server runs."""

    id: str
    """The model's id in models.json."""
    object: Literal["model"]
    """Always `model`."""
    owned_by: Literal["mashbox-labs"]
    """Always `mashbox-labs`."""
    created: Annotated[StrictInt, Field(ge=0, le=0)]
    """Always 0."""
    max_model_len: Annotated[StrictInt, Field(ge=1)]
    """Tokens one request may have, prompt and answer together (`--ctx`)."""
    weights: str | None = None
    """Name of the weights file or folder."""
    gb: Annotated[StrictFloat | None, Field(ge=0.0)] = None
    """Size of the weights in device memory, in gigabytes."""
    bpw: Annotated[StrictFloat | None, Field(ge=0.0)] = None
    """Average number of bits a weight takes in the file."""
    prefix_cache: StrictBool | None = None
    """Whether a prompt's start that was computed before is used again."""
    slots: Annotated[StrictInt | None, Field(ge=1)] = None
    """How many requests are decoded together (`--slots`)."""
    cache_ram_mib: Annotated[StrictInt | None, Field(ge=0)] = None
    """MiB of host memory set aside for prompt states (`--cache-ram`)."""


class ModelList(ApiModel):
    """The models served: always exactly one."""

    object: Literal["list"]
    """Always `list`."""
    data: Annotated[JsonArray[Model], Field(max_length=1, min_length=1)]
    """The running model."""


class ErrorDetail(ApiModel):
    """What went wrong."""

    message: str
    """Reason in plain words; names the field for a bad request."""
    type: Literal[
        "invalid_request_error",
        "permission_error",
        "not_found_error",
        "rate_limit_error",
        "server_error",
        "overloaded_error",
    ]
    """Class of the error."""
    param: str | None
    """The field to blame, such as `messages[2].content`; null when there is none."""
    code: str | None
    """A word for programs, such as `model_not_found`; null when there is none."""


class Error(ApiModel):
    """Body of every error."""

    error: ErrorDetail


NonEmptyString = TypeAliasType("NonEmptyString", Annotated[str, Field(min_length=1)])
"""
A string of at least one character.
"""


class ChatTextPart(ApiModel):
    """A piece of text. Parts of other kinds (images, audio, files) are refused: the model reads text only."""

    type: Literal["text"]
    """Always `text`."""
    text: str
    """The text."""


class ChatFunctionCallParam(ApiModel):
    """Name and arguments of an earlier call."""

    name: str | None = None
    """Function name."""
    arguments: Annotated[str | dict[str, Any] | None, ByJsonType] = None
    """The arguments, as JSON text or as the object itself."""


class ChatToolCallParam(ApiModel):
    """A call in an earlier assistant message. Calls of other types than `function` are read past."""

    id: str | None = None
    """The id that the tool message with the result repeats."""
    type: str | None = None
    """`function` when absent."""
    function: ChatFunctionCallParam | None = None
    """What was called."""


class ChatMessage(ApiModel):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    """Who speaks; `system` and `developer` texts become the system prompt."""
    content: Annotated[str | JsonArray[ChatTextPart] | None, ByJsonType] = None
    """One text, or text in parts."""
    tool_calls: JsonArray[ChatToolCallParam] | None = None
    """On an assistant message: what it called."""
    tool_call_id: str | None = None
    """On a tool message: the id of the call that this is the result of."""
    reasoning_content: str | None = None
    """On an assistant message: what it thought."""
    name: str | None = None
    """Not used."""


class ChatTool(ApiModel):
    """A tool on offer. One of another type than `function`, or without a name, is not offered to the model and is no error."""

    model_config = ConfigDict(
        extra="allow",
    )
    type: Any | None = None
    """`function`."""
    function: Any | None = None
    """An object with `name`, `description` and `parameters`, a JSON Schema of the arguments."""


class FunctionName(ApiModel):
    """Names a function."""

    name: str
    """Function name."""


class ChatNamedToolChoice(ApiModel):
    """The tool that has to be called, by name: in `function`, or flat beside `type`."""

    type: str | None = None
    """`function` when absent."""
    function: FunctionName | None = None
    """Names the tool."""
    name: str | None = None
    """Flat form of `function.name`."""


ToolChoiceMode = TypeAliasType("ToolChoiceMode", Literal["auto", "none", "required"])
"""
`auto`: the model decides; `none`: no call; `required`: at least one call.
"""


class StreamOptions(ApiModel):
    """Options of a streamed answer."""

    include_usage: Annotated[StrictBool | None, NullIsDefault] = False
    """Add a last chunk that has the token counts and no choices."""


class ChatTemplateKwargs(ApiModel):
    """Variables for the chat template; names that the template itself needs are dropped."""

    model_config = ConfigDict(
        extra="allow",
    )
    enable_thinking: StrictBool | None = None
    """Let the model think before it answers."""


class TextFormat(ApiModel):
    """Plain text; structured formats are refused with 400."""

    type: Literal["text"]
    """Always `text`."""


class ChatCompletionRequest(ApiModel):
    """A conversation and how to answer it."""

    model_config = ConfigDict(
        arbitrary_types_allowed=True,
    )
    model: str | None = None
    """Id of the model; the one that runs when absent."""
    messages: Annotated[JsonArray[ChatMessage], Field(min_length=1)]
    """The conversation."""
    stream: Annotated[StrictBool | None, NullIsDefault] = False
    """Send chunks as they come. Who reads nothing for 30 s is cut off."""
    stream_options: StreamOptions | None = None
    """Options of a streamed answer."""
    max_tokens: Annotated[StrictInt | None, Field(ge=1)] = None
    """Upper limit of new tokens; the context (`--ctx`) is the limit when absent, and always."""
    max_completion_tokens: Annotated[StrictInt | None, Field(ge=1)] = None
    """OpenAI's newer name of `max_tokens`, and the one that counts if both are there."""
    temperature: Annotated[Annotated[StrictFloat | None, Field(ge=0.0, le=4.0)], NullIsDefault] = (
        0.0
    )
    """How freely tokens are drawn; 0 always takes the likeliest."""
    top_p: Annotated[Annotated[StrictFloat | None, Field(gt=0.0, le=1.0)], NullIsDefault] = 1.0
    """Draw from the likeliest tokens that together reach this probability."""
    top_k: Annotated[Annotated[StrictInt | None, Field(ge=0)], NullIsDefault] = 0
    """Draw from this many of the likeliest tokens; 0 sets no limit."""
    min_p: Annotated[Annotated[StrictFloat | None, Field(ge=0.0, lt=1.0)], NullIsDefault] = 0.0
    """Leave out tokens whose probability is below this share of the highest."""
    seed: Annotated[StrictInt | None, Field(ge=-9223372036854775808, le=18446744073709551615)] = (
        None
    )
    """Fixes the random draws; drawn afresh when absent."""
    stop: Annotated[NonEmptyString | JsonArray[NonEmptyString] | None, ByJsonType] = None
    """Strings that end the answer; none of them is part of it."""
    stop_sequences: JsonArray[NonEmptyString] | None = None
    """Another name of `stop`, which wins."""
    repetition_penalty: Annotated[Annotated[StrictFloat | None, Field(gt=0.0)], NullIsDefault] = 1.0
    """Penalty on tokens already in the context; 1 turns it off."""
    frequency_penalty: Annotated[
        Annotated[StrictFloat | None, Field(ge=-2.0, le=2.0)], NullIsDefault
    ] = 0.0
    """Penalty that grows with each use of a token; 0 turns it off."""
    presence_penalty: Annotated[
        Annotated[StrictFloat | None, Field(ge=-2.0, le=2.0)], NullIsDefault
    ] = 0.0
    """Penalty on tokens used at all; 0 turns it off."""
    tools: JsonArray[ChatTool] | None = None
    """What the model may call."""
    tool_choice: Annotated[ToolChoiceMode | ChatNamedToolChoice | None, ByJsonType] = None
    """Which tool is called; `auto` when absent."""
    chat_template_kwargs: ChatTemplateKwargs | None = None
    """Options of the chat template."""
    enable_thinking: StrictBool | None = None
    """Short form of the field in `chat_template_kwargs`."""
    prompt_cache_key: str | None = None
    """Like the X-Session-Id header: a tag for the server's log."""
    n: Annotated[StrictInt | None, Field(ge=1, le=1)] = None
    """Answers to give: one."""
    merge: Annotated[StrictBool | None, NullIsDefault] = True
    """Not used: scheduling is the same for every request."""
    store: StrictBool | None = None
    """Not used."""
    logprobs: OnlyFalse | None = None
    """Log probabilities are not offered: only false passes."""
    top_logprobs: Annotated[StrictInt | None, Field(ge=0, le=0)] = None
    """Log probabilities are not offered: only 0 passes."""
    response_format: TextFormat | None = None
    """Form of the answer."""


class PromptTokensDetails(ApiModel):
    """More about the prompt tokens."""

    cached_tokens: Annotated[StrictInt, Field(ge=0)]
    """How many of them the prefix cache supplied."""


class ChatUsage(ApiModel):
    """Token counts."""

    prompt_tokens: Annotated[StrictInt, Field(ge=0)]
    """Tokens of the prompt."""
    completion_tokens: Annotated[StrictInt, Field(ge=0)]
    """Tokens of the answer."""
    total_tokens: Annotated[StrictInt, Field(ge=0)]
    """Both together."""
    prompt_tokens_details: PromptTokensDetails | None = None


class ChatTimings(ApiModel):
    """How long the parts of the work took; llama-server's clients know these names."""

    prompt_n: Annotated[StrictInt, Field(ge=0)]
    """Prompt tokens that had to be computed."""
    prompt_ms: Annotated[StrictFloat, Field(ge=0.0)]
    """Milliseconds until the first new token, counted from when the request got its slot."""
    prompt_per_second: StrictFloat | None
    """Rate of `prompt_n` over `prompt_ms`; null when unknown."""
    predicted_n: Annotated[StrictInt, Field(ge=0)]
    """Tokens of the answer."""
    predicted_ms: Annotated[StrictFloat, Field(ge=0.0)]
    """Milliseconds between the first and the last of them."""
    predicted_per_second: StrictFloat | None
    """Rate of the tokens after the first over `predicted_ms`; null when unknown."""
    cache_n: Annotated[StrictInt, Field(ge=0)]
    """Prompt tokens that did not, thanks to the prefix cache."""
    queue_ms: Annotated[StrictFloat, Field(ge=0.0)]
    """Milliseconds spent waiting for a slot."""


class ChatFunctionCall(ApiModel):
    """Name and arguments of a function call."""

    name: str
    """Function name."""
    arguments: str
    """Arguments as JSON text."""


class ChatToolCall(ApiModel):
    """A function call made by the model."""

    id: str
    """Call id, starts with `call_`."""
    type: Literal["function"]
    """Always `function`."""
    function: ChatFunctionCall


class ChatAnswer(ApiModel):
    """The assistant's message."""

    role: Literal["assistant"]
    """Always `assistant`."""
    content: str | None
    """The text; null when there is none."""
    reasoning_content: str | None = None
    """The thinking, when the model thought."""
    tool_calls: JsonArray[ChatToolCall] | None = None
    """The calls it makes."""


class ChatChoice(ApiModel):
    """One answer."""

    index: Annotated[StrictInt, Field(ge=0, le=0)]
    """Always 0."""
    message: ChatAnswer
    finish_reason: Literal["stop", "length", "tool_calls"]
    """`stop`: the model was done or met a stop string; `length`: no more tokens were allowed; `tool_calls`: it wants tools called."""


class ChatCompletion(ApiModel):
    """A whole answer."""

    id: Annotated[str, Field(pattern="^chatcmpl-")]
    """The answer's id."""
    object: Literal["chat.completion"]
    """Always `chat.completion`."""
    created: Annotated[StrictInt, Field(ge=0)]
    """When the answer began, in seconds since 1970."""
    model: str
    """Id of the model that answered."""
    choices: Annotated[JsonArray[ChatChoice], Field(max_length=1, min_length=1)]
    """One answer."""
    usage: ChatUsage
    timings: ChatTimings | None = None


class ChatFunctionCallDelta(ApiModel):
    """New piece of a function call."""

    name: str | None = None
    """Function name, in the call's first piece."""
    arguments: str | None = None
    """Next piece of the arguments' JSON text."""


class ChatToolCallDelta(ApiModel):
    """New piece of one tool call."""

    index: Annotated[StrictInt, Field(ge=0)]
    """Number of the call in this answer."""
    id: str | None = None
    """Call id, in the call's first piece."""
    type: Literal["function"] | None = None
    """Always `function`; in the call's first piece."""
    function: ChatFunctionCallDelta | None = None


class ChatDelta(ApiModel):
    """What is new since the last chunk."""

    role: Literal["assistant"] | None = None
    """In the first chunk."""
    content: str | None = None
    """New text."""
    reasoning_content: str | None = None
    """New thinking."""
    tool_calls: JsonArray[ChatToolCallDelta] | None = None
    """New pieces of tool calls."""


class ChatChunkChoice(ApiModel):
    """One answer's news."""

    index: Annotated[StrictInt, Field(ge=0, le=0)]
    """Always 0."""
    delta: ChatDelta
    finish_reason: Literal["stop", "length", "tool_calls", "error"] | None
    """Null until the end; `error` when the answer failed."""


class StreamError(ApiModel):
    """Why a stream ended early."""

    message: str
    """Reason in plain words."""
    type: Literal[
        "invalid_request_error",
        "permission_error",
        "not_found_error",
        "rate_limit_error",
        "server_error",
        "overloaded_error",
    ]
    """Class of the error."""
    code: str | None
    """A word for programs, such as `model_not_found`; null when there is none."""
    request_id: str
    """The answer's id, to look for in the server's log."""


class ChatCompletionChunk(ApiModel):
    """Data of one event; `[DONE]` is the data of the last. The chunk with the finish reason carries timings and, unless `stream_options.include_usage` asks for a chunk of its own, the token counts."""

    id: Annotated[str, Field(pattern="^chatcmpl-")]
    """The answer's id, equal in all its chunks."""
    object: Literal["chat.completion.chunk"]
    """Always `chat.completion.chunk`."""
    created: Annotated[StrictInt, Field(ge=0)]
    """When the answer began, in seconds since 1970."""
    model: str
    """Id of the model that answered."""
    choices: Annotated[JsonArray[ChatChunkChoice], Field(max_length=1)]
    """What is new; empty only in the chunk for the token counts."""
    usage: ChatUsage | None = None
    timings: ChatTimings | None = None
    error: StreamError | None = None


class RoutedExperts(ApiModel):
    """Path taken by the routed experts of a mixture-of-experts model."""

    path: Literal["kernel", "exact", "mixed"] | None = None
    """`kernel`: the package's own kernel everywhere; `exact`: nowhere; `mixed`: in some places."""
    kernel: RoutedExpertsKernel | None = None
    """The kernel in use; null when its package ships none."""
    sites: dict[str, StrictInt] | None = None
    """Number of traced call sites for each path."""
    exact_why: str | None = None
    """Why any call site took the exact path."""


class Health(ApiModel):
    """State of the server and of its model worker."""

    status: Literal["ok", "loading"]
    """`ok` when loaded; `loading` before that, and again while the worker starts anew."""
    live_rows: Annotated[StrictInt | None, Field(ge=0)] = None
    """Answers in progress."""
    waiting: Annotated[StrictInt | None, Field(ge=0)] = None
    """Requests that found every slot taken."""
    cache_bytes: Annotated[StrictInt | None, Field(ge=0)] = None
    """Host memory the prompt cache holds: `host_cache_bytes` plus `snapshot_bytes`, no copy counted twice."""
    host_cache_bytes: Annotated[StrictInt | None, Field(ge=0)] = None
    """Bytes in the host-memory prompt cache, no copy counted twice."""
    snapshot_bytes: Annotated[StrictInt | None, Field(ge=0)] = None
    """Bytes of saved slot states that `host_cache_bytes` leaves out."""
    host_cache_cap_bytes: Annotated[StrictInt | None, Field(ge=0)] = None
    """Upper limit of the host-memory prompt cache in bytes; 0 turns it off."""
    host_cache_evictions: Annotated[StrictInt | None, Field(ge=0)] = None
    """Entries dropped from the host-memory prompt cache to respect its limit."""
    cache_namespace: str | None = None
    """Fingerprint of everything that has to be equal for a cached prompt to be usable."""
    deployment_id: str | None = None
    """Identifies the compiled programs in use; null until known."""
    component_set_sha: str | None = None
    """Identifies the set of model components in use; null until known."""
    certification: str | None = None
    """Result of the certification gate for this build on this chip."""
    compiles_after_ready: Annotated[StrictInt | None, Field(ge=0)] = None
    """Compilations that the warm-up failed to foresee, over all worker processes; null when unknown."""
    routed_experts: RoutedExperts | None = None
    """How the experts of a mixture-of-experts model are computed; null for other models."""
    worker_pid: Annotated[StrictInt | None, Field(ge=1)] = None
    """Process id of the model worker, when there is a separate one."""
    worker_restarts: Annotated[StrictInt | None, Field(ge=0)] = None
    """How often a fault made the worker start anew."""
