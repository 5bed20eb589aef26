/**
 * The demo's MCP server over stdio: questions about the cars of 1970 to 1982, and one tool with an effect.
 * DEMO_EFFECTS_FILE: where `publish_report` appends its effects, one line each.
 * DEMO_PUBLISH_DELAY_MS: how long it takes to answer after the effect is written, 3000 where unset.
 */
import { createHash, randomUUID } from 'node:crypto';
import { env } from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import {
  COLUMNS,
  COMPARISONS,
  datasetId,
  loadCars,
  matches,
  METRIC_OPS,
  readDatasetId,
  round,
  summarise,
  summariseGroups,
} from './demo-cars.ts';
import type { Car, Condition } from './demo-cars.ts';
import { recordEffect } from './demo-effects.ts';

const READS = { readOnlyHint: true, idempotentHint: true, destructiveHint: false, openWorldHint: false };

const group = z.object({ group: z.union([z.string(), z.number()]), rows: z.int(), value: z.number() });
const cars = loadCars();
const server = new McpServer({ name: 'drover-demo-cars', version: '1.0.0' });
offerFilter();
offerAggregate();
offerCompare();
offerPublish();
// The parent is gone when the input ends: no answer is awaited any more.
process.stdin.on('end', () => process.exit(0));
await server.connect(new StdioServerTransport());

function offerFilter(): void {
  server.registerTool(
    'filter_rows',
    {
      title: 'Filter rows',
      description:
        'Selects the rows of a data set that meet one condition, and returns the id of the selection for use in filter_rows and aggregate. Start with the data set "cars": 406 cars sold from 1970 to 1982, with Name, Origin (USA, Europe, Japan), Year, Cylinders (3 to 8), Miles_per_Gallon (fuel economy), Displacement, Horsepower, Weight_in_lbs, Acceleration (seconds to 60 mph). Filter a selection again to combine conditions.',
      inputSchema: {
        dataset_id: z.string().max(1000).default('cars').describe('"cars", or a dataset_id returned by filter_rows.'),
        column: z.enum(COLUMNS).describe('The column to test.'),
        op: z
          .enum(COMPARISONS)
          .default('eq')
          .describe('Equal, not equal, greater, greater or equal, less, less or equal.'),
        value: z.union([z.number(), z.string().min(1).max(100)]).describe('What to compare the column with.'),
      },
      outputSchema: {
        dataset_id: z.string().describe('The id of the selection.'),
        rows: z.int().describe('How many rows it has.'),
      },
      annotations: READS,
    },
    ({ dataset_id, ...condition }) => {
      const selected = select(dataset_id);
      if (!selected) return unknownDataset(dataset_id);
      const rows = selected.rows.filter((car) => matches(car, condition)).length;
      return answer({ dataset_id: datasetId([...selected.conditions, condition]), rows });
    },
  );
}

function offerAggregate(): void {
  server.registerTool(
    'aggregate',
    {
      title: 'Aggregate',
      description:
        'Computes one number over a data set (mean, median, min, max, sum or count of a column), and with group_by one per group, ordered by group, together with the groups that have the highest and lowest value and the first and last group. Rows without the metric are left out.',
      inputSchema: {
        dataset_id: z.string().max(1000).default('cars').describe('"cars", or a dataset_id returned by filter_rows.'),
        metric: z.enum(COLUMNS).describe('The column to compute over, such as Miles_per_Gallon.'),
        op: z.enum(METRIC_OPS).default('mean').describe('What to compute.'),
        group_by: z
          .enum(COLUMNS)
          .optional()
          .describe('Compute it for each value of this column, such as Origin or Year.'),
      },
      outputSchema: {
        rows: z.int(),
        value: z.number().nullable().describe('Over all rows, to two decimals.'),
        groups: z.array(group).optional(),
        highest: group.optional(),
        lowest: group.optional(),
        first: group.optional(),
        last: group.optional(),
      },
      annotations: READS,
    },
    ({ dataset_id, metric, op, group_by }) => {
      const rows = select(dataset_id)?.rows;
      if (!rows) return unknownDataset(dataset_id);
      const total = { rows: rows.length, value: summarise(rows, metric, op) };
      if (!group_by) return answer(total);
      const groups = summariseGroups(rows, group_by, { metric, op });
      const ranked = groups.toSorted((a, b) => b.value - a.value);
      const marked = { highest: ranked[0], lowest: ranked.at(-1), first: groups[0], last: groups.at(-1) };
      return answer({ ...total, groups, ...marked });
    },
  );
}

function offerCompare(): void {
  server.registerTool(
    'compare',
    {
      title: 'Compare two values',
      description:
        'Compares two numbers, such as the results of two aggregate calls: the difference "to" minus "from", their ratio, and the change in percent of "from".',
      inputSchema: {
        from: z.number().describe('The value to start from.'),
        to: z.number().describe('The value to compare with it.'),
      },
      outputSchema: {
        difference: z.number(),
        ratio: z.number().nullable(),
        percent: z.number().nullable(),
        direction: z.enum(['rose', 'fell', 'stayed the same']),
      },
      annotations: READS,
    },
    ({ from, to }) =>
      answer({
        difference: round(to - from, 2),
        ratio: from === 0 ? null : round(to / from, 3),
        percent: from === 0 ? null : round(((to - from) / from) * 100, 1),
        direction: to > from ? 'rose' : to < from ? 'fell' : 'stayed the same',
      }),
  );
}

function offerPublish(): void {
  server.registerTool(
    'publish_report',
    {
      title: 'Publish a report',
      description:
        'Publishes a report to its readers and returns its id. Takes a few seconds. Sent again with the same idempotency key it publishes nothing and returns the first report.',
      inputSchema: {
        title: z.string().min(1).max(200).describe('The headline.'),
        text: z.string().min(1).max(10_000).describe('What the report says, with its numbers.'),
      },
      outputSchema: { report_id: z.string(), title: z.string(), published_at: z.string() },
      annotations: { readOnlyHint: false, idempotentHint: true, destructiveHint: false, openWorldHint: false },
    },
    async ({ title, text }, { _meta, signal }) => {
      const file = env['DEMO_EFFECTS_FILE'];
      if (!file) return failure('DEMO_EFFECTS_FILE is not set: there is nowhere to publish to.');
      const given = _meta?.['drover/idempotency-key'] ?? _meta?.['idempotencyKey'];
      const key = typeof given === 'string' && given !== '' ? given : randomUUID();
      const { effect } = recordEffect(file, { key, title, text, published_at: new Date().toISOString() });
      await delay(Number(env['DEMO_PUBLISH_DELAY_MS'] || 3000), undefined, { signal });
      return answer({ report_id: reportId(key), title: effect.title, published_at: effect.published_at });
    },
  );
}

function select(id: string): { conditions: Condition[]; rows: Car[] } | undefined {
  const conditions = readDatasetId(id);
  if (!conditions) return undefined;
  return { conditions, rows: cars.filter((car) => conditions.every((condition) => matches(car, condition))) };
}

function unknownDataset(id: string): CallToolResult {
  return failure(`There is no data set "${id}". Use "cars" or a dataset_id that filter_rows returned.`);
}

function answer(value: Record<string, unknown>): CallToolResult {
  return { content: [{ type: 'text', text: JSON.stringify(value) }], structuredContent: value };
}

function failure(message: string): CallToolResult {
  return { content: [{ type: 'text', text: message }], isError: true };
}

function reportId(key: string): string {
  return `report-${createHash('sha256').update(key).digest('hex').slice(0, 12)}`;
}
