import assert from 'node:assert/strict';
import { calibrate, percentOf } from '../../core/calibration.ts';
import { carriedAfter } from '../../core/carried.ts';
import { NO_TOKENS } from '../../core/model.ts';

describe('What estimates of prompts are corrected by', () => {
  const after = (usage: object) =>
    percentOf(calibrate(undefined, { model: 'p/m', estimated: 1000, usage: { ...NO_TOKENS, ...usage } }), 'p/m');

  it('is what the provider has counted of the prompt, its cache included', () => {
    assert.equal(after({ input: 900, cache_read: 300, cache_write_5m: 40, cache_write_1h: 1 }), 130);
    assert.equal(after({ input: 1000 }), 100);
  });

  it("leaves out what the provider's own compaction has read of it once more", () => {
    assert.equal(after({ input: 1500, cache_read: 500, compaction: 1000 }), 100);
  });

  it('is learned of a call, although an ended turn tells meanwhile of a model that had failed it', () => {
    const call = { provider: 'p', model: 'm', length: 1, estimated_tokens: 1000, fixed_tokens: 0 };
    const failed = { model: 'other', error: { code: 'invalid_request', message: 'No.' } };
    const answer = {
      ...call,
      stop_reason: 'end_turn' as const,
      ordinal: 1,
      tool_calls: 0,
      cost_usd: null,
      latency_ms: 1,
    };
    const learnedWith = (turn: string) =>
      carriedAfter({}, [
        { type: 'model.called', turn_id: 'now', payload: { ...call, tool_choice: 'auto' as const } },
        { type: 'model.failed', turn_id: turn, payload: failed },
        { type: 'model.responded', turn_id: 'now', payload: { ...answer, usage: { ...NO_TOKENS, input: 1300 } } },
      ]).calibration;
    assert.deepEqual([learnedWith('before'), learnedWith('now')], [{ 'p/m': 130 }, undefined]);
  });
});
