import assert from 'node:assert/strict';
import { calibrate, percentOf } from '../../core/calibration.ts';
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
});
