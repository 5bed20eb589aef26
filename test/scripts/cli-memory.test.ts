import assert from 'node:assert/strict';
import { startTestApi, type TestApi } from '../support/api.ts';
import { startDroverThread } from '../support/drover-command.ts';

describe('drover memory', function () {
  this.timeout(600_000);
  let api: TestApi;
  let commands: ReturnType<typeof startDroverThread>;

  before(async () => {
    commands = startDroverThread();
    api = await startTestApi();
  });
  after(async () => {
    await commands.close();
    await api.close();
  });

  const there = (...args: string[]) => commands.drover(args, { DROVER_URL: api.url, DROVER_API_KEY: api.key });
  const post = async (path: string, body: unknown) => (await api.call('POST', path, { body })).json;

  it('adds to a memory, finds it, corrects it, consolidates and forgets', async () => {
    const consolidation = { min_age_hours: 0, importance_threshold: 0.5, max_entry_tokens: 50 };
    await post('/v1/agents', { name: 'remembers', memory_config: { consolidation } });
    const memory = (...args: string[]) => there('memory', ...args, '--agent', 'remembers');
    const added = await memory('add', 'Ada prefers trains.', '--subject', 'ada', '--importance', '0.9');
    assert.equal(added.code, 0, added.err);
    const entry = added.out.trim();
    assert.match((await memory('list')).out, new RegExp(`${entry} +SEMANTIC +0\\.90 +user +Ada prefers trains\\.`));
    assert.match((await memory('search', 'What does Ada prefer?')).out, new RegExp(`${entry} +0\\.\\d+ +active +\\w+`));
    const corrected = await memory('correct', entry, 'Ada prefers ships.', '--reason', 'she said so');
    const next = corrected.out.trim();
    assert.match(
      (await memory('show', next)).out,
      /^Ada prefers ships\.\n[^]*1 +\S+ +superseded .*Ada prefers trains/m,
    );
    await memory('add', 'The weather was grey.', '--type', 'short_term');
    const [consolidated = ''] = (await memory('consolidate', '--strategy', 'age')).out.split('\n');
    assert.match((await memory('consolidations')).out, new RegExp(`^${consolidated} +age`, 'm'));
    assert.match((await memory('revert', consolidated)).out, new RegExp(`^reverted: ${consolidated}, \\d+ entries`));
    const dry = await memory('forget', '--subject', 'ada', '--dry-run');
    assert.match(dry.out, new RegExp(`${next}[^]*would be forgotten: \\d+ entries`));
    assert.match((await memory('forget', '--subject', 'ada')).out, /^forgotten: /m);
    assert.equal((await memory('show', next)).code, 1, 'it is gone');
    assert.equal((await memory('forget')).code, 2, 'it names nothing');
  });

  it('writes into a space, finds what is shared, decides on it and deletes it', async () => {
    const { id: space } = await post('/v1/memory/spaces', { name: 'facts', conflict_check: 'rules' });
    const memory = (...args: string[]) => there('memory', ...args);
    assert.match((await memory('spaces')).out, new RegExp(`${space} +facts +team +rules`));
    const written = await memory('share', space, 'The budget is 30 thousand.');
    const fragment = written.out.trim();
    assert.equal(written.code, 0, written.err);
    assert.match((await memory('share', space, 'The budget is 45 thousand.')).out, /^\S+\nversion 2 has both sides/);
    const found = await memory('shared', 'What is the budget?', '--space', space, '--min-relevance', '0.1');
    assert.match(found.out, new RegExp(`${fragment} +\\d\\.\\d\\d +2 +both sides`));
    assert.match((await memory('resolve', fragment, 'The budget is 40 thousand.')).out, /version 3/);
    const late = ['--fragment', fragment, '--expected-version', '2'];
    assert.equal((await memory('share', space, 'The budget is gone.', ...late)).code, 1);
    assert.match((await memory('unshare', fragment)).out, /^deleted: /);
    assert.match((await memory('shared', '--space', space)).out, /^Nothing was found/);
  });
});
