/** The questions of the team demo, and worked examples that show its agents how to proceed. */
import type { WorkflowExample } from '../core/definition.ts';

export const TEAM_QUESTION = 'Compare the fuel economy of cars from USA, Europe and Japan.';

const PARTS = ['a', 'b', 'c'] as const;
const questionOf = (origin: string) => `Find the mean fuel economy of cars from ${origin}.`;
const COMPARE = 'Compare two means.';
const REPORT = 'Write what was found.';

/** How the planner splits the question: three tasks examine a region each, two compare, one writes. */
export const PLAN_EXAMPLE: WorkflowExample = {
  question: 'Compare the fuel economy of cars from {a}, {b} and {c}.',
  steps: [
    {
      tool: 'submit_plan',
      input: {
        subtasks: [
          ...PARTS.map((part) => ({
            id: `{${part}}`,
            description: questionOf(`{${part}}`),
            dependencies: [],
            required_capabilities: ['data_analysis'],
          })),
          ...['b', 'c'].map((part) => ({
            id: `{a} to {${part}}`,
            description: COMPARE,
            dependencies: ['{a}', `{${part}}`],
            required_capabilities: ['comparison'],
          })),
          {
            id: 'report',
            description: REPORT,
            dependencies: ['{a} to {b}', '{a} to {c}'],
            required_capabilities: ['writing'],
          },
        ],
        success_criteria: '',
      },
    },
  ],
};

export const ANALYSIS_EXAMPLE: WorkflowExample = {
  question: questionOf('{origin}'),
  steps: [
    { tool: 'filter_rows', input: { dataset_id: 'cars', column: 'Origin', op: 'eq', value: '{origin}' } },
    {
      tool: 'aggregate',
      input: { dataset_id: '{{steps.0.output.dataset_id}}', metric: 'Miles_per_Gallon', op: 'mean' },
    },
  ],
  answer: '{{steps.1.output.value}}',
};

export const COMPARISON_EXAMPLE: WorkflowExample = {
  question: `${COMPARE} Result of {from}: {low} Result of {to}: {high}`,
  steps: [{ tool: 'compare', input: { from: '{low}', to: '{high}' } }],
  answer:
    '{from} {low}, {to} {high} miles per gallon: a difference of {{steps.0.output.difference}} ({{steps.0.output.percent}} %)',
};

export const WRITING_EXAMPLE: WorkflowExample = {
  question: `${REPORT} Result of {one}: {first} Result of {two}: {second}`,
  steps: [],
  answer: 'Mean fuel economy, {one}: {first}; {two}: {second}.',
};
