/** Named moments at which a process of a torture dies: just before or after a certain database statement. */

export interface KillPoint {
  name: string;
  kind: 'worker' | 'api' | 'combined';
  when: 'before' | 'after';
  /** A text in the statement or one of its parameters. */
  holds: string;
}

const event = (type: string) => `"type":"${type}"`;

/** Between any two, something exists only in the process: a paid answer, an effect, an unsent job. */
export const KILL_POINTS: readonly KillPoint[] = [
  { name: 'a run claimed', kind: 'worker', when: 'after', holds: 'claim_run' },
  { name: 'a model about to be asked', kind: 'worker', when: 'after', holds: event('model.called') },
  { name: 'an answer not yet written', kind: 'worker', when: 'before', holds: event('model.responded') },
  { name: 'an answer written, its jobs not sent', kind: 'worker', when: 'after', holds: event('model.responded') },
  { name: 'a call claimed, not yet sent', kind: 'worker', when: 'after', holds: event('tool.started') },
  { name: 'a result not yet written', kind: 'worker', when: 'before', holds: event('tool.succeeded') },
  { name: 'a result written, its jobs not sent', kind: 'worker', when: 'after', holds: event('tool.succeeded') },
  { name: 'an end not yet written', kind: 'worker', when: 'before', holds: event('run.completed') },
  { name: 'a run not yet created', kind: 'api', when: 'before', holds: event('run.created') },
  { name: 'a run created, its job not sent', kind: 'api', when: 'after', holds: event('run.created') },
  { name: 'a run not yet created by its driver', kind: 'combined', when: 'before', holds: event('run.created') },
  { name: 'a run created by its driver', kind: 'combined', when: 'after', holds: event('run.created') },
  { name: 'a turn about to be learnt from', kind: 'worker', when: 'after', holds: 'from memory_extractions x' },
  { name: 'a memory not yet written', kind: 'worker', when: 'before', holds: 'insert into memory_entries' },
  { name: 'a memory written, its turn still due', kind: 'worker', when: 'after', holds: 'insert into memory_entries' },
  {
    name: 'a turn learnt from, not yet committed',
    kind: 'worker',
    when: 'after',
    holds: `set status = 'done', made_by`,
  },
  { name: 'a consolidation not yet written', kind: 'api', when: 'before', holds: 'insert into memory_consolidations' },
  { name: 'a consolidation not yet committed', kind: 'api', when: 'after', holds: 'insert into memory_consolidations' },
  { name: 'a decision not yet written', kind: 'api', when: 'before', holds: event('approval.granted') },
  { name: 'a decision written, its job not sent', kind: 'api', when: 'after', holds: event('approval.granted') },
  { name: 'a signal not yet written', kind: 'api', when: 'after', holds: 'insert into signals' },
  { name: 'a signal written, its job not sent', kind: 'api', when: 'after', holds: event('signal.received') },
  { name: 'a run taken along with a result', kind: 'combined', when: 'after', holds: '"then_claim":' },
];

/** Whether a statement with its parameters matches a point. */
export function isAt(point: KillPoint, statement: { text: string; values: readonly unknown[] }): boolean {
  if (statement.text.includes(point.holds)) return true;
  return statement.values.some((value) => typeof value === 'string' && value.includes(point.holds));
}
