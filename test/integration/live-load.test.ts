/** What people watch, under load: WebSockets of sessions at two APIs, and messages beside them. Nothing is lost, shown twice or refused. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { startInstallation, type Installation } from '../support/installation.ts';
import { createAgent } from '../support/runs.ts';
import { MODES } from '../support/modes.ts';
import { sized } from '../support/size.ts';
import { waitUntil } from '../support/wait-until.ts';

const { sockets: SOCKETS, seconds: SECONDS } = sized({
  usual: { sockets: 50, seconds: 3 },
  nightly: { sockets: 1000, seconds: 180 },
});
/** Several clients watch each session, at either API. */
const SESSIONS = SOCKETS / 5;
const MESSAGES_PER_SECOND = 5;
/** So many open at the same time. */
const AT_ONCE = 50;
/** How long their cost is measured. */
const IDLE_MS = 2000;
const MOST_MEMORY_MB = 600;

interface Watcher {
  session: number;
  answers: number;
  faults: string[];
  socket: WebSocket;
}

if (MODES.includes('full')) {
  describe(`${SOCKETS} WebSockets and ${MESSAGES_PER_SECOND * 60} messages a minute, for ${SECONDS} s`, function () {
    this.timeout(SECONDS * 1000 + 240_000);
    let drover: Installation;
    let agent: string;
    const sessions: string[] = [];
    const watchers: Watcher[] = [];
    before(async () => {
      drover = await startInstallation('full');
      await drover.start('api-2');
      agent = await createAgent(drover);
      for (let n = 0; n < SESSIONS; n++) sessions.push(await chat({ agent_id: agent, user_id: `user ${n}` }));
      await waitUntil('all sessions have answered', async () => {
        const read = sessions.map((id) => drover.call('GET', `/agent/session/${id}`));
        return (await Promise.all(read)).every(({ json }) => json.status === 'completed');
      });
    });
    after(async () => {
      for (const { socket } of watchers) socket.terminate();
      await drover?.close();
    });

    async function chat(body: Record<string, unknown>): Promise<string> {
      const answer = await drover.call('POST', '/agent/chat', { body: { message: 'say yes', ...body } });
      assert.equal(answer.status, 202, answer.text);
      return answer.json.session_id;
    }

    it('open, and cost nothing while nothing happens', async () => {
      for (let n = 0; n < SOCKETS; n += AT_ONCE) {
        const next = Array.from({ length: AT_ONCE }, (_, more) => n + more);
        const opened = next.map((each) => watch(each % SESSIONS, each % 2 === 0 ? 'api' : 'api-2'));
        watchers.push(...(await Promise.all(opened)));
      }
      const before = await used();
      await delay(IDLE_MS);
      const after = await used();
      const cpu = (after.cpuSeconds - before.cpuSeconds) / (IDLE_MS / 1000);
      print(`two APIs with ${SOCKETS} idle WebSockets take ${(cpu * 100).toFixed(1)} % of a core`, after);
      // Looking for each of them, every few seconds, would take several cores.
      assert.ok(cpu < 0.5, `${cpu} cores`);
    });

    it('show each answer to all who watch, once, and none breaks off', async () => {
      const said = sessions.map(() => 0);
      const posted: Promise<string>[] = [];
      for (let n = 0; n < SECONDS * MESSAGES_PER_SECOND; n++) {
        const session = n % SESSIONS;
        said[session] = (said[session] ?? 0) + 1;
        posted.push(chat({ session_id: sessions[session], user_id: `user ${session}` }));
        // The load is one of so many a minute.
        await delay(1000 / MESSAGES_PER_SECOND);
      }
      await Promise.all(posted);
      const isTold = ({ session, answers, faults }: Watcher) => answers === said[session] || faults.length > 0;
      await waitUntil('every answer has been shown', () => watchers.every(isTold));
      print(
        `${posted.length} messages, shown ${watchers.reduce((sum, { answers }) => sum + answers, 0)} times`,
        await used(),
      );
      assert.deepEqual(
        watchers.flatMap(({ faults }) => faults),
        [],
      );
      assert.ok(watchers.every(({ socket }) => socket.readyState === socket.OPEN));
      const { memoryMb } = await used();
      assert.ok(memoryMb < MOST_MEMORY_MB, `${memoryMb} MB`);
    });

    async function watch(session: number, at: string): Promise<Watcher> {
      const url = `${drover.url(at).replace('http', 'ws')}/agent/stream/${sessions[session]}`;
      const socket = new WebSocket(url, { headers: { authorization: `Bearer ${drover.key}` } });
      const watcher: Watcher = { session, answers: 0, faults: [], socket };
      let last = 0;
      socket.on('message', (data: Buffer) => {
        const { type, seq } = JSON.parse(data.toString()) as { type: string; seq?: number };
        if (seq !== undefined && seq <= last) watcher.faults.push(`${type} at ${seq} after ${last}`);
        last = seq ?? last;
        if (type === 'completed') watcher.answers += 1;
        if (type === 'error' || type === 'completed_with_errors') watcher.faults.push(type);
      });
      socket.on('close', (code) => watcher.faults.push(`closed with ${code}`));
      await new Promise((resolve, reject) => {
        socket.once('open', resolve);
        socket.once('error', reject);
      });
      socket.on('error', ({ message }) => watcher.faults.push(message));
      return watcher;
    }

    /** CPU of both APIs so far, and the memory of the one that has more. */
    async function used(): Promise<{ cpuSeconds: number; memoryMb: number }> {
      const texts = ['api', 'api-2'].map(async (name) => (await fetch(`${drover.url(name)}/metrics`)).text());
      const found = (await Promise.all(texts)).map((text) => ({
        cpu: valueOf(text, 'drover_process_cpu_seconds_total'),
        memory: valueOf(text, 'drover_process_resident_memory_bytes'),
      }));
      return {
        cpuSeconds: found.reduce((sum, { cpu }) => sum + cpu, 0),
        memoryMb: Math.max(...found.map(({ memory }) => memory)) / 1024 / 1024,
      };
    }
  });
}

function valueOf(metrics: string, name: string): number {
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(metrics)?.[1]);
}

function print(what: string, { memoryMb }: { memoryMb: number }): void {
  console.log(`      ${what}; an API has ${memoryMb.toFixed(0)} MB`);
}
