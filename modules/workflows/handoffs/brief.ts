/** What agents read of a handoff. */
import { textOf } from '../../../core/content.ts';
import { contextPart, withoutFragments } from '../../../core/handoff-brief.ts';
import type { HandoffMessage } from '../../../core/handoff-summary.ts';
import { canonicalJson } from '../../../core/canonical-json.ts';
import { findAgentNames } from '../../../db/agents.ts';
import type { MessageRow } from '../../../db/claim-run.ts';
import type { Tx } from '../../../db/database.ts';
import type { HandoffRow } from '../../../db/handoffs.ts';

type Handed = Pick<
  HandoffRow,
  'id' | 'source_agent_id' | 'target_agent_id' | 'reason' | 'urgency' | 'expected_action' | 'summary' | 'rejection'
>;

/** For the target: the reason, and the context as data. */
export async function briefOf(tx: Tx, handoff: Handed): Promise<string> {
  const { source_agent_id: source, reason, urgency, expected_action: expected, summary, id } = handoff;
  const names = await findAgentNames(tx, [source]);
  const lines = [
    `Handed over to you by the agent ${names.get(source) ?? source}, handoff ${id}.`,
    `Reason: ${reason}`,
    `Urgency: ${urgency}`,
    ...(expected === null ? [] : [`Expected of you: ${expected}`]),
  ];
  return `${lines.join('\n')}\n\n${contextPart(summary)}`;
}

/** For the source, when the work comes back. */
export async function rejectionNote(tx: Tx, { id, target_agent_id: target, rejection }: Handed): Promise<string> {
  const names = await findAgentNames(tx, [target]);
  const why = rejection?.message ?? 'no reason was given';
  return `The agent ${names.get(target) ?? target} has not taken what you handed over (handoff ${id}): ${why}\nGo on with it yourself.`;
}

/**
 * A conversation as messages and calls. Tool results are not handed over: they can be looked up in their run. Nor are the
 * fragments of an earlier handoff: a target is given those that are there, and that it may see.
 */
export function historyOf(messages: readonly MessageRow[]): HandoffMessage[] {
  return messages.flatMap(({ role, content, origin }) => {
    // Drover's own messages to the model are not handed over.
    if (origin === 'drover') return [];
    const calls = content.flatMap((block) =>
      block.type === 'tool_use' ? [`[calls ${block.name} with ${canonicalJson(block.input)}]`] : [],
    );
    const said = withoutFragments(textOf(content), () => true);
    const text = [said, ...calls].filter((part) => part !== '').join('\n');
    return text === '' ? [] : [{ role, text, isAction: calls.length > 0 }];
  });
}
