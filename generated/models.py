# Generated from openapi.json by `python -m codegen`; do not edit.
"""Models of the schemas of openapi.json."""

from __future__ import annotations

from re import compile
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StrictBool
from typing_extensions import TypeAliasType

from generated._base import (
    ApiModel,
    ByJsonType,
    ByTypeField,
    JsonArray,
    NullIsDefault,
    OnlyFalse,
    OnlyNull,
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
    """Size of the weights in device memory as they are stored there, in gigabytes."""
    bpw: Annotated[StrictFloat | None, Field(ge=0.0)] = None
    """Average number of bits a weight takes in device memory, scales included: 32 in float32, a little over 8 in int8."""
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
        "authentication_error",
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


class ErrorBody(ApiModel):
    """Body of an error on every path that is not below /v1/messages."""

    error: ErrorDetail


class OpenApiDocument(ApiModel):
    """A description of an API."""

    model_config = ConfigDict(
        extra="allow",
    )
    openapi: str
    """Version of the OpenAPI specification."""
    info: dict[str, Any]
    """Title, version and the like."""
    paths: dict[str, Any]
    """The operations of each path."""


NonEmptyString = TypeAliasType("NonEmptyString", Annotated[str, Field(min_length=1)])
"""A string of at least one character."""


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
"""`auto`: the model decides; `none`: no call; `required`: at least one call."""


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
    """Send chunks as they come. A client that reads nothing for 30 s is cut off."""
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
    """Prompt tokens that the prefix cache supplied."""


class ChatUsage(ApiModel):
    """Token counts."""

    prompt_tokens: Annotated[StrictInt, Field(ge=0)]
    """Tokens of the prompt."""
    completion_tokens: Annotated[StrictInt, Field(ge=0)]
    """Tokens of the answer."""
    total_tokens: Annotated[StrictInt, Field(ge=0)]
    """Prompt and answer together."""
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
    """Milliseconds between the answer's first and last token."""
    predicted_per_second: StrictFloat | None
    """Rate of the tokens after the first over `predicted_ms`; null when unknown."""
    cache_n: Annotated[StrictInt, Field(ge=0)]
    """Prompt tokens that the prefix cache supplied, so that they were not computed."""
    queue_ms: Annotated[StrictFloat, Field(ge=0.0)]
    """Milliseconds spent waiting for a slot."""
    draft_n: Annotated[StrictInt | None, Field(ge=1)] = None
    """Tokens that were guessed from the prompt and the answer so far, and checked; absent when there were none."""
    draft_n_accepted: Annotated[StrictInt | None, Field(ge=0)] = None
    """Guessed tokens (`draft_n`) that were right: they took no step of their own."""


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


ChatChunkFinishReason = TypeAliasType(
    "ChatChunkFinishReason", Literal["stop", "length", "tool_calls", "error"]
)
"""`stop`: the model was done or met a stop string; `length`: no more tokens were allowed; `tool_calls`: it wants tools called; `error`: it failed."""


class ChatChunkChoice(ApiModel):
    """One answer's news."""

    index: Annotated[StrictInt, Field(ge=0, le=0)]
    """Always 0."""
    delta: ChatDelta
    finish_reason: ChatChunkFinishReason | None
    """Null until the end."""


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


PromptList = TypeAliasType(
    "PromptList", Annotated[JsonArray[NonEmptyString], Field(max_length=1, min_length=1)]
)
"""A list of exactly one text."""


class CompletionRequest(ApiModel):
    """A text to continue, and how."""

    model_config = ConfigDict(
        arbitrary_types_allowed=True,
    )
    model: str | None = None
    """Id of the model; the one that runs when absent."""
    prompt: Annotated[NonEmptyString | PromptList, ByJsonType]
    """The text; a list has to hold exactly one."""
    stream: Annotated[StrictBool | None, NullIsDefault] = False
    """Send chunks as they come. A client that reads nothing for 30 s is cut off."""
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
    prompt_cache_key: str | None = None
    """Like the X-Session-Id header: a tag for the server's log."""
    n: Annotated[StrictInt | None, Field(ge=1, le=1)] = None
    """Answers to give: one."""
    merge: Annotated[StrictBool | None, NullIsDefault] = True
    """Not used: scheduling is the same for every request."""
    logprobs: OnlyFalse | None = None
    """Log probabilities are not offered: only false passes."""


class CompletionUsage(ApiModel):
    """Token counts."""

    prompt_tokens: Annotated[StrictInt, Field(ge=0)]
    """Tokens of the prompt."""
    completion_tokens: Annotated[StrictInt, Field(ge=0)]
    """Tokens of the answer."""
    total_tokens: Annotated[StrictInt, Field(ge=0)]
    """Prompt and answer together."""


CompletionFinishReason = TypeAliasType("CompletionFinishReason", Literal["stop", "length", "error"])
"""`stop`: the model was done or met a stop string; `length`: no more tokens were allowed; `error`: it failed."""


class CompletionChoice(ApiModel):
    """One continuation."""

    index: Annotated[StrictInt, Field(ge=0, le=0)]
    """Always 0."""
    text: str
    """The text, or in a stream what is new of it."""
    finish_reason: CompletionFinishReason | None
    """Null until the end of a stream."""


class Completion(ApiModel):
    """A whole continuation, or the data of one event of a stream, which has no token counts; `[DONE]` is the data of a stream's last event."""

    id: Annotated[str, Field(pattern="^cmpl-")]
    """The answer's id, equal in all events of a stream."""
    object: Literal["text_completion"]
    """Always `text_completion`."""
    created: Annotated[StrictInt, Field(ge=0)]
    """When the answer began, in seconds since 1970."""
    model: str
    """Id of the model that answered."""
    choices: Annotated[JsonArray[CompletionChoice], Field(max_length=1, min_length=1)]
    """One continuation."""
    usage: CompletionUsage | None = None
    system_fingerprint: Annotated[str | None, Field(pattern="^seed-")] = None
    """`seed-` and the seed of the random draws."""
    error: StreamError | None = None


class AnthropicErrorDetail(ApiModel):
    """What went wrong."""

    type: Literal[
        "invalid_request_error",
        "authentication_error",
        "permission_error",
        "not_found_error",
        "request_too_large",
        "rate_limit_error",
        "api_error",
        "overloaded_error",
    ]
    """Class of the error."""
    message: str
    """Reason in plain words; names the field for a bad request."""


class AnthropicError(ApiModel):
    """Body of an error on the paths below /v1/messages."""

    type: Literal["error"]
    """Always `error`."""
    error: AnthropicErrorDetail


class TextBlockParam(ApiModel):
    """A piece of text."""

    type: Literal["text"]
    """Always `text`."""
    text: str
    """The text."""


class ThinkingBlockParam(ApiModel):
    """What the assistant thought earlier."""

    type: Literal["thinking"]
    """Always `thinking`."""
    thinking: str
    """The thoughts."""
    signature: str | None = None
    """Not checked."""


class RedactedThinkingBlockParam(ApiModel):
    """Thoughts that another server encrypted; left out of the prompt."""

    type: Literal["redacted_thinking"]
    """Always `redacted_thinking`."""
    data: str | None = None
    """Not used."""


class ToolUseBlockParam(ApiModel):
    """An earlier call of the assistant."""

    type: Literal["tool_use"]
    """Always `tool_use`."""
    id: str
    """The id that the block with the result repeats."""
    name: str
    """Name of the tool."""
    input: dict[str, Any]
    """The arguments."""


class ToolReferenceBlockParam(ApiModel):
    """Puts a tool with `defer_loading` on offer."""

    type: Literal["tool_reference"]
    """Always `tool_reference`."""
    tool_name: str
    """Name of the tool."""


class OtherResultBlockParam(ApiModel):
    """A part of a result that is not text, such as an image or a document: the prompt only says that it was there."""

    model_config = ConfigDict(
        extra="allow",
        regex_engine="python-re",
    )
    type: Annotated[str, Field(pattern="^(?!(text|tool_reference)$)")]
    """Any other name."""


KnownResultBlockParam = TypeAliasType(
    "KnownResultBlockParam", Annotated[TextBlockParam | ToolReferenceBlockParam, ByTypeField]
)
"""A part of what a tool gave that the model reads."""


ToolResultContentBlockParam = TypeAliasType(
    "ToolResultContentBlockParam",
    Annotated[TextBlockParam | ToolReferenceBlockParam | OtherResultBlockParam, ByTypeField],
)
"""A part of what a tool gave."""


class ToolResultBlockParam(ApiModel):
    """What a tool gave."""

    type: Literal["tool_result"]
    """Always `tool_result`."""
    tool_use_id: str
    """Id of the call."""
    content: Annotated[str | JsonArray[ToolResultContentBlockParam] | None, ByJsonType] = None
    """One text, or blocks."""
    is_error: Annotated[StrictBool | None, NullIsDefault] = False
    """Whether the tool failed."""


class ServerToolBlockParam(ApiModel):
    """A call or result of a tool that another server ran; the prompt shows it as text."""

    model_config = ConfigDict(
        extra="allow",
    )
    type: Annotated[str, Field(pattern="^(server_tool_use|mcp_tool_use|[a-z_]+_tool_result)$")]
    """`server_tool_use`, `mcp_tool_use`, or a name that ends with `_tool_result`."""


KnownBlockParam = TypeAliasType(
    "KnownBlockParam",
    Annotated[
        TextBlockParam
        | ThinkingBlockParam
        | RedactedThinkingBlockParam
        | ToolUseBlockParam
        | ToolResultBlockParam,
        ByTypeField,
    ],
)
"""A block of a message, those of other servers' tools aside."""


ContentBlockParam = TypeAliasType(
    "ContentBlockParam",
    Annotated[
        TextBlockParam
        | ThinkingBlockParam
        | RedactedThinkingBlockParam
        | ToolUseBlockParam
        | ToolResultBlockParam
        | ServerToolBlockParam,
        ByTypeField,
    ],
)
"""A block of a message. Images and documents are refused: the model reads text only."""


class MessageParam(ApiModel):
    """One message of the conversation."""

    role: Literal["user", "assistant", "system"]
    """Who speaks; `system` texts become part of the system prompt."""
    content: Annotated[str | JsonArray[ContentBlockParam], ByJsonType]
    """One text, or blocks."""


class MessagesTool(ApiModel):
    """A tool on offer. One without a name or without `input_schema`, such as those that Anthropic's servers run, is not offered to the model and is no error."""

    model_config = ConfigDict(
        extra="allow",
    )
    type: Any | None = None
    """`custom`, or absent."""
    name: Any | None = None
    """Name of the tool."""
    description: Any | None = None
    """What it is for."""
    input_schema: Any | None = None
    """JSON Schema of the arguments."""
    defer_loading: Any | None = None
    """True keeps it from the model until a `tool_reference` names it."""


class MessagesToolChoiceMode(ApiModel):
    """Leaves the tool to the model."""

    type: Literal["auto", "any", "none"]
    """`auto`: the model decides; `any`: at least one call; `none`: no call."""
    disable_parallel_tool_use: StrictBool | None = None
    """Allow one call at most."""


class MessagesNamedToolChoice(ApiModel):
    """The tool that has to be called."""

    type: Literal["tool"]
    """Always `tool`."""
    name: str
    """Name of the tool."""
    disable_parallel_tool_use: StrictBool | None = None
    """Allow one call at most."""


MessagesToolChoice = TypeAliasType(
    "MessagesToolChoice", Annotated[MessagesToolChoiceMode | MessagesNamedToolChoice, ByTypeField]
)
"""Which tool is called."""


class ThinkingOptions(ApiModel):
    """Whether and how much the model thinks first."""

    type: Literal["enabled", "adaptive", "disabled"]
    """`enabled` and `adaptive`: it does; `disabled`: it does not."""
    budget_tokens: Annotated[StrictInt | None, Field(ge=1)] = None
    """Tokens after which thinking ends and the answer begins."""


class OutputConfig(ApiModel):
    """Form of the answer."""

    model_config = ConfigDict(
        arbitrary_types_allowed=True,
    )
    effort: str | None = None
    """Not used."""
    format: OnlyNull | None = None
    """Structured answers are not offered: anything here is refused."""


class MessagesRequest(ApiModel):
    """A conversation and how to answer it."""

    model: str | None = None
    """Any name; the answer repeats it."""
    messages: Annotated[JsonArray[MessageParam], Field(min_length=1)]
    """The conversation."""
    system: Annotated[str | JsonArray[TextBlockParam] | None, ByJsonType] = None
    """The system prompt: one text, or blocks."""
    tools: JsonArray[MessagesTool] | None = None
    """What the model may call."""
    tool_choice: MessagesToolChoice | None = None
    """Which tool is called; `auto` when absent."""
    thinking: ThinkingOptions | None = None
    """Whether the model thinks first; its chat template decides when absent."""
    stream: Annotated[StrictBool | None, NullIsDefault] = False
    """Send events as they come. A client that reads nothing for 30 s is cut off."""
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
    prompt_cache_key: str | None = None
    """Like the X-Session-Id header: a tag for the server's log."""
    n: Annotated[StrictInt | None, Field(ge=1, le=1)] = None
    """Answers to give: one."""
    metadata: dict[str, Any] | None = None
    """Not used."""
    output_config: OutputConfig | None = None
    """Form of the answer."""


class CountTokensRequest(ApiModel):
    """A conversation to measure."""

    model: str | None = None
    """Not used."""
    messages: Annotated[JsonArray[MessageParam], Field(min_length=1)]
    """The conversation."""
    system: Annotated[str | JsonArray[TextBlockParam] | None, ByJsonType] = None
    """The system prompt: one text, or blocks."""
    tools: JsonArray[MessagesTool] | None = None
    """What the model may call."""
    tool_choice: MessagesToolChoice | None = None
    """Which tool is called; `auto` when absent."""
    thinking: ThinkingOptions | None = None
    """Whether the model thinks first; its chat template decides when absent."""


class TokenCount(ApiModel):
    """Size of a prompt."""

    input_tokens: Annotated[StrictInt, Field(ge=0)]
    """Tokens of the conversation as the chat template writes it."""


class TextBlock(ApiModel):
    """Text of the answer."""

    type: Literal["text"]
    """Always `text`."""
    text: str
    """The text."""


class ThinkingBlock(ApiModel):
    """What the model thought."""

    type: Literal["thinking"]
    """Always `thinking`."""
    thinking: str
    """The thoughts."""
    signature: str
    """`mashbox-local`; still empty where the block starts in a stream."""


class ToolUseBlock(ApiModel):
    """A call made by the model."""

    type: Literal["tool_use"]
    """Always `tool_use`."""
    id: Annotated[str, Field(pattern="^toolu_")]
    """Call id."""
    name: str
    """Name of the tool."""
    input: dict[str, Any]
    """The arguments; still empty where the block starts in a stream."""


ContentBlock = TypeAliasType(
    "ContentBlock", Annotated[TextBlock | ThinkingBlock | ToolUseBlock, ByTypeField]
)
"""A block of the answer."""


class MessageUsage(ApiModel):
    """Token counts."""

    input_tokens: Annotated[StrictInt, Field(ge=0)]
    """Prompt tokens that had to be computed."""
    cache_read_input_tokens: Annotated[StrictInt, Field(ge=0)]
    """Prompt tokens that the prefix cache supplied, so that they were not computed."""
    cache_creation_input_tokens: Annotated[StrictInt, Field(ge=0, le=0)]
    """Always 0."""
    output_tokens: Annotated[StrictInt, Field(ge=0)]
    """Tokens of the answer so far."""


StopReason = TypeAliasType(
    "StopReason", Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"]
)
"""`end_turn`: the model was done; `max_tokens`: no more tokens were allowed; `stop_sequence`: it met a stop string; `tool_use`: it wants tools called."""


class Message(ApiModel):
    """A whole answer, or its frame where a stream starts."""

    id: Annotated[str, Field(pattern="^msg_")]
    """The answer's id."""
    type: Literal["message"]
    """Always `message`."""
    role: Literal["assistant"]
    """Always `assistant`."""
    model: str
    """The request's `model`; without one, the id of the model that answered."""
    content: JsonArray[ContentBlock]
    """Blocks: thoughts, text, calls."""
    stop_reason: StopReason | None
    """Null where a stream starts."""
    stop_sequence: str | None
    """The stop string that was met."""
    usage: MessageUsage


class TextDelta(ApiModel):
    """More text."""

    type: Literal["text_delta"]
    """Always `text_delta`."""
    text: str
    """What is new."""


class ThinkingDelta(ApiModel):
    """More thoughts."""

    type: Literal["thinking_delta"]
    """Always `thinking_delta`."""
    thinking: str
    """What is new."""


class SignatureDelta(ApiModel):
    """Ends the thoughts."""

    type: Literal["signature_delta"]
    """Always `signature_delta`."""
    signature: Literal["mashbox-local"]
    """Always `mashbox-local`."""


class InputJsonDelta(ApiModel):
    """More of a call's arguments."""

    type: Literal["input_json_delta"]
    """Always `input_json_delta`."""
    partial_json: str
    """Next piece of the arguments' JSON text."""


ContentBlockDelta = TypeAliasType(
    "ContentBlockDelta",
    Annotated[TextDelta | ThinkingDelta | SignatureDelta | InputJsonDelta, ByTypeField],
)
"""What is new in a block."""


class MessageDelta(ApiModel):
    """How the answer ended."""

    stop_reason: StopReason | None
    """Null where a stream starts."""
    stop_sequence: str | None
    """The stop string that was met."""


class MessageStartEvent(ApiModel):
    """First event: the frame of the answer, with the tokens of the prompt."""

    type: Literal["message_start"]
    """Always `message_start`, like the event's name."""
    message: Message


class PingEvent(ApiModel):
    """Says that the stream is alive."""

    type: Literal["ping"]
    """Always `ping`, like the event's name."""


class ContentBlockStartEvent(ApiModel):
    """A block begins."""

    type: Literal["content_block_start"]
    """Always `content_block_start`, like the event's name."""
    index: Annotated[StrictInt, Field(ge=0)]
    """Number of the block, from 0."""
    content_block: ContentBlock


class ContentBlockDeltaEvent(ApiModel):
    """A block goes on."""

    type: Literal["content_block_delta"]
    """Always `content_block_delta`, like the event's name."""
    index: Annotated[StrictInt, Field(ge=0)]
    """Number of the block, from 0."""
    delta: ContentBlockDelta


class ContentBlockStopEvent(ApiModel):
    """A block is complete."""

    type: Literal["content_block_stop"]
    """Always `content_block_stop`, like the event's name."""
    index: Annotated[StrictInt, Field(ge=0)]
    """Number of the block, from 0."""


class MessageDeltaEvent(ApiModel):
    """The answer is complete; here is why, with the token counts of all of it."""

    type: Literal["message_delta"]
    """Always `message_delta`, like the event's name."""
    delta: MessageDelta
    usage: MessageUsage


class MessageStopEvent(ApiModel):
    """Last event."""

    type: Literal["message_stop"]
    """Always `message_stop`, like the event's name."""


class MessageErrorEvent(ApiModel):
    """Last event of an answer that failed."""

    type: Literal["error"]
    """Always `error`, like the event's name."""
    error: AnthropicErrorDetail
    request_id: str
    """The answer's id, to look for in the server's log."""


MessageStreamEvent = TypeAliasType(
    "MessageStreamEvent",
    Annotated[
        MessageStartEvent
        | PingEvent
        | ContentBlockStartEvent
        | ContentBlockDeltaEvent
        | ContentBlockStopEvent
        | MessageDeltaEvent
        | MessageStopEvent
        | MessageErrorEvent,
        ByTypeField,
    ],
)
"""Data of one event. Blocks follow one another, each from its start through its deltas to its stop."""


class InputTextPart(ApiModel):
    """A piece of text."""

    type: Literal["input_text", "output_text", "text"]
    """`input_text`, or `output_text` for what the model wrote; `text` means the same."""
    text: str
    """The text."""


class InputRefusalPart(ApiModel):
    """What the model wrote where it refused."""

    type: Literal["refusal"]
    """Always `refusal`."""
    refusal: str
    """The text."""


InputContentPart = TypeAliasType(
    "InputContentPart", Annotated[InputTextPart | InputRefusalPart, ByTypeField]
)
"""A part of a message. Images, audio and files are refused: the model reads text only."""


class InputMessage(ApiModel):
    """A message of the conversation."""

    type: Literal["message"] | None = None
    """`message`, or absent."""
    role: Literal["system", "developer", "user", "assistant"]
    """Who speaks; `system` and `developer` texts become the system prompt."""
    content: Annotated[str | JsonArray[InputContentPart], ByJsonType]
    """One text, or text in parts."""
    id: str | None = None
    """Not used."""
    status: str | None = None
    """Not used."""


class InputFunctionCall(ApiModel):
    """An earlier call of a function."""

    type: Literal["function_call"]
    """Always `function_call`."""
    call_id: str
    """The id that the item with the result repeats."""
    name: str
    """Function name."""
    arguments: str
    """Arguments as JSON text."""
    namespace: str | None = None
    """The namespace that the function is in."""
    id: str | None = None
    """Not used."""
    status: str | None = None
    """Not used."""


class InputFunctionCallOutput(ApiModel):
    """What a function gave."""

    type: Literal["function_call_output"]
    """Always `function_call_output`."""
    call_id: str
    """Id of the call."""
    output: Annotated[str | JsonArray[InputContentPart], ByJsonType]
    """One text, or text in parts."""
    id: str | None = None
    """Not used."""
    status: str | None = None
    """Not used."""


class InputCustomToolCall(ApiModel):
    """An earlier call of a custom tool."""

    type: Literal["custom_tool_call"]
    """Always `custom_tool_call`."""
    call_id: str
    """The id that the item with the result repeats."""
    name: str
    """Name of the tool."""
    input: str
    """The text given to it."""
    namespace: str | None = None
    """The namespace that the tool is in."""
    id: str | None = None
    """Not used."""
    status: str | None = None
    """Not used."""


class InputCustomToolCallOutput(ApiModel):
    """What a custom tool gave."""

    type: Literal["custom_tool_call_output"]
    """Always `custom_tool_call_output`."""
    call_id: str
    """Id of the call."""
    output: Annotated[str | JsonArray[InputContentPart], ByJsonType]
    """One text, or text in parts."""
    id: str | None = None
    """Not used."""
    status: str | None = None
    """Not used."""


class LocalShellAction(ApiModel):
    """A command line."""

    model_config = ConfigDict(
        extra="allow",
    )
    command: JsonArray[str]
    """Program and arguments."""


class InputLocalShellCall(ApiModel):
    """An earlier call of the shell."""

    type: Literal["local_shell_call"]
    """Always `local_shell_call`."""
    call_id: str | None = None
    """The id that the item with the result repeats. `id` when absent."""
    action: LocalShellAction
    id: str | None = None
    """Stands in for `call_id`."""
    status: str | None = None
    """Not used."""


class InputLocalShellCallOutput(ApiModel):
    """What the shell gave."""

    type: Literal["local_shell_call_output"]
    """Always `local_shell_call_output`."""
    call_id: str | None = None
    """Id of the call; `id` when absent."""
    output: Annotated[str | JsonArray[InputContentPart], ByJsonType]
    """One text, or text in parts."""
    id: str | None = None
    """Stands in for `call_id`."""
    status: str | None = None
    """Not used."""


class SummaryPart(ApiModel):
    """A piece of a summary."""

    type: Literal["summary_text"]
    """Always `summary_text`."""
    text: str
    """The text."""


class ThoughtPart(ApiModel):
    """A piece of thoughts."""

    type: Literal["reasoning_text", "text"]
    """`reasoning_text`; `text` means the same."""
    text: str
    """The text."""


class InputReasoning(ApiModel):
    """What the model thought earlier."""

    type: Literal["reasoning"]
    """Always `reasoning`."""
    summary: JsonArray[SummaryPart] | None = None
    """Stands in for absent thoughts."""
    content: JsonArray[ThoughtPart] | None = None
    """The thoughts."""
    encrypted_content: str | None = None
    """Not used."""
    id: str | None = None
    """Not used."""
    status: str | None = None
    """Not used."""


class InputItemReference(ApiModel):
    """Points to an item of an earlier answer. No answer is kept, so it is passed over."""

    type: Literal["item_reference"]
    """Always `item_reference`."""
    id: str
    """The item's id."""


class InputOtherItem(ApiModel):
    """An item of a kind that this server does not make, such as the calls of hosted tools: passed over. Parts of messages are no items."""

    model_config = ConfigDict(
        extra="allow",
        regex_engine="python-re",
    )
    type: Annotated[
        str,
        Field(
            pattern="^(?!(message|function_call|function_call_output|custom_tool_call|custom_tool_call_output|local_shell_call|local_shell_call_output|reasoning|item_reference)$|input_|output_)"
        ),
    ]
    """Any other name."""


KnownInputItem = TypeAliasType(
    "KnownInputItem",
    Annotated[
        InputFunctionCall
        | InputFunctionCallOutput
        | InputCustomToolCall
        | InputCustomToolCallOutput
        | InputLocalShellCall
        | InputLocalShellCallOutput
        | InputReasoning
        | InputItemReference,
        ByTypeField,
    ],
)
"""An item of the conversation with a type that the server reads."""


InputItem = TypeAliasType(
    "InputItem",
    Annotated[
        InputMessage
        | InputFunctionCall
        | InputFunctionCallOutput
        | InputCustomToolCall
        | InputCustomToolCallOutput
        | InputLocalShellCall
        | InputLocalShellCallOutput
        | InputReasoning
        | InputItemReference
        | InputOtherItem,
        ByTypeField,
    ],
)
"""An item of the conversation; one without `type` is a message."""


InputItems = TypeAliasType("InputItems", Annotated[JsonArray[InputItem], Field(min_length=1)])
"""Items in the order of the conversation."""


class ResponsesTool(ApiModel):
    """A tool on offer. One of another type than `function`, `custom` and `namespace`, or without a name, is not offered to the model and is no error."""

    model_config = ConfigDict(
        extra="allow",
    )
    type: Any | None = None
    """`function`, `custom` or `namespace`."""
    name: Any | None = None
    """Name of the tool."""
    description: Any | None = None
    """What it is for."""
    parameters: Any | None = None
    """Of a function: JSON Schema of the arguments."""
    format: Any | None = None
    """Of a custom tool: the grammar of its input, shown to the model."""
    tools: Any | None = None
    """Of a namespace: the tools in it."""


class ResponsesNamedToolChoice(ApiModel):
    """The tool that has to be called: its name beside `type`, or nested in `function`."""

    model_config = ConfigDict(
        extra="allow",
    )
    type: str | None = None
    """`function` or `custom`; `function` when absent."""
    name: str | None = None
    """Name of the tool."""
    function: FunctionName | None = None
    """Nested form of `name`."""


class ReasoningOptions(ApiModel):
    """Whether the model thinks first."""

    effort: str | None = None
    """`none`: it does not; otherwise its chat template decides."""
    summary: str | None = None
    """Not used: thoughts are given whole."""


class TextOptions(ApiModel):
    """Form of the text."""

    format: TextFormat | None = None
    """Form of the text."""
    verbosity: str | None = None
    """Not used."""


IncludeEntry = TypeAliasType(
    "IncludeEntry", Annotated[str, Field(pattern=compile("^(?![\\s\\S]*logprobs)"))]
)
"""Something to add to the answer; what names logprobs is refused."""


class ResponsesRequest(ApiModel):
    """A conversation and how to answer it."""

    model_config = ConfigDict(
        extra="allow",
    )
    model: str | None = None
    """Id of the model; the one that runs when absent."""
    input: Annotated[str | InputItems, ByJsonType]
    """The conversation: one text of the user, or items."""
    instructions: str | None = None
    """Start of the system prompt."""
    tools: JsonArray[ResponsesTool] | None = None
    """What the model may call."""
    tool_choice: Annotated[ToolChoiceMode | ResponsesNamedToolChoice | None, ByJsonType] = None
    """Which tool is called; `auto` when absent."""
    parallel_tool_calls: Annotated[StrictBool | None, NullIsDefault] = False
    """Without it an answer has at most one call."""
    reasoning: ReasoningOptions | None = None
    """Whether the model thinks first; its chat template decides when absent."""
    stream: Annotated[StrictBool | None, NullIsDefault] = False
    """Send events as they come. A client that reads nothing for 30 s is cut off."""
    max_output_tokens: Annotated[StrictInt | None, Field(ge=1)] = None
    """Upper limit of new tokens, before `max_tokens` and `max_completion_tokens`; the context (`--ctx`) is the limit when absent, and always."""
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
    prompt_cache_key: str | None = None
    """Like the X-Session-Id header: a tag for the server's log."""
    n: Annotated[StrictInt | None, Field(ge=1, le=1)] = None
    """Answers to give: one."""
    store: StrictBool | None = None
    """Not used."""
    client_metadata: dict[str, Any] | None = None
    """Not used."""
    include: JsonArray[IncludeEntry] | None = None
    """Not used."""
    top_logprobs: Annotated[StrictInt | None, Field(ge=0, le=0)] = None
    """Log probabilities are not offered: only 0 passes."""
    text: TextOptions | None = None
    """Form of the text."""


class OutputTextPart(ApiModel):
    """Text of the answer."""

    type: Literal["output_text"]
    """Always `output_text`."""
    text: str
    """The text."""
    annotations: Annotated[JsonArray[Any], Field(max_length=0)]
    """Always empty."""
    logprobs: Annotated[JsonArray[Any], Field(max_length=0)]
    """Always empty."""


class ReasoningTextPart(ApiModel):
    """Thoughts."""

    type: Literal["reasoning_text"]
    """Always `reasoning_text`."""
    text: str
    """The text."""


OutputPart = TypeAliasType("OutputPart", Annotated[OutputTextPart | ReasoningTextPart, ByTypeField])
"""A part of an item."""


class OutputMessage(ApiModel):
    """Text of the answer."""

    type: Literal["message"]
    """Always `message`."""
    id: Annotated[str, Field(pattern="^msg_")]
    """The item's id."""
    status: Literal["in_progress", "completed", "incomplete"]
    """`incomplete` when no more tokens were allowed."""
    role: Literal["assistant"]
    """Always `assistant`."""
    content: JsonArray[OutputTextPart]
    """The text."""


class OutputReasoning(ApiModel):
    """What the model thought."""

    type: Literal["reasoning"]
    """Always `reasoning`."""
    id: Annotated[str, Field(pattern="^rs_")]
    """The item's id."""
    status: Literal["in_progress", "completed", "incomplete"]
    """`incomplete` when no more tokens were allowed."""
    summary: Annotated[JsonArray[Any], Field(max_length=0)]
    """Always empty."""
    content: JsonArray[ReasoningTextPart]
    """The thoughts."""


class OutputFunctionCall(ApiModel):
    """A call of a function."""

    type: Literal["function_call"]
    """Always `function_call`."""
    id: Annotated[str, Field(pattern="^fc_")]
    """The item's id."""
    status: Literal["in_progress", "completed", "incomplete"]
    """`incomplete` when no more tokens were allowed."""
    call_id: str
    """The id that the item with the result has to repeat."""
    name: str
    """Function name."""
    arguments: str
    """Arguments as JSON text."""
    namespace: str | None = None
    """The namespace that the tool is in."""


class OutputCustomToolCall(ApiModel):
    """A call of a custom tool."""

    type: Literal["custom_tool_call"]
    """Always `custom_tool_call`."""
    id: Annotated[str, Field(pattern="^ctc_")]
    """The item's id."""
    status: Literal["in_progress", "completed", "incomplete"]
    """`incomplete` when no more tokens were allowed."""
    call_id: str
    """The id that the item with the result has to repeat."""
    name: str
    """Name of the tool."""
    input: str
    """The text given to it."""
    namespace: str | None = None
    """The namespace that the tool is in."""


ResponseItem = TypeAliasType(
    "ResponseItem",
    Annotated[
        OutputMessage | OutputReasoning | OutputFunctionCall | OutputCustomToolCall, ByTypeField
    ],
)
"""An item of the answer."""


class InputTokensDetails(ApiModel):
    """More about the prompt tokens."""

    cached_tokens: Annotated[StrictInt, Field(ge=0)]
    """Prompt tokens that the prefix cache supplied."""
    cache_write_tokens: Annotated[StrictInt, Field(ge=0, le=0)]
    """Always 0."""


class OutputTokensDetails(ApiModel):
    """More about the new tokens."""

    reasoning_tokens: Annotated[StrictInt, Field(ge=0)]
    """New tokens that are thoughts."""


class ResponseUsage(ApiModel):
    """Token counts."""

    input_tokens: Annotated[StrictInt, Field(ge=0)]
    """Tokens of the prompt."""
    input_tokens_details: InputTokensDetails
    output_tokens: Annotated[StrictInt, Field(ge=0)]
    """Tokens of the answer."""
    output_tokens_details: OutputTokensDetails
    total_tokens: Annotated[StrictInt, Field(ge=0)]
    """Prompt and answer together."""


class IncompleteDetails(ApiModel):
    """Why an answer is incomplete."""

    reason: Literal["max_output_tokens"]
    """Always `max_output_tokens`."""


class ResponseError(ApiModel):
    """Why an answer failed."""

    code: Literal["server_error", "rate_limit_exceeded", "invalid_prompt"]
    """A word for programs."""
    message: str
    """Reason in plain words."""


class ResponseReasoning(ApiModel):
    """How the model thought."""

    model_config = ConfigDict(
        arbitrary_types_allowed=True,
    )
    effort: str | None
    """As in the request."""
    summary: OnlyNull
    """Always null."""


class ResponseText(ApiModel):
    """Form of the text."""

    format: TextFormat


class ResponseObject(ApiModel):
    """A whole answer, or its state in a stream."""

    model_config = ConfigDict(
        arbitrary_types_allowed=True,
    )
    id: Annotated[str, Field(pattern="^resp_")]
    """The answer's id."""
    object: Literal["response"]
    """Always `response`."""
    created_at: Annotated[StrictInt, Field(ge=0)]
    """When the answer began, in seconds since 1970."""
    completed_at: Annotated[StrictInt | None, Field(ge=0)]
    """When it was complete, in seconds since 1970."""
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    """`incomplete` when no more tokens were allowed; `in_progress` and `failed` only in streams."""
    error: ResponseError | None
    """Why it failed."""
    incomplete_details: IncompleteDetails | None
    """Why it is incomplete."""
    model: str
    """The request's `model`; without one, the id of the model that answered."""
    output: JsonArray[ResponseItem]
    """Items: thoughts, text, calls."""
    usage: ResponseUsage | None
    """Token counts; null while the answer goes on."""
    instructions: str | None
    """As in the request."""
    tools: JsonArray[dict[str, Any]]
    """As in the request."""
    tool_choice: Annotated[ToolChoiceMode | dict[str, Any], ByJsonType]
    """As in the request; a tool is named in the flat form."""
    parallel_tool_calls: StrictBool
    """As in the request."""
    max_output_tokens: Annotated[StrictInt | None, Field(ge=1)]
    """The limit that the request sets, under whichever name."""
    temperature: Annotated[StrictFloat, Field(ge=0.0, le=4.0)]
    """As in the request."""
    top_p: Annotated[StrictFloat, Field(gt=0.0, le=1.0)]
    """As in the request."""
    reasoning: ResponseReasoning
    text: ResponseText
    prompt_cache_key: str | None
    """As in the request."""
    metadata: dict[str, str]
    """Always empty."""
    truncation: Literal["disabled"]
    """Always `disabled`."""
    service_tier: Literal["default"]
    """Always `default`."""
    store: OnlyFalse
    """Always false: no answer is kept."""
    background: OnlyFalse
    """Always false."""
    top_logprobs: Annotated[StrictInt, Field(ge=0, le=0)]
    """Always 0."""
    max_tool_calls: OnlyNull
    """Always null."""
    previous_response_id: OnlyNull
    """Always null."""
    conversation: OnlyNull
    """Always null."""
    prompt: OnlyNull
    """Always null."""
    safety_identifier: OnlyNull
    """Always null."""
    user: OnlyNull
    """Always null."""


class ResponseCreatedEvent(ApiModel):
    """First event."""

    type: Literal["response.created"]
    """Always `response.created`, like the event's name."""
    sequence_number: Annotated[StrictInt, Field(ge=1)]
    """Number of the event in its stream, from 1."""
    response: ResponseObject


class ResponseInProgressEvent(ApiModel):
    """The answer is on its way; again whenever nothing else was sent for a while."""

    type: Literal["response.in_progress"]
    """Always `response.in_progress`, like the event's name."""
    sequence_number: Annotated[StrictInt, Field(ge=1)]
    """Number of the event in its stream, from 1."""
    response: ResponseObject


class ResponseOutputItemAddedEvent(ApiModel):
    """An item begins."""

    type: Literal["response.output_item.added"]
    """Always `response.output_item.added`, like the event's name."""
    sequence_number: Annotated[StrictInt, Field(ge=1)]
    """Number of the event in its stream, from 1."""
    output_index: Annotated[StrictInt, Field(ge=0)]
    """Number of the item, from 0."""
    item: ResponseItem


class ResponseContentPartAddedEvent(ApiModel):
    """A part begins."""

    type: Literal["response.content_part.added"]
    """Always `response.content_part.added`, like the event's name."""
    sequence_number: Annotated[StrictInt, Field(ge=1)]
    """Number of the event in its stream, from 1."""
    item_id: str
    """The item's id."""
    output_index: Annotated[StrictInt, Field(ge=0)]
    """Number of the item, from 0."""
    content_index: Annotated[StrictInt, Field(ge=0)]
    """Number of the part in its item, from 0."""
    part: OutputPart


class ResponseOutputTextDeltaEvent(ApiModel):
    """More text."""

    type: Literal["response.output_text.delta"]
    """Always `response.output_text.delta`, like the event's name."""
    sequence_number: Annotated[StrictInt, Field(ge=1)]
    """Number of the event in its stream, from 1."""
    item_id: str
    """The item's id."""
    output_index: Annotated[StrictInt, Field(ge=0)]
    """Number of the item, from 0."""
    content_index: Annotated[StrictInt, Field(ge=0)]
    """Number of the part in its item, from 0."""
    delta: str
    """What is new."""
    logprobs: Annotated[JsonArray[Any], Field(max_length=0)]
    """Always empty."""


class ResponseOutputTextDoneEvent(ApiModel):
    """The text is complete."""

    type: Literal["response.output_text.done"]
    """Always `response.output_text.done`, like the event's name."""
    sequence_number: Annotated[StrictInt, Field(ge=1)]
    """Number of the event in its stream, from 1."""
    item_id: str
    """The item's id."""
    output_index: Annotated[StrictInt, Field(ge=0)]
    """Number of the item, from 0."""
    content_index: Annotated[StrictInt, Field(ge=0)]
    """Number of the part in its item, from 0."""
    text: str
    """The whole text."""
    logprobs: Annotated[JsonArray[Any], Field(max_length=0)]
    """Always empty."""


class ResponseReasoningTextDeltaEvent(ApiModel):
    """More thoughts."""

    type: Literal["response.reasoning_text.delta"]
    """Always `response.reasoning_text.delta`, like the event's name."""
    sequence_number: Annotated[StrictInt, Field(ge=1)]
    """Number of the event in its stream, from 1."""
    item_id: str
    """The item's id."""
    output_index: Annotated[StrictInt, Field(ge=0)]
    """Number of the item, from 0."""
    content_index: Annotated[StrictInt, Field(ge=0)]
    """Number of the part in its item, from 0."""
    delta: str
    """What is new."""


class ResponseReasoningTextDoneEvent(ApiModel):
    """The thoughts are complete."""

    type: Literal["response.reasoning_text.done"]
    """Always `response.reasoning_text.done`, like the event's name."""
    sequence_number: Annotated[StrictInt, Field(ge=1)]
    """Number of the event in its stream, from 1."""
    item_id: str
    """The item's id."""
    output_index: Annotated[StrictInt, Field(ge=0)]
    """Number of the item, from 0."""
    content_index: Annotated[StrictInt, Field(ge=0)]
    """Number of the part in its item, from 0."""
    text: str
    """The whole thoughts."""


class ResponseContentPartDoneEvent(ApiModel):
    """A part is complete."""

    type: Literal["response.content_part.done"]
    """Always `response.content_part.done`, like the event's name."""
    sequence_number: Annotated[StrictInt, Field(ge=1)]
    """Number of the event in its stream, from 1."""
    item_id: str
    """The item's id."""
    output_index: Annotated[StrictInt, Field(ge=0)]
    """Number of the item, from 0."""
    content_index: Annotated[StrictInt, Field(ge=0)]
    """Number of the part in its item, from 0."""
    part: OutputPart


class ResponseFunctionCallArgumentsDeltaEvent(ApiModel):
    """More of a call's arguments."""

    type: Literal["response.function_call_arguments.delta"]
    """Always `response.function_call_arguments.delta`, like the event's name."""
    sequence_number: Annotated[StrictInt, Field(ge=1)]
    """Number of the event in its stream, from 1."""
    item_id: str
    """The item's id."""
    output_index: Annotated[StrictInt, Field(ge=0)]
    """Number of the item, from 0."""
    delta: str
    """Next piece of the arguments' JSON text."""


class ResponseFunctionCallArgumentsDoneEvent(ApiModel):
    """A call's arguments are complete."""

    type: Literal["response.function_call_arguments.done"]
    """Always `response.function_call_arguments.done`, like the event's name."""
    sequence_number: Annotated[StrictInt, Field(ge=1)]
    """Number of the event in its stream, from 1."""
    item_id: str
    """The item's id."""
    output_index: Annotated[StrictInt, Field(ge=0)]
    """Number of the item, from 0."""
    name: str
    """Function name."""
    arguments: str
    """The whole JSON text of the arguments."""


class ResponseCustomToolCallInputDeltaEvent(ApiModel):
    """More of a custom tool's input."""

    type: Literal["response.custom_tool_call_input.delta"]
    """Always `response.custom_tool_call_input.delta`, like the event's name."""
    sequence_number: Annotated[StrictInt, Field(ge=1)]
    """Number of the event in its stream, from 1."""
    item_id: str
    """The item's id."""
    output_index: Annotated[StrictInt, Field(ge=0)]
    """Number of the item, from 0."""
    delta: str
    """What is new."""


class ResponseCustomToolCallInputDoneEvent(ApiModel):
    """A custom tool's input is complete."""

    type: Literal["response.custom_tool_call_input.done"]
    """Always `response.custom_tool_call_input.done`, like the event's name."""
    sequence_number: Annotated[StrictInt, Field(ge=1)]
    """Number of the event in its stream, from 1."""
    item_id: str
    """The item's id."""
    output_index: Annotated[StrictInt, Field(ge=0)]
    """Number of the item, from 0."""
    input: str
    """The whole text."""


class ResponseOutputItemDoneEvent(ApiModel):
    """An item is complete."""

    type: Literal["response.output_item.done"]
    """Always `response.output_item.done`, like the event's name."""
    sequence_number: Annotated[StrictInt, Field(ge=1)]
    """Number of the event in its stream, from 1."""
    output_index: Annotated[StrictInt, Field(ge=0)]
    """Number of the item, from 0."""
    item: ResponseItem


class ResponseCompletedEvent(ApiModel):
    """Last event of an answer that is complete."""

    type: Literal["response.completed"]
    """Always `response.completed`, like the event's name."""
    sequence_number: Annotated[StrictInt, Field(ge=1)]
    """Number of the event in its stream, from 1."""
    response: ResponseObject


class ResponseIncompleteEvent(ApiModel):
    """Last event of an answer for which no more tokens were allowed."""

    type: Literal["response.incomplete"]
    """Always `response.incomplete`, like the event's name."""
    sequence_number: Annotated[StrictInt, Field(ge=1)]
    """Number of the event in its stream, from 1."""
    response: ResponseObject


class ResponseFailedEvent(ApiModel):
    """Last event of an answer that failed."""

    type: Literal["response.failed"]
    """Always `response.failed`, like the event's name."""
    sequence_number: Annotated[StrictInt, Field(ge=1)]
    """Number of the event in its stream, from 1."""
    response: ResponseObject


class ResponseErrorEvent(ApiModel):
    """The answer fails; `response.failed` comes next."""

    type: Literal["error"]
    """Always `error`, like the event's name."""
    sequence_number: Annotated[StrictInt, Field(ge=1)]
    """Number of the event in its stream, from 1."""
    code: str | None
    """A word for programs; null when there is none."""
    message: str
    """Reason in plain words."""
    param: str | None
    """The field to blame; null when there is none."""
    request_id: str
    """The answer's id, to look for in the server's log."""


ResponseStreamEvent = TypeAliasType(
    "ResponseStreamEvent",
    Annotated[
        ResponseCreatedEvent
        | ResponseInProgressEvent
        | ResponseOutputItemAddedEvent
        | ResponseContentPartAddedEvent
        | ResponseOutputTextDeltaEvent
        | ResponseOutputTextDoneEvent
        | ResponseReasoningTextDeltaEvent
        | ResponseReasoningTextDoneEvent
        | ResponseContentPartDoneEvent
        | ResponseFunctionCallArgumentsDeltaEvent
        | ResponseFunctionCallArgumentsDoneEvent
        | ResponseCustomToolCallInputDeltaEvent
        | ResponseCustomToolCallInputDoneEvent
        | ResponseOutputItemDoneEvent
        | ResponseCompletedEvent
        | ResponseIncompleteEvent
        | ResponseFailedEvent
        | ResponseErrorEvent,
        ByTypeField,
    ],
)
"""Data of one event. Items follow one another, each from added to done, and so do the parts in an item."""


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
