/** Whoever changes a session's run and the session holds the run first. Its subject is the order of locks. */
import assert from 'node:assert/strict';
import { DEFAULT_TENANT_ID } from '../../modules/tenants/bootstrap.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { sessionsWaitingIn } from '../support/queries/postgres.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('Deleting a session', () => {
  let api: ScriptedService;
  before(async function () {
    if (DOMAIN_MODE === 'embedded') return this.skip();
    api = await startScriptedService();
  });
  after(() => api?.close());

  interface Waiting {
    session_id: string;
    plan_id: string;
    run_id: string;
  }
  /** A session at level 0 with the plan that it waits with. */
  const propose = async (): Promise<Waiting> => {
    const message = 'call calculator {"expression":"6*7"} | say done';
    const body = { message, user_id: 'ada', agent_id: await api.newAgent(), autonomy_level: 0 };
    const { session_id } = (await api.call('POST', '/agent/chat', { body })).json;
    const read = async () => (await api.call('GET', `/agent/session/${session_id}`)).json;
    await waitUntil('a plan waits', async () => (await read()).status === 'waiting_approval');
    const { run_id, pending_plan } = await read();
    return { session_id, plan_id: pending_plan.plan_id, run_id };
  };
  /** Runs `work` while its run is held; all that waits for the run then goes on in the order in which it came. */
  async function whileHeld(run: string, work: (waiting: (many: number) => Promise<void>) => Promise<void>) {
    const { db } = api.context;
    const waiting = async (many: number) => {
      const found = () => sessionsWaitingIn(db, 'from runs r where id = $1 for update');
      await waitUntil(`${many} wait for the run`, async () => (await found()).length === many);
    };
    await db.withTenant(DEFAULT_TENANT_ID, async (tx) => {
      await tx.query('select from runs where id = $1 for update', [run]);
      await work(waiting);
    });
  }
  const remove = ({ session_id }: Waiting) => api.call('DELETE', `/agent/session/${session_id}`);

  it('holds the run before the session, as do decisions', async () => {
    const session = await propose();
    const { db } = api.context;
    let removed: ReturnType<typeof remove> | undefined;
    await whileHeld(session.run_id, async (waiting) => {
      removed = remove(session);
      await waiting(1);
      await db.withTenant(DEFAULT_TENANT_ID, (tx) =>
        tx.query('select from sessions where id = $1 for update nowait', [session.session_id]),
      );
    });
    assert.equal((await removed)?.status, 200);
  });

  for (const what of ['execute', 'reject', 'interrupt'])
    it(`goes through beside ${what}, and so does that`, async () => {
      const session = await propose();
      const { session_id, plan_id } = session;
      const body = { session_id, ...(what !== 'interrupt' && { plan_id }) };
      let both: Promise<{ status: number; text: string }[]> | undefined;
      await whileHeld(session.run_id, async (waiting) => {
        const deciding = api.call('POST', `/agent/${what}`, { body });
        await waiting(1);
        both = Promise.all([deciding, remove(session)]);
        await waiting(2);
      });
      const answers = (await both) ?? [];
      assert.deepEqual(
        answers.map(({ status }) => status < 300),
        [true, true],
        JSON.stringify(answers.map(({ text }) => text)),
      );
    });
});
