import assert from 'node:assert/strict';
import { resolveTime } from '../../../core/memory/time-expressions.ts';

/** A Wednesday. */
const AT = new Date('2026-03-18T15:30:00Z');

function spanOf(text: string): string | undefined {
  const span = resolveTime(text, AT);
  return span && `${span.from.toISOString().slice(0, 10)} ${span.to.toISOString().slice(0, 10)}`;
}

describe('times in a question', () => {
  const cases: Record<string, string> = {
    'What did I say yesterday?': '2026-03-17 2026-03-18',
    'the day before yesterday': '2026-03-16 2026-03-17',
    'what is on today': '2026-03-18 2026-03-19',
    'What did we decide last week?': '2026-03-09 2026-03-16',
    'this week': '2026-03-16 2026-03-23',
    'last month': '2026-02-01 2026-03-01',
    'Where did I travel last year?': '2025-01-01 2026-01-01',
    'in 2024': '2024-01-01 2025-01-01',
    'What happened in May?': '2025-05-01 2025-06-01',
    'in February': '2026-02-01 2026-03-01',
    'March 2024': '2024-03-01 2024-04-01',
    'on March 5, 2024': '2024-03-05 2024-03-06',
    'on March 20': '2025-03-20 2025-03-21',
    'on the 5th of March': '2026-03-05 2026-03-06',
    '2024-02-29': '2024-02-29 2024-03-01',
    'two days ago': '2026-03-16 2026-03-17',
    '3 weeks ago': '2026-02-22 2026-03-01',
    'in the last two weeks': '2026-03-04 2026-03-18',
    'last Monday': '2026-03-16 2026-03-17',
    'on Wednesday': '2026-03-11 2026-03-12',
  };
  for (const [text, span] of Object.entries(cases)) it(`resolves "${text}"`, () => assert.equal(spanOf(text), span));

  it('finds none where none is named', () => {
    for (const text of ['What is my budget?', 'May I come in?', 'second hand', 'I may march on', '2024 euros'])
      assert.equal(spanOf(text), undefined, text);
  });
});
