import assert from 'node:assert/strict';
import { EVENT_TYPES } from '../../core/events.ts';
import { TRACED_TYPES } from '../../core/spans/turn-spans.ts';
import { newId } from '../../lib/new-id.ts';
import { listAwaitedAgents } from '../../db/agent-lifecycle.ts';
import { findDeprecatedAgent, listAgents, listAgentVersions } from '../../db/agents.ts';
import { listApiKeys } from '../../db/api-keys.ts';
import { listAgentTurns, listThreadTurns } from '../../db/conversations.ts';
import {
  findHandedTurns,
  listSteppedTurns,
  listTurnModelCalls,
  listTurnExtents,
  listTurnFiles,
  listTurnMessages,
} from '../../db/turn-contents.ts';
import { countWaiting, listFailedTurns, readOwnUsage, readQueueStates, readUsage } from '../../db/dashboard.ts';
import { listAuditRows } from '../../db/audit.ts';
import { listLearnedAfter, listReportedCorrupt } from '../../db/checkpoints.ts';
import { findPageEnd } from '../../db/messages.ts';
import type { Database, Tx } from '../../db/database.ts';
import { findExecutingCallBatch } from '../../db/call-batches.ts';
import { ERASERS, markThreadErased, findDependents } from '../../db/erasure.ts';
import { findPayer } from '../../db/embedding-payers.ts';
import { listEvents, listFollowedEvents, readEvents } from '../../db/events.ts';
import { findContextAt, findGivenMemories, findLengthSent } from '../../db/replay.ts';
import { hasReadUntrusted, hasUnread } from '../../db/unread.ts';
import { findDueExtraction } from '../../db/memory-extractions.ts';
import { listRecordedAnswers, listRecordedCalls, listRecordedNodes } from '../../db/replay.ts';
import { findRuns, findUnfinished, listRunIds, listRuns } from '../../db/runs.ts';
import { lastMessages } from '../../db/session-messages.ts';
import { listSteering } from '../../db/steering.ts';
import {
  findFollowedRuns,
  findLastNodeType,
  findSessionHeads,
  findTurnStart,
  readSessionState,
} from '../../db/sessions.ts';
import { isFileOfThread, listFilesOfFork } from '../../db/files.ts';
import { isCallOfThread } from '../../db/fork-beginning.ts';
import { readBeginnings } from '../../db/thread-beginnings.ts';
import { listPartsOfOthers } from '../../db/thread-parts.ts';
import { listFirstTurns, lockThreadsDownTo, setTitles } from '../../db/threads.ts';
import { claimDueActs } from '../../db/maintenance-acts.ts';
import { takeDueWebhooks } from '../../db/webhooks.ts';
import { findTools, listTools } from '../../db/tools.ts';
import { listEffectsOfTasks, tokensOfTask } from '../../db/task-effects.ts';
import { listFittingTasks } from '../../db/fitting-tasks.ts';
import { readTracedTurn } from '../../db/traced-turns.ts';
import { listLastTurns, listTurns } from '../../db/turns.ts';
import { readKeptSignalBytes } from '../../db/signals.ts';
import { openTestDatabase, type TestDatabase } from '../support/database.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { fillTables, idsOf } from '../support/queries/fill.ts';
import { explaining, planOf, plansOf as neverFullPlansOf } from '../support/queries/postgres.ts';
import { sized } from '../support/size.ts';

const ROWS = sized({ usual: 20_000, nightly: 100_000 });
const limit = 51;
const LARGE = [
  'agent_versions',
  'agents',
  'api_keys',
  'audit_log',
  'due_titles',
  'own_model_calls',
  'runs',
  'threads',
  'tool_calls',
  'tool_versions',
  'tools',
  'turns',
  'usage_daily',
  'waits',
  'webhook_deliveries',
  'webhooks',
];

describe(`the queries behind lists, at ${ROWS} rows`, () => {
  const tenant = newId();
  const workspace = newId();
  let testDatabase: TestDatabase;
  let agent: string;
  const tracedTurn = () => ({ runId: agent, turnId: middle, after: 0, seq: 9, types: TRACED_TYPES });

  before(async () => {
    testDatabase = await openTestDatabase(DOMAIN_MODE);
    const { database } = testDatabase;
    await fillTables(database, { tenant, workspace }, async (run) => {
      const series = `from generate_series(1, ${ROWS}) as i`;
      await run(`insert into tenants (id, name) values ($tenant, 't')`);
      await run(`insert into workspaces (id, tenant_id, name) values ($workspace, $tenant, 'w')`);
      await run(`insert into api_keys (id, tenant_id, name, key_hash, scopes)
        select ${idsOf('k')}, $tenant, 'k', sha256(i::text::bytea), '{admin}' ${series}`);
      await run(`insert into agents (id, tenant_id, workspace_id, name, status, current_version)
        select ${idsOf('a')}, $tenant, $workspace, 'a', 'active', '1.0.0' ${series}`);
      await run(`insert into agent_versions (agent_id, version, ordinal, tenant_id, definition, content_hash)
        select ${idsOf('a')}, '1.0.0', 1, $tenant, '{}', '' ${series}`);
      await run(`insert into tools (id, tenant_id, name, status, current_version)
        select ${idsOf('t')}, $tenant, 't' || i, 'registered', '1.0.0' ${series}`);
      await run(`insert into tool_versions (tool_id, version, ordinal, tenant_id, definition, content_hash)
        select ${idsOf('t')}, '1.0.0', 1, $tenant, '{"permissions": []}', '' ${series}`);
      await run(`insert into runs (id, tenant_id, workspace_id, agent_id, agent_version, thread_id, kind, status, turn_count, config,
          pinned, keep_open, lineage, lineage_base, base_length, length, steps, tokens_in, tokens_out, depth, created_at,
          updated_at, last_seq, fence, dormant, rolled_up)
        select ${idsOf('r')}, $tenant, $workspace, ${idsOf('a')}, '1.0.0', ${idsOf('h')}, 'agent', 'completed', 1, '{}',
          '{}', false, ${idsOf('r')}, '[]', 0, 2, 1, 0, 0, 0, now(), now(), 9, 1, true, i % 200 <> 0 ${series}`);
      await run(`insert into turns (id, tenant_id, run_id, number, status, input, steps, tokens_in, tokens_out, created_at, completed_at, started_seq,
          failed_agent_id, agent_id)
        select ${idsOf('u')}, $tenant, ${idsOf('r')}, 1, case when i % 50 = 0 then 'failed' else 'complete' end, '{"message": "m"}', 1, 0, 0,
          now() - i * interval '1 minute', now() - i * interval '1 minute', 2, case when i % 50 = 0 then ${idsOf('a')} end, case when i % 2 = 0 then ${idsOf('a')} end ${series}`);
      await run(`insert into usage_daily (tenant_id, workspace_id, agent_id, day, kind, name, count, failed, turns, steps, tokens_in,
          tokens_out, cost_usd, duration_ms)
        select $tenant, $workspace, ${idsOf('a')}, current_date - i % 365, 'run', 'completed', 1, 0, 1, 1, 1, 1, 0, 1 ${series}`);
      await run(`insert into audit_log (id, tenant_id, action, actor_type, actor_id, target_type)
        select ${idsOf('l')}, $tenant, 'agent.created', 'api_key', ${idsOf('k')}, 'agent' ${series}`);
      await run(`insert into own_model_calls (id, tenant_id, workspace_id, purpose, provider, model, state, created_at)
        select ${idsOf('o')}, $tenant, $workspace, 'title', 'p', 'm', 'settled', now() - i % 365 * interval '1 day' ${series}`);
      await run(`insert into tool_calls (id, tenant_id, run_id, turn_id, step, place, tool_use_id, name, mode, arguments, effect,
          idempotency_key, status, attempt, created_at)
        select ${idsOf('c')}, $tenant, ${idsOf('r')}, ${idsOf('u')}, 1, 0, 'u', 't', 'queued', '{}', 'unknown', i,
          case when i % 200 = 0 then 'pending' else 'succeeded' end, 1, now() ${series}`);
      await run(`insert into webhooks (id, tenant_id, url, events, status)
        select ${idsOf('w')}, case when i <= 20 then $tenant else ${idsOf('x')} end, 'u', '{}', 'active' ${series}`);
      await run(`insert into webhook_deliveries (id, tenant_id, webhook_id, type, status)
        select ${idsOf('d')}, $tenant, md5('w' || i % 20 + 1)::uuid, 't',
          case when i % 200 = 0 then 'pending' else 'delivered' end ${series}`);
      await run(`insert into due_titles (thread_id, tenant_id, due_at)
        select ${idsOf('h')}, case when i % 200 = 0 then $tenant else ${idsOf('x')} end, now() ${series}`);
      await run(`insert into threads (id, tenant_id, workspace_id, agent_id, created_at)
        select ${idsOf('h')}, $tenant, $workspace, ${idsOf('a')}, now() ${series}`);
      await run(`insert into waits (id, tenant_id, run_id, turn_id, type, until, created_at, closed_at)
        select ${idsOf('c')}, $tenant, ${idsOf('r')}, ${idsOf('u')}, 'user', now(), now(), now() ${series}`);
      await run(`insert into run_log (run_id, seq, tenant_id, workspace_id, type, schema_version, payload, actor, turn_id, occurred_at)
        select ${idsOf('r')}, 2, $tenant, $workspace, 'turn.started', 1, '{}', 'user', ${idsOf('u')}, now() ${series}`);
    });
    const { rows } = await database.asOwner((client) => client.query<{ id: string }>(`select md5('a1')::uuid as id`));
    agent = rows[0]?.id ?? '';
  });
  after(() => testDatabase.close());

  /** The plan of every statement that `list` runs. */
  const plansOf = async (list: (tx: Tx) => Promise<unknown>): Promise<string> => {
    const plans: string[] = [];
    await testDatabase.database.withTenant(tenant, async (tx) => {
      const explain = async <R extends object>(text: string, values?: readonly unknown[]): Promise<R[]> => {
        const rows = await tx.query<{ 'QUERY PLAN': string }>(`explain ${text}`, values);
        plans.push(rows.map((row) => row['QUERY PLAN']).join('\n'));
        // How many events fit on a page is asked first.
        const page = { last: 99, last_commit: 99, has_more: false };
        return (
          /events_page|as result|as named/.test(text) ? [{ id: agent, result: page, page, named: true }] : []
        ) as R[];
      };
      await list({ query: explain, last: explain });
    });
    return plans.join('\n\n');
  };

  const middle = '80000000-0000-4000-8000-000000000000';
  const day = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10);
  const owner = { tenantId: tenant, workspaceId: workspace };
  const week = { ...owner, from: day(7), to: day(-1), kinds: ['run', 'model', 'tool'] as const };
  const lists: Record<string, (tx: Tx) => Promise<unknown>> = {
    'agents, first page': (tx) => listAgents(tx, { workspaceId: workspace, limit }),
    'agents, a later page': (tx) => listAgents(tx, { workspaceId: workspace, before: middle, limit }),
    'the last deprecated agent of a name': (tx) => findDeprecatedAgent(tx, workspace, 'a'),
    'versions of an agent': (tx) => listAgentVersions(tx, { agentId: agent, before: 5, limit }),
    'tools, first page': (tx) => listTools(tx, { limit }),
    'tools, a later page': (tx) => listTools(tx, { before: middle, limit }),
    'tools of a name': (tx) => listTools(tx, { name: 't77', limit }),
    'tools by ids and names': (tx) => findTools(tx, ['t77', 't78', middle]),
    'runs, first page': (tx) => listRuns(tx, { limit }),
    'runs, a later page': (tx) => listRuns(tx, { workspaceId: workspace, before: middle, limit }),
    'runs of an agent, first page': (tx) => listRuns(tx, { agentId: agent, limit }),
    'runs to retry': (tx) => listRunIds(tx, { workspaceId: workspace, status: ['failed'], isRetryable: true, limit }),
    'runs of states': (tx) => listRuns(tx, { status: ['executing', 'planning'], limit }),
    'conversations of a thread': (tx) => listThreadTurns(tx, { id: agent, is_forked: false }, { limit }),
    'conversations of the thread of a fork': (tx) =>
      listThreadTurns(tx, { id: agent, is_forked: true }, { keyId: middle, limit }),
    'how the conversations of threads begin': (tx) => readBeginnings(tx, [agent, middle]),
    'what a thread shows of others': (tx) => listPartsOfOthers(tx, agent),
    'whether a thread has a file': (tx) => isFileOfThread(tx, { id: middle, threadId: agent }),
    'whether a thread shows a call': (tx) => isCallOfThread(tx, { id: middle, threadId: agent }),
    'files of the thread of a fork': (tx) => listFilesOfFork(tx, { workspaceId: workspace, limit }, agent),
    'conversations of an agent': (tx) => listAgentTurns(tx, agent, { limit }),
    'further conversations of an agent': (tx) =>
      listAgentTurns(tx, agent, { before: { run: middle, number: 1 }, limit }),
    'messages of conversations': (tx) => listTurnMessages(tx, [agent, middle]),
    'where conversations lie in their logs': (tx) => listTurnExtents(tx, [agent, middle]),
    'conversations that begin with a handoff': (tx) => findHandedTurns(tx, [agent, middle]),
    'the tasks that a workflow is shown with': (tx) => listFittingTasks(tx, middle),
    'answers in conversations': (tx) =>
      listTurnModelCalls(
        tx,
        [agent, middle].map((id) => ({ id, status: 'cancelled' })),
      ),
    'sums of a dashboard by day': (tx) => readUsage(tx, { ...week, by: 'day' }),
    'sums of a dashboard by agent': (tx) => readUsage(tx, { ...week, by: 'agent' }),
    'what Drover has asked models for itself': (tx) => readOwnUsage(tx, week),
    'work by queue': (tx) => readQueueStates(tx, tenant),
    'errors, first page': (tx) => listFailedTurns(tx, { ...owner, limit }),
    'errors, a later page': (tx) => listFailedTurns(tx, { ...owner, before: middle, limit }),
    'errors of some days, first page': (tx) => listFailedTurns(tx, { ...week, limit }),
    'errors of an agent, first page': (tx) => listFailedTurns(tx, { ...owner, agentId: agent, limit }),
    'errors of an agent, a later page': (tx) =>
      listFailedTurns(tx, { ...owner, agentId: agent, before: middle, limit }),
    'people who are waited for': (tx) => countWaiting(tx, week),
    'audit, first page': (tx) => listAuditRows(tx, { limit }),
    'audit of a key, a later page': (tx) => listAuditRows(tx, { actorId: agent, before: middle, limit }),
    'events of a run, with their calls': (tx) => listEvents(tx, { runId: agent, after: 0, limit, maxBytes: 1e6 }),
    'events that are followed': (tx) =>
      listFollowedEvents(
        tx,
        [agent, middle].map((id) => ({ id, run_id: id, after: 0 })),
        { types: EVENT_TYPES, limit, maxBytes: 1e6 },
      ),
    'sessions that are followed': (tx) =>
      findFollowedRuns(
        tx,
        [agent, middle].map((session_id) => ({ id: session_id, session_id, place: 1, seq: 9 })),
      ),
    'where sessions stand': (tx) => findSessionHeads(tx, [agent, middle]),
    'calls of a batch': (tx) => findExecutingCallBatch(tx, agent),
    'what was said last in a session': (tx) => lastMessages(tx, agent, { limit, window: limit }),
    'the node that a turn of a session is in': (tx) => findLastNodeType(tx, { run_id: agent, turn_id: middle }),
    'a session as it stands': (tx) => readSessionState(tx, { id: agent, workspaceId: workspace }),
    'files of conversations': (tx) => listTurnFiles(tx, [agent, middle]),
    'answers in the record of a run': (tx) => listRecordedAnswers(tx, agent, { from: 1 }),
    'calls in the record of a run': (tx) => listRecordedCalls(tx, { runId: agent, seq: 9 }, { usedBy: middle }),
    'nodes in the record of a run': (tx) => listRecordedNodes(tx, agent),
    'what a turn has read on its way': (tx) => listSteering(tx, { runId: agent, turnId: middle, length: 3 }),
    'turns of a run': (tx) => listTurns(tx, agent, { limit }),
    'the last turns of a run': (tx) => listLastTurns(tx, agent, limit),
    'how many messages of a run fit': (tx) => findPageEnd(tx, agent, { from: 3, length: 400 }),
    'calls of which more was learned': (tx) => listLearnedAfter(tx, agent, { seq: 2, calls: [agent, middle] }),
    'checkpoints that are reported as corrupt': (tx) => listReportedCorrupt(tx, agent, 2),
    'results that no model has read': (tx) => hasUnread(tx, agent),
    'whether a run has read what nobody vouches for': (tx) => hasReadUntrusted(tx, agent),
    'signals that a run has not used': (tx) => readKeptSignalBytes(tx, agent),
    'effects of subtasks': (tx) => listEffectsOfTasks(tx, { workflowId: agent, taskIds: [agent, middle] }),
    'who pays for embeddings': (tx) => findPayer(tx, { runId: agent, agentId: middle, spaceId: agent }),
    'agents that tasks wait for': (tx) => listAwaitedAgents(tx, [agent, middle]),
    'tokens of a subtask': (tx) => tokensOfTask(tx, { workflowId: agent, taskId: middle }),
    'runs by their ids': (tx) => findRuns(tx, [agent, middle]),
    'first turns of threads': (tx) => listFirstTurns(tx, [agent, middle]),
    'threads that get their titles': (tx) => setTitles(tx, [{ thread: agent, title: 't' }]),
    'a turn that is learnt from': (tx) => findDueExtraction(tx, agent),
    'spans of a turn': (tx) => readTracedTurn(tx, tracedTurn()),
    'keys, first page': (tx) => listApiKeys(tx, { limit }),
    'keys, a later page': (tx) => listApiKeys(tx, { before: middle, limit }),
  };
  for (const [what, list] of Object.entries(lists)) {
    it(`${what}: read an index and sort nothing`, async () => {
      const plans = await plansOf(list);
      assert.match(plans, /Index|Bitmap/);
      const large = plans.match(/(?<=Seq Scan on )\w+/g)?.filter((table) => LARGE.includes(table)) ?? [];
      assert.deepEqual(large, [], plans);
      // The waits of a run are sorted, as many as it has.
      if (what.includes('page')) assert.doesNotMatch(plans, /Sort Key: (?!w\.)/, plans);
      // And not those of the whole tenant.
      if (what.startsWith('errors of an agent')) assert.match(plans, /turns_failed_of_agent/, plans);
    });
  }

  it('conversations of a page count through their thread once, not once for each of them', async () => {
    const turns = {
      thread: (tx: Tx) => listThreadTurns(tx, { id: agent, is_forked: false }, { limit }),
      agent: (tx: Tx) => listAgentTurns(tx, agent, { limit }),
    };
    for (const [of, list] of Object.entries(turns)) {
      for (const plan of (await plansOf(list)).split('\n\n')) {
        // What is worked out for each row comes last.
        const [, ...ofEachRow] = plan.split('SubPlan');
        assert.ok(ofEachRow.length > 0 && !ofEachRow.some((part) => part.includes(' on runs ')), `${of}: ${plan}`);
      }
    }
  });

  it('what lies between the ends of turns is found by an index, not looked for in all of their runs', async () => {
    const reads = {
      messages: (tx: Tx) => listTurnMessages(tx, [agent, middle]),
      answers: (tx: Tx) =>
        listTurnModelCalls(
          tx,
          [agent, middle].map((id) => ({ id, status: 'cancelled' })),
        ),
      files: (tx: Tx) => listTurnFiles(tx, [agent, middle]),
      actions: (tx: Tx) => listSteppedTurns(tx, [agent, middle]),
    };
    for (const [what, read] of Object.entries(reads)) {
      const plans = await neverFullPlansOf(testDatabase.database, tenant, read);
      assert.match(plans, /Index Cond: \(\(run_id = u\.run_id\) AND \(seq [<>]/, `${what}: ${plans}`);
    }
  });

  it('what comes before a position of a run is found by an index, in one place of its log', async () => {
    const reads = {
      'start of a turn': (tx: Tx) => findTurnStart(tx, { runId: agent, seq: 5 }),
      'what is sent of a conversation': (tx: Tx) => findContextAt(tx, agent, 5),
      'memories that were given': (tx: Tx) => findGivenMemories(tx, agent, { turn_id: middle, seq: 5 }),
      'how much was sent': (tx: Tx) => findLengthSent(tx, agent, { seq: 5, payload: { length: 1 } }),
      'spans of a turn': (tx: Tx) => readTracedTurn(tx, tracedTurn()),
      'a page of events': (tx: Tx) => readEvents(tx, { runId: agent, after: 5, limit: 3 }),
    };
    for (const [what, read] of Object.entries(reads)) {
      const plans = await neverFullPlansOf(testDatabase.database, tenant, read);
      assert.match(plans, /Index Cond: \(\(run_id = [^)]*\) AND \(seq [<>]/, `${what}: ${plans}`);
    }
  });

  it('events of a run with many calls are read in one pass, and not the log once more for each call', async () => {
    const { database } = testDatabase;
    const log = newId();
    await fillTables(database, { log, workspace }, async (run) => {
      await run(`insert into tool_calls select p.* from (select c from tool_calls c limit 1) one, generate_series(1, 100) i,
        jsonb_populate_record(one.c, jsonb_build_object('id', md5('of one run' || i), 'run_id', $log, 'step', i)) p`);
      await run(`insert into runs select p.* from (select r from runs r limit 1) one,
        jsonb_populate_record(one.r, jsonb_build_object('id', $log::text)) p`);
      await run(`insert into run_log (run_id, seq, tenant_id, workspace_id, type, schema_version, payload, actor, occurred_at)
        select $log, step, tenant_id, $workspace, 'tool.requested', 1, jsonb_build_object('tool_call_id', id), 'model', now() from tool_calls where run_id = $log`);
      await run(`insert into approvals (id, tenant_id, run_id, kind, tool_call_id, tool, arguments, digest, status, expires_at, created_at)
        select gen_random_uuid(), tenant_id, run_id, 'approval', id, 't', '{}', '', 'approved', now(), now() from tool_calls cross join generate_series(1, 20) i where run_id = $log`);
    });
    const told: string[] = [];
    await database.withTenant(tenant, async (tx) => {
      const explained = explaining(tx, (plan) => told.push(plan));
      const last: Tx['last'] = (text, values) => explained.query(text, values);
      const page = { has_more: false, last: 100, last_commit: 100 };
      const ends = async () => [{ id: 'a', status: 'running', last_seq: 100, page }];
      const asked = [{ id: 'a', run_id: log, after: 0 }];
      await listFollowedEvents({ last, query: ends } as unknown as Tx, asked, {
        types: EVENT_TYPES,
        limit,
        maxBytes: 1e6,
      });
    });
    assert.match(told.join(), /Index Scan using approvals_edited on approvals .*loops=100/);
    const readings = told.join().match(/ on run_log.*/g) ?? [];
    const again = readings.filter((part) => !/never executed|loops=1\)/.test(part));
    assert.ok(readings.length > 1 && again.length === 0, told.join());
  });

  it('what a run has read that nobody vouches for is read out of the commits that may have brought it, not of every step', async () => {
    const { database } = testDatabase;
    const long = newId();
    await fillTables(database, { long, workspace }, async (run) => {
      await run(`insert into runs select p.* from (select r from runs r limit 1) one,
        jsonb_populate_record(one.r, jsonb_build_object('id', $long::text)) p`);
      await run(`insert into run_log (run_id, seq, tenant_id, workspace_id, occurred_at, event_count, events)
        select id, 2 * i, tenant_id, $workspace, now(), 2, case when i = 500 then 'model.responded 4 9 agent {"untrusted":true}'
          else 'model.responded 4 9 agent {"ordinal":1}' end || e'\\nmodel.called 4 9 agent {"length":3}' from runs, generate_series(1, 1000) i where id = $long`);
    });
    const told: string[] = [];
    await database.withTenant(tenant, (tx) =>
      hasReadUntrusted(
        explaining(tx, (plan) => told.push(plan)),
        long,
      ),
    );
    const [, events] = /Subquery Scan on p .*loops=(\d+)/.exec(told.join()) ?? [];
    assert.equal(events, '2', told.join());
    assert.equal(await database.withTenant(tenant, (tx) => hasReadUntrusted(tx, long)), true);
  });

  it('the record of a run is read in one pass, not once more for each answer in it', async () => {
    const plans = await plansOf((tx) => listRecordedAnswers(tx, agent, { from: 1 }));
    const readings = new Set(plans.match(/(?<= on run_log\S* )\w+/g));
    assert.equal(readings.size, 1, plans);
    assert.doesNotMatch(plans, /SubPlan/);
  });

  /** The plan of what maintenance asks. */
  const planOfMaintenance = async (ask: (db: Database) => Promise<unknown>): Promise<string> => {
    let plan = '';
    const { database } = testDatabase;
    await ask({
      ...database,
      asMaintenance: <T>(work: (tx: Tx) => Promise<T>) =>
        database.asMaintenance((tx) =>
          work({ ...tx, query: async (text, values) => ((plan = await planOf(tx, text, values)), []) }),
        ),
    });
    return plan;
  };

  it('what maintenance has to do is found without a look at what is not due', async () => {
    const plan = await planOfMaintenance((db) => claimDueActs(db, { 'end-waits': 1000 }));
    const large = ['agents', 'runs', 'waits', 'webhook_deliveries'];
    assert.deepEqual(
      large.filter((table) => new RegExp(`Seq Scan on ${table}\\b`).test(plan)),
      [],
      plan,
    );
    for (const time of ['until', 'next_at']) assert.match(plan, new RegExp(`Index Cond: \\(${time} <=`), plan);
  });

  it('webhooks that are due are found without a look at the others', async () => {
    const plan = await planOfMaintenance((db) => takeDueWebhooks(db, { perTenant: 2, limit: 10, leaseMs: 1000 }));
    assert.match(plan, /webhook_deliveries_due_of/);
    assert.match(plan, /webhooks_taken/);
    assert.doesNotMatch(plan, /Seq Scan on webhooks/, plan);
  });

  it('erasure finds what a run has in any table by an index', async () => {
    for (const [table, statement] of Object.entries(ERASERS)) {
      if (statement.startsWith('select')) continue;
      const plans = await neverFullPlansOf(testDatabase.database, tenant, (tx) => tx.query(statement, [agent]));
      assert.doesNotMatch(plans, /Seq Scan/, `${table}: ${plans}`);
    }
  });

  describe('the erasure of a whole thread', () => {
    const thread = newId();
    const run = newId();
    /** A thread without a title, of 100 runs with a turn each; `run` is the first. */
    before(() =>
      testDatabase.database.asOwner(async (client) => {
        await client.query('set session_replication_role = replica');
        await client.query(`insert into threads select p.* from (select t from threads t limit 1) one,
          jsonb_populate_record(one.t, '{"id": "${thread}", "title": null}') p`);
        await client.query(`insert into runs select p.* from (select r from runs r limit 1) one, generate_series(1, 100) i,
          jsonb_populate_record(one.r, jsonb_build_object('thread_id', '${thread}', 'thread_place', i + 1, 'lineage', '${run}',
            'base_length', i, 'id', case when i = 1 then '${run}' else md5('of one thread' || i) end)) p`);
        await client.query(`insert into turns select p.* from (select u from turns u where status = 'complete' limit 1) one, runs r,
          jsonb_populate_record(one.u, jsonb_build_object('id', gen_random_uuid(), 'run_id', r.id)) p where r.thread_id = '${thread}'`);
        await client.query('set session_replication_role = origin');
      }),
    );
    /** Of each reading of these runs, what it met. */
    const readings = async (table: string, read: (tx: Tx) => Promise<unknown>) => {
      const told: string[] = [];
      await testDatabase.database.withTenant(tenant, (tx) => read(explaining(tx, (plan) => told.push(plan))));
      const found = told.join('\n').match(new RegExp(` on ${table}\\b.*`, 'g')) ?? [];
      assert.ok(found.length > 0, told.join('\n'));
      return found
        .filter((part) => !part.includes('never executed'))
        .map((part) => Number(/rows=(\d+)/.exec(part)?.[1]));
    };

    it('looks for the first turn of a thread only while this has a title', async () => {
      assert.deepEqual(await readings('runs b', (tx) => tx.query(ERASERS['threads'] ?? '', [run])), []);
    });

    it('does not ask of each run which others of the thread stand on it', async () => {
      const met = await readings('runs x(?:_\\d)?', (tx) => findDependents(tx, [run], thread));
      assert.ok(
        met.every((rows) => rows === 0),
        met.join(),
      );
      assert.ok((await readings('runs x(?:_\\d)?', (tx) => findDependents(tx, [run]))).some((rows) => rows >= 99));
    });
  });

  it('erasure finds unfinished runs, and whoever repeats a run the threads above it, by an index', async () => {
    for (const read of [(tx: Tx) => findUnfinished(tx, [agent]), (tx: Tx) => lockThreadsDownTo(tx, agent)]) {
      const plans = await neverFullPlansOf(testDatabase.database, tenant, read);
      assert.doesNotMatch(plans, /Seq Scan/, plans);
    }
  });

  it('erasure finds what is remembered and kept of a thread by an index', async () => {
    const plans = await neverFullPlansOf(testDatabase.database, tenant, (tx) => markThreadErased(tx, agent));
    assert.doesNotMatch(plans, /Seq Scan/, plans);
    for (const table of ['memory_entries', 'memory_archive']) {
      assert.match(plans, new RegExp(`${table}_by_thread on ${table} .*\\n +Index Cond: \\(thread_id`));
    }
  });

  it('the last deprecated agent of a name is looked for among those of that name, however many others are deprecated', async () => {
    const { database } = testDatabase;
    await fillTables(database, { tenant, workspace }, async (run) => {
      const series = `from generate_series(1, ${ROWS}) as i`;
      await run(`insert into agents (id, tenant_id, workspace_id, name, status, current_version)
        select ${idsOf('e')}, $tenant, $workspace, 'e' || i, 'deprecated', '1.0.0' ${series}`);
      await run(`insert into agent_versions (agent_id, version, ordinal, tenant_id, definition, content_hash)
        select ${idsOf('e')}, '1.0.0', 1, $tenant, '{}', '' ${series}`);
    });
    const plan = await plansOf((tx) => findDeprecatedAgent(tx, workspace, 'e77'));
    assert.match(plan, /Index Cond: \(\(workspace_id = [^\n]* AND \(name = 'e77'/, plan);
  });
});
