/**
 * The demo's questions with their right answers, computed another way than by the demo's tools: straight from the
 * package's file, in one pass of running sums, with nothing of scripts/demo-cars.ts.
 *
 * Question pattern and steps: `FUEL_EXAMPLE` and `PUBLISH_EXAMPLE` of scripts/demo-question.ts (five dependent calls:
 * filter_rows, aggregate, filter_rows, aggregate, compare; and filter_rows, aggregate, publish_report). The questions
 * that are really asked are `FUEL_QUESTION` (4 cylinders) and `PUBLISH_QUESTION` (Japan).
 */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

export { FUEL_EXAMPLE, FUEL_QUESTION, PUBLISH_EXAMPLE, PUBLISH_QUESTION } from '../../scripts/demo-question.ts';

interface RawCar {
  Miles_per_Gallon: number | null;
  Cylinders: number;
  Year: string;
  Origin: string;
}

interface FuelAnswer {
  region: string;
  cars: number;
  mean: number;
  firstYear: number;
  lastYear: number;
  firstMean: number;
  lastMean: number;
  difference: number;
}

/** The right answer to FUEL_QUESTION for a number of cylinders, numbers to two decimals as the answer gives them. */
export function fuelAnswer(cylinders: number): FuelAnswer {
  const sums = new Map<string, Sum>();
  const counts = new Map<string, number>();
  for (const car of rawCars()) {
    if (car.Cylinders !== cylinders) continue;
    counts.set(car.Origin, (counts.get(car.Origin) ?? 0) + 1);
    if (car.Miles_per_Gallon === null) continue;
    const year = new Date(car.Year).getUTCFullYear();
    for (const key of [car.Origin, `${car.Origin} ${year}`]) sums.set(key, plus(sums.get(key), car.Miles_per_Gallon));
  }
  let region = '';
  for (const origin of counts.keys()) if (region === '' || mean(sums, origin) > mean(sums, region)) region = origin;
  const years = [...sums.keys()].filter((key) => key.startsWith(`${region} `)).map((key) => Number(key.slice(-4)));
  const [firstYear, lastYear] = [Math.min(...years), Math.max(...years)];
  const [firstMean, lastMean] = [mean(sums, `${region} ${firstYear}`), mean(sums, `${region} ${lastYear}`)];
  const difference = Math.round((lastMean - firstMean) * 100) / 100;
  const cars = counts.get(region) ?? 0;
  return { region, cars, mean: mean(sums, region), firstYear, lastYear, firstMean, lastMean, difference };
}

/** The right numbers for PUBLISH_QUESTION: all cars of a region, and the mean of those whose fuel economy is known. */
export function publishAnswer(origin: string): { cars: number; mean: number } {
  const cars = rawCars().filter((car) => car.Origin === origin);
  let sum: Sum | undefined;
  for (const { Miles_per_Gallon: mpg } of cars) if (mpg !== null) sum = plus(sum, mpg);
  return { cars: cars.length, mean: mean(new Map(sum ? [[origin, sum]] : []), origin) };
}

interface Sum {
  total: number;
  count: number;
}

function plus(sum: Sum | undefined, value: number): Sum {
  return { total: (sum?.total ?? 0) + value, count: (sum?.count ?? 0) + 1 };
}

function mean(sums: ReadonlyMap<string, Sum>, key: string): number {
  const { total, count } = sums.get(key) ?? { total: 0, count: 0 };
  return count === 0 ? -Infinity : Math.round((total / count) * 100) / 100;
}

function rawCars(): RawCar[] {
  const require = createRequire(import.meta.url);
  const folder = dirname(require.resolve('vega-datasets'));
  return require(join(folder, '..', 'data', 'cars.json')) as RawCar[];
}
