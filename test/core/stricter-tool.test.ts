import assert from 'node:assert/strict';
import { guardedBy } from '../../core/stricter-tool.ts';
import { trustOf, type ToolDefinition } from '../../core/tool.ts';

const TOOL: ToolDefinition = {
  id: 'one',
  name: 'pay',
  version: '1.0.0',
  description: 'Pays.',
  input_schema: {},
  transport: { type: 'http', endpoint: 'https://example.com' },
  execution: { timeout_ms: 1, retry_config: { max_retries: 0, backoff_ms: 0 }, inline: false },
  permissions: [{ name: 'pay', required: false }],
  risk_level: 'WRITE_LOW_RISK',
  annotations: { idempotentHint: true },
  accepts_tainted: true,
};
const STRICT: ToolDefinition = {
  ...TOOL,
  version: '2.0.0',
  description: 'Pays more.',
  permissions: [
    { name: 'pay', required: true },
    { name: 'sign', required: false },
  ],
  risk_level: 'WRITE_HIGH_RISK',
  annotations: { openWorldHint: true, destructiveHint: true },
  accepts_tainted: false,
};

describe('A version of a tool under the guards of another', () => {
  it('is as strict as the stricter one in each of them, whichever that is, and else itself', () => {
    for (const [tool, other] of [[TOOL, STRICT] as const, [STRICT, TOOL] as const]) {
      const { version, description, risk_level, annotations, accepts_tainted, permissions, ...rest } = guardedBy(
        tool,
        other,
      );
      assert.deepEqual([version, description], [tool.version, tool.description]);
      assert.equal(risk_level, 'WRITE_HIGH_RISK');
      assert.ok(!annotations.idempotentHint && annotations.destructiveHint && !accepts_tainted);
      assert.deepEqual(permissions, STRICT.permissions);
      assert.equal(trustOf({ ...rest, annotations }), 'untrusted');
    }
  });
});
