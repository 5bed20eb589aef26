import { MODES, describeModes } from './modes.ts';

/** Mocha calls it once, before everything else (.mocharc.json, `require`). */
export function mochaGlobalSetup(): void {
  console.log(describeModes(MODES));
}
