/** What searches by words read of `memory_terms`, for entries and fragments alike. */

/** Per word and owner, the newest considered: a word in more says little. */
export const POSTINGS = 1000;
/** Of the rarer of two such words, how many older ones are looked through for the other word, and how many are considered. */
const OLDER_POSTINGS = 4000;
const WITH_BOTH = 200;

/**
 * Of texts that have only words in more than `POSTINGS` others, all words together say much. So of each owner, the two rarest
 * words that were cut off (those whose `postings` reach furthest back) lead to older texts that have both. The CTEs to follow
 * `asked (term)` and `postings (owner_id, term, entry_id, tf, len)`; the last is `every`, like `postings`, with the older
 * ones. `seen` is a condition on `entry_id`.
 */
export function withOlder(seen: string): string {
  return `cut as materialized (select owner_id, term, min(entry_id::text)::uuid as last,
        row_number() over (partition by owner_id order by min(entry_id::text), term) as place
      from postings group by owner_id, term having count(*) >= ${POSTINGS}),
    both_words as materialized (select rarest.owner_id, older.entry_id from cut rarest join cut second on second.owner_id = rarest.owner_id
      cross join lateral (select p.entry_id from (select entry_id from memory_terms
          where owner_id = rarest.owner_id and term = rarest.term and entry_id < second.last and ${seen}
          order by entry_id desc limit ${OLDER_POSTINGS}) p
        -- With a limit of its own it stays a look at one row.
        cross join lateral (select from memory_terms
          where owner_id = rarest.owner_id and term = second.term and entry_id = p.entry_id limit 1) same limit ${WITH_BOTH}) older
      where rarest.place = 1 and second.place = 2),
    every as materialized (select owner_id, term, entry_id, tf, len from postings
      union select t.owner_id, t.term, t.entry_id, t.tf, t.len from both_words b join memory_terms t on t.owner_id = b.owner_id
        and t.entry_id = b.entry_id and t.term in (select term from asked))`;
}
