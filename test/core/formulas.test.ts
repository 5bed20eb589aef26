/** The worked examples of docs/formulas.md. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { memoryScore } from '../../core/handoff-summary.ts';
import { findCapability, healthScore, matchAgents } from '../../core/matching.ts';
import { importanceOf } from '../../core/memory/consolidation.ts';
import { memberScore } from '../../core/team.ts';
import { levelsOf, nextSubtasks, remainingPaths, type Execution, type SubtaskState } from '../../core/workflow.ts';
import { ROOT } from '../support/repository.ts';

const PAGE = readFileSync(new URL('docs/formulas.md', ROOT), 'utf8');
const NOW = 1_800_000_000_000;
const HOUR_MS = 3_600_000;

type Row = (column: string) => string;

/** The rows of the table under a heading, by the names of its columns. */
function rowsOf(heading: string): Row[] {
  const section = PAGE.split(/^## /m).find((each) => each.startsWith(`${heading}\n`)) ?? '';
  const cells = (line: string) =>
    line
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim());
  const [names = [], , ...rows] = section
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .map(cells);
  assert.ok(rows.length >= 4, heading);
  return rows.map((row) => (column) => {
    const cell = row[names.indexOf(column)];
    assert.ok(cell, `${heading}: ${column}`);
    return cell;
  });
}

const numberOf = (cell: string) => (cell === '–' ? undefined : Number(cell));
const rounded = (value: number) => Math.round(value * 10_000) / 10_000;

/** What each row says last is what comes of the rest of it. */
function holds(heading: string, column: string, compute: (row: Row) => number | string): void {
  it(`${heading}: each example comes to what it says`, () => {
    for (const row of rowsOf(heading)) {
      const found = compute(row);
      assert.equal(String(typeof found === 'number' ? rounded(found) : found), row(column), row(column));
    }
  });
}

const healthOf = (row: Row) => ({
  success_rate_7d: numberOf(row('success_rate_7d')),
  avg_latency_ms: numberOf(row('avg_latency_ms')),
});

describe('the formulas', () => {
  holds('Health', 'health', (row) => healthScore(healthOf(row)));

  holds('Match', 'match', (row) => {
    const skills = ['law', 'tax'].filter((skill) => row(skill) !== '–');
    const candidate = {
      id: 'one',
      capabilities: skills.map((skill_name) => ({
        skill_name,
        proficiency: row(skill_name) === '?' ? undefined : Number(row(skill_name)),
      })),
      health: { ...healthOf(row), avg_tokens_per_task: numberOf(row('avg_tokens_per_task')) },
      running: Number(row('running')),
      maxConcurrentTasks: numberOf(row('max_concurrent_tasks')),
    };
    const requirements = {
      required_capabilities: ['law', 'tax'],
      max_cost_tokens: numberOf(row('max_cost_tokens')),
      preferred_agents: row('preferred') === 'yes' ? ['one'] : [],
    };
    return matchAgents(requirements, [candidate])[0]?.score ?? 'left out';
  });

  holds('Skills of another name', 'taken', (row) => {
    const names = ['jurisprudence', 'legal advice', 'logic', 'law'].filter((name) => row(name) !== '–');
    const similar = new Map([['law', new Map(names.map((name) => [name, Number(row(name))]))]]);
    const known = names.map((skill_name) => ({ skill_name }));
    return findCapability('law', known, similar)?.skill_name ?? 'nobody';
  });

  holds('Team', 'score', (row) =>
    memberScore(
      {
        match: Number(row('match')),
        cost: Number(row('cost')),
        remaining: Number(row('remaining')),
        hasRole: row('has a role') === 'yes',
      },
      { quality_weight: 0.5, cost_weight: 0.3, diversity_weight: 0.2 },
    ),
  );

  holds('Memories in a handoff', 'score', (row) => {
    const createdMs = NOW - Number(row('days')) * 24 * HOUR_MS;
    const given = { relevance: Number(row('relevance')), createdMs, accessCount: Number(row('accesses')) };
    return memoryScore({ id: '', content: '', ...given }, NOW);
  });

  holds('Importance of a memory', 'importance', (row) => {
    const created_at = new Date(NOW - Number(row('hours')) * HOUR_MS);
    const entry = { created_at, last_accessed: null, access_count: Number(row('uses')) };
    const at = new Date(NOW);
    return importanceOf({ ...entry, relevance_score: Number(row('relevance')) }, { at, halfLifeHours: 24 });
  });

  describe('What starts first', () => {
    const rows = rowsOf('What starts first');
    const subtasks = rows.map((row): SubtaskState => ({
      id: row('subtask'),
      dependencies: row('needs') === '–' ? [] : [row('needs')],
      state: 'waiting',
      deadline_ms: row('deadline') === '–' ? null : Date.parse(`2026-01-01T${row('deadline')}Z`),
    }));

    const valuesOf = (column: string) => rows.map((row) => Number(row(column)));

    it('levels and paths are what they say', () => {
      for (const [column, found] of [
        ['level', levelsOf(subtasks)],
        ['path', remainingPaths(subtasks)],
      ] as const) {
        assert.deepEqual(
          subtasks.map(({ id }) => found.get(id)),
          valuesOf(column),
        );
      }
    });

    for (const [column, execution] of [
      ['eager', 'eager'],
      ['by levels', 'levels'],
    ] as [string, Execution][]) {
      it(`the order is what it says, ${column}`, () => {
        const order: string[] = [];
        for (;;) {
          const now = subtasks.map(
            (each) => ({ ...each, state: order.includes(each.id) ? 'done' : each.state }) as const,
          );
          const [next] = nextSubtasks(now, { slots: 1, execution });
          if (!next) break;
          order.push(next.id);
        }
        assert.deepEqual(
          subtasks.map(({ id }) => order.indexOf(id) + 1),
          valuesOf(column),
        );
      });
    }
  });
});
