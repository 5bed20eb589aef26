import type { Price, Provider } from '../provider.ts';

export const DEFAULT_GPT = 'gpt-5.6-terra';

/** Cache writes cost the same as input; reads have their own price. */
const gpt = (input: number, output: number, cacheRead: number): Price => ({
  input,
  output,
  cacheRead,
  write5m: input,
  write1h: input,
});

const GPT_LONG_TOKENS = 272_000;

/** Above 272,000 tokens a prompt costs double, its answer one and a half times as much. */
const gptLong = (input: number, output: number, cacheRead: number): Price => ({
  ...gpt(input, output, cacheRead),
  long: { overTokens: GPT_LONG_TOKENS, rates: gpt(input * 2, output * 1.5, cacheRead * 2) },
});

/** From GPT-6 on cache writes cost 1.25 times the input; prices of long prompts are unknown. */
const gpt6 = (input: number, output: number, cacheRead: number): Price => ({
  ...gpt(input, output, cacheRead),
  write5m: input * 1.25,
  write1h: input * 2,
  long: { overTokens: GPT_LONG_TOKENS, rates: null },
});

/** As of 12 November 2026, developers.openai.com/api/docs/pricing. */
const PRICES = {
  'gpt-6.1-terra': gpt6(1, 5, 0.05),
  'gpt-6-astra': gpt6(10, 50, 1),
  'gpt-6-sol': gpt6(2, 10, 0.2),
  'gpt-6-luna': gpt6(0.1, 0.5, 0.01),
  'gpt-5.6-sol': gptLong(5, 30, 0.5),
  'gpt-5.6-terra': gptLong(2, 12, 0.2),
  'gpt-5.6-luna': gptLong(0.2, 1.2, 0.02),
  'gpt-5.4': gptLong(2.5, 15, 0.25),
  'gpt-5.4-mini': gpt(0.75, 4.5, 0.075),
  'gpt-5.4-nano': gpt(0.2, 1.25, 0.02),
  'gpt-5.2': gpt(1.75, 14, 0.175),
  'gpt-5.1': gpt(1.25, 10, 0.125),
  'gpt-5': gpt(1.25, 10, 0.125),
  'gpt-5-mini': gpt(0.25, 2, 0.025),
  'gpt-5-nano': gpt(0.05, 0.4, 0.005),
  'gpt-4.1': gpt(2, 8, 0.5),
  'gpt-4.1-mini': gpt(0.4, 1.6, 0.1),
  'gpt-4.1-nano': gpt(0.1, 0.4, 0.025),
  'gpt-4o': gpt(2.5, 10, 1.25),
  'gpt-4o-mini': gpt(0.15, 0.6, 0.075),
  o3: gpt(2, 8, 0.5),
  'o4-mini': gpt(1.1, 4.4, 0.275),
  'o3-mini': gpt(1.1, 4.4, 0.55),
  o1: gpt(15, 60, 7.5),
};

const embedding = (input: number): Price => gpt(input, 0, input);

/** As of 28 November 2026, developers.openai.com/api/docs/models. */
const EMBEDDING_PRICES = {
  'text-embedding-3-small': embedding(0.02),
  'text-embedding-3-large': embedding(0.13),
  'text-embedding-ada-002': embedding(0.1),
};

/** Multiples that openai.com/api-priority-processing gives, as of 28 November 2026; those of newer models are not known. */
const TIERS = {
  priority: {
    'gpt-5.4': 2,
    'gpt-5.4-mini': 2,
    'gpt-5.2': 2,
    'gpt-5.1': 2,
    'gpt-5': 2,
    'gpt-5-mini': 1.8,
    'gpt-4.1': 1.75,
    'gpt-4.1-mini': 1.75,
    'gpt-4.1-nano': 2,
    'gpt-4o': 1.7,
    o3: 1.75,
  },
};

/**
 * As of 22 November 2026, developers.openai.com/api/docs/models. For GPT-6 only known to exceed the limit of its short
 * price.
 */
const CONTEXT_WINDOWS = {
  'gpt-6.1-terra': 400_000,
  'gpt-6-astra': 400_000,
  'gpt-6-sol': 400_000,
  'gpt-6-luna': 400_000,
  'gpt-5.6-sol': 1_050_000,
  'gpt-5.6-terra': 1_050_000,
  'gpt-5.6-luna': 1_050_000,
  'gpt-5.4': 1_050_000,
  'gpt-5.4-mini': 400_000,
  'gpt-5.4-nano': 400_000,
  'gpt-5.2': 400_000,
  'gpt-5.1': 400_000,
  'gpt-5': 400_000,
  'gpt-5-mini': 400_000,
  'gpt-5-nano': 400_000,
  'gpt-4.1': 1_047_576,
  'gpt-4.1-mini': 1_047_576,
  'gpt-4.1-nano': 1_047_576,
  'gpt-4o': 128_000,
  'gpt-4o-mini': 128_000,
  o3: 200_000,
  'o4-mini': 200_000,
  'o3-mini': 200_000,
  o1: 200_000,
};

const MOST_FILE_BYTES = 20 * 1024 * 1024;
const OWN = /^(?:gpt-|chatgpt-|o\d)/;
const WITHOUT_IMAGES = /^(?:gpt-3\.5|gpt-4(?:-\d{4}|-32k.*)?$|o1-mini|o1-preview|o3-mini)/;

export const OPENAI: Provider = {
  name: 'openai',
  bare: { pattern: /^(?:(?:chat)?gpt-|o\d)[^\s/]*$/, shown: '`gpt-…` or `o3…`' },
  defaultModel: DEFAULT_GPT,
  prices: { ...PRICES, ...EMBEDDING_PRICES },
  tiers: TIERS,
  contextWindows: CONTEXT_WINDOWS,
  // OpenAI's own models: 50 MB of files per request. Of compatible servers only images are known to work.
  filesTaken: (model) => ({
    imageBytes: WITHOUT_IMAGES.test(model) ? 0 : MOST_FILE_BYTES,
    pdfBytes: OWN.test(model) && !WITHOUT_IMAGES.test(model) ? MOST_FILE_BYTES : 0,
  }),
  open: async (credential) => (await import('../openai.ts')).openaiModel(credential),
};
