import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { runInThisContext } from 'node:vm';
import type { HttpAgent } from '@ag-ui/client';
import { ROOT } from '../support/repository.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { lastTextOf, openAgUi, sayTo } from '../support/wire/ag-ui.ts';

describe('an interrupt of AG-UI', () => {
  let api: ScriptedService;
  let agent: string;

  before(async () => {
    api = await startScriptedService();
    agent = await api.newAgent(undefined, { autonomy_level: 2 });
  });
  after(() => api.close());

  const open = ({ of = agent, thread = randomUUID() } = {}) =>
    openAgUi({ url: api.url, key: api.key, agent: of, thread });

  it('is answered as its page says, by `resume` alone on an agent that was told of the interrupts', async () => {
    const page = readFileSync(new URL('docs/wire-forms.md', ROOT), 'utf8');
    const [, sample = ''] = /```ts\n(const resume[^]*?)```/.exec(page) ?? [];
    const names = 'agent, mayBeDone, askUser, resultOf';
    const answer = runInThisContext(`(async (${names}) => {${sample.replaceAll(' as const', '')}})`);
    const answerAll = (client: HttpAgent) =>
      answer(
        client,
        () => true,
        () => 'ten',
        () => ({ clicked: true }),
      );
    const decided = open({ of: await api.newAgent(undefined, { autonomy_level: 0 }) });
    await sayTo(decided, 'call calculator {"expression":"6*7"} | say done');
    await answerAll(decided);
    assert.deepEqual([decided.pendingInterrupts, lastTextOf(decided)], [[], 'done']);
    const client = open();
    await sayTo(client, 'call ask_user {"question":"How much?"} & confirm {"what":"a"}');
    const [, toolCallId = ''] = client.pendingInterrupts.map(({ id }) => id);
    const before = client.messages;
    for (const said of [
      { role: 'user' as const, content: 'ten' },
      { role: 'tool' as const, toolCallId, content: 'yes' },
    ]) {
      client.addMessage({ id: randomUUID(), ...said });
      await assert.rejects(client.runAgent(), /pending interrupt\(s\) not addressed by resume/);
      client.setMessages(before);
    }
    await answerAll(client);
    assert.deepEqual(client.pendingInterrupts, []);
    const results = client.messages.flatMap(({ role, content }) => (role === 'tool' ? [content] : []));
    assert.match(JSON.stringify(results), /ten.*clicked|clicked.*ten/);
  });

  it('is answered by a message, or by a result, from an agent that was told of no interrupt', async () => {
    const answers = {
      'ask_user {"question":"How much?"}': () => ({ role: 'user' as const, content: 'ten' }),
      'confirm {"what":"a"}': (toolCallId: string) => ({ role: 'tool' as const, toolCallId, content: 'ten' }),
    };
    for (const [call, answer] of Object.entries(answers)) {
      const thread = randomUUID();
      const client = open({ thread });
      await sayTo(client, `call ${call}`);
      const again = open({ thread });
      again.setMessages(client.messages);
      again.addMessage({ id: randomUUID(), ...answer(client.pendingInterrupts[0]?.id ?? '') });
      await again.runAgent();
      assert.deepEqual(again.pendingInterrupts, []);
      assert.match(JSON.stringify(lastTextOf(again)), /ten/);
    }
  });
});
