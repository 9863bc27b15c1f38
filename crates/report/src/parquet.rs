//! Latency distributions as Parquet: a row per bucket, to be read together with other hosts' and times' files.
//!
//! | column | meaning |
//! |---|---|
//! | `host`, `host_name` | the machine's boot id and name |
//! | `target`, `of`, `unit` | as in the JSON document |
//! | `grouped_by`, `group_name`, `group_id`, `group_start_ns` | the latencies' group, if grouped: a process's or thread's name, number and start (on the monotonic clock, since numbers are used again), or a cgroup's path and inode; `group_id` is null for all groups without room together |
//! | `from_ns`, `to_ns` | the interval: the whole time, or each part with `--every`; in a recording, times count from its origin |
//! | `from_time`, `to_time` | the same in UTC, to compare with other hosts' files; null if a recording does not contain it |
//! | `bucket`, `lower`, `upper` | the bucket, with its smallest and largest value; null in an interval's row without latencies |
//! | `count` | the number of latencies |
//! | `interval_sum` | the sum over all buckets of this target and interval, the same in each row, since buckets have no sums; null above 64 bits |
//!
//! No name is an SQL word. `lower`, `upper` and `interval_sum` may need all 64 bits and are unsigned; the others are
//! signed, so that differences may be negative.
//!
//! The file's metadata contains the whole JSON document, at `wakepath.latency`: it also has the losses, and figures
//! for whole targets.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use wakepath_distribution::{Histogram, bounds};
use wakepath_engine::Host;
use wakepath_engine::latency::live::LiveLatency;
use wakepath_engine::latency::recorded::RecordedLatency;
use wakepath_engine::latency::{Distribution, GroupBy, GroupKey, Groups, TimeSlice};

use crate::json;
use crate::wording::latency as words;

const SCHEMA: &str = "message latency {
    optional binary host (STRING);
    optional binary host_name (STRING);
    required binary target (STRING);
    required binary of (STRING);
    required binary unit (STRING);
    optional binary grouped_by (STRING);
    optional binary group_name (STRING);
    optional int64 group_id;
    optional int64 group_start_ns;
    required int64 from_ns;
    required int64 to_ns;
    optional int64 from_time (TIMESTAMP(NANOS, true));
    optional int64 to_time (TIMESTAMP(NANOS, true));
    optional int32 bucket;
    optional int64 lower (INTEGER(64, false));
    optional int64 upper (INTEGER(64, false));
    required int64 count;
    optional int64 interval_sum (INTEGER(64, false));
}";

/// Rows kept in memory before they are written.
const ROWS: usize = 1 << 16;

/// Writes latencies counted live.
///
/// # Errors
/// Those of `out`.
pub fn live_latency(latency: &LiveLatency, out: impl Write + Send) -> io::Result<()> {
    let mut document = Vec::new();
    json::live_latency(latency, &mut document)?;
    let origin = Origin { host: &latency.host, realtime_ns: latency.began_realtime_ns };
    write(&latency.targets, origin, (Duration::ZERO, latency.elapsed), document, out)
}

/// Writes a recording's latencies.
///
/// # Errors
/// Write errors on `out`.
pub fn recorded_latency(latency: &RecordedLatency, out: impl Write + Send) -> io::Result<()> {
    let mut document = Vec::new();
    json::recorded_latency(latency, &mut document)?;
    let [from, to] = [latency.from, latency.to].map(|at| Duration::from_nanos(at.since(latency.head.origin)));
    let origin = Origin { host: &latency.head.host, realtime_ns: latency.head.origin_realtime_ns };
    write(&latency.targets, origin, (from, to), document, out)
}

/// The host, and the origin of times.
struct Origin<'a> {
    host: &'a Host,
    /// The origin of times, ns since 1970 UTC.
    realtime_ns: Option<u64>,
}

/// A bucket in an interval of a target.
struct Row<'a> {
    target: &'a TargetColumns,
    key: &'a GroupColumns,
    from: u64,
    to: u64,
    bucket: Option<usize>,
    count: u64,
    sum: u128,
    /// The origin of times, ns since 1970 UTC.
    realtime_ns: Option<u64>,
}

/// The columns that are the same in all rows for a target.
struct TargetColumns {
    host: Option<ByteArray>,
    host_name: Option<ByteArray>,
    target: ByteArray,
    source: ByteArray,
    unit: ByteArray,
}

/// The columns that are the same in all rows for a group; all null without groups.
#[derive(Default)]
struct GroupColumns {
    by: Option<&'static str>,
    name: Option<ByteArray>,
    id: Option<u64>,
    start_ns: Option<u64>,
}

impl GroupColumns {
    fn new(by: GroupBy, key: &GroupKey) -> Self {
        let (name, id, start_ns) = match key {
            GroupKey::Process { pid, comm, start_ns } => (comm, Some(u64::from(*pid)), Some(*start_ns)),
            GroupKey::Thread { tid, comm, start_ns, .. } => (comm, Some(u64::from(*tid)), Some(*start_ns)),
            GroupKey::Cgroup { id, path } => (path, Some(*id), None),
            GroupKey::Others => (&None, None, None),
        };
        let name = name.as_ref().map(|name| ByteArray::from(crate::escape::text(name).into_bytes()));
        Self { by: Some(words::by(by)), name, id, start_ns }
    }
}

fn write(
    targets: &[Distribution],
    origin: Origin<'_>,
    whole: (Duration, Duration),
    document: Vec<u8>,
    out: impl Write + Send,
) -> io::Result<()> {
    let document = String::from_utf8_lossy(&document).trim_end().to_owned();
    let metadata = KeyValue::new(String::from("wakepath.latency"), document);
    let properties = WriterProperties::builder()
        .set_created_by(format!("wakepath {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(vec![metadata]))
        .build();
    let schema = Arc::new(parse_message_type(SCHEMA).map_err(why)?);
    let mut file = SerializedFileWriter::new(out, schema, Arc::new(properties)).map_err(why)?;
    let said = |name: &[u8]| {
        Some(name)
            .filter(|name| !name.is_empty())
            .map(|name| ByteArray::from(crate::escape::text(name).into_bytes()))
    };
    let columns: Vec<_> = targets
        .iter()
        .map(|target| TargetColumns {
            host: said(origin.host.boot_id.as_bytes()),
            host_name: said(origin.host.name.bytes()),
            target: ByteArray::from(crate::escape::text(target.target.as_bytes()).into_bytes()),
            source: ByteArray::from(words::source(target.source).0),
            unit: ByteArray::from(words::unit(target.histogram.unit())),
        })
        .collect();
    let groups: Vec<_> = targets.iter().map(groups).collect();
    let mut rows: Vec<Row<'_>> = Vec::new();
    for (columns, groups) in columns.iter().zip(&groups) {
        for (key, slices, histogram) in groups {
            let unsliced = slices.is_empty().then_some((whole.0, whole.1, *histogram));
            let slices = slices.iter().map(|slice| (slice.from, slice.to, &slice.histogram));
            for interval in slices.chain(unsliced) {
                rows.extend(interval_rows(columns, key, origin.realtime_ns, interval));
                if rows.len() >= ROWS {
                    row_group(&mut file, &rows)?;
                    rows.clear();
                }
            }
        }
    }
    if !rows.is_empty() {
        row_group(&mut file, &rows)?;
    }
    file.close().map(|_| ()).map_err(why)
}

/// A target's groups, each with its columns; without groups, the whole target.
fn groups(target: &Distribution) -> Vec<(GroupColumns, &[TimeSlice], &Histogram)> {
    match &target.groups {
        // Only the groups: a sum over all rows is then a sum over all calls.
        Some(Groups { by, groups }) if !groups.is_empty() => groups
            .iter()
            .map(|group| (GroupColumns::new(*by, &group.key), &*group.slices, &group.histogram))
            .collect(),
        _ => vec![(GroupColumns::default(), &*target.slices, &target.histogram)],
    }
}

fn interval_rows<'a>(
    target: &'a TargetColumns,
    key: &'a GroupColumns,
    realtime_ns: Option<u64>,
    (from, to, histogram): (Duration, Duration, &'a Histogram),
) -> impl Iterator<Item = Row<'a>> {
    let [from, to] = [from, to].map(|at| u64::try_from(at.as_nanos()).unwrap_or(u64::MAX));
    let sum = histogram.sum();
    let row = move |bucket, count| Row { target, key, from, to, bucket, count, sum, realtime_ns };
    let counts = histogram.counts().iter().enumerate().filter(|&(_, &count)| count > 0);
    let nothing = histogram.is_empty().then(|| row(None, 0));
    counts.map(move |(bucket, &count)| row(Some(bucket), count)).chain(nothing)
}

fn row_group<W: Write + Send>(file: &mut SerializedFileWriter<W>, rows: &[Row<'_>]) -> io::Result<()> {
    let mut group = file.next_row_group().map_err(why)?;
    // Unsigned numbers are stored in this way, too.
    let bits = |n: u64| n as i64;
    let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let time = |row: &Row<'_>, ns: u64| i64::try_from(row.realtime_ns?.checked_add(ns)?).ok();
    let bound = |row: &Row<'_>, end: fn(&std::ops::RangeInclusive<u64>) -> u64| {
        row.bucket.map(|bucket| bits(end(&bounds(bucket))))
    };
    // In the schema's order.
    column::<ByteArrayType, _>(&mut group, rows, |row| row.target.host.clone())?;
    column::<ByteArrayType, _>(&mut group, rows, |row| row.target.host_name.clone())?;
    column::<ByteArrayType, _>(&mut group, rows, |row| Some(row.target.target.clone()))?;
    column::<ByteArrayType, _>(&mut group, rows, |row| Some(row.target.source.clone()))?;
    column::<ByteArrayType, _>(&mut group, rows, |row| Some(row.target.unit.clone()))?;
    column::<ByteArrayType, _>(&mut group, rows, |row| row.key.by.map(ByteArray::from))?;
    column::<ByteArrayType, _>(&mut group, rows, |row| row.key.name.clone())?;
    column::<Int64Type, _>(&mut group, rows, |row| row.key.id.map(signed))?;
    column::<Int64Type, _>(&mut group, rows, |row| row.key.start_ns.map(signed))?;
    column::<Int64Type, _>(&mut group, rows, |row| Some(signed(row.from)))?;
    column::<Int64Type, _>(&mut group, rows, |row| Some(signed(row.to)))?;
    column::<Int64Type, _>(&mut group, rows, |row| time(row, row.from))?;
    column::<Int64Type, _>(&mut group, rows, |row| time(row, row.to))?;
    column::<Int32Type, _>(&mut group, rows, |row| row.bucket.and_then(|bucket| i32::try_from(bucket).ok()))?;
    column::<Int64Type, _>(&mut group, rows, |row| bound(row, |held| *held.start()))?;
    column::<Int64Type, _>(&mut group, rows, |row| bound(row, |held| *held.end()))?;
    column::<Int64Type, _>(&mut group, rows, |row| Some(signed(row.count)))?;
    column::<Int64Type, _>(&mut group, rows, |row| u64::try_from(row.sum).ok().map(bits))?;
    group.close().map(|_| ()).map_err(why)
}

/// The schema's next column. If it must have values, `value` gives them.
fn column<T: parquet::data_type::DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[Row<'_>],
    value: impl Fn(&Row<'_>) -> Option<T::T>,
) -> io::Result<()> {
    let Some(mut column) = group.next_column().map_err(why)? else {
        return Err(io::Error::other("the schema has fewer columns than are written"));
    };
    let (mut values, mut levels) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
    for row in rows {
        let value = value(row);
        levels.push(i16::from(value.is_some()));
        values.extend(value);
    }
    column.typed::<T>().write_batch(&values, Some(&levels), None).map_err(why)?;
    column.close().map_err(why)
}

fn why(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    use wakepath_engine::Tid;
    use wakepath_engine::latency::recorded::{RecordedQuery, ThreadFilter, recorded_latency as ask};

    use super::*;
    use crate::sample::{CPU_WAITS, group, histogram, latency_query, slice, trace};

    /// A file's rows, each as its columns' texts, and the document in its metadata.
    fn read_back(latency: &RecordedLatency) -> (Vec<String>, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("latency.parquet");
        recorded_latency(latency, std::fs::File::create(&path).expect("a file")).expect("written");
        let reader = SerializedFileReader::new(std::fs::File::open(&path).expect("a file")).expect("Parquet");
        let metadata = reader.metadata().file_metadata().key_value_metadata().expect("metadata").clone();
        let document =
            metadata.iter().find(|pair| pair.key == "wakepath.latency").and_then(|pair| pair.value.clone());
        let text = |field: &Field| match field {
            Field::Null => String::from("-"),
            Field::Str(text) => text.clone(),
            other => other.to_string(),
        };
        let rows = reader.get_row_iter(None).expect("rows").map(|row| {
            let row = row.expect("a row");
            row.get_column_iter().map(|(_, field)| text(field)).collect::<Vec<_>>().join(" ")
        });
        (rows.collect(), document.expect("a document"))
    }

    #[test]
    fn each_bucket_of_each_interval_is_a_row_that_reads_back() {
        let recorded = trace(CPU_WAITS);
        let threads = ThreadFilter::Processes(vec![Tid(10), Tid(11)]);
        let mut query = RecordedQuery {
            from: Some(wakepath_engine::TimeSpec::AfterStart(1000)),
            ..latency_query(&["runqueue", "disk"], threads)
        };
        let latency = ask(&recorded, &query).expect("an answer");
        let (rows, document) = read_back(&latency);
        assert_eq!(
            rows,
            [
                "- - runqueue waits ns - - - - 1000 9000 - - 6 64 127 1 1200",
                "- - runqueue waits ns - - - - 1000 9000 - - 10 1024 2047 1 1200",
                "- - disk requests ns - - - - 1000 9000 - - - - - 0 0",
            ]
        );
        let document: serde_json::Value = serde_json::from_str(&document).expect("JSON");
        assert_eq!(document["schema"], "wakepath.latency/1");
        query.every = Some(Duration::from_nanos(1000));
        query.targets.pop();
        let (rows, _) = read_back(&ask(&recorded, &query).expect("an answer"));
        assert_eq!(rows.len(), 8, "{rows:?}");
        assert_eq!(rows[0], "- - runqueue waits ns - - - - 1000 2000 - - 6 64 127 1 100");
        assert_eq!(rows[1], "- - runqueue waits ns - - - - 2000 3000 - - 10 1024 2047 1 1100");
        assert_eq!(rows[7], "- - runqueue waits ns - - - - 8000 9000 - - - - - 0 0");
    }

    #[test]
    fn numbers_that_need_all_bits_stay_what_they_are() {
        let recorded = trace(CPU_WAITS);
        let mut latency =
            ask(&recorded, &latency_query(&["runqueue"], ThreadFilter::All)).expect("an answer");
        latency.head.host.boot_id = String::from("boot");
        latency.head.host.name = wakepath_engine::Name::from("web3");
        latency.head.origin_realtime_ns = Some(1_795_229_921_310_000_000);
        latency.targets[0].target = String::from("./a\u{e9}:f");
        let histogram = &mut latency.targets[0].histogram;
        *histogram = Histogram::new(wakepath_distribution::Unit::Cycles);
        histogram.add(u64::MAX);
        let (rows, _) = read_back(&latency);
        let (least, most) = (1_u64 << 63, u64::MAX);
        let times = "1795229921310000000 1795229921310009000";
        let texts = "boot web3 ./a\u{e9}:f waits cycles - - - - 0 9000";
        assert_eq!(rows, [format!("{texts} {times} 63 {least} {most} 1 {most}")]);
        latency.targets[0].histogram.add(u64::MAX);
        let (rows, _) = read_back(&latency);
        assert_eq!(rows, [format!("{texts} {times} 63 {least} {most} 2 -")]);
    }

    /// The types seen by pyarrow and duckdb: timestamps in UTC, integers with possibly negative differences, names
    /// without quotes.
    #[test]
    fn columns_are_what_a_query_expects() {
        use parquet::basic::{LogicalType, TimeUnit};

        let schema = parse_message_type(SCHEMA).expect("a schema");
        for column in schema.get_fields() {
            let (name, kind) = (column.name(), column.get_basic_info().logical_type_ref());
            const WORDS: [&str; 10] =
                ["all", "by", "end", "from", "group", "in", "order", "select", "to", "where"];
            assert!(!WORDS.contains(&name), "`{name}` is a word of SQL");
            let expected = match name {
                "from_time" | "to_time" => Some(LogicalType::timestamp(true, TimeUnit::NANOS)),
                "lower" | "upper" | "interval_sum" => Some(LogicalType::integer(64, false)),
                "group_id" | "group_start_ns" | "from_ns" | "to_ns" | "bucket" | "count" => None,
                _ => Some(LogicalType::String),
            };
            assert_eq!(kind, expected.as_ref(), "{name}");
            assert_eq!(
                column.is_optional(),
                !matches!(name, "target" | "of" | "unit" | "from_ns" | "to_ns" | "count")
            );
        }
    }

    #[test]
    fn groups_are_rows_of_their_own_that_add_up_to_the_whole() {
        let comm = Some(Box::from(*b"a\x1b[2J"));
        let groups = vec![
            group(GroupKey::Process { pid: 7, start_ns: 1, comm }, &[(5, 2), (70, 1)]),
            group(GroupKey::Cgroup { id: 9, path: None }, &[(5, 1)]),
            group(GroupKey::Others, &[(6, 1)]),
        ];
        let recorded = trace(CPU_WAITS);
        let mut answer = ask(&recorded, &latency_query(&["runqueue"], ThreadFilter::All)).expect("an answer");
        answer.targets[0].histogram = histogram(&[(5, 3), (70, 1), (6, 1)]);
        answer.targets[0].groups = Some(Groups { by: GroupBy::Process, groups });
        let (rows, _) = read_back(&answer);
        let whole = rows.clone();
        // Over time, a group's parts take the place of its whole.
        let of_groups = answer.targets[0].groups.as_mut().expect("groups");
        of_groups.groups[0].slices = vec![slice(0, 4000, &[(5, 1), (70, 1)]), slice(4000, 9000, &[(5, 1)])];
        let (rows, _) = read_back(&answer);
        assert!(rows[0].ends_with("[2J 7 1 0 4000 - - 2 4 7 1 75"), "{rows:?}");
        assert!(rows[2].ends_with("[2J 7 1 4000 9000 - - 2 4 7 1 5"), "{rows:?}");
        assert_eq!(rows[3..], whole[2..]);
        let rows = whole;
        let groups: Vec<_> = rows.iter().map(|row| row.split(" ns ").nth(1).expect("a unit")).collect();
        assert_eq!(
            groups,
            [
                "process a\u{1b}[2J 7 1 0 9000 - - 2 4 7 2 80",
                "process a\u{1b}[2J 7 1 0 9000 - - 6 64 127 1 80",
                "process - 9 - 0 9000 - - 2 4 7 1 5",
                "process - - - 0 9000 - - 2 4 7 1 6",
            ]
        );
    }
}
