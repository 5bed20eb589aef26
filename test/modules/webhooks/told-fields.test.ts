import assert from 'node:assert/strict';
import { z } from 'zod';
import { EVENTS, EVENT_TYPES } from '../../../core/events.ts';
import { TOLD_FIELDS, toldPayload } from '../../../modules/webhooks/told-fields.ts';

/** The JSON schema at a path of an event's payload; through a list to what it holds. */
function schemaAt(type: keyof typeof EVENTS, path: string): unknown {
  let at = z.toJSONSchema(EVENTS[type].payload, { unrepresentable: 'any' }) as JsonSchema | undefined;
  for (const field of path.split('.')) at = objectIn(at)?.properties?.[field];
  return at;
}

interface JsonSchema {
  type?: string;
  properties?: Record<string, JsonSchema>;
  items?: JsonSchema;
  anyOf?: JsonSchema[];
}

function objectIn(schema: JsonSchema | undefined): JsonSchema | undefined {
  if (schema?.items) return objectIn(schema.items);
  return schema?.anyOf ? schema.anyOf.find(({ properties }) => properties) : schema;
}

describe('What is told of an event', () => {
  it('is listed by fields that its type has', () => {
    const unknown = Object.keys(TOLD_FIELDS).filter((type) => !EVENT_TYPES.some((each) => each === type));
    assert.deepEqual(unknown, []);
    for (const type of EVENT_TYPES) {
      for (const path of TOLD_FIELDS[type] ?? []) assert.ok(schemaAt(type, path), `${type} has ${path}`);
    }
  });

  it('is the code of an error and not its message, and of each in a list what is listed', () => {
    const error = { code: 'http_500', message: 'of somebody' };
    assert.deepEqual(toldPayload('run.failed', { error }), { error: { code: 'http_500' } });
    const steps = [{ tool_call_id: 'a', tool: 'of somebody', risk_level: 'READ_ONLY' }];
    assert.deepEqual(toldPayload('plan.proposed', { plan_id: 'p', purpose: 'of somebody', steps }), {
      plan_id: 'p',
      steps: [{ tool_call_id: 'a', risk_level: 'READ_ONLY' }],
    });
    assert.deepEqual(toldPayload('approval.granted', { approval_id: 'a', policy: null }), {
      approval_id: 'a',
      policy: null,
    });
  });

  it('is nothing of a type that is not listed', () => {
    assert.deepEqual(toldPayload('run.flown', { to: 'of somebody' }), {});
    assert.deepEqual(toldPayload('toString', { to: 'of somebody' }), {});
  });
});
