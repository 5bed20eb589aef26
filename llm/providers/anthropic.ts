import type { Price, Provider } from '../provider.ts';

/** The newest Sonnet that can continue a shortened conversation (5.5 binds thinking to its context). */
export const DEFAULT_CLAUDE = 'claude-sonnet-5';

/** Cache writes cost 1.25 times the input for 5 minutes, twice the input for an hour. */
const claude = (input: number, output: number, cacheRead: number): Price => ({
  input,
  output,
  cacheRead,
  write5m: input * 1.25,
  write1h: input * 2,
});

/** As of 12 November 2026, platform.claude.com/docs/en/about-claude/pricing. */
const PRICES = {
  'claude-fable-5-1': claude(10, 50, 0.25),
  'claude-fable-5': claude(10, 50, 1),
  'claude-mythos-5-1': claude(10, 50, 0.25),
  'claude-mythos-5': claude(10, 50, 1),
  'claude-opus-5-5': claude(4, 20, 0.2),
  'claude-opus-5': claude(5, 25, 0.5),
  'claude-opus-4-8': claude(5, 25, 0.5),
  'claude-opus-4-7': claude(5, 25, 0.5),
  'claude-opus-4-6': claude(5, 25, 0.5),
  'claude-opus-4-5': claude(5, 25, 0.5),
  'claude-opus-4-1': claude(15, 75, 1.5),
  'claude-opus-4-0': claude(15, 75, 1.5),
  'claude-opus-4': claude(15, 75, 1.5),
  'claude-sonnet-5-5': claude(2, 10, 0.1),
  'claude-sonnet-5': claude(2, 10, 0.2),
  'claude-sonnet-4-6': claude(3, 15, 0.3),
  'claude-sonnet-4-5': claude(3, 15, 0.3),
  'claude-sonnet-4-0': claude(3, 15, 0.3),
  'claude-sonnet-4': claude(3, 15, 0.3),
  'claude-haiku-5-5': {
    ...claude(0.1, 0.5, 0.01),
    long: { overTokens: 100_000, rates: claude(0.5, 2.5, 0.05) },
  },
  'claude-haiku-4-5': claude(1, 5, 0.1),
  'claude-3-5-haiku': claude(0.8, 4, 0.08),
};

const IN_THE_US = 1.1;

/** As of 28 November 2026, platform.claude.com/docs/en/about-claude/pricing. Fast modes whose price is not known are missing. */
const TIERS = {
  fast: { 'claude-opus-5': 2 },
  // Models before Opus 4.6 and Sonnet 4.6 refuse `inference_geo`.
  us: {
    'claude-fable-5-1': IN_THE_US,
    'claude-fable-5': IN_THE_US,
    'claude-mythos-5-1': IN_THE_US,
    'claude-mythos-5': IN_THE_US,
    'claude-opus-5-5': IN_THE_US,
    'claude-opus-5': IN_THE_US,
    'claude-opus-4-8': IN_THE_US,
    'claude-opus-4-7': IN_THE_US,
    'claude-opus-4-6': IN_THE_US,
    'claude-sonnet-5-5': IN_THE_US,
    'claude-sonnet-5': IN_THE_US,
    'claude-sonnet-4-6': IN_THE_US,
    'claude-haiku-5-5': IN_THE_US,
  },
};

const LONG = 1_000_000;
const SHORT = 200_000;

/** As of 22 November 2026, platform.claude.com/docs/en/models; without sizes that need a beta header. */
const CONTEXT_WINDOWS = {
  'claude-fable-5-1': LONG,
  'claude-fable-5': LONG,
  'claude-mythos-5-1': LONG,
  'claude-mythos-5': LONG,
  'claude-opus-5-5': LONG,
  'claude-opus-5': LONG,
  'claude-opus-4-8': LONG,
  'claude-opus-4-7': LONG,
  'claude-opus-4-6': LONG,
  'claude-opus-4-5': SHORT,
  'claude-opus-4-1': SHORT,
  'claude-opus-4-0': SHORT,
  'claude-opus-4': SHORT,
  'claude-sonnet-5-5': LONG,
  'claude-sonnet-5': LONG,
  'claude-sonnet-4-6': LONG,
  'claude-sonnet-4-5': SHORT,
  'claude-sonnet-4-0': SHORT,
  'claude-sonnet-4': SHORT,
  'claude-haiku-5-5': LONG,
  'claude-haiku-4-5': SHORT,
  'claude-3-5-haiku': SHORT,
};

export const ANTHROPIC: Provider = {
  name: 'anthropic',
  takesOwnTools: true,
  bare: { pattern: /^claude-\S+$/, shown: '`claude-…`' },
  defaultModel: DEFAULT_CLAUDE,
  prices: PRICES,
  tiers: TIERS,
  contextWindows: CONTEXT_WINDOWS,
  // platform.claude.com/docs/en/build-with-claude/vision and pdf-support: 5 MB of base64, and 32 MB per request.
  filesTaken: () => ({ imageBytes: 3_750_000, pdfBytes: 20 * 1024 * 1024 }),
  open: async (credential) => (await import('../anthropic.ts')).anthropicModel(credential),
  openFiles: async (credential) => (await import('../anthropic-files.ts')).anthropicFiles(credential),
};
