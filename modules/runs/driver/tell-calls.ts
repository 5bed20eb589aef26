/** Shows watchers the calls of an answer while it is written, as far as permitted before they have passed the gate. */
import type { ArgumentsPiece } from '../../../core/model.ts';
import { callsMade } from '../../../core/denied-calls.ts';
import type { ToolDefinition } from '../../../core/tool.ts';
import { newId } from '../../../lib/new-id.ts';
import { mayShowUnjudged } from '../../governance/unjudged-calls.ts';
import { offeredTools } from './open-node.ts';
import { gatedRun, type Drive } from './drive-state.ts';
import type { Piece } from './tell-pieces.ts';

interface WrittenCalls {
  /** The piece for watchers; undefined if not shown. `after`: number of the answer's characters before it. */
  take: (piece: ArgumentsPiece, after: number) => Piece | undefined;
  /** The answer has gone on with something else: its calls are shown once they are in the log. */
  leave: () => void;
}

/**
 * Gives each call its later id in the log, in `ids`, so that watchers recognise it there. The log has an answer's calls in
 * order and after its texts: after a call that is not shown, none is, and none before a text.
 */
export function tellCalls(drive: Drive, ids: string[]): WrittenCalls {
  const chars: number[] = [];
  const tools = offeredTools(drive);
  let isOver = false;
  let before = 0;
  return {
    take({ tool, place, text }, after) {
      if (isOver || place === undefined) return undefined;
      if (place === ids.length) {
        isOver = !isTold(drive, tools.get(tool), place);
        if (isOver) return undefined;
        if (place === 0) before = after;
        ids.push(newId());
        chars.push(0);
      }
      const callId = ids[place];
      const at = chars[place];
      if (callId === undefined || at === undefined) return undefined;
      chars[place] = at + text.length;
      return { kind: 'call_piece', callId, place, tool, text, at, after: before };
    },
    leave() {
      if (ids.length === 0) return;
      isOver = true;
      ids.length = 0;
    },
  };
}

function isTold(drive: Drive, tool: ToolDefinition | undefined, place: number): boolean {
  const callsInTurn = callsMade(drive.log.state) + place;
  return tool !== undefined && mayShowUnjudged({ ...gatedRun(drive), tool, callsInTurn });
}
