/**
 * Runs the bundled servers with what V8 has compiled of them before: compiling is two fifths of their start. Node can
 * load such code for scripts, not for modules.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { Script } from 'node:vm';
import { PROGRAM_FLAGS } from './v8-flags.ts';

/** What stands for `import` in the bundle: V8 does not know for whom compiled code imports. */
export const IMPORT = 'bundleImport';

/** What the bundle exports. */
interface Bundle {
  programs: Record<string, () => Promise<{ done: Promise<void> }>>;
  /** The modules that the programs load, without running them. */
  parts: (() => Promise<unknown>)[];
}

/** Runs a program until it ends. */
export async function runBundled(file: string, program: string): Promise<void> {
  const { bundle } = readBundle(file);
  const begun = await bundle.programs[program]?.();
  await begun?.done;
}

/** Keeps beside the bundle what V8 compiles when its modules are loaded. For a process of its own, which it ends. */
export async function keepCompiled(file: string): Promise<void> {
  const { bundle, script } = readBundle(file);
  for (const part of bundle.parts) await part();
  writeFileSync(keptOf(file), script.createCachedData());
  process.exit();
}

/** Whether V8 takes what was kept of the bundle: it refuses code of another version, or of other flags, without a word. */
export const takesCompiled = (file: string): boolean => readBundle(file).script.cachedDataRejected === false;

const keptOf = (file: string): string => `${file}.kept`;

function readBundle(file: string): { bundle: Bundle; script: Script } {
  // Compiled code is for the flags that it was compiled under; under others V8 compiles anew.
  setFlagsFromString(PROGRAM_FLAGS);
  const kept = keptOf(file);
  const code = `(function (module, ${IMPORT}, require, __filename, __dirname) {${readFileSync(file, 'utf8')}\n})`;
  const cached = existsSync(kept) && { cachedData: readFileSync(kept) };
  const script = new Script(code, { filename: file, ...cached });
  const module = { exports: {} as Bundle };
  const run = script.runInThisContext() as (...args: unknown[]) => void;
  run(module, (name: string) => import(name), createRequire(file), file, dirname(file));
  return { bundle: module.exports, script };
}
