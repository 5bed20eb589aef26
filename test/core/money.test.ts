import assert from 'node:assert/strict';
import fc from 'fast-check';
import { addMoney, shownMoney, shownSum, sumMoney } from '../../core/money.ts';

describe('money', () => {
  const units = fc.bigInt({ min: 0n, max: 10n ** 24n });
  const decimal = (amount: bigint) => {
    const digits = amount.toString().padStart(11, '0');
    return `${digits.slice(0, -10)}.${digits.slice(-10)}`.replace(/\.?0+$/, '');
  };

  it('is added exactly, however much it is, and shown as the number nearest to it', () => {
    fc.assert(
      fc.property(fc.array(units, { maxLength: 20 }), (amounts) => {
        const total = decimal(amounts.reduce((sum, amount) => sum + amount, 0n));
        const sum = sumMoney(amounts.map(decimal));
        assert.equal(sum, total);
        assert.equal(shownMoney(sum), Number(total));
      }),
    );
    assert.equal(shownMoney(addMoney('0.1', '0.2')), 0.3);
    assert.equal(addMoney('0.2000000000', '1'), '1.2');
  });

  it('of which a part is not known is not known', () => {
    assert.equal(sumMoney(['1', null, '2']), null);
    assert.equal(shownMoney(null), null);
    assert.equal(sumMoney([]), '0');
    assert.deepEqual([shownSum('0', 0), shownSum('0', 2), shownSum('0.1', 2)], [0, null, 0.1]);
  });
});
