import assert from 'node:assert/strict';
import { EVENTS } from '../../core/events.ts';
import { keptConfig, requestedConfig, runConfig } from '../../core/run-config.ts';

const OWN = { model_override: 'offline', max_turns: 3, autonomy_level: 1 };

describe('The configuration of a run', () => {
  it('keeps what was asked for, without what the run has in fields of its own', () => {
    const requested = requestedConfig.parse({ ...OWN, agent_version: '1.0.0', keep_open: true });
    assert.deepEqual(keptConfig(requested), OWN);
  });

  it('takes what was not asked for from the run that it goes on from', () => {
    assert.deepEqual(keptConfig(requestedConfig.parse({ max_turns: 9 }), OWN), { ...OWN, max_turns: 9 });
  });

  it('gives the model of the agent back where null is asked for', () => {
    const { model_override: _, ...rest } = OWN;
    assert.deepEqual(keptConfig(requestedConfig.parse({ model_override: null }), OWN), rest);
  });

  it('has the same schema in the log, which refuses a setting that this build does not know', () => {
    assert.equal(EVENTS['run.created'].payload.shape.config, runConfig);
    assert.equal(runConfig.safeParse({ ...OWN, patience: 1 }).success, false);
  });
});
