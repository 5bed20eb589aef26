/** The agent of workflows that name none: the same for every tenant, and in no registry. */
export const BUILTIN_PLANNER = {
  id: '00000000-0000-7000-8000-000000000f10',
  version: '1.0.0',
  definition: { name: 'planner' },
} as const;
