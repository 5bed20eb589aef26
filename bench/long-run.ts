/** A run of 200 steps: time and WAL per step must not grow with the conversation. */
import { NO_TOKENS, type StreamModel } from '../core/model.ts';
import { createMeter } from './costs.ts';
import { openDrover } from './drover.ts';
import type { Figure } from './figures.ts';
import type { Services } from './services.ts';
import { pad } from './work.ts';

const STEPS = 200;
const QUARTER = STEPS / 4;

/** Drives one run of 200 steps, each a model call and a pure tool call; compares the last quarter with the first. */
export async function measureLongRun(services: Services): Promise<Figure[]> {
  const marks: { ms: number; walKb: number }[] = [];
  const meter = await createMeter(services);
  let steps = 0;
  const stream: StreamModel = async () => {
    if (steps % QUARTER === 0) marks.push({ ms: performance.now(), walKb: (await meter.read()).walKb });
    const started = steps++;
    const base = { provider: 'offline', model: 'stub', usage: { ...NO_TOKENS, input: 300, output: 250 } };
    const input = { expression: `${started} + 1` };
    if (started === STEPS) return { ...base, content: [{ type: 'text', text: pad() }], stopReason: 'end_turn' };
    const use = { type: 'tool_use' as const, id: `call_${started}`, name: 'calculator', input };
    return { ...base, content: [{ type: 'text', text: pad() }, use], stopReason: 'tool_use' };
  };
  const drover = await openDrover('pure', services, { stream, execution: { max_turns: STEPS + 1 } });
  try {
    await drover.serve(1);
    const run = await drover.start();
    await drover.ended(run);
  } finally {
    await meter.close();
    await drover.close();
  }
  // The meter's own time at each mark, in ms.
  const metering = 1100;
  const quarters = marks.slice(1).map((mark, index) => ({
    ms: (mark.ms - (marks[index]?.ms ?? 0) - metering) / QUARTER,
    walKb: (mark.walKb - (marks[index]?.walKb ?? 0)) / QUARTER,
  }));
  const [first, last] = [quarters[0], quarters.at(-1)];
  const figure = (what: string, unit: string, of: (quarter: { ms: number; walKb: number }) => number): Figure => ({
    part: 'long run',
    what: `${what} of a step, steps 151 to 200`,
    value: last ? of(last) : Number.NaN,
    unit,
    ratio: { value: last && first ? of(last) / of(first) : Number.NaN, to: 'steps 1 to 50' },
    goal: 'flat',
  });
  return [figure('time', 'ms', ({ ms }) => ms), figure('WAL', 'KB', ({ walKb }) => walKb)];
}
