import { z } from 'zod';
import type { Caller } from '../../core/caller.ts';
import { hasScope } from '../../core/scopes.ts';
import { CATEGORY } from '../../core/tool-categories.ts';
import { effectOf, EFFECTS, RISK_LEVELS } from '../../core/tool.ts';
import type { ToolDefinition, ToolTransport } from '../../core/tool.ts';
import type { ToolRow } from '../../modules/tools-registry/read-tools.ts';
import type { TransportSchema } from '../../tools/transport-kind.ts';
import { kindOf, TRANSPORTS } from '../../tools/transports.ts';

const jsonSchema = z.record(z.string(), z.unknown());

const anyTransport = oneOf(TRANSPORTS.flatMap(({ schemas }) => Object.values(schemas)));
const anyServer = oneOf(TRANSPORTS.flatMap(({ servers }) => servers?.importSchemas ?? []));

function oneOf(schemas: readonly TransportSchema[]) {
  const [first, ...others] = schemas;
  if (!first) throw new Error('there are no transports');
  return z.discriminatedUnion('type', [first, ...others]);
}

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
  sandbox: z.literal(false).optional(),
});

const annotations = z.strictObject({
  readOnlyHint: z.boolean().optional(),
  idempotentHint: z.boolean().optional(),
  destructiveHint: z.boolean().optional(),
  openWorldHint: z.boolean().optional(),
});

const TAINT = {
  accepts_tainted: z
    .boolean()
    .optional()
    .describe('Its calls need no approval for untrusted content that the model has read in the turn.'),
  output_trust: z
    .enum(['trusted', 'untrusted'])
    .optional()
    .describe('Whether somebody vouches for what it answers; `untrusted` answers taint the calls after them.'),
};

const CATEGORY_RULE = [CATEGORY, 'must be 1 to 64 letters, digits, spaces or any of _./&+-'] as const;

const riskLevel = z
  .string()
  .toUpperCase()
  .pipe(z.enum(RISK_LEVELS))
  .meta({ type: 'string', enum: [...RISK_LEVELS] });

const toolFields = {
  description: z.string().min(1).max(20_000),
  version: z
    .string()
    .regex(/^\d{1,9}\.\d{1,9}\.\d{1,9}$/, 'expected semver such as 1.0.0')
    .optional(),
  display_name: z.string().max(200).optional(),
  category: z
    .string()
    .regex(...CATEGORY_RULE)
    .optional(),
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
  risk_level: riskLevel.optional(),
  annotations: annotations.optional(),
  ...TAINT,
};

export const toolName = z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, - or _');

export const toolRequest = z
  .strictObject({
    name: toolName,
    ...toolFields,
  })
  .meta({ id: 'ToolDefinition' });

/** A tool without its name. */
export const toolContent = z.strictObject(toolFields).meta({ id: 'ToolContent' });

export const toolPatch = z
  .strictObject({
    description: toolFields.description.optional(),
    version: toolFields.version,
    display_name: toolFields.display_name.nullable(),
    category: toolFields.category.nullable(),
    input_schema: toolFields.input_schema.nullable(),
    output_schema: toolFields.output_schema.nullable(),
    transport: anyTransport.optional(),
    execution: toolFields.execution.nullable(),
    permissions: toolFields.permissions.nullable(),
    risk_level: toolFields.risk_level.nullable(),
    annotations: toolFields.annotations.nullable(),
    accepts_tainted: toolFields.accepts_tainted.nullable(),
    output_trust: toolFields.output_trust.nullable(),
    suspended: z.boolean().optional().describe('Calls are refused until this is lifted; no version is published.'),
  })
  .meta({ id: 'ToolPatch', description: 'A field that is null gets its default back; one that is absent stays.' });

const serverNames = z.array(z.string().min(1).max(200)).max(1000).optional();

export const importRequest = z
  .strictObject({
    transport: anyServer,
    trusted: z.boolean().optional().describe("Whether the server's word on its tools' risks counts."),
    name: z
      .string()
      .regex(...CATEGORY_RULE)
      .optional()
      .describe('What the server is called: the category of new tools.'),
    prefix: z
      .string()
      .regex(/^[a-zA-Z0-9_-]{1,63}$/, 'must be 1 to 63 letters, digits, - or _')
      .optional()
      .describe('Before the name of each tool.'),
    include: serverNames.describe("The server's names of the tools that are wanted, where not all of them are."),
    exclude: serverNames.describe("The server's names of tools that are not wanted."),
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
  category: z.string().optional(),
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
  effect: z.enum(EFFECTS).describe('What follows for a call whose outcome nobody knows: it is made again, or not.'),
  annotations,
  ...TAINT,
  is_builtin: z.boolean(),
  suspended: z.boolean(),
  proposed: z
    .strictObject({
      reason: z.enum(['changed', 'gone', 'unreadable']),
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

/** A tool in full; possible credentials are redacted. */
export function presentTool(
  definition: ToolDefinition,
  times?: Pick<ToolRow, 'suspended' | 'proposed' | 'created_at' | 'updated_at'>,
): z.input<typeof tool> {
  return {
    ...definition,
    effect: effectOf(definition),
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

/** A tool in a list, with its permissions' names only. */
export function presentListedTool(
  definition: ToolDefinition,
  times?: Pick<ToolRow, 'suspended' | 'proposed' | 'created_at' | 'updated_at'>,
): z.input<typeof listedTool> {
  const { permissions, ...rest } = presentTool(definition, times);
  return { ...rest, permissions: permissions.map(({ name }) => name) };
}

/** For a caller that has changed it: the answer to a registration, if the caller may not read the rest. */
export function presentToolTo({ scopes }: Caller, row: ToolRow): z.input<typeof tool | typeof createdTool> {
  return hasScope(scopes, 'tools:read') ? presentTool(row.definition, row) : presentCreated(row);
}

export function presentImportedTo({ scopes }: Caller, row: ToolRow): z.input<typeof listedTool | typeof createdTool> {
  return hasScope(scopes, 'tools:read') ? presentListedTool(row.definition, row) : presentCreated(row);
}

export const imported = z
  .strictObject({
    server: z
      .strictObject({
        id: z.uuid().nullable().describe('Null where no tool of it has ever been registered.'),
        name: z.string().optional(),
        transport: z.looseObject({ type: z.string() }).describe('Where it is: an endpoint, or a program.'),
      })
      .describe('As `GET /v1/mcp-servers` has it.'),
    tools: z.array(z.union([listedTool, createdTool])),
    skipped: z
      .array(z.strictObject({ name: z.string().describe("The server's own."), reason: z.string() }))
      .describe('Tools of the server that were not registered.'),
  })
  .meta({ id: 'ImportedTools' });

/** Transports of types that are not known here may hold anything. */
function presentTransport(transport: ToolTransport): Record<string, unknown> & { type: string } {
  return kindOf(transport)?.present(transport) ?? { type: transport.type };
}
