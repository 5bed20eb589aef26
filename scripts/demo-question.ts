/** The demo's questions, and worked examples that show its agent how to answer them. */
import type { WorkflowExample } from '../core/definition.ts';

/** Each call depends on earlier results: the region is known only after the second, its years after the fourth. */
export const FUEL_EXAMPLE: WorkflowExample = {
  question:
    "Which region's {cylinders}-cylinder cars had the best fuel economy, and how did it change from its first to its last model year?",
  steps: [
    { tool: 'filter_rows', input: { dataset_id: 'cars', column: 'Cylinders', op: 'eq', value: '{cylinders}' } },
    {
      tool: 'aggregate',
      input: {
        dataset_id: '{{steps.0.output.dataset_id}}',
        metric: 'Miles_per_Gallon',
        op: 'mean',
        group_by: 'Origin',
      },
    },
    {
      tool: 'filter_rows',
      input: {
        dataset_id: '{{steps.0.output.dataset_id}}',
        column: 'Origin',
        op: 'eq',
        value: '{{steps.1.output.highest.group}}',
      },
    },
    {
      tool: 'aggregate',
      input: { dataset_id: '{{steps.2.output.dataset_id}}', metric: 'Miles_per_Gallon', op: 'mean', group_by: 'Year' },
    },
    { tool: 'compare', input: { from: '{{steps.3.output.first.value}}', to: '{{steps.3.output.last.value}}' } },
  ],
  answer:
    '{{steps.1.output.highest.group}}: its {{steps.2.output.rows}} {cylinders}-cylinder cars averaged {{steps.1.output.highest.value}} miles per gallon (lowest: {{steps.1.output.lowest.group}}, {{steps.1.output.lowest.value}}). From {{steps.3.output.first.group}} to {{steps.3.output.last.group}} the average {{steps.4.output.direction}} from {{steps.3.output.first.value}} to {{steps.3.output.last.value}}, a difference of {{steps.4.output.difference}} ({{steps.4.output.percent}} %).',
};

export const FUEL_QUESTION =
  "Which region's 4-cylinder cars had the best fuel economy, and how did it change from its first to its last model year?";

/** Ends with a counted effect: the call in whose middle the demo kills the process. */
export const PUBLISH_EXAMPLE: WorkflowExample = {
  question: 'Publish a report on the fuel economy of cars from {origin}.',
  steps: [
    { tool: 'filter_rows', input: { dataset_id: 'cars', column: 'Origin', op: 'eq', value: '{origin}' } },
    {
      tool: 'aggregate',
      input: { dataset_id: '{{steps.0.output.dataset_id}}', metric: 'Miles_per_Gallon', op: 'mean' },
    },
    {
      tool: 'publish_report',
      input: {
        title: 'Fuel economy of cars from {origin}',
        text: 'The {{steps.1.output.rows}} cars from {origin} average {{steps.1.output.value}} miles per gallon.',
      },
    },
  ],
  answer:
    'Published as {{steps.2.output.report_id}}: the {{steps.1.output.rows}} cars from {origin} average {{steps.1.output.value}} miles per gallon.',
};

export const PUBLISH_QUESTION = 'Publish a report on the fuel economy of cars from Japan.';
