/** Model settings that a provider takes besides the conversation. */
import { z } from 'zod';
import { LIMITS } from './limits.ts';

/** Parameters that only Drover may set, or that contain secrets. */
const OWN_PARAMETERS: readonly string[] = [
  'model',
  'messages',
  'system',
  'tools',
  'tool_choice',
  'functions',
  'function_call',
  'stream',
  'stream_options',
  'max_tokens',
  'max_completion_tokens',
  'container',
  'betas',
  'mcp_servers',
  'n',
];

/** Parameters by which a provider executes tools of its own (OpenAI, and servers that are compatible with it). */
const TOOL_PARAMETERS: readonly string[] = [
  'web_search_options',
  'search_parameters',
  'search_settings',
  'search_options',
  'enable_search',
  'enable_code_interpreter',
  'compound_custom',
  'plugins',
  'connectors',
  'data_sources',
  'extra_body',
];

/** The given parameters that have the provider execute tools, each with its value. */
export function toolParametersIn(given: Record<string, unknown>): [string, unknown][] {
  return Object.entries(given).filter(
    ([name, value]) => TOOL_PARAMETERS.includes(name) && value !== false && value !== null,
  );
}

const apiKwargs = z
  .record(z.string().max(100), z.unknown())
  .superRefine((given, context) => {
    const own = Object.keys(given).filter((key) => OWN_PARAMETERS.includes(key));
    for (const key of own) context.addIssue({ code: 'custom', path: [key], message: 'is set by Drover' });
    if (JSON.stringify(given).length > LIMITS.apiKwargsChars)
      context.addIssue({ code: 'custom', message: `is longer than ${LIMITS.apiKwargsChars} characters as JSON` });
  })
  .describe('Further parameters of model calls, as the provider takes them: `top_p`, `stop_sequences`, …');

const serverTool = z
  .looseObject({ type: z.string().regex(/^[a-z][a-z0-9_]{0,99}$/), name: z.string().min(1).max(64).optional() })
  .refine((tool) => JSON.stringify(tool).length <= LIMITS.apiKwargsChars, {
    message: `is longer than ${LIMITS.apiKwargsChars} characters as JSON`,
  });

/** Extra instructions for a provider. Sent only to the provider of the agent's first model. */
export const providerSettings = {
  thinking_tokens: z
    .int()
    .max(1_000_000)
    .refine((tokens) => tokens === 0 || tokens >= 1024, 'must be 0, or 1024 at least')
    .optional()
    .describe('Tokens of an answer that the model may spend on reasoning.'),
  server_tools: z.array(serverTool).max(20).optional().describe('Tools that the provider executes.'),
  beta_headers: z
    .array(z.string().regex(/^[a-zA-Z0-9][a-zA-Z0-9._-]{0,99}$/))
    .max(20)
    .optional(),
  api_kwargs: apiKwargs.optional(),
  max_retries: z.int().min(0).max(20).optional().describe('Further attempts of a model call, 2 where absent.'),
  base_delay: z.number().min(0).max(60).optional().describe('Seconds before the first of them, doubled each time.'),
};

/** Provider settings in the form of a request (docs/models.md). */
export interface ProviderOptions {
  /** Token budget of reasoning. */
  thinkingTokens?: number | undefined;
  /** Tools that the provider executes, in its own format. */
  serverTools?: readonly Record<string, unknown>[] | undefined;
  betaHeaders?: readonly string[] | undefined;
  /** Further parameters of the request, passed unchanged. */
  apiKwargs?: Record<string, unknown> | undefined;
  /** The container that the provider's code last ran in. */
  containerId?: string | undefined;
}

type Settings = { [K in keyof typeof providerSettings]?: z.output<(typeof providerSettings)[K]> };

/** Converts an agent's settings; undefined if there are none. */
export function providerOptions(
  { thinking_tokens, server_tools, beta_headers, api_kwargs }: Settings,
  containerId: string | undefined,
): ProviderOptions | undefined {
  const options: ProviderOptions = {
    ...(thinking_tokens && { thinkingTokens: thinking_tokens }),
    ...(server_tools?.length && { serverTools: server_tools, ...(containerId !== undefined && { containerId }) }),
    ...(beta_headers?.length && { betaHeaders: beta_headers }),
    ...(api_kwargs && Object.keys(api_kwargs).length > 0 && { apiKwargs: api_kwargs }),
  };
  return Object.keys(options).length > 0 ? options : undefined;
}
