// One call of each main route with the generated TypeScript client; the address is the argument.
import {
  countTokens,
  createChatCompletion,
  createCompletion,
  createMessage,
  createResponse,
  getHealthShort,
  getModel,
  getOpenapi,
  listModels,
  type AnthropicError,
  type ChatMessage,
  type ErrorBody,
  type MessageParam,
  type MessageStreamEvent,
  type StopReason,
} from './mashbox-client';
import { createClient } from './mashbox-client/client';

declare const process: { argv: string[]; exitCode: number };

const client = createClient({ baseUrl: process.argv[2]! });
const messages: [ChatMessage, ...ChatMessage[]] = [{ role: 'user', content: 'Hi' }];
const user: MessageParam[] = [{ role: 'user', content: 'Hi' }];

function check(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
}

async function state(): Promise<void> {
  const health = await getHealthShort({ client });
  check(health.data?.status === 'ok', 'health');
  const models = await listModels({ client });
  const id: string = models.data!.data[0]!.id;
  check((await getModel({ client, path: { model: id } })).data?.id === id, 'model');
  check((await getOpenapi({ client })).data?.openapi === '3.1.1', 'openapi');
}

async function answers(): Promise<void> {
  const chat = await createChatCompletion({ client, body: { messages } });
  check(chat.data?.choices[0].finish_reason === 'stop', 'chat');
  const completion = await createCompletion({ client, body: { prompt: 'Hi' } });
  check(completion.data?.choices[0]?.text !== '', 'completion');

  const message = await createMessage({ client, body: { messages: user, max_tokens: 99 } });
  const why: StopReason | null | undefined = message.data?.stop_reason;
  check(why === 'end_turn', 'message');
  const block = message.data!.content.at(-1);
  check(block?.type === 'text' && block.text !== '', 'text block');
  const count = await countTokens({ client, body: { messages: user } });
  check(count.data!.input_tokens > 0, 'token count');

  const response = await createResponse({ client, body: { input: 'Hi' } });
  const item = response.data!.output.at(-1);
  check(item?.type === 'message' && item.status === 'completed', 'response');
}

async function stream(): Promise<void> {
  const { stream } = await client.sse.post<MessageStreamEvent>({
    url: '/v1/messages',
    headers: { 'Content-Type': 'application/json' },
    body: { messages: user, max_tokens: 99, stream: true },
    sseMaxRetryAttempts: 1,
  });
  let text = '';
  let last = '';
  for await (const event of stream as AsyncIterable<MessageStreamEvent>) {
    if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') text += event.delta.text;
    last = event.type;
  }
  check(text !== '' && last === 'message_stop', 'stream');
}

async function errors(): Promise<void> {
  const refused = await createChatCompletion({ client, body: { messages, temperature: 99 } });
  const error: ErrorBody | undefined = refused.error;
  check(refused.response?.status === 400 && error?.error.param === 'temperature', 'error');
  const wrong = await createMessage({ client, body: { messages: [], max_tokens: 1 } });
  const other: AnthropicError | undefined = wrong.error;
  check(other?.error.type === 'invalid_request_error', 'error of Messages');
}

async function main(): Promise<void> {
  await state();
  await answers();
  await stream();
  await errors();
  console.log('all calls made');
}

main().catch((error: unknown) => {
  console.log(error);
  process.exitCode = 1;
});
