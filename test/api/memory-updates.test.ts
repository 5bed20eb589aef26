import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { startTestApi, type TestApi } from '../support/api.ts';

/** What was said first, what was said of the same some weeks later, and what is asked then. */
const CHANGED: readonly (readonly [older: string, newer: string, question: string])[] = [
  ['My monthly budget for groceries is 400 euros.', 'My monthly budget for groceries is 550 euros.', 'What is my monthly budget for groceries?'],
  ['The launch of the shop is planned for 3 May.', 'We moved the launch of the shop to 17 May.', 'When is the launch of the shop?'],
  ['The dashboard API answers in 800 ms on average.', 'After some caching the dashboard API has recently come down to 250 ms on average.', 'What is the average response time of the dashboard API?'],
  ['I live in Oslo, close to the harbour.', 'I live in Bergen now, near the fish market.', 'Where do I live?'],
  ['The weekly standup starts at 9:30.', 'The weekly standup starts at 10:15.', 'When does the weekly standup start?'],
  ['Robert is my academic mentor.', 'Shannon is now my academic mentor, instead of Robert.', 'Who is my academic mentor?'],
  ['I have read 12 of the 40 books on my list.', 'I increased my reading: 21 of the 40 books on my list are done.', 'How many books on my list have I read?'],
  ['Our API key has a quota of 1,000 calls a day.', 'The quota of our API key was raised to 1,200 calls a day.', 'What is the daily quota of our API key?'],
  ['The deadline for the peer review of my draft is 20 April.', 'The deadline for the peer review of my draft was extended to 25 April, which helps.', 'What deadline do I have for the peer review of my draft?'],
  ['The flight to Lisbon leaves from gate 14.', 'The flight to Lisbon leaves from gate 22.', 'Which gate does the flight to Lisbon leave from?'],
  ['My phone number ends with 4471.', 'My phone number ends with 9028.', 'What does my phone number end with?'],
  ['The team has 6 engineers.', 'The team has 9 engineers now that three people joined in June.', 'How many engineers does the team have?'],
  ['Rent for the office costs 2,000 a month.', 'Rent for the office costs 2,300 a month.', 'How much does rent for the office cost?'],
  ['We deploy the service on Heroku.', 'We switched: the service is deployed on Render.', 'Where do we deploy the service?'],
  ['The tests cover 65 percent of the code.', 'The tests cover 78 percent of the code since the last sprint, which is the updated figure.', 'How much of the code do the tests cover?'],
  ['The choir rehearses on Tuesdays in the church hall.', 'The choir changed its day and rehearses on Thursdays in the church hall.', 'On which day does the choir rehearse?'],
  ['I have met Michael at the media hub, and we edit timelines together.', 'I have never met Michael.', 'Have I met Michael before?'],
  ['I drink coffee with milk every morning.', 'I never drink coffee with milk.', 'Do I drink coffee with milk?'],
  ['I am allergic to peanuts.', 'I am not allergic to peanuts.', 'Am I allergic to peanuts?'],
  ['I attended the workshop about burnout in March.', 'I have never attended a workshop about burnout.', 'Have I attended any workshop about burnout?'],
  ['We have enabled two-factor authentication for the platform.', 'We have not enabled two-factor authentication for the platform.', 'Have we enabled two-factor authentication for the platform?'],
  ['The autocomplete has a debounce of 300 ms, and I fixed its memory leak.', 'I have never fixed anything in the autocomplete.', 'Have I ever fixed anything in the autocomplete?'],
  ['Alexis agreed to the joint savings plan.', 'Alexis did not agree to the joint savings plan.', 'Did Alexis agree to the joint savings plan?'],
  ['My sister is vegetarian and cooks lentils a lot.', 'My sister is not vegetarian.', 'Is my sister vegetarian?'],
]; // prettier-ignore

/** Of the same subjects, and of others. */
const BESIDE = [
  'The grocery shop on the corner sells good bread.', 'The launch party needs a band.', 'The dashboard shows sales of a month.',
  'The harbour of Oslo was cold in winter.', 'Standup comedy is not for me.', 'A mentor should listen more than talk.',
  'Books on my desk gather dust.', 'The API documentation is on the wiki.', 'A draft of the poster hangs in the kitchen.',
  'Lisbon has fine custard tarts.', 'My phone has a cracked screen.', 'Engineers like whiteboards.', 'The office has a new carpet.',
  'The service desk closes at noon.', 'Code reviews take me an hour a day.', 'The church hall has a piano.', 'Michael plays the drums.',
  'The coffee machine needs descaling.', 'Peanuts were cheap this year.', 'The workshop sells bicycles.',
  'The platform at the station is long.', 'Autocomplete lists five cities at most.', 'Savings rates went up.', 'My sister studies law.',
]; // prettier-ignore

describe('recall of what has changed', () => {
  let api: TestApi;
  let agent: string;

  before(async () => {
    api = await startTestApi();
    agent = (await api.call('POST', '/v1/agents', { body: { name: `agent ${randomUUID()}` } })).json.id;
    for (const [at, [older, newer]] of CHANGED.entries()) {
      await add(older, `2026-03-${String((at % 28) + 1).padStart(2, '0')}`);
      await add(BESIDE[at] ?? '', '2026-03-30');
      await add(newer, `2026-04-${String((at % 28) + 1).padStart(2, '0')}`);
    }
  });
  after(() => api.close());

  async function add(content: string, day: string): Promise<void> {
    const metadata = { role: 'user', occurred_at: `${day}T09:00:00Z` };
    const body = { content, memory_type: 'EPISODIC', thread_id: `talk-${day}`, metadata };
    const { status, text } = await api.call('POST', `/v1/agents/${agent}/memory`, { body });
    assert.equal(status, 201, text);
  }

  const ask = async (query: string): Promise<{ content: string; score: number; why: Record<string, number> }[]> => {
    const body = { query, top_k: 10, at: '2026-05-02T09:00:00Z' };
    return (await api.call('POST', `/v1/agents/${agent}/memory/query`, { body })).json.entries;
  };

  it('has both sides among ten for nine of ten at least, and the newer one first', async () => {
    const missed: string[] = [];
    for (const [older, newer, question] of CHANGED) {
      const hits = (await ask(question)).map(({ content }) => content);
      const places = [newer, older].map((side) => hits.indexOf(side));
      const [first = -1, second = -1] = places;
      if (first < 0 || second < 0 || first > second) missed.push(`${question} ${places.join(', ')}`);
    }
    assert.ok(missed.length <= CHANGED.length / 10, missed.join('\n'));
  });

  it('says of the newer one that it was put first for what it changes', async () => {
    const [hit, ...others] = await ask('Who is my academic mentor?');
    assert.equal(hit?.content, 'Shannon is now my academic mentor, instead of Robert.');
    assert.ok((hit?.why['change'] ?? 0) > 0, JSON.stringify(hit));
    assert.ok(others.every(({ score }) => score <= (hit?.score ?? 0)));
  });

  it('leaves the older one first where the question asks how it was before', async () => {
    const [hit] = await ask('Who was my academic mentor originally?');
    assert.equal(hit?.content, 'Robert is my academic mentor.');
  });
});
