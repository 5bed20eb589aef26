import assert from 'node:assert/strict';
import fc from 'fast-check';
import { modelUnder, replaces, type EmbeddingSettings } from '../../llm/embedding-settings.ts';

const anySettings: fc.Arbitrary<EmbeddingSettings> = fc.oneof(
  fc.record({ model: fc.constantFrom('openai/a', 'openai/b'), has_key: fc.constant(true) }),
  fc.record({ model: fc.constantFrom('offline', 'off'), has_key: fc.boolean() }),
);
const anyWanted = fc.constantFrom(undefined, 'offline', 'a', 'openai/b', 'acme/c');

describe('Whose vectors a process replaces', () => {
  it('comes to an end, however many processes embed in different ways', () => {
    fc.assert(
      fc.property(fc.uniqueArray(anySettings, { minLength: 1 }), anyWanted, (all, wanted) => {
        let model = 'openai/of-before';
        const seen = new Set([model]);
        const next = () =>
          all.find((own) =>
            replaces(
              own,
              all.filter((each) => each !== own),
              { wanted, model },
            ),
          );
        for (let own = next(); own; own = next()) {
          model = modelUnder(own, wanted) ?? '';
          assert.ok(!seen.has(model), `${model} is replaced, and comes back`);
          seen.add(model);
        }
      }),
    );
  });

  it('are those of models that nobody uses any more', () => {
    const [own, other] = [
      { model: 'openai/a', has_key: true },
      { model: 'offline', has_key: false },
    ];
    const of = (wanted: string | undefined, model: string) => replaces(own, [other], { wanted, model });
    assert.deepEqual(
      [of(undefined, 'openai/a'), of(undefined, 'offline'), of(undefined, 'openai/b')],
      [false, false, true],
    );
    assert.deepEqual([of('b', 'offline'), of('b', 'openai/a'), of('offline', 'openai/a')], [true, true, true]);
    assert.equal(replaces(other, [own], { wanted: 'b', model: 'openai/b' }), false);
    assert.equal(replaces({ model: 'off', has_key: true }, [], { wanted: undefined, model: 'offline' }), false);
  });

  it('leaves agents that name a model which nobody can ask to the installation’s', () => {
    assert.equal(modelUnder({ model: 'offline', has_key: true }, 'acme/c'), 'offline');
  });
});
