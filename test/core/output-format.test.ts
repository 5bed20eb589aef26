import assert from 'node:assert/strict';
import { checkAnswer, outputFormat } from '../../core/output-format.ts';
import { createArgumentValidator } from '../../tools/validate-arguments.ts';

describe('An answer that has to fit a schema', () => {
  const { validateAnswer: validate } = createArgumentValidator();
  const format = outputFormat({ output_schema: { type: 'object', properties: { a: { type: 'number' } } } }, undefined);

  it('does not with a number that no JSON can give back', () => {
    assert.ok(format);
    assert.deepEqual(checkAnswer('{"a": 1e300}', format, validate), { fits: true, as: 'json' });
    const deep = `${'['.repeat(50_000)}1e999${']'.repeat(50_000)}`;
    for (const answer of ['{"a": 1e999}', '{"b": [-1e999]}', deep]) {
      const checked = checkAnswer(answer, format, validate);
      assert.match(checked.fits ? '' : (checked.errors[0]?.message ?? ''), /too large for a double/);
    }
  });
});
