/** The facts that answers must contain, computed from the data itself, not by an agent. */
import { loadCars, matches, summarise, summariseGroups, type Condition } from '../demo-cars.ts';

/** For FUEL_QUESTION: the region, its mean, and the means of its first and last year. */
export function fuelFacts(): string[] {
  const byFuel = { metric: 'Miles_per_Gallon', op: 'mean' } as const;
  const regions = summariseGroups(carsWith({ column: 'Cylinders', op: 'eq', value: 4 }), 'Origin', byFuel);
  const best = regions.toSorted((a, b) => b.value - a.value)[0];
  if (!best) throw new Error('the data has no cars with 4 cylinders');
  const ofBest = carsWith(
    { column: 'Cylinders', op: 'eq', value: 4 },
    { column: 'Origin', op: 'eq', value: best.group },
  );
  const years = summariseGroups(ofBest, 'Year', byFuel);
  return [best, years[0], years.at(-1)].flatMap((group) => (group ? [String(group.group), String(group.value)] : []));
}

/** For PUBLISH_QUESTION: the region, the number of cars, and their mean. */
export function publishFacts(): string[] {
  const cars = carsWith({ column: 'Origin', op: 'eq', value: 'Japan' });
  return ['Japan', String(cars.length), String(summarise(cars, 'Miles_per_Gallon', 'mean'))];
}

/** For TEAM_QUESTION: each region's mean, and the differences of Europe and Japan from the USA. */
export function teamFacts(): string[] {
  const means = ['USA', 'Europe', 'Japan'].map(
    (region) => summarise(carsWith({ column: 'Origin', op: 'eq', value: region }), 'Miles_per_Gallon', 'mean') ?? 0,
  );
  const [first = 0, ...others] = means;
  return [...means, ...others.map((mean) => Math.round((mean - first) * 100) / 100)].map(String);
}

/** The facts missing from an answer. A model may round or omit numbers: unless `exact`, only the first is required. */
export function missingFacts(answer: string, facts: readonly string[], exact: boolean): string[] {
  const asked = exact ? facts : facts.slice(0, 1);
  return asked.filter((fact) => !new RegExp(`(?<![\\d.])${fact.replaceAll('.', '\\.')}(?![\\d]|\\.\\d)`).test(answer));
}

function carsWith(...conditions: Condition[]) {
  return loadCars().filter((car) => conditions.every((condition) => matches(car, condition)));
}
