/** Finds agents by their capabilities. */
import { z } from 'zod';
import { discoverAgents } from '../../modules/agents/discover-agents.ts';
import { integerParam, listParam } from '../kit/paging.ts';
import { defineRoute, type Route } from '../kit/route.ts';
import { substitutes } from '../kit/substitutes.ts';
import { agent } from './schemas.ts';

const fraction = z
  .string()
  .regex(/^(0(\.\d+)?|1(\.0+)?)$/, 'must be a number from 0 to 1')
  .transform(Number);

const rounded = (score: number) => Math.round(score * 10_000) / 10_000;

const found = z
  .object({
    id: z.uuid(),
    agent_id: z.uuid(),
    name: z.string(),
    description: z.string().optional(),
    status: agent.shape.status,
    match_score: z.number(),
    match_parts: z
      .object({
        capability: z.number(),
        health: z.number(),
        cost: z.number(),
        availability: z.number(),
        preference: z.number(),
      })
      .describe('What the score is made of: 0.5, 0.25, 0.15, 0.1 and 0.1 of them.'),
    substitutes: substitutes.optional(),
    capabilities: z.array(z.unknown()),
    health: z.record(z.string(), z.unknown()),
  })
  .meta({ id: 'DiscoveredAgent' });

const discover = defineRoute({
  method: 'get',
  path: '/v1/agents/discover',
  access: 'agents:read',
  summary: 'Find agents by their capabilities, best first',
  query: z.strictObject({
    capabilities: listParam(z.string().min(1).max(200)).optional(),
    domain: z.string().max(200).optional(),
    min_proficiency: fraction.optional(),
    status: agent.shape.status.optional(),
    limit: integerParam({ min: 1, max: 200 }).optional(),
  }),
  responses: { 200: z.strictObject({ agents: z.array(found), total: z.int() }) },
  async handle({ caller, query, context }) {
    const { capabilities = [], domain, min_proficiency: minProficiency, status, limit = 10 } = query;
    const wanted = { capabilities, domain, minProficiency, status, limit };
    const { agents, total } = await discoverAgents(context, caller, wanted);
    const shown = agents.map((row) => ({
      id: row.id,
      agent_id: row.id,
      name: row.definition.name,
      ...(row.definition.description !== undefined && { description: row.definition.description }),
      status: row.status,
      match_score: rounded(row.score),
      match_parts: {
        capability: rounded(row.parts.capability),
        health: rounded(row.parts.health),
        cost: rounded(row.parts.cost),
        availability: rounded(row.parts.availability),
        preference: rounded(row.parts.preference),
      },
      ...(row.substitutes.length > 0 && { substitutes: row.substitutes }),
      capabilities: row.definition.capabilities ?? [],
      health: row.health,
    }));
    return { status: 200, body: { agents: shown, total } };
  },
});

export const DISCOVER_ROUTES: readonly Route[] = [discover];
