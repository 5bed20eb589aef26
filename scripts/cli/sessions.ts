/** `drover sessions`: talks with an agent, decides on its plans, and ends its work. */
import { userInfo } from 'node:os';
import type { Command } from 'commander';
import type { Client } from './client.ts';
import { CommandError, EXIT } from './errors.ts';
import { agentOf } from './named.ts';
import { connected, id, oneOf, whole, withPlace, type Shared } from './options.ts';
import { plain, print, printFields, printJson } from './print.ts';
import { sayIfIdle } from './say-if-idle.ts';

interface Session {
  id: string;
  agent_id: string;
  user_id: string;
  autonomy_level: number;
  status: string;
  archived: boolean;
  run_id: string | null;
  messages: { role: string; content: string }[];
  pending_plan: Plan | null;
  /** Absent from servers of an older build. */
  error?: { message: string } | null;
  waiting_for: { question?: string; message?: string | null } | null;
  suspended_by?: string;
  queued_message: string | null;
}

interface Plan {
  plan_id: string;
  purpose: string;
  max_risk_level: string;
  steps: { tool: string; risk_level: string; arguments: unknown }[];
}

interface Outcome {
  status: string;
  message: string;
  result?: string;
}

/** Adds the commands. */
export function addSessions(program: Command): void {
  const sessions = program.command('sessions').description('sessions: talk with an agent, decide on its plans');
  const command = (name: string, about: string) =>
    withPlace(sessions.command(name)).description(about).argument('<id>', 'the session', id);
  withPlace(sessions.command('say'))
    .description('send a message, in a new session or in one that there is; prints the session’s id')
    .argument('<message>', 'what to say')
    .option('--session <id>', 'the session; without it a new one begins', id)
    .option('--agent <agent>', 'with whom, by id, name or ext:<external id>, where the workspace has several agents')
    .option('--user <id>', 'who talks (your login name)')
    .option('--level <n>', 'autonomy level of a new session', whole(0, 3))
    .option('--mode <mode>', 'while a turn is open: queue, steer or reject', oneOf('queue', 'steer', 'reject'), 'queue')
    .action(say);
  command('show', 'show a session: how it stands, what was said last, the plan that waits').action(show);
  command('execute', 'approve the plan that waits, and carry it out')
    .argument('<plan>', 'the plan', id)
    .action((session: string, plan: string, options: Shared) => decide('execute', { session, plan }, options));
  command('reject', 'refuse the plan that waits, and end the turn')
    .argument('<plan>', 'the plan', id)
    .option('--reason <text>', 'why')
    .action((session: string, plan: string, { reason, ...options }: Shared & { reason?: string }) =>
      decide('reject', { session, plan, more: { reason } }, options),
    );
  command('refine', 'refuse the plan that waits, and have another one made')
    .argument('<plan>', 'the plan', id)
    .requiredOption('--feedback <text>', 'what is to be different')
    .action((session: string, plan: string, { feedback, ...options }: Shared & { feedback: string }) =>
      decide('refine', { session, plan, more: { feedback } }, options),
    );
  command('interrupt', 'stop the turn that is open; a queued message goes on').action(interrupt);
  command('delete', 'end a session; what was said stays in the log').action(remove);
}

type Saying = Shared & { session?: string; agent?: string; user?: string; level?: number; mode: string };

async function say(message: string, options: Saying): Promise<void> {
  const { session: session_id, agent, level: autonomy_level, mode } = options;
  await connected(options, async (client) => {
    // A continued session keeps its user.
    const begun = session_id === undefined ? undefined : await client.get<Session>(`/agent/session/${session_id}`);
    const user_id = options.user ?? begun?.user_id ?? userInfo().username;
    const agent_id = agent === undefined ? undefined : await agentOf(client, agent);
    const body = { message, session_id, agent_id, user_id, autonomy_level, mode };
    const answer = await client
      .post<{ session_id: string; status: string }>('/agent/chat', body)
      .catch((error: unknown) => refusal(client, error));
    if (options.json) printJson(answer);
    else print(answer.session_id);
    sayIfIdle(client);
  });
}

/** Throws it. Where the service does not know with whom to begin, the message lists the agents, if the key may read them. */
async function refusal(client: Client, error: unknown): Promise<never> {
  if (!(error instanceof CommandError) || !error.faulty.includes('body.agent_id')) throw error;
  const listed: unknown = await agentOf(client, undefined).catch((why: unknown) => why);
  throw listed instanceof CommandError && listed.exitCode !== EXIT.denied ? listed : error;
}

async function show(sessionId: string, options: Shared): Promise<void> {
  const found = await connected(options, (client) => client.get<Session>(`/agent/session/${sessionId}`));
  if (options.json) return printJson(found);
  printFields({
    session: found.id,
    status: found.archived ? `${found.status} (deleted)` : found.status,
    agent: found.agent_id,
    user: found.user_id,
    level: found.autonomy_level,
    run: found.run_id,
    asks: found.waiting_for?.question ?? found.waiting_for?.message,
    'suspended by': found.suspended_by,
    queued: found.queued_message,
    error: found.error?.message,
  });
  for (const { role, content } of found.messages) print(`\n${role}: ${plain(content)}`);
  if (found.pending_plan) printPlan(found.pending_plan);
}

function printPlan({ plan_id, purpose, max_risk_level, steps }: Plan): void {
  print();
  printFields({ 'plan that waits': plan_id, purpose, risk: max_risk_level });
  steps.forEach(({ tool, risk_level, arguments: args }, index) => {
    print(`${index + 1}. ${plain(tool)} (${risk_level}) ${plain(JSON.stringify(args))}`);
  });
}

interface Decision {
  session: string;
  plan: string;
  more?: Record<string, string | undefined>;
}

async function decide(how: string, { session: session_id, plan: plan_id, more }: Decision, options: Shared) {
  const body = { session_id, plan_id, ...more };
  await connected(options, async (client) => {
    const outcome = await client.post<Outcome>(`/agent/${how}`, body);
    if (options.json) printJson(outcome);
    else printOutcome(outcome);
    // Nothing is left to be done after a refusal.
    if (how !== 'reject') sayIfIdle(client);
  });
}

function printOutcome({ status, message, result }: Outcome): void {
  print(`${status}: ${message}`);
  if (result !== undefined) print(plain(result));
}

async function interrupt(session_id: string, options: Shared): Promise<void> {
  const outcome = await connected(options, (client) => client.post<Outcome>('/agent/interrupt', { session_id }));
  if (options.json) return printJson(outcome);
  print(`${outcome.status}: ${outcome.message}`);
}

async function remove(sessionId: string, options: Shared): Promise<void> {
  await connected(options, (client) => client.delete(`/agent/session/${sessionId}`));
  if (options.json) return printJson({ archived: true });
  print(`deleted: ${sessionId}`);
}
