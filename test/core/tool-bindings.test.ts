import assert from 'node:assert/strict';
import { bindingFault, isBoundTo, referencesOf, withOverrides, type ToolBinding } from '../../core/tool-bindings.ts';
import { toolOf } from '../support/tool-attempt.ts';

const remote = toolOf({ type: 'http', endpoint: 'https://tools.example.com/mcp' }, 'web_search');
const builtin = toolOf({ type: 'builtin' }, 'calculator');

describe('the binding of a tool', () => {
  const cases: readonly [uri: string, tool: typeof remote, isMeant: boolean][] = [
    ['mcp://tools.example.com/web-search', remote, true],
    ['https://tools.example.com/v1/web_search', remote, true],
    ['mcp://other.example.com/web-search', remote, false],
    ['mcp://tools.example.com/other', remote, false],
    ['builtin://calculator', builtin, true],
    ['tool://calculator', builtin, true],
    ['calculator', builtin, true],
    ['mcp://tools.example.com/calculator', builtin, false],
  ];
  for (const [uri, tool, isMeant] of cases) {
    it(`${uri} means ${isMeant ? '' : 'not '}${tool.name}`, () => {
      assert.equal(isBoundTo({ tool_uri: uri }, tool), isMeant);
      if (isMeant) assert.ok(referencesOf({ tool_uri: uri }).includes(tool.name));
    });
  }

  it('says what may be called, and how often', () => {
    const fault = (binding: ToolBinding, tool = remote, isOverRate?: boolean) =>
      bindingFault(binding, tool, isOverRate)?.code;
    const reading = { ...remote, risk_level: 'READ_ONLY' as const };
    assert.equal(fault({}), undefined);
    assert.equal(fault({ is_enabled: false }), 'tool_disabled');
    assert.equal(fault({ permissions: ['execute'] }), undefined);
    assert.equal(fault({ permissions: ['read'] }), 'permission_denied');
    assert.equal(fault({ permissions: ['read'] }, reading), undefined);
    assert.equal(fault({ permissions: ['write'] }, reading), 'permission_denied');
    assert.equal(fault({ permissions: [] }), 'permission_denied');
    assert.equal(fault({ rate_limit: 2 }, remote, false), undefined);
    assert.equal(fault({ rate_limit: 2 }, remote, true), 'rate_limited');
    assert.equal(fault({ rate_limit: 2 }), undefined);
  });

  it('changes what it names of the settings of the tool, and nothing else', () => {
    const binding = { tool_id: remote.id, config_overrides: { timeout_ms: 5, retry_config: { max_retries: 0 } } };
    const { execution } = withOverrides({ tool_bindings: [binding] }, remote);
    assert.deepEqual(execution, {
      ...remote.execution,
      timeout_ms: 5,
      retry_config: { ...remote.execution.retry_config, max_retries: 0 },
    });
    assert.equal(withOverrides({ tool_bindings: [binding] }, builtin), builtin);
  });
});
