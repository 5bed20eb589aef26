-- A text for the text search, which takes for a word what stands between spaces. For scripts without spaces (Han, Kana, Thai, Lao,
-- Khmer, Burmese) each two characters that stand beside each other are added as a word: first those from the first, third … on, then
-- those from the second, fourth … on. Only of the beginning: a long text would have more words than a tsvector holds.
create or replace function split_words(text text) returns text language sql immutable parallel safe as $$
  select case when text !~ c then text else text || ' '
      || regexp_replace(beginning, '(' || c || '{1,2})', ' \1 ', 'g')
      || regexp_replace(regexp_replace(beginning, '(^|[^' || substr(c, 2) || ')' || c, '\1 ', 'g'), '(' || c || '{2})|.', ' \1', 'g') end
    from (select left(text, 20000) as beginning,
      '[\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]' as c) k
$$;
