//! Readings and spans as drawings, and a thread's work by them.

use wakepath_clock::Reference;

use super::*;
use crate::testing::drawn;
use crate::{NotedTurns, Stint, TurnsOfSpan, requests};

/// Checks a thread's work. A line has its readings: a letter for each ns in which it did not run, with the span's letter, `-` for no span, `!` for a
/// missing span, a digit for a missing span of the same trace, which was not sampled, `?` for a failed reading; and `=` where it ran. In the answer,
/// `!` and `:` stand for the missing span, `%` and `.` for the unsampled spans, `/` for either of two open spans, `-` and `~` for no span, `?` for
/// not known: the first sign of each pair where the work is measured, the second where it is inferred. Spans have capital letters where measured.
#[track_caller]
fn check(drawing: &str, readings: &str, expected: &str) {
    let holds = (0..).zip(readings.chars()).filter(|(_, letter)| *letter != '=');
    let holds: Vec<_> = holds.map(|(ns, letter)| (ns, ns + 1, letter)).collect();
    judge(drawing, &holds, readings.len() as u64, expected);
}

/// The same with contexts held between two stamps: equal stamps where the thread ran on.
#[track_caller]
fn judge(drawing: &str, held: &[(u64, u64, char)], end: u64, expected: &str) {
    judge_with(drawing, held, "", end, expected);
}

/// The same with the letters of the spans that name the thread.
#[track_caller]
fn judge_with(drawing: &str, held: &[(u64, u64, char)], naming: &str, end: u64, expected: &str) {
    judge_queued(drawing, held, naming, &[], end, expected);
}

/// The same with the times at which the program noted that it queued spans' work.
#[track_caller]
fn judge_queued(
    drawing: &str,
    held: &[(u64, u64, char)],
    naming: &str,
    queued: &[(char, u64)],
    end: u64,
    expected: &str,
) {
    judge_turns(drawing, held, (naming, naming), queued, "", end, expected);
}

/// The work of thread 7 by its held contexts, the spans that name it, the times at which work was queued, and a drawing of turns with a line per
/// span: `=` in a turn, `x` where older turns were dropped. The second text of `naming` lists the spans that name the thread for its turns.
fn work(
    spans: &Spans,
    held: &[(u64, u64, char)],
    (naming, of_turns): (&str, &str),
    queued: &[(char, u64)],
    turns: &str,
) -> ContextWork<u32, Reference> {
    let requests = requests(spans);
    let by_id = ById::new(spans);
    let letter = |index| crate::testing::letter(spans, index);
    let at = |ns| Stamp::<Reference>::from_ns(ns);
    let mut holds: Vec<Hold<Reference>> = Vec::new();
    for &(from, to, letter_at) in held {
        let said = match letter_at {
            '-' => Said::None,
            '?' => Said::Unknown,
            '!' => Said::Span { trace: TraceId([9; 16]), span: SpanId([9; 8]), sampled: true },
            '1'..='9' => Said::Span {
                trace: TraceId([9; 16]),
                span: SpanId([letter_at as u8 - b'0'; 8]),
                sampled: false,
            },
            other => {
                let (_, span) = spans.iter().find(|(index, _)| letter(*index) == other).expect("a span");
                Said::Span { trace: span.trace, span: span.id, sampled: true }
            }
        };
        holds.push(Hold { from: at(from), to: at(to), said });
    }
    let times = |index| {
        let span = spans.span(index);
        (at(span.from.ns() - 1000), at(span.to.ns() - 1000))
    };
    let stints = spans.iter().filter(|(index, _)| naming.contains(letter(*index)));
    let stints: Vec<_> = stints
        .map(|(span, _)| {
            let (from, to) = times(span);
            Stint { thread: 7, from, to, span }
        })
        .collect();
    let queued = |span| {
        let noted = queued.iter().find(|(of, _)| *of == letter(span));
        noted.map(|&(_, ns)| at(ns))
    };
    let noted = |span| {
        let line = turns.lines().map(str::trim).find(|line| line.starts_with(letter(span)))?;
        let columns: Vec<_> = (0..).zip(line[1..].trim().chars()).collect();
        let since = columns.iter().take_while(|(_, one)| *one == 'x').map(|(ns, _)| at(ns + 1)).last();
        let turns = columns.iter().filter(|(_, one)| *one == '=').map(|&(ns, _)| (at(ns), at(ns + 1)));
        Some(NotedTurns {
            since: since.unwrap_or(times(span).0),
            turns: turns.collect(),
            tids: None,
            ready: Vec::new(),
        })
    };
    let turns = spans.iter().map(|(span, _)| {
        let (from, to) = times(span);
        let thread = if of_turns.contains(letter(span)) { 7 } else { 9 };
        TurnsOfSpan { thread, from, to, span, noted: noted(span) }
    });
    let turns = Turns::new(turns);
    let mut work = ContextWork::default();
    work.add(
        7,
        &holds,
        &Named { spans, by_id: &by_id, requests: &requests, times, queued },
        |_| true,
        &Work::new(stints),
        &turns,
    );
    work
}

/// The same with turns: [`work`].
#[track_caller]
fn judge_turns(
    drawing: &str,
    held: &[(u64, u64, char)],
    naming: (&str, &str),
    queued: &[(char, u64)],
    turns: &str,
    end: u64,
    expected: &str,
) {
    let spans: Spans = drawn(drawing);
    let work = work(&spans, held, naming, queued, turns);
    let letter = |index| crate::testing::letter(&spans, index);
    let at = |ns| Stamp::<Reference>::from_ns(ns);
    let found = |from: u64, to: u64| -> String {
        let mut then = at(from);
        let mut found = String::new();
        for piece in work.between(&7, at(from), at(to)) {
            assert_eq!(piece.from, then, "without gap or overlap");
            assert!(piece.from < piece.to, "no piece is empty");
            assert!(!piece.measured || piece.works_for != WorksFor::Unknown, "the unknown is not measured");
            then = piece.to;
            let one = match (piece.works_for, piece.measured) {
                (WorksFor::None, true) => '-',
                (WorksFor::None, false) => '~',
                (WorksFor::Span(span), true) => letter(span).to_ascii_uppercase(),
                (WorksFor::Span(span), false) => letter(span),
                (WorksFor::Missing(_, true), true) => '!',
                (WorksFor::Missing(_, true), false) => ':',
                (WorksFor::Missing(_, false), true) => '%',
                (WorksFor::Missing(_, false), false) => '.',
                (WorksFor::Unplaced, _) => '/',
                (WorksFor::Unknown, _) => '?',
            };
            found.extend((piece.from.ns()..piece.to.ns()).map(|_| one));
        }
        assert_eq!(then, at(to));
        found
    };
    for (_, pieces) in work.threads() {
        assert!(pieces.iter().all(|piece| piece.from < piece.to), "{pieces:?}");
        assert!(pieces.windows(2).all(|two| two[0].to == two[1].from), "{pieces:?}");
        let kind = |piece: &ContextPiece<_>| (piece.works_for, piece.measured, piece.noted);
        let is_whole = pieces.windows(2).all(|two| kind(&two[0]) != kind(&two[1]));
        assert!(is_whole, "a piece is as long as its work: {pieces:?}");
    }
    assert_eq!(found(0, end), expected, "{drawing}");
    for from in 0..end {
        for to in from + 1..=end {
            assert_eq!(found(from, to), expected[from as usize..to as usize], "{from} to {to}");
        }
    }
    for (moment, one) in (0..).zip(expected.chars()) {
        let found = match work.at(&7, at(moment)) {
            WorksFor::None => "-~",
            WorksFor::Span(span) => &format!("{0}{1}", letter(span), letter(span).to_ascii_uppercase()),
            WorksFor::Missing(_, true) => "!:",
            WorksFor::Missing(_, false) => "%.",
            WorksFor::Unplaced => "/",
            WorksFor::Unknown => "?",
        };
        assert!(found.contains(one), "at {moment}: {found}");
    }
    let other = work.between(&8, at(0), at(1));
    assert_eq!(other.len(), 1);
    assert_eq!(other[0].works_for, WorksFor::Unknown);
}

const NESTED: &str = "a   ==========
                      b<a ..======..
                      c<b ...===....";

#[test]
fn a_thread_that_does_not_run_keeps_its_context_and_one_that_runs_may_change_it() {
    check(NESTED, "==aaa==aaa", "??AAAaaAAA");
    check(NESTED, "-==-==", "-~~-??");
    check(NESTED, "", "");
}

#[test]
fn a_boundary_is_where_a_span_begins_or_ends_within_the_time_between_two_readings() {
    check(NESTED, "a====b", "AabbbB");
    check(NESTED, "=====b===aa", "?????BbbaAA");
}

#[test]
fn spans_on_the_way_from_one_reading_to_the_next_are_worked_for_in_between() {
    check(NESTED, "=a==c====a", "?AbcCcbbaA");
    check("a ..........======", "-==============a", "-~~~~~~~~~aaaaaA");
    check(NESTED, "-===c", "-abcC");
    check(NESTED, "====c=======-", "????Ccbbaa~~-");
    let siblings = "a   ==========\nb<a .==.......\nc<a .....===..";
    check(siblings, "=b====c", "?BbaacC");
    let two = "a ===.......\nb .....=====";
    check(two, "a=====b", "Aaa~~bB");
}

#[test]
fn spans_that_do_not_end_or_begin_in_between_are_clipped_to_the_readings() {
    // No stamp lies between the readings where the thread goes from an open span to another open span, as with tasks that take turns.
    check("a ==========\nb ==========", "b====a", "B////A");
    check("a ==........\nb ==========", "b====a", "B////A");
    // If either span ends there, its end is the stamp.
    check("a ===.......\nb ==========", "a====b", "AaabbB");
    // Both are parts of `a`, and so is the time between; a span that begins or ends there has its stamp.
    check("a ==========\nb<a ==========\nc<a ==========", "b====c", "BaaaaC");
    check("a ==========\nb ==========\nc<b ...=======", "a====c", "A//ccC");
    check("a ==========\nb ==========\nc<a ===.......", "c====b", "Ccc//B");
    check("a ==========\nb ..........==", "-====a", "-aaaaA");
    check("a ==========\nb ..........==", "a====b", "AaaaaB");
    // `a` goes on in another thread, and `b` began in this thread; or before.
    check("a ==========\nb ...=======", "a====b", "AaabbB");
    check("a .=========\nb =..=======", "=a===b", "?A///B");
}

#[test]
fn a_boundary_at_the_very_moment_of_a_reading_is_placed_as_one_in_between() {
    // `a` ends by the second reading, and so does the thread's work for it, though a span in `a` goes on: only where both go on is the time of the
    // change not known.
    for ends in ["===.......", "====......"] {
        check(&format!("a {ends}\nc<a ==========\nb =========="), "c===b", "CcccB");
    }
    check("a =====.....\nc<a ==========\nb ==========", "c===b", "C///B");
    // `b` begins with the thread's run, so the thread cannot have turned to it before. The time at which `a` was queued is the time of the change.
    for begins in [".=========", "..========"] {
        let tasks = format!("a ==========\nb {begins}");
        judge_queued(&tasks, &[(0, 1, 'a'), (5, 6, 'b')], "", &[('a', 3)], 6, "AaabbB");
    }
    // A span that ends with the run was left at its end, whatever was queued or began before.
    for (ends, expected) in
        [("=======...", "Aaaaaaa~-"), ("========..", "Aaaaaaaa-"), ("=========.", "Aaa~~~~~-")]
    {
        judge_queued(&format!("a {ends}"), &[(0, 1, 'a'), (8, 9, '-')], "", &[('a', 3)], 9, expected);
    }
    for (ends, expected) in [("===.......", "AaabB"), ("====......", "AaaaB"), ("=====.....", "AabbB")] {
        check(&format!("a {ends}\nb ..========"), "a===b", expected);
    }
    // `b` begins or ends with the thread's run: the thread did nothing else before, or behind.
    let run = |drawing, [first, last]: [char; 2], expected| {
        judge_with(drawing, &[(1, 2, first), (9, 11, last)], "ab", 11, expected);
    };
    run("a ===========\nb .==========", ['-', 'b'], "?-///////BB");
    run("a ===========\nb ..=========", ['-', 'b'], "?-bbbbbbbBB");
    run("a ===========\nb =========..", ['b', '-'], "?Bbbbbbbb--");
    run("a ===========\nb ==========.", ['b', '-'], "?B///////--");
    // `c` was queued at the latest when the run began: the thread may work for `a`, which is open too, and not for `c`.
    let tasks = "a ===========\nb ===========\nc ===========";
    for queued in [1, 2] {
        judge_queued(tasks, &[(1, 2, '-'), (9, 11, 'b')], "abc", &[('c', queued)], 11, "?-///////BB");
    }
}

#[test]
fn spans_in_each_other_are_known_to_be_so_up_to_a_depth() {
    // The thread goes from the outermost span to the innermost, and both are open all the time.
    for (depth, expected) in [(2, "AzzzZ"), (64, "AzzzZ"), (65, "A///Z")] {
        let mut drawing = "a =====\n".to_owned();
        let names: Vec<_> = (2..depth).map(|at| format!("m{at}")).chain(["z".to_owned()]).collect();
        let mut above = "a";
        for name in &names {
            drawing += &format!("{name}<{above} =====\n");
            above = name;
        }
        check(&drawing, "a===z", expected);
    }
}

/// The source of a thread's work, a letter for each ns: `m` for a reading at this time, `i` for the readings before and behind, `n` for a span that
/// names the thread, or its turn. The arguments are those of [`judge_turns`].
#[track_caller]
fn check_ways(drawing: &str, held: &[(u64, u64, char)], naming: &str, turns: &str, expected: &str) {
    let spans: Spans = drawn(drawing);
    let work = work(&spans, held, (naming, naming), &[], turns);
    let pieces = work.between(&7, Stamp::from_ns(0), Stamp::from_ns(expected.len() as u64));
    let ways = pieces.iter().flat_map(|piece| {
        let way = match (piece.measured, piece.noted) {
            (true, false) => 'm',
            (false, true) => 'n',
            (false, false) => 'i',
            (true, true) => panic!("what is measured is not noted: {piece:?}"),
        };
        (piece.from.ns()..piece.to.ns()).map(move |_| way)
    });
    assert_eq!(ways.collect::<String>(), expected, "{drawing}");
}

#[test]
fn work_is_noted_where_a_span_names_the_thread_and_its_readings_say_something_else() {
    let held = |first, last| [(0, 1, first), (9, 10, last)];
    let served = "a .==.......\nb ....==....\nc ......===.";
    check_ways(served, &held('-', '-'), "abc", "", "mnninnnnnm");
    check_ways(served, &held('-', '-'), "", "", "miiiiiiiim");
    // Within a span that both readings name, the span's own time is known by the readings.
    check_ways(NESTED, &held('a', 'a'), "abc", "", "minnnnnnim");
    check_ways(NESTED, &[(1, 2, 'a'), (4, 5, 'c'), (9, 10, 'a')], "", "", "imiimiiiim");
    // The same with turns: the time between them, and time that two spans claim, is not noted.
    let turns = "a ..===.....\nb ....====..";
    check_ways(TASKS, &held('a', 'a'), "ab", turns, "miiiinnnim");
    check_ways(TASKS, &held('-', '-'), "ab", turns, "minninnnim");
}

#[test]
fn a_reading_while_the_thread_runs_holds_at_its_moment_alone() {
    judge(NESTED, &[(2, 2, 'b'), (7, 7, 'a')], 9, "??bbbbb??");
    judge(NESTED, &[(0, 1, 'a'), (4, 4, 'c'), (9, 10, 'a')], 10, "AabcccbbaA");
    // It begins to count where it was read, and not where the thread began to run.
    judge("a ==========\nb ==========", &[(0, 2, 'a'), (5, 5, 'b'), (8, 9, 'b')], 9, "AA///bbbB");
}

#[test]
fn a_span_that_ended_before_it_was_read_gives_no_time_back() {
    check("a ==========\nb<a ==........", "=====b===aa", "?????BaaaAA");
    check("a ==========\nb<a ==........", "aa===b===aa", "AAbbbBaaaAA");
}

#[test]
fn spans_that_a_thread_began_and_ended_between_two_readings_are_its_work_where_they_name_it() {
    let served = "a .==.......\nb ....==....\nc ......===.";
    let none = [(0, 1, '-'), (9, 10, '-')];
    judge_with(served, &none, "abc", 10, "-aa~bbccc-");
    judge_with(served, &none, "ac", 10, "-aa~~~ccc-");
    judge_with(served, &none, "", 10, "-~~~~~~~~-");
    // A span from before the first reading is open: the thread may have turned to it and back, but not behind its end.
    judge_with("a =====......\nb ......===..", &[(1, 2, '-'), (9, 11, '-')], "ab", 11, "?-///~bbb--");
    judge_with("a =====......", &[(1, 2, '-'), (9, 11, '-')], "", 11, "?-~~~~~~~--");
    // Not where both readings name the same span; but the thread did turn to a span that began between them.
    judge_with("a ===========\nb ===========", &[(1, 2, 'a'), (9, 11, 'a')], "b", 11, "?AaaaaaaaAA");
    judge_with("a ===========\nb ....=======", &[(1, 2, 'a'), (9, 11, 'a')], "b", 11, "?Aaa/////AA");
    judge_with("a ===========\nb ..=========", &[(1, 2, 'a'), (9, 11, 'a')], "b", 11, "?A///////AA");
    judge_with("a ===========\nb<a =========", &[(1, 2, 'a'), (9, 11, 'a')], "b", 11, "?AaaaaaaaAA");
    // The thread took a span up or left it, and neither began nor ended it: the other, which began first, may lie between.
    let tasks = "a ===========\nb ===========";
    judge_with(tasks, &[(1, 2, 'b'), (9, 11, '-')], "ab", 11, "?B///////--");
    judge_with(tasks, &[(1, 2, '-'), (9, 11, 'b')], "ab", 11, "?-///////BB");
    judge_with(tasks, &[(1, 2, '-'), (9, 11, 'b')], "b", 11, "?-bbbbbbbBB");
    judge_with(tasks, &[(1, 2, 'b'), (9, 11, 'b')], "ab", 11, "?BbbbbbbbBB");
    judge_with("a ===========\nb ======.....", &[(1, 2, 'b'), (9, 11, '-')], "ab", 11, "?Bbbbb///--");
    judge_queued("a ===========", &[(2, 3, '-'), (9, 11, '-')], "a", &[('a', 1)], 11, "??-~~~~~~--");
    judge_queued("a ===========", &[(2, 3, '-'), (9, 11, '-')], "a", &[('a', 6)], 11, "??-///~~~--");
    judge_with(served, &[(2, 3, '-'), (8, 9, '-')], "ab", 10, "??-~bb~~-?");
    // Within a span that the thread names, on the way from a span to another, and where nothing is known.
    judge_with("a ==========\nb ..==......", &[(0, 1, 'a'), (9, 10, 'a')], "b", 10, "AabbaaaaaA");
    judge_with(NESTED, &[(0, 1, 'a'), (9, 10, 'a')], "abc", 10, "AabcccbbaA");
    judge_with("a ==========\nb ..==......", &[(0, 1, '?'), (9, 10, 'a')], "b", 10, "??bb?????A");
}

#[test]
fn a_span_that_a_thread_began_and_left_for_others_was_left_when_it_was_queued_or_at_a_time_that_is_not_known()
{
    let handed = "a .=========\nb ....==....\nc ...=======";
    let none = [(0, 1, '-'), (8, 9, '-')];
    judge_with(handed, &none, "", 9, "-~~~~~~~-");
    judge_with(handed, &none, "a", 9, "-///////-");
    judge_with(handed, &none, "ab", 9, "-///bb//-");
    judge_queued(handed, &none, "a", &[('a', 4)], 9, "-aaa~~~~-");
    judge_queued(handed, &none, "a", &[('a', 8)], 9, "-aaaaaaa-");
    judge_queued(handed, &none, "ac", &[('a', 2), ('c', 6)], 9, "-a~ccc~~-");
    // The thread took the span up, and its context named it before the work was queued.
    judge_queued("a ==========", &[(1, 2, 'a'), (8, 9, '-')], "", &[('a', 4)], 9, "?Aaa~~~~-");
    judge_queued("a =====.....", &[(1, 2, 'a'), (8, 9, '-')], "", &[('a', 4)], 9, "?Aaaa~~~-");
    // The thread had the span again after the work was queued.
    judge_queued("a ==========", &[(3, 4, 'a'), (8, 9, '-')], "", &[('a', 2)], 9, "???Aaaaa-");
    // The context shows that the thread had left the span by then; or the thread queued it at once.
    judge_queued(handed, &none, "a", &[('a', 9)], 9, "-///////-");
    judge_queued(handed, &none, "a", &[('a', 1)], 9, "-~~~~~~~-");
    // The same where the span begins later than the thread's run.
    judge_queued("a ...=======", &none, "a", &[('a', 3)], 9, "-~~~~~~~-");
    judge_queued("a ...=======", &none, "a", &[('a', 4)], 9, "-~~a~~~~-");
    // From a span that the context names to another; and an unknown reading leaves all unknown.
    judge_with("a ==........\nb ..========", &[(0, 1, 'a'), (8, 9, '-')], "b", 9, "Aa//////-");
    judge_with(handed, &[(0, 1, '?'), (8, 9, '-')], "a", 9, "????????-");
    // A part that another thread goes on with belongs to the same request.
    judge_with("a ==========\nb<a ..========", &[(0, 1, 'a'), (8, 9, 'a')], "b", 9, "AaaaaaaaA");
    judge_with("a ==========\nb ..========", &[(0, 1, 'a'), (8, 9, 'a')], "b", 9, "Aa//////A");
}

/// A thread's work by these readings at 0, and 9 to 10 ns, where all spans name it, and by their turns.
#[track_caller]
fn check_turns(drawing: &str, [before, behind]: [char; 2], turns: &str, expected: &str) {
    judge_turns(drawing, &[(0, 1, before), (9, 10, behind)], ("ab", "ab"), &[], turns, 10, expected);
}

const TASKS: &str = "a ==========\nb ==========";

#[test]
fn between_two_readings_a_thread_works_for_the_span_whose_turn_it_is_and_elsewhere_for_none() {
    for said in [['a', 'a'], ['a', 'b'], ['b', 'a'], ['-', '-'], ['a', '-'], ['-', 'b']] {
        let [before, behind] = said.map(|one| one.to_ascii_uppercase());
        check_turns(TASKS, said, "a .==..==...\nb ...=....=.", &format!("{before}aab~aa~b{behind}"));
        check_turns(TASKS, said, "a ..........\nb ..........", &format!("{before}~~~~~~~~{behind}"));
    }
    // A reading holds against a turn: a turn may be noted some ns too early or too late.
    check_turns(TASKS, ['a', 'b'], "a ==========\nb ..........", "AaaaaaaaaB");
    check_turns(TASKS, ['-', '-'], "a ==========\nb ..........", "-aaaaaaaa-");
}

#[test]
fn two_spans_that_claim_one_moment_and_turns_that_were_dropped_make_it_not_known() {
    check_turns(TASKS, ['a', 'a'], "a ..====....\nb ....====..", "A~aa//bb~A");
    check_turns(TASKS, ['a', 'a'], "a xxxx..==..\nb .=......=.", "Ab//~~aabA");
    check_turns(TASKS, ['b', 'b'], "a xxxx..==..\nb .=......=.", "Bb//~~aabB");
    check_turns(TASKS, ['b', '-'], "a xxxx..==..\nb .=......=.", "Bb//~~aab-");
    // A span that has ended, and that the thread had left by its reading, is not looked for in dropped turns.
    check_turns("a ====......\nb ==========", ['-', '-'], "a xx..\nb .=......=.", "-b~~~~~~b-");
}

#[test]
fn a_thread_may_work_for_a_span_whose_turns_are_not_noted_beside_one_whose_turns_are() {
    // By the readings the thread stays with `a`, whose turns are not noted.
    check_turns(TASKS, ['a', 'a'], "b ...==.....", "AaabbaaaaA");
    // The thread left `b` in between, for `a` or for no span.
    check_turns(TASKS, ['b', 'b'], "b ...==.....", "B//bb////B");
    check_turns("a ..=====...\nb ==========", ['b', 'b'], "b ...==.....", "B~abbaa~~B");
    // A span without sampling, and a failed reading.
    check_turns(TASKS, ['!', '!'], "a ..==......\nb ....==....", "!:aabb:::!");
    check_turns(TASKS, ['a', '!'], "a ..==......\nb ....==....", "A/aabb///!");
    check_turns(TASKS, ['?', 'a'], "a ..==......\nb ....==....", "?????????A");
}

#[test]
fn a_thread_that_has_a_span_for_each_turn_works_for_none_between_these() {
    let parts = "a ==========\nb ==========\nc<a .===......\nd<b .....====.";
    let held = [(2, 3, 'c'), (7, 8, 'd')];
    let check = |of_turns, turns, expected| {
        judge_turns(parts, &held, ("abcd", of_turns), &[], turns, 10, expected);
    };
    check("", "", "??Cc/ddD??");
    check("abcd", "a ..........\nb ..........", "??Cc~ddD??");
    // The thread may work for the outer span, which began in another thread, or whose turns are not noted.
    check("bcd", "a ..........\nb ..........", "??Cc/ddD??");
    check("abcd", "b ..........", "??Cc/ddD??");
}

#[test]
fn turns_of_another_thread_say_nothing_of_this_one() {
    let held = [(0, 1, 'a'), (9, 10, 'a')];
    let turns = "a ...==.....\nb .......==.";
    judge_turns(TASKS, &held, ("", ""), &[], turns, 10, "AaaaaaaaaA");
    judge_turns(TASKS, &held, ("", "b"), &[], turns, 10, "AaaaaaabbA");
    // `a` began in another thread, and `b` in this thread, which took it up.
    judge_turns(TASKS, &[(0, 1, 'a'), (9, 10, 'b')], ("", "b"), &[], turns, 10, "A//////bbB");
}

#[test]
fn the_span_whose_service_may_have_the_process_counts_among_equal_ids() {
    let mut spans: Spans = drawn("a ====\nb ====");
    spans.services.push(crate::Service { name: "other".into(), ..crate::Service::default() });
    spans.spans[1].id = spans.spans[0].id;
    spans.spans[1].service = crate::ServiceIndex(1);
    let (requests, by_id) = (requests(&spans), ById::new(&spans));
    let span = spans.span(SpanIndex(0));
    let at = Stamp::<Reference>::from_ns;
    let said = Said::Span { trace: span.trace, span: span.id, sampled: true };
    let named = Named {
        spans: &spans,
        by_id: &by_id,
        requests: &requests,
        times: |_| (at(0), at(4)),
        queued: |_| None,
    };
    let holds = [Hold { from: at(1), to: at(2), said }];
    for (own, expected) in [
        (Some(0), WorksFor::Span(SpanIndex(0))),
        (Some(1), WorksFor::Span(SpanIndex(1))),
        (None, WorksFor::Missing(span.trace, true)),
    ] {
        let mut work = ContextWork::default();
        let may_be_own = |index: SpanIndex| Some(spans.span(index).service.0) == own;
        work.add(7, &holds, &named, may_be_own, &Work::new([]), &Turns::default());
        assert_eq!(work.at(&7, at(1)), expected, "{own:?}");
    }
}

#[test]
fn between_two_spans_of_one_trace_that_are_not_among_the_spans_a_thread_may_work_for_any() {
    for (readings, expected) in [
        ("1===1", "%...%"),
        ("1===2", "%???%"),
        ("!===1", "!???%"),
        ("1===!", "%???!"),
        // A trace that is sampled in one reading and not in the other.
        ("!===9", "!???%"),
        ("12211", "%%%%%"),
        ("1==1==2", "%..%??%"),
        // To a present span, and from it, the thread turned as the span began and ended.
        ("1======c", "%abccccC"),
        ("====c======1", "????Ccbbaa.%"),
    ] {
        check(NESTED, readings, expected);
    }
}

#[test]
fn what_was_not_read_and_a_span_without_times_make_no_boundary() {
    check(NESTED, "a==?==a", "A?????A");
    check(NESTED, "!==!=-", "!::!?-");
    check(NESTED, "-=!==a", "-?!aaA");
    check(NESTED, "!====c", "!abccC");
    check("a =====..........", "a=========!", "Aaaaa:::::!");
}
