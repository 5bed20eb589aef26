import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { loadConfig } from '../config.ts';
import { PROVIDERS, variableOf } from '../llm/providers.ts';
import { ROOT } from './support/repository.ts';
import { OTEL_VARIABLES, variablesRead } from './support/variables.ts';

const example = readFileSync(new URL('.env.example', ROOT), 'utf8');
const settings = Object.fromEntries(
  [...example.matchAll(/^#([A-Z_]+)=(.*)$/gm)].map(([, name = '', value = '']) => [name, value] as const),
);

describe('.env.example', () => {
  it('names every variable that is read, and no other', () => {
    const isOfOpenTelemetry = (name: string) => OTEL_VARIABLES.includes(name);
    const named = Object.keys(settings).filter((name) => !isOfOpenTelemetry(name));
    const providers = PROVIDERS.flatMap((each) => [variableOf(each, 'API_KEY'), variableOf(each, 'BASE_URL')]);
    assert.deepEqual(new Set([...variablesRead(), ...providers]), new Set(named));
  });

  it('sets nothing as it stands, and has a comment above every variable', () => {
    const lines = example.split('\n');
    for (const [index, line] of lines.entries()) {
      assert.match(line, /^(#.*)?$/);
      if (/^#[A-Z_]+=/.test(line)) assert.match(lines[index - 1] ?? '', /^# \S/, line);
    }
  });

  it('shows values that are valid', () => {
    const config = loadConfig({ ...settings, DROVER_SECRET_KEY: 'a secret for this test, long enough' });
    assert.equal(config.mode, 'full');
  });
});
