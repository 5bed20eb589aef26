import assert from 'node:assert/strict';
import {
  availabilityScore,
  costScore,
  assignmentReason,
  findCapability,
  healthScore,
  matchAgents,
  mayBeSimilar,
  type Candidate,
} from '../../core/matching.ts';
import { cpuMs } from '../support/cpu-time.ts';
import { composeTeam, majority, planOfTeam, type TeamTask } from '../../core/team.ts';

const candidate = (id: string, skills: Record<string, number>, more: Partial<Candidate> = {}): Candidate => ({
  id,
  capabilities: Object.entries(skills).map(([skill_name, proficiency]) => ({ skill_name, proficiency })),
  health: {},
  running: 0,
  ...more,
});
const near = (left: number | undefined, right: number) =>
  assert.ok(Math.abs((left ?? NaN) - right) < 1e-9, `${left} is not ${right}`);

describe('matching agents to tasks', () => {
  it('scores health as 0.6 of success and 0.4 of latency up to five seconds', () => {
    for (const [success_rate_7d, avg_latency_ms, expected] of [
      [1, 0, 1],
      [0.98, 1200, 0.892],
      [0.5, 2500, 0.5],
      [0, 5000, 0],
      [1, 60_000, 0.6],
    ] as const) {
      near(healthScore({ success_rate_7d, avg_latency_ms }), expected);
    }
    near(healthScore({}), 1);
  });

  it('scores cost as what is left of the budget, and availability as the free share', () => {
    for (const [tokens, most, expected] of [
      [1000, 4000, 0.75],
      [4000, 4000, 0],
      [9000, 4000, 0],
    ] as const) {
      near(costScore(tokens, most), expected);
    }
    near(costScore(9000), 1);
    near(availabilityScore({ running: 1, maxConcurrentTasks: 4 }), 0.75);
    near(availabilityScore({ running: 5, maxConcurrentTasks: 4 }), 0);
    near(availabilityScore({ running: 5 }), 1);
  });

  it('weighs them as the document does, adds to those that are preferred, and says what a score is made of', () => {
    const health = { success_rate_7d: 0.98, avg_latency_ms: 1200, avg_tokens_per_task: 1000 };
    const one = candidate('one', { law: 0.9, tax: 0.7 }, { health, running: 1, maxConcurrentTasks: 4 });
    const [match] = matchAgents({ required_capabilities: ['law', 'tax'], max_cost_tokens: 4000 }, [one]);
    // 0.5 × 0.8 + 0.25 × 0.892 + 0.15 × 0.75 + 0.1 × 0.75
    near(match?.score, 0.8105);
    const [preferred] = matchAgents(
      { required_capabilities: ['law', 'tax'], max_cost_tokens: 4000, preferred_agents: ['one'] },
      [one],
    );
    near(preferred?.score, 0.9105);
    assert.deepEqual(Object.keys(match?.parts ?? {}), ['capability', 'health', 'cost', 'availability', 'preference']);
  });

  it('takes the skill of the very name, else the one most like it, above 0.7', () => {
    const similar = new Map([
      [
        'law',
        new Map([
          ['jurisprudence', 0.9],
          ['legal advice', 0.8],
          ['logic', 0.7],
        ]),
      ],
    ]);
    for (const [skills, expected] of [
      [{ jurisprudence: 1, law: 0.1 }, 'law'],
      [{ 'legal advice': 1, jurisprudence: 0.2 }, 'jurisprudence'],
      [{ 'legal advice': 0.3 }, 'legal advice'],
      [{ logic: 1 }, undefined],
      [{ cooking: 1 }, undefined],
      [{}, undefined],
    ] as const) {
      const { capabilities } = candidate('one', skills);
      assert.equal(findCapability('law', capabilities, similar)?.skill_name, expected, JSON.stringify(skills));
    }
    // 0.5 × 0.2 + 0.25 + 0.15 + 0.1
    const [match] = matchAgents(
      { required_capabilities: ['law'] },
      [candidate('one', { jurisprudence: 0.2 })],
      similar,
    );
    near(match?.score, 0.6);
  });

  it('takes no name for another that differs in a word with digits: a code, a version, a year', () => {
    for (const [left, right, expected] of [
      ['q7777777', 's73832b', false],
      ['sku4711', 'sha256', false],
      ['cve_2025', 'cve_2024', false],
      ['l3_support', 'l1_support', false],
      ['invoice_v1', 'invoice', false],
      ['iso 9001-14001', 'iso 14001-9001', false],
      ['K8s support', 'k8s_operations', true],
      ['SHA256', 'sha256', true],
      ['tax law', 'fiscal law', true],
      ['Größe ٣', 'Größe ٤', false],
    ] as const) {
      assert.equal(mayBeSimilar(left, right), expected, `${left} and ${right}`);
      assert.equal(mayBeSimilar(right, left), expected, `${right} and ${left}`);
    }
  });

  it('says which skills of another name stand for those that are required, and how similar they are', () => {
    const similar = new Map([['tax law', new Map([['fiscal law', 0.8149]])]]);
    const pool = [candidate('one', { 'fiscal law': 0.9, cooking: 1 })];
    const [match] = matchAgents({ required_capabilities: ['tax law', 'cooking'] }, pool, similar);
    const substitutes = [{ required: 'tax law', skill: 'fiscal law', similarity: 0.815 }];
    assert.deepEqual(match?.substitutes, substitutes);
    assert.equal(
      assignmentReason({ reason: 'matched', score: 0.975, substitutes }),
      'matched, score 0.975, fiscal law for tax law, similarity 0.815',
    );
    assert.equal(assignmentReason({ reason: 'matched', score: 0.9, substitutes: [] }), 'matched, score 0.9');
    assert.equal(assignmentReason({ reason: 'named' }), 'named');
  });

  it('puts the skill of the very name before one of another name, where their scores are equal', () => {
    const similar = new Map([['law', new Map([['jurisprudence', 0.9]])]]);
    const pool = [candidate('like', { jurisprudence: 0.8 }), candidate('exact', { law: 0.8 })];
    const matches = matchAgents({ required_capabilities: ['law'] }, pool, similar);
    assert.deepEqual(
      matches.map(({ id, substitutes }) => [id, substitutes.length]),
      [
        ['exact', 0],
        ['like', 1],
      ],
    );
  });

  it('leaves out whoever lacks a skill or is excluded, and puts the best first', () => {
    const pool = [
      candidate('a', { law: 0.4 }),
      candidate('b', { law: 0.9 }),
      candidate('c', {}),
      candidate('d', { law: 1 }),
    ];
    const ids = matchAgents({ required_capabilities: ['law'], excluded_agents: ['d'] }, pool).map(({ id }) => id);
    assert.deepEqual(ids, ['b', 'a']);
    assert.equal(matchAgents({}, pool).length, 4);
  });
});

describe('composing a team', () => {
  const task = (more: Partial<TeamTask> = {}): TeamTask => ({
    required_roles: [
      { name: 'writer', requirements: { required_capabilities: ['writing'] } },
      { name: 'supervisor', requirements: { required_capabilities: ['leading'] }, complexity_multiplier: 2 },
    ],
    orchestration_pattern: 'hierarchical',
    max_team_size: 5,
    budget: 10_000,
    ...more,
  });
  const weights = { diversity_weight: 0.2, cost_weight: 0.3, quality_weight: 0.5 };
  const spends = (avg_tokens_per_task: number) => ({ health: { avg_tokens_per_task } });
  const all = candidate('all', { writing: 0.9, leading: 0.9 }, spends(2000));
  const pen = candidate('pen', { writing: 0.6 }, spends(1000));

  it('costs in proportion to the agents that it is composed from', () => {
    const msFor = (count: number) => {
      const pool = Array.from({ length: count }, (_, n) => candidate(`agent-${n}`, {}));
      const alone: TeamTask = {
        required_roles: [{ name: 'one' }],
        orchestration_pattern: 'parallel',
        max_team_size: 1,
        budget: 1000,
      };
      const beforeMs = cpuMs();
      composeTeam(alone, pool, { diversity_weight: 1, cost_weight: 1, quality_weight: 1 });
      return cpuMs() - beforeMs;
    };
    msFor(2000);
    const few = Math.min(msFor(2000), msFor(2000), msFor(2000));
    assert.ok(msFor(20_000) < 40 * Math.max(few, 5));
  });

  it('fills the supervisor of a hierarchical team first, and each role with another agent', () => {
    assert.deepEqual(composeTeam(task(), [all, pen], weights), {
      team: [
        { role: 'supervisor', agent_id: 'all', expected_cost: 4000 },
        { role: 'writer', agent_id: 'pen', expected_cost: 1000 },
      ],
    });
    const sequential = composeTeam(task({ orchestration_pattern: 'sequential' }), [all, pen], {
      ...weights,
      diversity_weight: 0,
    });
    assert.ok('team' in sequential);
    assert.deepEqual(
      sequential.team.map(({ role }) => role),
      ['writer', 'supervisor'],
    );
  });

  it('names the role that nobody can play, for lack of skill or of budget, and leaves out what is not required', () => {
    assert.deepEqual(composeTeam(task(), [pen], weights), { missing: 'supervisor' });
    assert.deepEqual(composeTeam(task({ budget: 4500 }), [all, pen], weights), { missing: 'writer' });
    assert.deepEqual(composeTeam(task({ max_team_size: 1 }), [all, pen], weights), { missing: 'writer' });
    const optional = task({
      required_roles: [{ name: 'poet', requirements: { required_capabilities: ['rhyme'] }, required: false }],
    });
    assert.deepEqual(composeTeam(optional, [all], weights), { team: [] });
  });

  it('takes the cheaper one where cost weighs more than quality', () => {
    const roles = { required_roles: [{ name: 'writer', requirements: { required_capabilities: ['writing'] } }] };
    const who = (cost_weight: number, quality_weight: number) => {
      const composed = composeTeam(task(roles), [all, pen], { diversity_weight: 0, cost_weight, quality_weight });
      return 'team' in composed ? composed.team[0]?.agent_id : undefined;
    };
    assert.deepEqual([who(1, 0), who(0, 1)], ['pen', 'all']);
  });

  it('weighs quality, and cost as a share of what is left, as the document does', () => {
    const roles = [{ name: 'writer', requirements: { required_capabilities: ['writing'] } }];
    // Match: 0.95 of `all`, 0.8 of `pen`. Cost: 1 − 2000 ÷ budget, and 1 − 1000 ÷ budget.
    for (const [quality_weight, budget, expected] of [
      [0.21, 10_000, 'all'],
      [0.19, 10_000, 'pen'],
      [1.01, 2000, 'all'],
      [0.99, 2000, 'pen'],
      [100, 1999, 'pen'],
    ] as const) {
      const how = { diversity_weight: 0.2, cost_weight: 0.3, quality_weight };
      const composed = composeTeam(task({ required_roles: roles, budget }), [all, pen], how);
      assert.ok('team' in composed);
      assert.equal(composed.team[0]?.agent_id, expected, `${quality_weight} of ${budget}`);
    }
  });

  it('has one play two roles only where diversity counts for nothing, and takes a skill of another name', () => {
    const who = (diversity_weight: number) => composeTeam(task(), [all], { ...weights, diversity_weight });
    assert.deepEqual(who(0.2), { missing: 'writer' });
    assert.deepEqual(who(0), {
      team: [
        { role: 'supervisor', agent_id: 'all', expected_cost: 4000 },
        { role: 'writer', agent_id: 'all', expected_cost: 2000 },
      ],
    });
    const author = candidate('author', { 'creative writing': 0.9 });
    const similar = new Map([['writing', new Map([['creative writing', 0.8]])]]);
    const roles = { required_roles: [{ name: 'writer', requirements: { required_capabilities: ['writing'] } }] };
    assert.deepEqual(composeTeam(task(roles), [author], weights), { missing: 'writer' });
    const composed = composeTeam(task(roles), [author], { ...weights, similar });
    const substitutes = [{ required: 'writing', skill: 'creative writing', similarity: 0.8 }];
    assert.deepEqual(composed, { team: [{ role: 'writer', agent_id: 'author', expected_cost: 0, substitutes }] });
  });

  it('takes the skill of the very name before one of another name, where all else is equal', () => {
    const similar = new Map([['writing', new Map([['creative writing', 0.8]])]]);
    const roles = { required_roles: [{ name: 'writer', requirements: { required_capabilities: ['writing'] } }] };
    const pool = [candidate('author', { 'creative writing': 0.9 }), candidate('exact', { writing: 0.9 })];
    const composed = composeTeam(task(roles), pool, { ...weights, similar });
    assert.deepEqual(composed, { team: [{ role: 'writer', agent_id: 'exact', expected_cost: 0 }] });
  });
});

describe('the plan of a team', () => {
  const members = [
    { agent_id: 'a', role: 'worker' },
    { agent_id: 'b', role: 'checker' },
    { agent_id: 's', role: 'lead' },
  ];
  const team = { members, supervisor_agent_id: 's' as string | null };
  const shape = (pattern: TeamTask['orchestration_pattern'], supervisor_agent_id: string | null = 's') =>
    planOfTeam({ ...team, supervisor_agent_id, orchestration_pattern: pattern }, 'Why?').map(
      ({ id, dependencies, agent }) => [agent, id, ...dependencies],
    );

  it('lets all answer at once and the supervisor merge, or nobody in a team without a supervisor', () => {
    assert.deepEqual(shape('parallel'), [
      ['a', '1-worker'],
      ['b', '2-checker'],
      ['s', 'merge', '1-worker', '2-checker'],
    ]);
    assert.deepEqual(
      shape('parallel', null).map(([agent]) => agent),
      ['a', 'b', 's'],
    );
  });

  it('goes from one to the next by priority', () => {
    assert.deepEqual(shape('sequential', null), [
      ['a', '1-worker'],
      ['b', '2-checker', '1-worker'],
      ['s', '3-lead', '2-checker'],
    ]);
  });

  it('leaves the whole to the supervisor of a hierarchy', () =>
    assert.deepEqual(shape('hierarchical'), [['s', 'answer']]));

  it('takes the answer that most have given', () => {
    assert.equal(majority(['4', ' 5', '5 ', '4']), '4');
    assert.equal(majority(['3', '5 ', '5']), '5');
    assert.equal(majority([]), undefined);
  });
});
