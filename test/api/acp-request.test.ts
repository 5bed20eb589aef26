import assert from 'node:assert/strict';
import type { AcpAsk } from '../../api/wire/acp.ts';
import { decided } from '../../api/wire/acp-asks.ts';
import { inputOf } from '../../api/wire/acp-request.ts';

describe('What a client of ACP sends', () => {
  it('may have images in a prompt', () => {
    const image = { type: 'image' as const, mimeType: 'image/png', data: 'iVBORw0KGgo=' };
    const source = { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' };
    assert.deepEqual(inputOf([{ type: 'text', text: 'Look.' }, image]), {
      message: 'Look.',
      attachments: [{ type: 'image', source }],
      attachmentPaths: ['prompt.1'],
    });
  });

  it('decides nothing if it is no answer, and makes no call again with an option that was not offered', () => {
    const of: AcpAsk = { ask: { id: 'a', kind: 'unknown', message: '', tool: '', calls: [] }, calls: [] };
    const chosen = { outcome: { outcome: 'selected' as const, optionId: 'approve' } };
    const { decided: unknown } = decided(of, chosen) as { decided: { decision: string } };
    assert.equal(unknown.decision, 'give_up');
    assert.equal(decided(of, { outcome: { outcome: 'cancelled' } }), undefined);
  });
});
