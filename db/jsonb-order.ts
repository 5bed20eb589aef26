/** Sorts object keys as `jsonb` does: shorter ones first, then by bytes. */
export function inJsonbOrder<T>(value: T): T {
  if (Array.isArray(value)) return value.map(inJsonbOrder) as T;
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value;
  const entries = Object.entries(value).map(([key, item]) => ({ key, bytes: Buffer.from(key), item: item as unknown }));
  entries.sort((a, b) => a.bytes.length - b.bytes.length || Buffer.compare(a.bytes, b.bytes));
  return Object.fromEntries(entries.map(({ key, item }) => [key, inJsonbOrder(item)])) as T;
}
