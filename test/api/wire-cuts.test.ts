import assert from 'node:assert/strict';
import fc from 'fast-check';
import { textOf } from '../../core/content.ts';
import { ROUTES } from '../../api/routes.ts';
import { serve, type RunningApi } from '../../api/serve.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { sized } from '../support/size.ts';
import { acpClient } from '../support/wire/acp.ts';
import { agUiClient } from '../support/wire/ag-ui.ts';
import { aiClient } from '../support/wire/ai-chat.ts';
import { socketClient, sseClient } from '../support/wire/native.ts';
import { recordedServer } from '../support/wire/recorded-server.ts';
import { record, SCRIPTS, type Recording } from '../support/wire/recordings.ts';
import type { Cut, WireClient } from '../support/wire/wire-client.ts';

/** One line for each wire form: its own library's client. */
const CLIENTS: Record<string, () => WireClient> = {
  'the AI SDK': aiClient,
  'AG-UI': agUiClient,
  ACP: acpClient,
  'server-sent events': sseClient,
};

/** What a recorded log can stand in for, besides. */
const RECORDED_CLIENTS: Record<string, () => WireClient> = {
  ...CLIENTS,
  'ACP without a cursor': () => acpClient({ withCursor: false }),
  'the WebSocket of a session': socketClient,
};

/** Cuts of all forms together, and how many of a form go through two API servers. */
const MOST_CUTS = sized({ usual: 1200, nightly: 10_000 });
const OVER_NETWORK = sized({ usual: 4, nightly: 100 });

describe('a stream that is cut', function () {
  this.timeout(180_000);
  let api: ScriptedService;
  let other: RunningApi;
  let recordings: Recording[];
  let cuts = 0;

  before(async () => {
    api = await startScriptedService();
    other = await serve(api.context, ROUTES, { host: '127.0.0.1', port: 0 });
    recordings = (await Promise.all(SCRIPTS.map((script) => record(api, script)))).flat();
  });
  after(async () => {
    await other.close(1000);
    await api.close();
  });

  const placeOf = ({ agent, turn }: Recording) => ({ key: api.key, agent, thread: turn.threadId, run: turn.runId });

  for (const [name, open] of Object.entries(RECORDED_CLIENTS)) {
    it(`shows a client of ${name} what an uncut one shows, cut after every frame and at any byte`, async () => {
      const all = recordings.length * Object.keys(RECORDED_CLIENTS).length;
      for (const recording of recordings) {
        const { before } = recording;
        const { length } = recording.items;
        const whole = open();
        const server = recordedServer(recording, length);
        await whole.follow({ ...placeOf(recording), url: 'http://recorded', server });
        const state = whole.state();
        const shown = JSON.stringify(state).replaceAll(JSON.stringify(recording.message).slice(1, -1), '');
        assert.ok(
          unquoted(shown).includes(unquoted(answerOf(recording))),
          `${name} has not all of ${recording.message}`,
        );
        const ends = endsOf(server.sizes);
        // After each frame, of a turn that is over and of one that goes on meanwhile; then anywhere, twice.
        const places = [before, length].flatMap((now) => ends.map((bytes) => ({ now, bytes, again: undefined })));
        const anywhere = fc.record({
          now: fc.integer({ min: before, max: length }),
          bytes: fc.nat(ends.at(-1) ?? 0),
          again: fc.record({ later: fc.nat(length), bytes: fc.nat(ends.at(-1) ?? 0) }),
        });
        const more = fc.sample(anywhere, Math.max(2, Math.ceil((MOST_CUTS / all - places.length) / 2)));
        for (const { now, bytes, again } of [...places, ...more]) {
          const client = open();
          const first = await cutOff(client, recording, { now, bytes });
          if (again) await cutOff(client, recording, { now: Math.max(first, again.later), bytes: again.bytes });
          await client.follow({
            ...placeOf(recording),
            url: 'http://recorded',
            server: recordedServer(recording, length),
          });
          const where = `${recording.message.slice(0, 80)}: ${JSON.stringify({ now, bytes, again })}`;
          assert.deepEqual(client.state(), state, where);
        }
      }
    });
  }

  for (const [name, open] of Object.entries(CLIENTS)) {
    it(`shows a client of ${name} that watches a turn what one is shown that comes later`, async () => {
      for (const recording of recordings.filter(isWhole)) {
        const { before, items, message } = recording;
        const at = { ...placeOf(recording), url: 'http://recorded' };
        const [watching, late] = [open(), open()];
        await watching.follow({ ...at, server: recordedServer(recording, before) });
        await late.follow({ ...at, server: recordedServer(recording, items.length) });
        assert.deepEqual(withoutVoid(watching.state()), late.state(), `${name}: ${message.slice(0, 80)}`);
      }
    });
  }

  it('has come to the message that a page of the AI SDK is given after a reload', async () => {
    for (const recording of recordings) {
      const { turn, items, message } = recording;
      const client = aiClient();
      const server = recordedServer(recording, items.length);
      await client.follow({ ...placeOf(recording), url: 'http://recorded', server });
      const { json } = await api.call('GET', `/v1/threads/${turn.threadId}/ui-messages`);
      const shown = json.messages.filter(({ id }: { id: string }) => id === turn.turnId);
      const streamed = JSON.parse(JSON.stringify(client.state()));
      const compared = (isOver(recording) ? [shown, streamed] : [withoutStatus(shown), withoutStatus(streamed)]).map(
        withoutDecided,
      );
      assert.deepEqual(compared[0], compared[1], message.slice(0, 80));
    }
  });

  it('is made of calls, too, that are written piece by piece, and begun anew', () => {
    const ids = (items: Recording['items']) => items.flatMap((item) => (item.kind === 'call_piece' ? item.callId : []));
    const told = recordings.map(({ items }) => ids(items));
    const isKnown = ({ items }: Recording, id: string) => JSON.stringify(items.filter(isLogged)).includes(id);
    const [written, calls] = [told.flat().length, new Set(told.flat()).size];
    assert.ok(calls > 20 && written > 3 * calls, `${written} pieces of ${calls} calls`);
    const withdrawn = recordings.filter((recording) => ids(recording.items).some((id) => !isKnown(recording, id)));
    assert.ok(withdrawn.length >= 3, `${withdrawn.length} turns have begun a call anew`);
  });

  /** Follows up to a cut; how much had happened by then. */
  async function cutOff(client: WireClient, recording: Recording, at: { now: number } & Cut): Promise<number> {
    const server = recordedServer(recording, at.now);
    await client.follow({ ...placeOf(recording), url: 'http://recorded', server, cut: { bytes: at.bytes } });
    cuts += 1;
    return server.told();
  }

  it('was cut often enough', () => {
    assert.ok(cuts >= MOST_CUTS, `${cuts} cuts`);
  });

  for (const [name, open] of Object.entries(CLIENTS)) {
    it(`is gone on with by a client of ${name} on another server`, async () => {
      const over = recordings.filter(({ items }) =>
        items.some((item) => item.kind === 'logged' && item.event.type.startsWith('run.completed')),
      );
      const place = fc.record({ log: fc.nat(over.length - 1), bytes: fc.nat(4000), again: fc.nat(4000) });
      const property = fc.asyncProperty(place, async ({ log, bytes, again }) => {
        const recording = over[log];
        assert.ok(recording);
        const [whole, client] = [open(), open()];
        const at = placeOf(recording);
        await whole.follow({ ...at, url: api.url });
        await client.follow({ ...at, url: api.url, cut: { bytes } });
        await client.follow({ ...at, url: other.url, cut: { bytes: again } });
        await client.follow({ ...at, url: other.url });
        assert.deepEqual(client.state(), whole.state());
        cuts += 2;
      });
      await fc.assert(property, { numRuns: OVER_NETWORK });
    });
  }
});

const isLogged = (item: Recording['items'][number]) => item.kind === 'logged';

function isOver({ items }: Recording): boolean {
  return items.some((item) => item.kind === 'logged' && /^turn\.(completed|failed|interrupted)$/.test(item.event.type));
}

/** A turn that waits may have come to another status since it was recorded. */
function withoutStatus(messages: { metadata?: { status?: string } }[]) {
  return messages.map(({ metadata, ...message }) => ({ ...message, metadata: { ...metadata, status: undefined } }));
}

/** The stream has no decisions on approvals, and a reloaded page no approvals of calls that have gone on. */
function withoutDecided<M extends object>(messages: (M & { parts?: object[] })[]) {
  return messages.map(({ parts = [], ...message }) => {
    const kept = parts.map((part) =>
      'state' in part && part.state !== 'approval-requested' ? { ...part, approval: undefined } : part,
    );
    return { ...message, parts: kept };
  });
}

/** Whether it is one stream to its end, which has all that was written meanwhile: the turn was not broken off, and asked nothing on the way. */
function isWhole({ items }: Recording): boolean {
  const breaks = /^(turn\.(failed|interrupted)|approval\.(granted|denied))$/;
  return !items.some((item) => item.kind === 'logged' && breaks.test(item.event.type));
}

/** What a client of the AI SDK was shown of attempts that are void stays where it was shown, and says so. */
function withoutVoid(state: unknown): unknown {
  const isVoid = (part: object) => /"drover":\{"void":true\}/.test(JSON.stringify(part));
  if (!isMessages(state)) return state;
  return state.map((message) => ({ ...message, parts: message.parts.filter((part) => !isVoid(part)) }));
}

function isMessages(state: unknown): state is { parts: object[] }[] {
  return Array.isArray(state) && state.every((message: { parts?: unknown }) => Array.isArray(message.parts));
}

/** A text that is JSON is quoted anew wherever it is told. */
const unquoted = (text: string) => text.replaceAll(/["\\]/g, '');

/** What the turn has said at its end; nothing where it has no answer. */
function answerOf({ items }: Recording): string {
  const events = items.flatMap((item) => (item.kind === 'logged' ? [item.event] : []));
  if (!events.some(({ type }) => type === 'turn.completed')) return '';
  return textOf(events.findLast(({ type }) => type === 'model.responded')?.content ?? []);
}

/** Where each frame ends. */
function endsOf(sizes: readonly number[]): number[] {
  let sum = 0;
  return sizes.map((size) => (sum += size));
}
