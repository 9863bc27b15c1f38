//! Requests found by a query, and by their ids.

use super::*;
use crate::requests::read_spans;

/// Spans by their ids: trace, span, parent, beginning; a later span is longer.
fn traced(spans: &[(&str, &str, &str, u64)]) -> Traced {
    let spans: Vec<_> = spans
        .iter()
        .map(|(trace, id, parent, from)| {
            format!(
                r#"{{"traceId": "{trace:0>32}", "spanId": "{id:0>16}", "parentSpanId": "{parent}", "kind": 2,
                "startTimeUnixNano": {from}, "endTimeUnixNano": {}}}"#,
                100 + 2 * from
            )
        })
        .collect();
    let file = format!(r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{}]}}]}}]}}"#, spans.join(","));
    let (spans, dropped) = read_spans(&file.into()).expect("spans");
    Traced::new(spans, dropped)
}

#[test]
fn an_id_or_its_first_digits_mean_the_request_that_a_trace_began_with() {
    let [one, two, three] = ["ab".repeat(16), "abab".to_owned() + &"cd".repeat(14), "ffff".repeat(8)];
    let traced = traced(&[
        (&one, "1111222233334444", "", 10),
        (&one, "1111222233335555", "1111222233334444", 40),
        (&one, "1111222233336666", "", 11),
        (&two, "2222", "", 6),
        (&three, "ffffffffffffffff", "", 7),
        ("ee", "3333", "", 8),
    ]);
    let found = |id: &str| match find_request(&traced, id) {
        Ok(request) => traced.root(request).from.ns().to_string(),
        Err(error) => error.to_string(),
    };
    let zeros = "0".repeat(30);
    for (id, expected) in [
        // Not the first in time, which is a part of another request; and the longest of the others.
        (one.as_str(), "11"),
        (&one[..5], "11"),
        (&one.to_uppercase()[..6], "11"),
        (&(one.clone() + "/1111222233335555"), "40"),
        ("ababa/11112222333355", "40"),
        // A part's span means the part.
        ("ababa/1111222233335", "40"),
        ("ababa/1111", "3 spans of this trace have ids that begin with `1111`"),
        ("ababa/111122223333", "3 spans of this trace have ids that begin with `111122223333`"),
        ("ababa/1111222233334", "10"),
        (&two, "6"),
        (&two[..5], "6"),
        ("abab", "2 traces have ids that begin with `abab`"),
        ("ABAB", "2 traces have ids that begin with `abab`"),
        // Only one trace has this span.
        ("abab/0000000000002222", "6"),
        (&three, "7"),
        ("ffff/ffff", "7"),
        ("ffff/fffe", "no request has the id `ffff/fffe`"),
        (&format!("{zeros}ee"), "8"),
        (&zeros, "8"),
        ("abad", "no request has the id `abad`"),
    ] {
        assert_eq!(found(id), expected, "{id}");
    }
    let long = "a".repeat(33);
    for id in ["aba", "abab/111", "abab/", "", "/", "abag", long.as_str(), "abab/11112222333344445"] {
        assert!(found(id).starts_with(&format!("`{id}` is no id")), "{id}: {}", found(id));
    }
}

#[test]
fn a_spans_id_or_any_part_of_an_id_means_its_request_where_no_trace_begins_with_it() {
    let [one, two] = ["ab".repeat(16), "cd12".repeat(8)];
    let traced = traced(&[
        (&one, "1111222233334444", "", 10),
        (&one, "5678000000000001", "1111222233334444", 40),
        (&two, "1111555500009999", "", 7),
    ]);
    let found = |id: &str| match find_request(&traced, id) {
        Ok(request) => traced.root(request).from.ns().to_string(),
        Err(error) => error.to_string(),
    };
    for (id, expected) in [
        ("1111222233334444", "10"),
        ("11112222", "10"),
        // A span within the request.
        ("5678", "40"),
        ("1111", "2 requests have an id with `1111` in it"),
        // In the middle, or at the end.
        ("55550000", "7"),
        ("9999", "7"),
        ("D12C", "7"),
        ("4445", "no request has the id `4445`"),
        ("1111/2222", "no request has the id `1111/2222`"),
    ] {
        assert_eq!(found(id), expected, "{id}");
    }
}

#[test]
fn an_id_of_64_bits_is_printed_as_jaeger_prints_it_and_found_in_each_way_to_write_it() {
    let other = "0abc7dbc6d6cfeb6".repeat(2);
    let traced =
        traced(&[("abc7dbc6d6cfeb6", "2222", "", 6), (&other, "3333", "", 7), ("1f", "4444", "", 8)]);
    let found = |id: &str| match find_request(&traced, id) {
        Ok(request) => traced.root(request).from.ns().to_string(),
        Err(error) => error.to_string(),
    };
    let padded = format!("{:0>32}", "abc7dbc6d6cfeb6");
    for (id, expected) in [
        ("abc7dbc6d6cfeb6", "6"),
        // A whole id, and the beginning of another.
        ("0abc7dbc6d6cfeb6", "6"),
        ("0ABC7DBC6D6CFEB6", "6"),
        (&padded, "6"),
        ("0abc7dbc6d6cfeb6/2222", "6"),
        (&other, "7"),
        ("0abc7dbc6d6cfeb60", "7"),
        ("0abc", "2 traces have ids that begin with `0abc`"),
        ("1f", "8"),
        ("000000000000001F", "8"),
        (
            "1e",
            "`1e` is no id: write 4 to 32 hex digits of a trace, and behind a `/` those of a span, if it is not the first",
        ),
    ] {
        assert_eq!(found(id), expected, "{id}");
    }
    let ids: Vec<_> = (0..3).map(|request| request_id(&traced, RequestIndex(request))).collect();
    assert_eq!(ids, ["0abc7dbc6d6cfeb6", other.as_str(), "000000000000001f"]);
    for (request, id) in (0..).map(RequestIndex).zip(&ids) {
        assert_eq!(find_request(&traced, id), Ok(request), "{id}");
    }
}

/// The services `a` to `c`, and their spans by service number, id, parent, kind and length: all in the same trace.
fn traced_services(spans: &[(usize, &str, &str, u64, u64)]) -> Traced {
    let of_service = |service: usize| {
        let own = spans.iter().filter(|(of, ..)| *of == service);
        let own: Vec<_> = own
            .map(|(_, id, parent, kind, length)| {
                format!(
                    r#"{{"traceId": "77770000000000000000000000000000", "spanId": "{id:0<16}", "parentSpanId": "{parent:0<16}",
                    "kind": {kind}, "startTimeUnixNano": 100, "endTimeUnixNano": {}}}"#,
                    100 + length
                )
            })
            .collect();
        let name = ["a", "b", "c"][service];
        format!(
            r#"{{"resource": {{"attributes": [{{"key": "service.name", "value": {{"stringValue": "{name}"}}}}]}},
            "scopeSpans": [{{"spans": [{}]}}]}}"#,
            own.join(",")
        )
    };
    let services: Vec<_> = (0..3).map(of_service).collect();
    let (spans, dropped) =
        read_spans(&format!(r#"{{"resourceSpans": [{}]}}"#, services.join(",")).into()).expect("spans");
    Traced::new(spans, dropped)
}

#[test]
fn each_of_several_requests_with_one_identity_can_be_asked_for() {
    let found = |traced: &Traced, id: &str| match find_request(traced, id) {
        Ok(request) => {
            format!("{} {}", traced.operation(request).service, traced.root(request).length_ns())
        }
        Err(error) => error.to_string(),
    };
    // Two services gave the same identity, and a third service's call shares the identity of the request that answers it.
    let (server, client) = (2, 3);
    let traced = traced_services(&[
        (0, "1111", "", server, 50),
        (1, "1111", "", server, 30),
        (0, "22223", "1111", client, 20),
        (2, "22223", "1111", server, 10),
        (0, "22224", "1111", client, 5),
    ]);
    let trace = "7777";
    let several = "2 services have a request with the id `77770000000000000000000000000000/1111000000000000`: \
                   `77770000000000000000000000000000/1111000000000000/1` of `a`, \
                   `77770000000000000000000000000000/1111000000000000/2` of `b`";
    for (id, expected) in [
        ("", "a 50"),
        ("/1111", several),
        ("/1111000000000000", several),
        ("/1111/1", "a 50"),
        ("/1111/2", "b 30"),
        ("/1111/3", "no request has the id `7777/1111/3`"),
        ("/1111/0", "no request has the id `7777/1111/0`"),
        ("/22223", "c 10"),
        ("/22223/1", "c 10"),
        ("/22223/2", "no request has the id `7777/22223/2`"),
        ("/22224", "a 50"),
        ("/2222", "2 spans of this trace have ids that begin with `2222`"),
    ] {
        assert_eq!(found(&traced, &format!("{trace}{id}")), expected, "{id}");
    }
    for id in ["7777/1111/", "7777/1111/x", "7777/1111/-1", "7777/1111/1/1", "7777//1"] {
        assert!(found(&traced, id).starts_with(&format!("`{id}` is no id")), "{id}");
    }
    for request in (0..traced.requests.requests.len() as u32).map(RequestIndex) {
        let id = request_id(&traced, request);
        assert_eq!(find_request(&traced, &id), Ok(request), "{id}");
    }
    let ids: Vec<_> = (0..3).map(|request| request_id(&traced, RequestIndex(request))).collect();
    let [of_a, of_b] = ["7777000000000000", "7777000000000000/1111000000000000/2"];
    assert_eq!(ids, [of_a, of_b, "7777000000000000/2222300000000000"]);
    // All the given digits belong to the same request's spans.
    let one = traced_services(&[(0, "1111", "", server, 50), (0, "1112", "1111", client, 20)]);
    assert_eq!(found(&one, "7777/1110"), "no request has the id `7777/1110`");
    assert_eq!(found(&one, "7777/1111"), "a 50");
    let many = traced_services(&[(0, "33331", "", server, 50), (0, "33332", "33331", client, 20)]);
    assert_eq!(found(&many, "7777/3333"), "a 50");
}

/// Requests by their spans, as `wakepath_joining::testing` writes them.
fn written(spans: &str) -> Traced {
    wakepath_joining::testing::traced(spans, Vec::new())
}

/// A query for these; an empty name is not asked for.
fn query(service: &str, operation: &str) -> RequestsQuery {
    let name = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
    RequestsQuery { service: name(service), operation: name(operation) }
}

#[test]
fn the_requests_of_a_query_are_those_of_its_service_and_operation_the_longest_first() {
    let traced = written(
        "service web
        a/1 1000..1300 as=GET
        a/2 2000..2500 as=PUT
        a/3 3000..3400 as=GET
        a/4 4000..4400 as=GET
        service db
        b/1 1000..1900 as=GET",
    );
    let found = |found: Result<Vec<RequestIndex>, RequestsError>| match found {
        Ok(requests) => {
            let root = |request: &RequestIndex| traced.root(*request);
            let ids = requests.iter().map(|one| {
                format!("{}/{}", &root(one).trace.to_string()[..1], &root(one).id.to_string()[..1])
            });
            ids.collect::<Vec<_>>().join(" ")
        }
        Err(error) => error.to_string(),
    };
    let there = "`GET` of `db`, `GET` of `web`, `PUT` of `web`";
    for (service, operation, all, of_one) in [
        ("", "", "b/1 a/2 a/3 a/4 a/1".into(), format!("requests of several operations: {there}")),
        ("web", "GET", "a/3 a/4 a/1".into(), "a/3 a/4 a/1".into()),
        ("db", "", "b/1".into(), "b/1".to_owned()),
        (
            "web",
            "",
            "a/2 a/3 a/4 a/1".into(),
            "requests of several operations: `GET` of `web`, `PUT` of `web`".into(),
        ),
        (
            "",
            "GET",
            "b/1 a/3 a/4 a/1".into(),
            "requests of several operations: `GET` of `db`, `GET` of `web`".into(),
        ),
        (
            "db",
            "PUT",
            format!("no request is to `db` and of `PUT`; there are {there}"),
            format!("no request is to `db` and of `PUT`; there are {there}"),
        ),
        (
            "mail",
            "",
            format!("no request is to `mail`; there are {there}"),
            format!("no request is to `mail`; there are {there}"),
        ),
        (
            "",
            "POST",
            format!("no request is of `POST`; there are {there}"),
            format!("no request is of `POST`; there are {there}"),
        ),
    ] {
        let query = query(service, operation);
        assert_eq!(found(matching(&traced, &query)), all, "{service} {operation}");
        assert_eq!(found(matching_one_operation(&traced, &query)), of_one, "{service} {operation}");
    }
    assert_eq!(matching(&written("service web"), &query("", "")), Err(RequestsError::NoSpans));
}

#[test]
fn an_error_names_eight_operations_or_requests_and_the_number_of_the_others() {
    for (count, more) in [(7, None), (8, None), (9, Some(1)), (11, Some(3))] {
        let (mut operations, mut services) = (String::from("service s\n"), String::new());
        for digit in 1..=count {
            operations += &format!("{digit:x}/1 1000..1100 as=O{digit:02}\n");
            services += &format!("service s{digit:02}\n7/7 1000..{}\n", 1100 + digit);
        }
        let names = (1..=count.min(8)).map(|digit| format!("`O{digit:02}` of `s`"));
        let and_more = more.map_or(String::new(), |more| format!(" and {more} more"));
        let there = format!("{}{and_more}", names.collect::<Vec<_>>().join(", "));
        let none = RequestsError::NoneSo { asked: "to `x`".into(), there };
        assert_eq!(matching(&written(&operations), &query("x", "")), Err(none), "{count}");

        let asked = format!("{}/{}", "77".repeat(16), "77".repeat(8));
        let ids = (1..=count.min(8)).map(|place| format!("`{asked}/{place}` of `s{place:02}`"));
        let and_more = more.map_or(String::new(), |more| format!(", {more} more"));
        let there = format!("{}{and_more}", ids.collect::<Vec<_>>().join(", "));
        let several = RequestsError::SeveralServices { asked: asked.clone(), count, there };
        assert_eq!(find_request(&written(&services), &asked), Err(several), "{count}");
    }
}
