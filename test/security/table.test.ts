import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { ATTACKS } from '../support/red-team.ts';
/* oxlint-disable import/no-unassigned-import -- loading them makes their attacks known */
import './approvals.test.ts';
import './arguments.test.ts';
import './reaching-inside.test.ts';
import './resources.test.ts';
import './secrets.test.ts';
import './tool-results.test.ts';
import './webhooks.test.ts';

describe('docs/security.md', () => {
  it('lists every attack of the red team with its outcome, and no other', () => {
    const rows = readFileSync('docs/security.md', 'utf8')
      .split('\n')
      .filter((line) => /^\| [A-Z]\d\d \|/.test(line));
    const expected = ATTACKS.map(({ id, what, outcome }) => `| ${id} | ${what} | ${outcome} |`);
    assert.deepEqual(rows.toSorted(), expected.toSorted());
    assert.ok(expected.length >= 60);
    assert.equal(new Set(ATTACKS.map(({ id }) => id)).size, expected.length);
  });
});
