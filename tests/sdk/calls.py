"""One call of each main route with the generated Python client; the address is the argument."""

from __future__ import annotations

import sys

from mashbox_client import AuthenticatedClient, Client
from mashbox_client.api.generation import (
    count_tokens,
    create_chat_completion,
    create_completion,
    create_message,
    create_response,
)
from mashbox_client.api.models import get_model, list_models
from mashbox_client.api.server import get_health_short, get_openapi
from mashbox_client.models import (
    AnthropicError,
    ChatCompletion,
    ChatCompletionRequest,
    ChatMessage,
    Completion,
    CompletionRequest,
    CountTokensRequest,
    ErrorBody,
    Health,
    Message,
    MessageParam,
    MessagesRequest,
    Model,
    ModelList,
    OpenApiDocument,
    OutputMessage,
    ResponseObject,
    ResponsesRequest,
    TextBlock,
    TokenCount,
)

client = AuthenticatedClient(base_url=sys.argv[1], token="none", raise_on_unexpected_status=True)
user = [MessageParam(role="user", content="Hi")]

health = get_health_short.sync(client=Client(base_url=sys.argv[1]))
assert isinstance(health, Health) and health.status == "ok", health
models = list_models.sync(client=client)
assert isinstance(models, ModelList), models
assert isinstance(get_model.sync(models.data[0].id, client=client), Model)
assert isinstance(get_openapi.sync(client=client), OpenApiDocument)

asked = ChatCompletionRequest(messages=[ChatMessage(role="user", content="Hi")])
chat = create_chat_completion.sync(client=client, body=asked)
assert isinstance(chat, ChatCompletion), chat
assert chat.choices[0].finish_reason == "stop" and chat.choices[0].message.content
completion = create_completion.sync(client=client, body=CompletionRequest(prompt="Hi"))
assert isinstance(completion, Completion) and completion.choices[0].text, completion

message = create_message.sync(client=client, body=MessagesRequest(messages=user, max_tokens=99))
assert isinstance(message, Message) and message.stop_reason == "end_turn", message
assert isinstance(message.content[-1], TextBlock) and message.content[-1].text
count = count_tokens.sync(client=client, body=CountTokensRequest(messages=user))
assert isinstance(count, TokenCount) and count.input_tokens > 0, count

response = create_response.sync(client=client, body=ResponsesRequest(input_="Hi"))
assert isinstance(response, ResponseObject) and response.status == "completed", response
assert isinstance(response.output[-1], OutputMessage)

asked.temperature = 99.0
refused = create_chat_completion.sync_detailed(client=client, body=asked)
assert refused.status_code == 400 and isinstance(refused.parsed, ErrorBody)
assert refused.parsed.error.param == "temperature", refused.parsed
wrong = create_message.sync(client=client, body=MessagesRequest(messages=[], max_tokens=1))
assert isinstance(wrong, AnthropicError) and wrong.error.type_ == "invalid_request_error", wrong
print("all calls made")
