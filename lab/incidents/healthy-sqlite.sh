# healthy: sqlite3 sorts and groups a table in memory
# needs: sqlite3
# ask: record -- sqlite3 -init run.sql :memory: .quit
cat >run.sql <<'SQL'
create table item as with recursive n(i) as (select 1 union all select i + 1 from n where i < 400000)
    select i, i * 7919 % 10007 as kind, hex(i * 31) as name from n;
select count(*), max(total) from (select kind, sum(i) as total from item group by kind order by total);
SQL
echo ready >>"$PLANTED"
sleep 60
