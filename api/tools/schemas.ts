import { z } from 'zod';
import { LIMITS } from '../../core/limits.ts';
import { RISK_LEVELS } from '../../core/tool.ts';
import type { ToolDefinition, ToolTransport } from '../../core/tool.ts';
import type { ToolRow } from '../../db/tools.ts';

/** What answers show in place of a value that may be a credential. */
const HIDDEN = '[hidden]';

const MAX_BODY_TEMPLATE = 64 * 1024;

const jsonSchema = z.record(z.string(), z.unknown());
const shown = (value: string) => value !== HIDDEN;
const hiddenMessage = { message: `"${HIDDEN}" stands for a value that is not shown: send the value itself` };

const headers = z
  .record(
    z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}$/, 'is not a header name'),
    z
      .string()
      .max(8000)
      .regex(/^[\t\x20-\x7e\x80-\xff]*$/, 'has a character that headers cannot have')
      .refine(shown, hiddenMessage),
  )
  .describe('`{{secret:name}}` stands for a secret.');

const env = z.record(
  z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,199}$/, 'is not the name of a variable'),
  z
    .string()
    .max(32_000)
    .refine((value) => !value.includes('\0'), 'has a NUL')
    .refine(shown, hiddenMessage),
);

const program = {
  command: z.string().min(1).max(1000),
  args: z.array(z.string().max(8000)).max(100).optional(),
  env: env.optional(),
};

const http = z.strictObject({
  type: z.literal('http'),
  endpoint: z.url({ protocol: /^https?$/, message: 'must be an http or https URL' }).max(2000),
  method: z.enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE']).optional(),
  headers: headers
    .nullable()
    .optional()
    .transform((value) => value ?? undefined),
  path: z.string().max(2000).optional().describe('Template, appended to the path of the endpoint.'),
  query: z
    .record(z.string().min(1).max(200), z.string().max(8000).refine(shown, hiddenMessage))
    .optional()
    .describe('Templates.'),
  body: z
    .json()
    .refine((value) => Buffer.byteLength(JSON.stringify(value)) <= MAX_BODY_TEMPLATE, 'is too large')
    .optional()
    .describe('JSON in which every text is a template, in place of the input.'),
  response: z
    .strictObject({ expression: z.string().min(1).max(4000) })
    .optional()
    .describe('JSONata over the answer: its result is the output.'),
  max_bytes: z.int().min(1).max(LIMITS.toolOutputBytes).optional(),
  max_redirects: z.int().min(0).max(10).optional(),
});

const stdio = z.strictObject({
  type: z.literal('mcp_stdio'),
  ...program,
  tool: z.string().min(1).max(200).optional().describe("The tool's name at the server, where it is another."),
});

const client = z.strictObject({ type: z.literal('client') }).describe('Whoever talks to the run executes the tool.');
const remote = {
  endpoint: http.shape.endpoint,
  headers: http.shape.headers,
};

const ownName = z.string().min(1).max(200).optional().describe("The tool's name at the server, where it is another.");

const mcpHttp = z.strictObject({ type: z.literal('mcp_http'), ...remote, tool: ownName });
const mcpSse = z.strictObject({ type: z.literal('mcp_sse'), ...remote, tool: ownName });

const builtin = z.strictObject({ type: z.literal('builtin') });

const anyTransport = z.discriminatedUnion('type', [http, stdio, mcpHttp, mcpSse, builtin, client]);

const permission = z.strictObject({ name: z.string().min(1).max(200), required: z.boolean().default(true) });

const execution = z.strictObject({
  timeout_ms: z.int().min(1).max(600_000).optional(),
  retry_config: z
    .strictObject({
      max_retries: z.int().min(0).max(20).optional(),
      backoff_ms: z.int().min(0).max(600_000).optional(),
    })
    .optional(),
  inline: z.boolean().optional().describe('The driver calls the tool itself instead of a queue.'),
  sandbox: z.boolean().optional(),
});

const annotations = z.strictObject({
  readOnlyHint: z.boolean().optional(),
  idempotentHint: z.boolean().optional(),
  destructiveHint: z.boolean().optional(),
});

const toolFields = {
  description: z.string().min(1).max(20_000),
  version: z
    .string()
    .regex(/^\d{1,9}\.\d{1,9}\.\d{1,9}$/, 'expected semver such as 1.0.0')
    .optional(),
  display_name: z.string().max(200).optional(),
  input_schema: jsonSchema.optional(),
  output_schema: jsonSchema.optional(),
  transport: anyTransport,
  execution: execution.optional(),
  permissions: z
    .array(
      z.union([
        z
          .string()
          .min(1)
          .max(200)
          .transform((name) => ({ name, required: true })),
        permission,
      ]),
    )
    .max(100)
    .optional(),
  risk_level: z.enum(RISK_LEVELS).optional(),
  annotations: annotations.optional(),
};

export const toolRequest = z
  .strictObject({
    name: z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, - or _'),
    ...toolFields,
  })
  .meta({ id: 'ToolDefinition' });

export const toolPatch = z
  .strictObject({
    description: toolFields.description.optional(),
    version: toolFields.version,
    display_name: toolFields.display_name.nullable(),
    input_schema: toolFields.input_schema.nullable(),
    output_schema: toolFields.output_schema.nullable(),
    transport: anyTransport.optional(),
    execution: toolFields.execution.nullable(),
    permissions: toolFields.permissions.nullable(),
    risk_level: toolFields.risk_level.nullable(),
    annotations: toolFields.annotations.nullable(),
    suspended: z.boolean().optional().describe('Calls are refused until this is lifted; no version is published.'),
  })
  .meta({ id: 'ToolPatch', description: 'A field that is null gets its default back; one that is absent stays.' });

export const importRequest = z
  .strictObject({
    transport: z.discriminatedUnion('type', [
      z.strictObject({ type: z.literal('stdio'), ...program }),
      z.strictObject({ type: z.literal('http'), ...remote }).describe('Streamable HTTP.'),
      z.strictObject({ type: z.literal('sse'), ...remote }).describe('The older HTTP with SSE.'),
    ]),
    trusted: z.boolean().optional().describe("Whether the server's word on its tools' risks counts."),
  })
  .meta({ id: 'ToolImport' });

const common = {
  id: z.uuid(),
  tool_id: z.uuid(),
  name: z.string(),
  version: z.string(),
  status: z.literal('registered'),
  created_at: z.iso.datetime().optional().describe('Built-in tools have none.'),
};

const details = {
  ...common,
  display_name: z.string().optional(),
  description: z.string(),
  input_schema: jsonSchema,
  output_schema: jsonSchema.optional(),
  transport: z.looseObject({ type: z.string() }),
  execution: z.strictObject({
    timeout_ms: z.int(),
    retry_config: z.strictObject({ max_retries: z.int(), backoff_ms: z.int() }),
    inline: z.boolean(),
  }),
  risk_level: z.enum(RISK_LEVELS),
  annotations,
  is_builtin: z.boolean(),
  suspended: z.boolean(),
  proposed: z
    .strictObject({
      reason: z.enum(['changed', 'gone']),
      changes: z.record(z.string(), z.strictObject({ from: z.unknown(), to: z.unknown() })),
    })
    .optional()
    .describe('What the MCP server says of the tool since it has changed; `suspended: false` confirms it.'),
  updated_at: z.iso.datetime().optional(),
};

export const createdTool = z.strictObject(common).meta({ id: 'CreatedTool' });
export const listedTool = z.strictObject({ ...details, permissions: z.array(z.string()) }).meta({ id: 'ListedTool' });
export const tool = z
  .strictObject({ ...details, permissions: z.array(z.strictObject({ name: z.string(), required: z.boolean() })) })
  .meta({ id: 'Tool' });

/** The answer to a registration. */
export function presentCreated({
  id,
  name,
  current_version: version,
  created_at,
}: ToolRow): z.input<typeof createdTool> {
  return { id, tool_id: id, name, version, status: 'registered', created_at: created_at.toISOString() };
}

/** A tool as one answer; what may be a credential is hidden. */
export function presentTool(
  definition: ToolDefinition,
  times?: Pick<ToolRow, 'suspended' | 'proposed' | 'created_at' | 'updated_at'>,
): z.input<typeof tool> {
  return {
    ...definition,
    tool_id: definition.id,
    status: 'registered',
    transport: presentTransport(definition.transport),
    is_builtin: definition.transport.type === 'builtin',
    suspended: times?.suspended ?? false,
    ...(times?.proposed ? { proposed: times.proposed } : {}),
    ...(times === undefined
      ? {}
      : { created_at: times.created_at.toISOString(), updated_at: times.updated_at.toISOString() }),
  };
}

/** A tool in a list: permissions by name alone (document 000, List Available Tools). */
export function presentListedTool(
  definition: ToolDefinition,
  times?: Pick<ToolRow, 'suspended' | 'proposed' | 'created_at' | 'updated_at'>,
): z.input<typeof listedTool> {
  const { permissions, ...rest } = presentTool(definition, times);
  return { ...rest, permissions: permissions.map(({ name }) => name) };
}

function presentTransport(transport: ToolTransport): Record<string, unknown> & { type: string } {
  if (transport.type === 'http' || transport.type === 'mcp_http' || transport.type === 'mcp_sse')
    return {
      ...transport,
      ...(transport.headers && { headers: hide(transport.headers, isCredential) }),
      ...('query' in transport && transport.query && { query: hide(transport.query, isCredential) }),
    };
  if (transport.type === 'mcp_stdio')
    return { ...transport, ...(transport.env && { env: hide(transport.env, () => true) }) };
  return transport;
}

function hide(
  values: Record<string, string>,
  secret: (name: string, value: string) => boolean,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, secret(name, value) ? HIDDEN : value]),
  );
}

/** A reference to a secret is none itself. */
function isCredential(name: string, value: string): boolean {
  if (/^(\S+ )?\{\{\s*(secret:[^{}\s]+|input[\w.-]*)\s*\}\}$/.test(value)) return false;
  return /auth|cookie|key|token|secret|password|signature/i.test(name);
}
