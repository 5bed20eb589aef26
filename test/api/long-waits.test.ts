import assert from 'node:assert/strict';
import { presentWaits } from '../../api/runs/waiting.ts';
import type { RunView } from '../../modules/runs/read-runs.ts';

describe('What a run waits for', () => {
  it('is shown where an older build has let it wait for longer than a time can say', () => {
    const wait = { id: 'w', type: 'user', name: null, question: 'ok?' };
    const waits = ['33658-09-27T01:46:40+00:00', '2026-11-26T12:00:00+00:00'].map((until) => ({ ...wait, until }));
    const shown = presentWaits({ waits, approvals: [] } as unknown as RunView);
    assert.deepEqual(
      shown.map(({ until }) => until),
      ['2026-11-26T12:00:00.000Z', '9999-12-31T23:59:59.999Z'],
    );
  });
});
